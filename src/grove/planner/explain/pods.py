"""Explain what pods wait for: gates, the scheduler, the kubelet, in the order in which a pod meets them.

The pods alone are the input. `why.py` explains whole gangs and sets.
"""

from collections.abc import Callable, Iterable, Iterator

import msgspec

from grove.api.labels import GATE
from grove.api.reasons import ConditionType, FindingReason, Reason
from grove.api.types.meta import find_condition
from grove.api.types.pod import Pod
from grove.planner.explain.cluster_facts import NO_FACTS, ClusterFacts, Misfit, NodeTrouble
from grove.planner.explain.containers import ContainerTrouble, find_recent_crash, find_trouble
from grove.planner.explain.finalizers import explain_held_objects
from grove.planner.explain.text import (
    LISTED_NAMES,
    Explanation,
    cause,
    count_noun,
    join_words,
    list_pods,
    namespace_flag,
    next_step,
    note,
    subject,
    verb,
)
from grove.planner.views import CliqueView

Wait = Callable[[Pod], bool]
# Volcano's reason for a pod that it could place if the rest of its gang fitted. The message names pod and node.
SCHEDULABLE = "Schedulable"


def has_foreign_gate(pod: Pod) -> bool:
    return any(gate.name != GATE for gate in pod.spec.scheduling_gates)


def is_gated_by_us(pod: Pod) -> bool:
    return pod.is_gated and not has_foreign_gate(pod)


def is_unplaced(pod: Pod) -> bool:
    return not pod.is_scheduled and not pod.spec.scheduling_gates


def is_unschedulable(pod: Pod) -> bool:
    """Return whether the scheduler reported that no node has enough free capacity for the pod."""
    reported = None if pod.is_scheduled else find_condition(pod.status.conditions, ConditionType.POD_SCHEDULED)
    return reported is not None and reported.reason == Reason.UNSCHEDULABLE


def is_down(pod: Pod, facts: ClusterFacts) -> bool:
    """Return whether the pod has a node and is not ready. Pods on a lost node may still report that they are."""
    return pod.is_scheduled and (not pod.is_ready or pod.spec.node_name in facts.lost_nodes)


def blocks_minimum(clique: CliqueView, waits: Wait) -> bool:
    """Return whether the clique lacks its minimum because of the pods that wait in this way."""
    return sum(not waits(pod) for pod in clique.active) + clique.done_count < clique.min_available


def explain_foreign_gates(about: str, pods: list[Pod]) -> tuple[Explanation, ...]:
    by_gate: dict[str, list[Pod]] = {}
    for pod in pods:
        for gate in pod.spec.scheduling_gates:
            if gate.name != GATE:
                by_gate.setdefault(gate.name, []).append(pod)
    if not by_gate:
        return ()
    return (
        *(_explain_foreign_gate(about, gate, found) for gate, found in by_gate.items()),
        next_step(about, "the controller that set this gate must remove it; Grove removes only its own gate."),
    )


def _explain_foreign_gate(about: str, gate: str, pods: list[Pod]) -> Explanation:
    waits = verb(len(pods), "waits", "wait")
    text = f"{subject(about, pods)} {waits} behind scheduling gate {gate}."
    return cause(about, Reason.SCHEDULING_GATED, text, detail=list_pods(about, pods))


def explain_own_gate(about: str, pods: list[Pod]) -> tuple[Explanation, ...]:
    waits = verb(len(pods), "waits", "wait")
    return (
        cause(about, FindingReason.GANG_COMPLETE, f"{subject(about, pods)} {waits} behind Grove's gate."),
        next_step(about, "the gang is complete: the operator removes the gate now. If this stays, it is not running."),
    )


def explain_unplaced(about: str, pods: list[Pod], facts: ClusterFacts = NO_FACTS) -> tuple[Explanation, ...]:
    """Explain pods without a node: the cause if it is known, and the messages of their scheduler."""
    by_answer: dict[tuple[Misfit | None, str], list[Pod]] = {}
    fitting: list[Pod] = []
    for pod in pods:
        reported = find_condition(pod.status.conditions, ConditionType.POD_SCHEDULED)
        if reported is not None and reported.status == "False" and reported.reason == SCHEDULABLE:
            fitting.append(pod)
        else:
            message = reported.message if reported and reported.status == "False" else ""
            by_answer.setdefault((facts.misfits.get(pod.metadata.uid), message), []).append(pod)
    silent = by_answer.pop((None, ""), [])
    # Pods that only wait for others of their gang come after those.
    answers = sorted(by_answer.items(), key=lambda answer: bool(answer[0][0] and answer[0][0].clique))
    explanations = [
        one for (misfit, message), found in answers
        for one in (_explain_misfit(about, found, misfit, message) if misfit else _quote(about, found, message))
    ]  # fmt: skip
    if fitting:
        waits = verb(len(fitting), "fits, but waits", "fit, but wait")
        text = f"{subject(about, fitting)} {waits} for the rest of the gang."
        explanations.append(cause(about, Reason.UNSCHEDULABLE, text))
    if fitting or any(misfit is None or not misfit.is_final for misfit, _ in by_answer):
        text = "the scheduler places the gang when it fits: its minimum all at once, the other pods one by one."
        explanations.append(next_step(about, text))
    if silent:
        text = f"{subject(about, silent)} {verb(len(silent), 'waits', 'wait')} for the scheduler to answer."
        explanations.append(cause(about, Reason.UNSCHEDULABLE, text))
    return tuple(explanations)


