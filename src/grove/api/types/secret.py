"""The view of a Secret that holds certificates. Its content is never shown: not in logs, not in error messages."""

from grove.api.types.meta import ObjectMeta, WireStruct


class Secret(WireStruct):
    metadata: ObjectMeta
    type: str = ""
    # Base64, as on the wire.
    data: dict[str, str] = {}

    def __repr__(self) -> str:
        return f"Secret({self.metadata.namespace}/{self.metadata.name})"
