"""Labels of the installation itself. Never those of what the operator makes: it would take its own pods for a set's."""

from grove.api import labels
from grove.api.types.meta import JsonObject

SELECTOR = {labels.NAME: "grove", labels.COMPONENT: "operator"}
LABELS = {**SELECTOR, labels.PART_OF: "grove"}


def object_metadata(name: str, namespace: str = "") -> JsonObject:
    place = {"namespace": namespace} if namespace else {}
    return {"name": name, **place, "labels": dict(LABELS)}
