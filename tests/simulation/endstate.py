"""What a world came to, without what may differ between two runs: uids, versions, times, nodes, name suffixes."""

from typing import Any

from grove.api import labels, names
from grove.api.types.meta import JsonObject
from grove.cluster.nodes import ZONE
from grove.sim.simulation import World

# Kinds of which every object counts; events are for people and may be lost in a crash.
_KINDS = (
    "podcliquesets",
    "podcliques",
    "podcliquescalinggroups",
    "podgangs",
    "pods",
    "services",
    "horizontalpodautoscalers",
    "controllerrevisions",
)
_FLEETING = frozenset(
    {labels.INCARNATION, labels.PODCLIQUE_UID, ZONE, "uid", "resourceVersion", "creationTimestamp",
     "lastTransitionTime", "ownerReferences", "generation", "observedGeneration", "observedAt", "managedFields",
     "updateStartedAt", "updateEndedAt", "startTime",
     # Which pod was first to fail, with its name and time, is for the stories to say.
     "firstFailure",
     # So is which names are used: a pod that is lost while the operator is down comes back under its name.
     labels.LAST_POD_NAMES}
)  # fmt: skip


def end_state(world: World) -> dict[str, Any]:
    """Every object of ours by kind and name; a pod goes by its clique and index."""
    pod_names = {
        entry.name: _pod_key(entry.obj)
        for table in world.server.store.tables()
        if table.resource_info.plural == "pods"
        for entry in table.entries(None)
    }
    return {
        f"{table.resource_info.plural}/{pod_names.get(entry.name, entry.name)}": _plain(
            _part(table.resource_info.plural, entry.obj), pod_names
        )
        for table in world.server.store.tables()
        if table.resource_info.plural in _KINDS
        for entry in table.entries(None)
        if entry.obj["metadata"].get("deletionTimestamp") is None
    }


def _gone(name: str, pod_names: dict[str, str]) -> str:
    return name if name in pod_names else name[: -names.SUFFIX_LENGTH]


def _pod_key(obj: JsonObject) -> str:
    found = obj["metadata"].get("labels", {})
    return f"{found.get(labels.PODCLIQUE)}[{found.get(labels.POD_INDEX)}]"


def _part(plural: str, obj: JsonObject) -> JsonObject:
    if plural == "horizontalpodautoscalers":
        return {key: value for key, value in obj.items() if key != "status"}
    if plural != "pods":
        return obj
    status = obj["status"]
    return {"metadata": obj["metadata"], "phase": status["phase"], "gates": obj["spec"].get("schedulingGates", [])}


def _plain(value: Any, pod_names: dict[str, str]) -> Any:
    if isinstance(value, dict):
        if "podReferences" in value:
            # A set that failed keeps the names of pods that are gone.
            references = [{**one, "name": _gone(one["name"], pod_names)} for one in value["podReferences"]]
            value = {**value, "podReferences": references}
        return {k: _plain(v, pod_names) for k, v in value.items() if k not in _FLEETING}
    if isinstance(value, list):
        return [_plain(v, pod_names) for v in value]
    return pod_names.get(value, value).partition("; first: ")[0] if isinstance(value, str) else value
