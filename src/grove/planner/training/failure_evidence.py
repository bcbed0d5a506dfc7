"""Find why a training clique is in breach: the first of its pods that failed, or else the first that was lost.

spec/training-jobs.md requires events and a condition; DESIGN, "Training failure", lists their content. The failure is
stored in the clique's status together with the breach, before the pods that prove it are deleted.
"""

from collections.abc import Collection, Iterable, Iterator
from datetime import UTC, datetime

from grove.api.types.meta import find_condition
from grove.api.types.pod import ContainerStatus, Pod, TerminatedState, has_lost_readiness
from grove.api.types.podclique import PodFailure
from grove.api.values.message_text import truncate
from grove.planner.views import CliqueView, pod_index

LONGEST_MESSAGE = 256
_LATE = datetime.max.replace(tzinfo=UTC)


def find_first_failure(clique: CliqueView) -> PodFailure | None:
    """Return the failure that caused the breach: stored when it began, or observed now. None: no pod shows one."""
    stored = clique.clique.status.first_failure
    # An index whose replacement is ready did not cause the breach.
    whole = clique.done_indices.union(pod_index(pod) for pod in clique.active if pod.is_ready)
    seen = (*_find_failures(clique, whole), *_find_losses(clique, whole))
    return first_of((*seen, *((stored,) if stored else ())))


def find_index_failure(clique: CliqueView, index: int) -> PodFailure | None:
    """Return the failure of the last pod of an index."""
    others = {pod_index(pod) for pod in (*clique.failed, *clique.active)} - {index}
    failures = _find_failures(clique, others)
    return max(failures, key=lambda one: (one.finished_at or _LATE, one.pod), default=None)


def first_of(failures: Iterable[PodFailure]) -> PodFailure | None:
    """Return the earliest failure. Pods that failed come before pods that were lost."""
    return min(failures, key=lambda one: (one.exit_code is None, one.finished_at or _LATE, one.pod), default=None)


def describe_failure(failure: PodFailure) -> str:
    container = f", container {failure.container}" if failure.container else ""
    code = "" if failure.exit_code is None else f", exit code {failure.exit_code}"
    reason = f" ({failure.reason})" if failure.reason else ""
    words = f": {failure.message}" if failure.message else ""
    return f"pod {failure.pod}{container}{code}{reason}{words}"


def _find_failures(clique: CliqueView, whole: Collection[int]) -> Iterator[PodFailure]:
    """Yield pods that failed, and pods that are not ready because one of their containers failed."""
    for pod in (*clique.failed, *clique.active):
        ended = _first_failed_container(pod)
        if pod_index(pod) in whole:
            continue
        if pod.is_failed:
            yield _read_failed_pod(pod, ended)
        elif ended is not None:
            yield _read_container(pod, *ended)


def _read_failed_pod(pod: Pod, ended: tuple[ContainerStatus, TerminatedState] | None) -> PodFailure:
    # The kubelet sets a reason on an evicted pod. Its containers only report that they were killed.
    if ended is not None and not pod.status.reason:
        return _read_container(pod, *ended)
    return PodFailure(
        pod=pod.metadata.name,
        container=ended[0].name if ended else "",
        exit_code=ended[1].exit_code if ended else None,
        reason=pod.status.reason,
        message=_shorten(pod.status.message),
        finished_at=ended[1].finished_at if ended else _not_ready_since(pod),
    )


def _first_failed_container(pod: Pod) -> tuple[ContainerStatus, TerminatedState] | None:
    ended = [
        (status, state)
        for status in (*pod.status.init_container_statuses, *pod.status.container_statuses)
        if (state := status.state.terminated or status.last_state.terminated) is not None and state.exit_code
    ]
    return min(ended, key=lambda one: one[1].finished_at or _LATE, default=None)


def _read_container(pod: Pod, status: ContainerStatus, state: TerminatedState) -> PodFailure:
    return PodFailure(
        pod=pod.metadata.name,
        container=status.name,
        exit_code=state.exit_code,
        reason=state.reason,
        message=_shorten(state.message),
        finished_at=state.finished_at,
    )


def _find_losses(clique: CliqueView, whole: Collection[int]) -> Iterator[PodFailure]:
    """Yield pods that are being deleted, and pods that were ready and no longer are."""
    for pod in clique.terminating:
        if pod_index(pod) in whole or pod.is_failed or pod.is_succeeded:
            continue
        disruption = find_condition(pod.status.conditions, "DisruptionTarget")
        is_disrupted = disruption is not None and disruption.status == "True"
        yield PodFailure(
            pod=pod.metadata.name,
            reason=disruption.reason if disruption is not None and is_disrupted else "Deleted",
            message=_shorten(disruption.message)
            if disruption is not None and is_disrupted
            else _place_of(pod, "it was on"),
            finished_at=pod.metadata.deletion_timestamp,
        )
    for pod in clique.active:
        # The kubelet reported it ready. The node controller set it to not ready, because the node sends no status.
        reported = pod.status.container_statuses
        is_silent = not pod.is_ready and bool(reported) and all(status.ready for status in reported)
        if (is_silent or has_lost_readiness(pod)) and _first_failed_container(pod) is None:
            yield PodFailure(
                pod=pod.metadata.name,
                reason="NodeLost" if is_silent else "NotReady",
                message=_place_of(pod, "no status from" if is_silent else "it is on"),
                finished_at=_not_ready_since(pod),
            )


def _place_of(pod: Pod, words: str) -> str:
    return f"{words} node {pod.spec.node_name}" if pod.spec.node_name else ""


def _not_ready_since(pod: Pod) -> datetime | None:
    ready = find_condition(pod.status.conditions, "Ready")
    return ready.last_transition_time if ready else pod.metadata.creation_timestamp


def _shorten(text: str) -> str:
    """Return at most 256 characters on one line. The text comes from a user's program and may contain anything."""
    return truncate(" ".join(text.split()), LONGEST_MESSAGE)
