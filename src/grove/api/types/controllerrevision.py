"""ControllerRevision: the store of a set's earlier pod templates. What is in them is in `api/template_revision.py`."""

from grove.api.types.meta import JsonObject, ObjectMeta, WireStruct


class ControllerRevision(WireStruct):
    metadata: ObjectMeta
    # Not ours to shape: whatever somebody put there is read without failing.
    data: JsonObject | None = None
    revision: int = 0
