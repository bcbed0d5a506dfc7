"""Predict a change: read the cluster, apply the change in a sandbox, and compare. Writes nothing to the cluster.

Sandbox and prediction are in `sim/`; the text output is in `view.py`.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

import msgspec

from grove.api.reasons import FindingReason
from grove.api.resources import PODCLIQUESETS
from grove.api.types.meta import NamespacedName, WireStruct
from grove.clock import Clock
from grove.errors import UserError
from grove.kube.client import Client
from grove.kube.transport import Transport
from grove.operations.apply.apply_merge import ApplyResult, Verb, apply_documents
from grove.operations.apply.manifest_reader import ManifestDocument
from grove.operations.hints import name_with_namespace
from grove.operations.object_ref import ObjectRef
from grove.operations.why.runner import explain
from grove.planner.explain.text import Explanation, count_noun, verb
from grove.sim.rehearsal.cluster_import import Observed, RehearsalSubject, observe
from grove.sim.rehearsal.pod_recorder import PodHistory
from grove.sim.rehearsal.prediction import PredictedOutcome, Prediction, predict
from grove.sim.rehearsal.sandbox import Rehearsal, rehearse
from grove.sim.virtual_clock import run_virtual

# Other kinds of a file that influence its sets.
_INFLUENCES = ("Namespace", "PriorityClass", "ResourceQuota", "ClusterTopologyBinding")


class ClusterState(msgspec.Struct, frozen=True, kw_only=True):
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


async def read_cluster(
    transport: Transport, documents: Sequence[ManifestDocument], namespace: str, now: datetime
) -> ClusterState:
    """Read what the prediction needs. Raises `UserError` if the file has no set, or a set is being deleted."""
    used = [one for one in documents if _is_set(one) or one.kind in _INFLUENCES]
    sets = tuple(_name_of(one, namespace) for one in used if _is_set(one))
    if not sets:
        raise UserError(f"{documents[0].place}: has no PodCliqueSet; `grove plan` predicts only changes of sets")
    subject = RehearsalSubject(
        sets=sets,
        new_namespaces=tuple(one.name for one in used if one.kind == "Namespace"),
        classes=tuple(dict.fromkeys(_find_values("priorityClassName", [one.body for one in used]))),
    )
    observed = await observe(transport, subject, now)
    for obj in observed.objects:
        if obj["kind"] == PODCLIQUESETS.kind and "deletionTimestamp" in obj["metadata"]:
            name = name_with_namespace(f"pcs/{obj['metadata']['name']}", obj["metadata"]["namespace"])
            raise UserError(f"{name} is being deleted; run `grove plan` again when it is gone")
    ignored = tuple(f"{one.kind.lower()}/{one.name}" for one in documents if one not in used)
    return ClusterState(observed=observed, sets=sets, documents=tuple(used), ignored=ignored, namespace=namespace)


def predict_change(state: ClusterState) -> PlanResult:
    """Predict the effect of the documents. Raises `UserError` with the causes if one would be rejected."""
    rehearsal = run_virtual(_rehearse(state))
    applied = {(one.namespace, one.name): one for one in rehearsal.changed if one.kind == PODCLIQUESETS.kind}
    planned = []
    for recorded in rehearsal.sets:
        prediction = predict(recorded, is_settled=rehearsal.is_settled)
        result = applied[recorded.place.namespace, recorded.place.name]
        is_done = prediction.outcome in (PredictedOutcome.NOTHING, PredictedOutcome.DONE)
        planned.append(
            PlannedSet(
                action=result.action,
                prediction=prediction,
                warnings=result.warnings,
                # Times of the rehearsal mean nothing outside of it.
                sentences=() if is_done else tuple(one for one in rehearsal.ending[recorded.place] if not one.until),
            )
        )
    notes = (
        _describe_assumption(planned),
        *state.observed.notes,
        *_describe_motion(rehearsal),
        *_describe_updates(planned),
        *_describe_unready(planned),
        *_describe_held(rehearsal),
    )
    return PlanResult(sets=tuple(planned), notes=notes, ignored=state.ignored)


PlanRehearsal = Rehearsal[tuple[ApplyResult, ...], dict[NamespacedName, tuple[Explanation, ...]]]


async def _rehearse(state: ClusterState) -> PlanRehearsal:
    async def change(transport: Transport) -> tuple[ApplyResult, ...]:
        return tuple([result async for result in apply_documents(transport, state.documents, state.namespace)])

    async def ending(client: Client, clock: Clock) -> dict[NamespacedName, tuple[Explanation, ...]]:
        now = clock.now()
        return {
            one: await explain(client, now, one.namespace, ObjectRef("podcliqueset", one.name)) for one in state.sets
        }  # fmt: skip

    schedulers = _find_values("schedulerName", [*(one.body for one in state.documents), *state.observed.objects])
    return await rehearse(state.observed, state.sets, change, ending, schedulers=dict.fromkeys(schedulers))


def _describe_assumption(planned: Sequence[PlannedSet]) -> str:
    reasons = [sentence.reason for one in planned for sentence in one.sentences]
    failing = ", except those whose containers cannot start" if FindingReason.CONTAINER_CANNOT_START in reasons else ""
    return f"the prediction assumes that new pods become ready{failing}; it does not predict durations"


def _is_set(document: ManifestDocument) -> bool:
    return (document.api_version, document.kind) == (PODCLIQUESETS.api_version, PODCLIQUESETS.kind)


def _name_of(document: ManifestDocument, namespace: str) -> NamespacedName:
    own_namespace = document.body["metadata"].get("namespace") or namespace
    return NamespacedName(namespace=str(own_namespace), name=document.name)


def _find_values(key: str, value: Any) -> Iterator[str]:
    """Yield all strings under this key, at any depth."""
    if isinstance(value, list):
        for item in value:
            yield from _find_values(key, item)
    elif isinstance(value, dict):
        for name, inner in value.items():
            if name == key and isinstance(inner, str) and inner:
                yield inner
            else:
                yield from _find_values(key, inner)


def _describe_motion(rehearsal: PlanRehearsal) -> Iterator[str]:
    for place, pods in rehearsal.moving.items():
        if pods:
            name = name_with_namespace(f"pcs/{place.name}", place.namespace)
            yield f"{name} is already changing: {_describe_pods(pods)} before anything is applied"


def _describe_updates(planned: Sequence[PlannedSet]) -> Iterator[str]:
    for one in planned:
        if one.prediction.is_updating_before:
            name = name_with_namespace(f"pcs/{one.prediction.name}", one.prediction.namespace)
            yield f"an update of {name} is already in progress; the prediction starts from there"


def _describe_pods(pods: Sequence[PodHistory]) -> str:
    parts = (
        (sum(not pod.was_there for pod in pods), "created"),
        (sum(pod.was_there and pod.left_at is not None for pod in pods), "deleted"),
        (sum(pod.was_there and pod.left_at is None and pod.is_ready for pod in pods), "ready"),
    )
    texts = [f"{count_noun(count, 'pod')} {verb(count, 'is', 'are')} {what}" for count, what in parts if count]
    return ", ".join(texts) or f"{count_noun(len(pods), 'pod')} {verb(len(pods), 'changes', 'change')}"


def _describe_unready(planned: Sequence[PlannedSet]) -> Iterator[str]:
    count = sum(one.prediction.pods.kept_unready for one in planned)
    if count:
        be = verb(count, "is", "are")
        yield f"{count_noun(count, 'pod')} that {be} not ready now {be} assumed to stay not ready"


def _describe_held(rehearsal: PlanRehearsal) -> Iterator[str]:
    if rehearsal.held:
        count = len(rehearsal.held)
        yield (
            f"{count_noun(count, 'pod')} {verb(count, 'waits', 'wait')} for a node although one seems to be free, "
            f"and {verb(count, 'is', 'are')} assumed to keep waiting: {', '.join(rehearsal.held[:3])}"
        )
