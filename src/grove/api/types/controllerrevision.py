"""ControllerRevision: stores a revision of a set's pod templates. `api/template_revision.py` decodes the data."""

from grove.api.types.meta import JsonObject, ObjectMeta, WireStruct


class ControllerRevision(WireStruct):
    metadata: ObjectMeta
    # Untyped, because users and other controllers can write any value here and decoding must not fail.
    data: JsonObject | None = None
    revision: int = 0
