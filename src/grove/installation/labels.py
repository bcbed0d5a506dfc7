"""Labels of the installation's own objects. They differ from those of a set's objects, which the operator manages."""

from grove.api import labels
from grove.api.types.meta import JsonObject

SELECTOR = {labels.NAME: "grove", labels.COMPONENT: "operator"}
LABELS = {**SELECTOR, labels.PART_OF: "grove"}


def object_metadata(name: str, namespace: str = "") -> JsonObject:
    place = {"namespace": namespace} if namespace else {}
    return {"name": name, **place, "labels": dict(LABELS)}