def _explain_misfit(about: str, pods: list[Pod], misfit: Misfit, message: str) -> Iterator[Explanation]:
    who, count = subject(about, pods), len(pods)
    if misfit.clique:
        what = "never fits" if misfit.is_final else "has no node"
        text = f"{who} {verb(count, 'waits', 'wait')} for the rest of the gang: podclique/{misfit.clique} {what}: "
        yield cause(about, Reason.UNSCHEDULABLE, f"{text}{misfit.cause}.")
    elif misfit.is_final:
        text = f"{who} never {verb(count, 'fits', 'fit')}: {misfit.cause}."
        yield cause(about, FindingReason.NEVER_FITS, text)
    else:
        text = f"{who} {verb(count, 'waits for a node', 'wait for nodes')}: {misfit.cause}."
        yield cause(about, Reason.UNSCHEDULABLE, text)
    yield next_step(about, f"{misfit.advice}.")
    if message and not misfit.is_final:
        yield note(about, f"The scheduler: {message}.")


def _quote(about: str, pods: list[Pod], message: str) -> Iterator[Explanation]:
    waits = verb(len(pods), "waits for a node", "wait for nodes")
    yield cause(about, Reason.UNSCHEDULABLE, f"{subject(about, pods)} {waits}. The scheduler: {message}.")


def explain_unready(about: str, pods: list[Pod], facts: ClusterFacts = NO_FACTS) -> tuple[Explanation, ...]:
    """Explain pods that have a node and are not ready: lost nodes first, then failing containers, then slow ones."""
    lost = [pod for pod in pods if pod.spec.node_name in facts.lost_nodes]
    failing: dict[ContainerTrouble, list[Pod]] = {}
    slow: dict[str, list[Pod]] = {}
    for pod in pods:
        if pod.spec.node_name in facts.lost_nodes:
            continue
        if trouble := find_trouble(pod):
            # Pods of one clique fail alike; how often each was restarted does not tell them apart.
            failing.setdefault(msgspec.structs.replace(trouble, restarts=0), []).append(pod)
        else:
            slow.setdefault(_describe_slow(pod), []).append(pod)
    return (
        *_explain_lost_nodes(about, lost, facts),
        *(one for trouble, found in failing.items() for one in _explain_failing(about, found, trouble, facts)),
        *(_explain_slow(about, found, why) for why, found in slow.items()),
    )


def _explain_lost_nodes(about: str, pods: list[Pod], facts: ClusterFacts) -> Iterator[Explanation]:
    by_trouble: dict[NodeTrouble, list[Pod]] = {}
    for pod in pods:
        by_trouble.setdefault(facts.lost_nodes[pod.spec.node_name], []).append(pod)
    for trouble, found in by_trouble.items():
        nodes = list(dict.fromkeys(pod.spec.node_name for pod in found))
        noun = f"node {nodes[0]} {trouble}" if len(nodes) == 1 else f"{len(nodes)} nodes {_PLURAL[trouble]}"
        listed = f" ({join_words(nodes)})" if len(nodes) > 1 else ""
        were = verb(len(found), "was", "were")
        text = f"{noun}{listed}: {subject(about, found)} {were} there."
        yield cause(about, FindingReason.NODE_LOST, text, detail=list_pods(about, found))
        yield next_step(about, f"{_AFTER_LOSS[trouble]}, then the operator replaces them.")


_PLURAL = {NodeTrouble.GONE: "no longer exist", NodeTrouble.NOT_READY: "do not answer"}
_AFTER_LOSS = {
    NodeTrouble.GONE: "Kubernetes deletes the pods of a deleted node after about 40 s",
    NodeTrouble.NOT_READY: "Kubernetes evicts the pods after 5 minutes, unless they tolerate a longer or shorter time",
}


