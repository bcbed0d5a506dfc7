"""A set in the middle of an update, made by hand: clique `a` of two pods, group `g` with two replicas of clique `b`.

Every part is healthy and new unless a test says otherwise. Old pods carry the hash `a1` or `b1`, new ones `a2`, `b2`.
"""

from datetime import UTC, datetime
from typing import Any

import msgspec

from grove.api import labels
from grove.api.template_revision import Revision, build_revision, revision_data
from grove.api.types.controllerrevision import ControllerRevision
from grove.api.types.meta import JsonObject
from grove.api.types.pod import Pod
from grove.api.types.podclique import PodClique
from grove.api.types.podcliquescalinggroup import PodCliqueScalingGroup
from grove.api.types.podcliqueset import PodCliqueSet
from grove.api.types.podgang import PodGang
from grove.cli.rollout.progress import Rollout, build_rollout
from grove.cli.status.tree import SetObjects
from grove.operations.rollout.revisions import revisions_of, template_with_defaults
from grove.planner.snapshot import build_context

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
STARTED = "2026-01-01T11:59:18Z"
ENDED = "2026-01-01T11:59:48Z"
TURN: JsonObject = {
    "updateStartedAt": STARTED,
    "currentlyUpdating": {"replicaIndex": 1, "updateStartedAt": STARTED},
}
OPEN: JsonObject = {"updateStartedAt": STARTED}
CLOSED: JsonObject = {"updateStartedAt": STARTED, "updateEndedAt": ENDED}


def pod_spec(image: str) -> JsonObject:
    return {"containers": [{"name": "main", "image": image}]}


def manifest(name: str = "p", *, a: str = "a:2", b: str = "b:2", replicas: int = 2, **spec: object) -> JsonObject:
    """As a user writes it; `a` and `b` are images."""
    cliques = [
        {"name": "a", "spec": {"roleName": "a", "replicas": 2, "minAvailable": 1, "podSpec": pod_spec(a)}},
        {"name": "b", "spec": {"roleName": "b", "replicas": 1, "minAvailable": 1, "podSpec": pod_spec(b)}},
    ]
    group = {"name": "g", "cliqueNames": ["b"], "replicas": 2, "minAvailable": 1}
    return {
        "apiVersion": "grove.io/v1alpha1",
        "kind": "PodCliqueSet",
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "template": {"cliques": cliques, "podCliqueScalingGroups": [group]},
            **spec,
        },
    }


def pcs(*, generation: int = 2, status: JsonObject | None = None, **written: Any) -> PodCliqueSet:
    body = manifest(**written)
    body["metadata"] |= {"namespace": "default", "uid": "p-uid", "generation": generation}
    told: JsonObject = {"observedGeneration": 2, "currentGenerationHash": "h2", "availableReplicas": 2}
    body["status"] = told | (status or {})
    return msgspec.convert(body, PodCliqueSet)


def revision_body(
    name: str, uid: str, number: int, *, a: str, b: str, a_hash: str, b_hash: str, cause: str = ""
) -> JsonObject:
    """A ControllerRevision as the operator stores it, named `h1`, `h2` ..."""
    asked = template_with_defaults(msgspec.convert(manifest(name, a=a, b=b), PodCliqueSet))
    template = build_revision(asked, {"a": a_hash, "b": b_hash}, f"h{number}")
    return {
        "apiVersion": "apps/v1",
        "kind": "ControllerRevision",
        "metadata": {
            "name": f"{name}-h{number}",
            "namespace": "default",
            "labels": {**labels.default_labels(name), labels.COMPONENT: labels.COMPONENT_REVISION},
            "annotations": {"kubernetes.io/change-cause": cause} if cause else {},
            "creationTimestamp": "2026-01-01T11:58:20Z",
            "ownerReferences": [_owner("PodCliqueSet", name, uid)],
        },
        "revision": number,
        "data": revision_data(template),
    }


