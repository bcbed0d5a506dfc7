"""Predict a change: read the cluster, apply the change in a sandbox, and compare. Writes nothing to the cluster.

Sandbox and prediction are in `sim/`; the text output is in `view.py`.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

import msgspec

from grove.api.resources import PODCLIQUESETS
from grove.api.types.meta import NamespacedName, WireStruct
from grove.cli.common.apply_merge import ApplyRejected, ApplyResult, Verb, apply_document
from grove.cli.common.manifest_reader import ManifestDocument
from grove.cli.common.options import ObjectRef
from grove.cli.why.runner import explain
from grove.clock import Clock
from grove.errors import UserError
from grove.kube.client import Client
from grove.kube.transport import Transport
from grove.planner.explain.text import Explanation, counted, verb
from grove.sim.rehearsal.cluster_import import Observed, RehearsalSubject, observe
from grove.sim.rehearsal.pod_recorder import PodStory
from grove.sim.rehearsal.prediction import PredictedOutcome, Prediction, predict
from grove.sim.rehearsal.sandbox import Rehearsal, rehearse
from grove.sim.virtual_clock import run_virtual

# Other kinds of a file that influence its sets.
_SURROUNDINGS = ("Namespace", "PriorityClass", "ResourceQuota", "ClusterTopologyBinding")
_ASSUMPTION = "pods are taken to become ready; how long anything takes is not predicted"


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """The cluster as it was read, and the documents to apply."""

    observed: Observed
    sets: tuple[NamespacedName, ...]
    documents: tuple[ManifestDocument, ...]
    ignored: tuple[str, ...]
    namespace: str


class PlannedSet(WireStruct):
    """One set of the file: the result that `grove apply` would print, and the prediction."""

    action: Verb
    prediction: Prediction
    warnings: tuple[str, ...] = ()
    # If it does not become complete: what it waits for at the end, as `grove why` prints it.
    sentences: tuple[Explanation, ...] = ()


class PlanResult(WireStruct):
    sets: tuple[PlannedSet, ...]
    # Assumptions, and parts of the cluster that could not be read.
    notes: tuple[str, ...]
    # Objects of the file that were ignored.
    ignored: tuple[str, ...] = ()


async def look(transport: Transport, documents: Sequence[ManifestDocument], namespace: str, now: datetime) -> Seen:
    """Read what the prediction needs. Raises `UserError` if the file has no set, or a set is being deleted."""
    played = [one for one in documents if _is_set(one) or one.kind in _SURROUNDINGS]
    sets = tuple(_place(one, namespace) for one in played if _is_set(one))
    if not sets:
        raise UserError(f"{documents[0].place}: no PodCliqueSet in it; a plan tells what becomes of sets")
    subject = RehearsalSubject(
        sets=sets,
        new_namespaces=tuple(one.name for one in played if one.kind == "Namespace"),
        classes=tuple(dict.fromkeys(_mentioned("priorityClassName", [one.body for one in played]))),
    )
    observed = await observe(transport, subject, now)
    for obj in observed.objects:
        if obj["kind"] == PODCLIQUESETS.kind and "deletionTimestamp" in obj["metadata"]:
            raise UserError(f"pcs/{obj['metadata']['name']} is being deleted; plan again when it is gone")
    ignored = tuple(f"{one.kind.lower()}/{one.name}" for one in documents if one not in played)
    return Seen(observed=observed, sets=sets, documents=tuple(played), ignored=ignored, namespace=namespace)


def predict_change(seen: Seen) -> PlanResult:
    """Predict the effect of the documents. Raises `UserError` with the causes if one would be rejected."""
    rehearsal = run_virtual(_rehearse(seen))
    applied = {(one.namespace, one.name): one for one in rehearsal.changed if one.kind == PODCLIQUESETS.kind}
    planned = []
    for recorded in rehearsal.sets:
        prediction = predict(recorded, is_settled=rehearsal.is_settled)
        said = applied[recorded.place.namespace, recorded.place.name]
        is_done = prediction.outcome in (PredictedOutcome.NOTHING, PredictedOutcome.DONE)
        planned.append(
            PlannedSet(
                action=said.action,
                prediction=prediction,
                warnings=said.warnings,
                sentences=() if is_done else rehearsal.ending[recorded.place],
            )
        )
    notes = (
        _ASSUMPTION,
        *seen.observed.notes,
        *_motion(rehearsal),
        *_updating(planned),
        *_unready(planned),
        *_held(rehearsal),
    )
    return PlanResult(sets=tuple(planned), notes=notes, ignored=seen.ignored)


Played = Rehearsal[tuple[ApplyResult, ...], dict[NamespacedName, tuple[Explanation, ...]]]


async def _rehearse(seen: Seen) -> Played:
    async def change(transport: Transport) -> tuple[ApplyResult, ...]:
        return await _apply_all(transport, seen)

    async def ending(client: Client, clock: Clock) -> dict[NamespacedName, tuple[Explanation, ...]]:
        now = clock.now()
        return {
            one: await explain(client, now, one.namespace, ObjectRef("podcliqueset", one.name)) for one in seen.sets
        }  # fmt: skip

    schedulers = _mentioned("schedulerName", [*(one.body for one in seen.documents), *seen.observed.objects])
    return await rehearse(seen.observed, seen.sets, change, ending, schedulers=dict.fromkeys(schedulers))


async def _apply_all(transport: Transport, seen: Seen) -> tuple[ApplyResult, ...]:
    """Apply all documents, as `grove apply` does. Raise one `UserError` with all rejections."""
    applied: list[ApplyResult] = []
    refused: list[str] = []
    for document in seen.documents:
        try:
            applied.append(await apply_document(transport, document, seen.namespace))
        except ApplyRejected as error:
            refused.append(str(error))
    if refused:
        raise UserError("\n".join(refused))
    return tuple(applied)


def _is_set(document: ManifestDocument) -> bool:
    return (document.api_version, document.kind) == (PODCLIQUESETS.api_version, PODCLIQUESETS.kind)


def _place(document: ManifestDocument, namespace: str) -> NamespacedName:
    home = document.body["metadata"].get("namespace") or namespace
    return NamespacedName(namespace=str(home), name=document.name)


def _mentioned(key: str, value: Any) -> Iterator[str]:
    """Yield all strings under this key, at any depth."""
    if isinstance(value, list):
        for item in value:
            yield from _mentioned(key, item)
    elif isinstance(value, dict):
        for name, inner in value.items():
            if name == key and isinstance(inner, str) and inner:
                yield inner
            else:
                yield from _mentioned(key, inner)


def _motion(rehearsal: Played) -> Iterator[str]:
    for place, pods in rehearsal.moving.items():
        if pods:
            yield f"pcs/{place.name} is on its way already: {_movement(pods)} before anything is applied"


def _updating(planned: Sequence[PlannedSet]) -> Iterator[str]:
    for one in planned:
        if one.prediction.is_updating_before:
            yield f"an update of pcs/{one.prediction.name} is under way already; what is told is what follows from here"


def _movement(pods: Sequence[PodStory]) -> str:
    parts = (
        (sum(not pod.was_there for pod in pods), "created"),
        (sum(pod.was_there and pod.left_at is not None for pod in pods), "deleted"),
        (sum(pod.was_there and pod.left_at is None and pod.is_ready for pod in pods), "ready"),
    )
    said = [f"{counted(count, 'pod')} {verb(count, 'is', 'are')} {what}" for count, what in parts if count]
    return ", ".join(said) or f"{counted(len(pods), 'pod')} {verb(len(pods), 'changes', 'change')}"


def _unready(planned: Sequence[PlannedSet]) -> Iterator[str]:
    count = sum(one.prediction.pods.kept_unready for one in planned)
    if count:
        be = verb(count, "is", "are")
        yield f"{counted(count, 'pod')} that {be} not ready now {be} taken to stay so"


def _held(rehearsal: Played) -> Iterator[str]:
    if rehearsal.held:
        count = len(rehearsal.held)
        yield (
            f"{counted(count, 'pod')} {verb(count, 'waits', 'wait')} for a node though there seems to be room, "
            f"and {verb(count, 'is', 'are')} taken to wait on: {', '.join(rehearsal.held[:3])}"
        )
