"""Topology labels of pods: a bound pod gets the zone and region of its node, so that containers can read them."""

from grove.api.types.meta import JsonObject
from grove.cluster.apiserver.context import Context
from grove.cluster.built_in_resources import NODES

_LABELS = ("topology.kubernetes.io/zone", "topology.kubernetes.io/region")


def with_topology_labels(context: Context, metadata: JsonObject, node: str) -> JsonObject:
    """Return the metadata of a pod on this node. Labels that the user set are overwritten."""
    entry = context.store.table(NODES).find("", node)
    labels = None if entry is None else entry.obj["metadata"].get("labels")
    found = {label: labels[label] for label in _LABELS if label in labels} if labels else {}
    return {**metadata, "labels": {**(metadata.get("labels") or {}), **found}} if found else metadata
