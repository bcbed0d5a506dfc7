"""A pod on a node carries the zone and the region of that node: containers read labels of pods, not of nodes."""

from grove.api.types.meta import JsonObject
from grove.cluster.apiserver.context import Context
from grove.cluster.built_in_resources import NODES

_LABELS = ("topology.kubernetes.io/zone", "topology.kubernetes.io/region")


def on_node(context: Context, metadata: JsonObject, node: str) -> JsonObject:
    """The metadata of a pod that is there. What its author said of the place is not asked."""
    entry = context.store.table(NODES).find("", node)
    labels = None if entry is None else entry.obj["metadata"].get("labels")
    found = {label: labels[label] for label in _LABELS if label in labels} if labels else {}
    return {**metadata, "labels": {**(metadata.get("labels") or {}), **found}} if found else metadata