def _explain_failing(
    about: str, pods: list[Pod], trouble: ContainerTrouble, facts: ClusterFacts
) -> Iterator[Explanation]:
    where, names = f"container {trouble.container} of {subject(about, pods)}", list_pods(about, pods)
    if trouble.is_crash:
        text = f"{where} {_describe_crash(pods, trouble, facts)}."
        yield cause(about, FindingReason.CONTAINER_CRASHES, text, detail=names)
        if trouble.exit_code == 0:
            yield next_step(about, "correct the command in the template: a container must run until it is stopped.")
        yield next_step(about, f"the log shows why: grove logs {_log_arguments(pods[0], trouble.container)}.")
    else:
        words = f": {trouble.message}" if trouble.message else ""
        text = f"{where} cannot start: {trouble.reason}{words}."
        yield cause(about, FindingReason.CONTAINER_CANNOT_START, text, detail=names)
        yield next_step(about, f"{trouble.advice}.")


def _describe_crash(pods: list[Pod], trouble: ContainerTrouble, facts: ClusterFacts) -> str:
    """Return `crashes with exit code 3 (3 restarts); its last log line: out of memory`. Exit code 0 is no crash."""
    restarts = max(found.restarts for pod in pods if (found := find_trouble(pod)))
    verb_ = ("crashes" if trouble.exit_code else "keeps ending") if restarts else "ended"
    times = f", {count_noun(restarts, 'restart')}" if restarts else ""
    lines = [facts.log_lines.get((pod.metadata.uid, trouble.container), "") for pod in pods]
    last = next((line for line in lines if line), "")
    text = f"{verb_} with exit code {trouble.exit_code}{trouble.why_ended}{times}"
    return f"{text}; last log line: {last}" if last else text


def _log_arguments(pod: Pod, container: str) -> str:
    """Return the arguments of `grove logs` for this container, so that the hint can be pasted."""
    statuses = (*pod.status.init_container_statuses, *pod.status.container_statuses)
    flag = f" -c {container}" if len(statuses) > 1 else ""
    return f"{pod.metadata.name}{flag}{namespace_flag(pod.metadata.namespace)}"


def _explain_slow(about: str, pods: list[Pod], why: str) -> Explanation:
    text = f"{subject(about, pods)} {verb(len(pods), 'is not', 'are not')} ready: {why}."
    return cause(about, Reason.MINIMUM_NOT_READY, text, detail=list_pods(about, pods))


def _describe_slow(pod: Pod) -> str:
    unready = [status.name for status in pod.status.container_statuses if not status.ready]
    if unready:
        return f"container {unready[0]} runs, but is not ready yet (its readiness probe decides)"
    return f"the kubelet of {pod.spec.node_name} has not started it yet"


def explain_recent_crashes(about: str, pods: Iterable[Pod], facts: ClusterFacts) -> tuple[Explanation, ...]:
    """Report containers that run again after a crash, so that a short-lived readiness does not hide a crash loop."""
    found: dict[str, list[Pod]] = {}
    for pod in pods:
        if pod.is_ready and (crash := find_recent_crash(pod)):
            found.setdefault(crash.container, []).append(pod)
    return tuple(
        note(
            about,
            f"container {name} of {subject(about, some)} runs again after a crash: "
            f"{_describe_past_crash(some, name, facts)}.",
            detail=list_pods(about, some),
        )
        for name, some in found.items()
    )


def _describe_past_crash(pods: list[Pod], container: str, facts: ClusterFacts) -> str:
    crashes = [crash for pod in pods if (crash := find_recent_crash(pod))]
    worst = max(crashes, key=lambda crash: crash.restarts)
    lines = [facts.log_lines.get((pod.metadata.uid, container), "") for pod in pods]
    last = next((f"; last log line: {line}" for line in lines if line), "")
    return f"exit code {worst.exit_code}{worst.why_ended}, {count_noun(worst.restarts, 'restart')}{last}"


def describe_exit(pod: Pod) -> str:
    """Return `, exit code 1`, or "" if the exit code is not known."""
    ended = [status.state.terminated for status in pod.status.container_statuses if status.state.terminated]
    return f", exit code {ended[-1].exit_code}" if ended else ""


def explain_stuck_pods(pods: Iterable[Pod], facts: ClusterFacts) -> tuple[Explanation, ...]:
    """Explain terminating pods that finalizers or lost nodes hold. The operator does not wait for them."""
    terminating = [pod for pod in pods if pod.metadata.is_terminating]
    stuck = [pod for pod in terminating if pod.spec.node_name in facts.lost_nodes]
    return (
        *explain_held_objects((f"pod/{pod.metadata.name}", pod.metadata) for pod in terminating),
        *(
            note(
                f"pod/{pod.metadata.name}",
                f"pod/{pod.metadata.name} is being deleted, but its node {pod.spec.node_name} "
                f"{facts.lost_nodes[pod.spec.node_name]}; the pod is removed when the node returns or is deleted. "
                "Its replacement does not wait for that.",
            )
            for pod in stuck[:LISTED_NAMES]
        ),
    )
