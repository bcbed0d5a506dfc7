"""Secret with certificates. Its content never appears in logs or error messages."""

from grove.api.types.meta import ObjectMeta, WireStruct


class Secret(WireStruct):
    metadata: ObjectMeta
    type: str = ""
    # Base64, as on the wire.
    data: dict[str, str] = {}

    def __repr__(self) -> str:
        return f"Secret({self.metadata.namespace}/{self.metadata.name})"