def stored() -> tuple[ControllerRevision, ...]:
    """Two revisions; the second has other images in both cliques."""
    bodies = (
        revision_body("p", "p-uid", 1, a="a:1", b="b:1", a_hash="a1", b_hash="b1", cause="first"),
        revision_body("p", "p-uid", 2, a="a:2", b="b:2", a_hash="a2", b_hash="b2"),
    )
    return tuple(msgspec.convert(body, ControllerRevision) for body in bodies)


def revisions() -> tuple[Revision, ...]:
    return revisions_of(pcs(), stored())


def _owner(kind: str, name: str, uid: str) -> JsonObject:
    return {"apiVersion": "grove.io/v1alpha1", "kind": kind, "name": name, "uid": uid, "controller": True}


def _part(name: str, owner: JsonObject, labels_: dict[str, str], **fields: object) -> JsonObject:
    place = {"name": name, "namespace": "default", "uid": f"{name}-uid"}
    return {"metadata": {**place, "labels": labels_, "ownerReferences": [owner]}, **fields}


def _of_set() -> JsonObject:
    return _owner("PodCliqueSet", "p", "p-uid")


def replica(
    index: int,
    *,
    runs: str = "h2",
    a: str = "new new",
    b: str = "new new",
    a_progress: JsonObject | None = None,
    g_progress: JsonObject | None = None,
) -> SetObjects:
    """One replica: what its gang runs, and its pods in words: `old`, `new`, `starting`, `leaving`."""
    base = f"p-{index}"
    standalone = _part(
        f"{base}-a", _of_set(), {labels.SET_REPLICA_INDEX: str(index)},
        spec={"replicas": 2, "minAvailable": 1}, status={"rollingUpdateProgress": a_progress},
    )  # fmt: skip
    group = _part(
        f"{base}-g", _of_set(), {labels.SET_REPLICA_INDEX: str(index)},
        spec={"replicas": 2, "minAvailable": 1}, status={"rollingUpdateProgress": g_progress},
    )  # fmt: skip
    members = [
        _part(
            f"{base}-g-{j}-b", _owner("PodCliqueScalingGroup", f"{base}-g", f"{base}-g-uid"),
            {labels.SET_REPLICA_INDEX: str(index), labels.GROUP_REPLICA_INDEX: str(j)},
            spec={"replicas": 1, "minAvailable": 1},
        )
        for j in range(2)
    ]  # fmt: skip
    pods = [_pod(f"{base}-a", "a", i, word) for i, word in enumerate(a.split())]
    pods += [_pod(f"{base}-g-{j}-b", "b", 0, word) for j, word in enumerate(b.split())]
    gang = _part(base, _of_set(), {labels.GENERATION_HASH: runs})
    return SetObjects(
        pcs=pcs(),
        groups=(msgspec.convert(group, PodCliqueScalingGroup),),
        cliques=tuple(msgspec.convert(body, PodClique) for body in (standalone, *members)),
        gangs=(msgspec.convert(gang, PodGang),),
        pods=tuple(msgspec.convert(body, Pod) for body in pods if body),
    )


def _pod(clique: str, role: str, index: int, word: str) -> JsonObject:
    if word == "none":
        return {}
    number = 2 if word in ("new", "starting") else 1
    owner = _owner("PodClique", clique, f"{clique}-uid")
    body = _part(f"{clique}-{index}", owner, {labels.TEMPLATE_HASH: f"{role}{number}"})
    if word != "starting":
        body["status"] = {"conditions": [{"type": "Ready", "status": "True"}]}
    if word == "leaving":
        body["metadata"]["deletionTimestamp"] = STARTED
    return body


def objects(asked: PodCliqueSet, *replicas: SetObjects) -> SetObjects:
    return SetObjects(
        pcs=asked,
        groups=tuple(one for part in replicas for one in part.groups),
        cliques=tuple(one for part in replicas for one in part.cliques),
        gangs=tuple(one for part in replicas for one in part.gangs),
        pods=tuple(one for part in replicas for one in part.pods),
    )


def rollout(asked: PodCliqueSet, *replicas: SetObjects, kept: tuple[ControllerRevision, ...] | None = None) -> Rollout:
    found = revisions_of(asked, stored() if kept is None else kept)
    return build_rollout(objects(asked, *replicas), build_context(asked), found)
