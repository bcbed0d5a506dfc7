"""Explain what pods wait for: gates, the scheduler, the kubelet, in the order in which a pod meets them.

The pods alone are the input. `why.py` explains whole gangs and sets.
"""

from collections.abc import Callable, Iterable

from grove.api.labels import GATE
from grove.api.reasons import ConditionType, FindingReason, Reason
from grove.api.types.meta import find_condition
from grove.api.types.pod import ContainerStatus, Pod
from grove.planner.explain.text import LISTED_NAMES, Explanation, cause, listed, next_step, note, subject, verb
from grove.planner.views import CliqueView

Wait = Callable[[Pod], bool]
# Volcano's reason for a pod that it could place if the rest of its gang fitted. The message names pod and node.
SCHEDULABLE = "Schedulable"


def has_foreign_gate(pod: Pod) -> bool:
    return any(gate.name != GATE for gate in pod.spec.scheduling_gates)


def is_gated_by_us(pod: Pod) -> bool:
    return pod.is_behind_our_gate and not has_foreign_gate(pod)


def is_unplaced(pod: Pod) -> bool:
    return not pod.is_scheduled and not pod.spec.scheduling_gates


def is_told_full(pod: Pod) -> bool:
    """Return whether the scheduler reported that no node has enough free capacity for the pod."""
    told = None if pod.is_scheduled else find_condition(pod.status.conditions, ConditionType.POD_SCHEDULED)
    return told is not None and told.reason == Reason.UNSCHEDULABLE


def is_unready(pod: Pod) -> bool:
    return pod.is_scheduled and not pod.is_ready


def blocks_minimum(clique: CliqueView, waits: Wait) -> bool:
    """Return whether the clique lacks its minimum because of the pods that wait in this way."""
    return sum(not waits(pod) for pod in clique.active) + clique.done_count < clique.min_available


def foreign_gate_sentences(about: str, pods: list[Pod]) -> tuple[Explanation, ...]:
    by_gate: dict[str, list[Pod]] = {}
    for pod in pods:
        for gate in pod.spec.scheduling_gates:
            if gate.name != GATE:
                by_gate.setdefault(gate.name, []).append(pod)
    if not by_gate:
        return ()
    return (
        *(_behind(about, gate, found) for gate, found in by_gate.items()),
        next_step(about, "whoever set that gate removes it; Grove only removes its own."),
    )


def _behind(about: str, gate: str, pods: list[Pod]) -> Explanation:
    waits = verb(len(pods), "waits", "wait")
    text = f"{subject(about, pods)} {waits} behind scheduling gate {gate}{listed(about, pods)}."
    return cause(about, Reason.SCHEDULING_GATED, text)


def own_gate_sentences(about: str, pods: list[Pod]) -> tuple[Explanation, ...]:
    waits = verb(len(pods), "waits", "wait")
    return (
        cause(about, FindingReason.GANG_COMPLETE, f"{subject(about, pods)} {waits} behind Grove's gate."),
        next_step(about, "the gang is complete, so the operator opens it now; if this stays, it is not running."),
    )


def unplaced_sentences(about: str, pods: list[Pod]) -> tuple[Explanation, ...]:
    """Explain pods without a node, with the messages of their scheduler."""
    by_message: dict[str, list[Pod]] = {}
    fitting: list[Pod] = []
    for pod in pods:
        told = find_condition(pod.status.conditions, ConditionType.POD_SCHEDULED)
        if told is not None and told.status == "False" and told.reason == SCHEDULABLE:
            fitting.append(pod)
        else:
            by_message.setdefault(told.message if told and told.status == "False" else "", []).append(pod)
    silent = by_message.pop("", [])
    sentences = [_unplaced(about, found, message) for message, found in by_message.items()]
    if fitting:
        waits = verb(len(fitting), "would fit, and waits", "would fit, and wait")
        text = f"{subject(about, fitting)} {waits} for the rest of the gang."
        sentences.append(cause(about, Reason.UNSCHEDULABLE, text))
    if by_message or fitting:
        text = "placed once the gang is complete and there is room: its minimum all at once, the rest one by one."
        sentences.append(next_step(about, text))
    if silent:
        text = f"{subject(about, silent)} {verb(len(silent), 'waits', 'wait')} for the scheduler to answer."
        sentences.append(cause(about, Reason.UNSCHEDULABLE, text))
    return tuple(sentences)


def _unplaced(about: str, pods: list[Pod], message: str) -> Explanation:
    waits = verb(len(pods), "waits for a node", "wait for nodes")
    return cause(about, Reason.UNSCHEDULABLE, f"{subject(about, pods)} {waits}. The scheduler: {message}.")


def unready_sentences(about: str, pods: list[Pod], lost_nodes: frozenset[str]) -> tuple[Explanation, ...]:
    by_reason: dict[str, list[Pod]] = {}
    for pod in pods:
        by_reason.setdefault(_why_not_ready(pod, lost_nodes), []).append(pod)
    return tuple(
        cause(
            about,
            Reason.MINIMUM_NOT_READY,
            f"{subject(about, found)} {verb(len(found), 'is', 'are')} not ready{listed(about, found)}: {why}.",
        )
        for why, found in by_reason.items()
    )


def _why_not_ready(pod: Pod, lost_nodes: frozenset[str]) -> str:
    if pod.spec.node_name in lost_nodes:
        return f"node {pod.spec.node_name} does not answer"
    for status in (*pod.status.init_container_statuses, *pod.status.container_statuses):
        if trouble := container_trouble(status):
            return trouble
    unready = [status.name for status in pod.status.container_statuses if not status.ready]
    if unready:
        return f"container {unready[0]} runs, but is not ready yet (its readiness probe decides)"
    return f"the kubelet of {pod.spec.node_name} has not started it yet"


def container_trouble(status: ContainerStatus) -> str:
    """Return the failure that a container's status reports, or ""."""
    waiting, ended = status.state.waiting, status.state.terminated
    if waiting is not None and waiting.reason not in ("", "ContainerCreating", "PodInitializing"):
        before = status.last_state.terminated
        code = f", exit code {before.exit_code}" if before is not None else ""
        words = f": {waiting.message}" if waiting.message else ""
        return f"container {status.name}: {waiting.reason}{code}{words}"
    if ended is not None and ended.exit_code:
        return f"container {status.name} ended with exit code {ended.exit_code}"
    return ""


def exit_of(pod: Pod) -> str:
    """Return `, exit code 1`, or "" if the exit code is not known."""
    ended = [status.state.terminated for status in pod.status.container_statuses if status.state.terminated]
    return f", exit code {ended[-1].exit_code}" if ended else ""


def stuck_sentences(pods: Iterable[Pod], lost_nodes: frozenset[str]) -> tuple[Explanation, ...]:
    """Explain terminating pods whose node does not answer. The operator does not wait for them."""
    stuck = [pod for pod in pods if pod.metadata.is_terminating and pod.spec.node_name in lost_nodes]
    return tuple(
        note(
            f"pod/{pod.metadata.name}",
            f"pod/{pod.metadata.name} is being deleted, but its node {pod.spec.node_name} does not answer; "
            "it goes when the node returns or is removed, and its replacement does not wait for that.",
        )
        for pod in stuck[:LISTED_NAMES]
    )
