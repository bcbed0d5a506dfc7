"""Recovery after a kubelet restart: containers of the previous kubelet count as killed, as after a reboot. Pure.

That happens when a persisted cluster (`grove up --data-dir`) starts again. The last state of a container is in the pod
status; the restart policy decides what runs again.
"""

from datetime import datetime

import msgspec

from grove.api.types.pod import ContainerStatus, TerminatedState
from grove.cluster.kubelet.process.pod_status import Terminated

# The reason that a real kubelet gives for a container that it cannot find.
LOST_REASON = "ContainerStatusUnknown"
LOST_EXIT_CODE = 137
_LOST_MESSAGE = "The container was running when the cluster stopped, and its process is gone"


class PreviousRun(msgspec.Struct, frozen=True, kw_only=True):
    """The last run of a container under a previous kubelet."""

    restart_count: int
    ended: Terminated
    # The container was running when its kubelet ended.
    was_interrupted: bool


def previous_run(status: ContainerStatus, now: datetime) -> PreviousRun | None:
    """Return the last run of a container, or None if it never ran."""
    state = status.state
    if state.running is not None:
        started_at = state.running.started_at or now
        ended = Terminated(
            exit_code=LOST_EXIT_CODE,
            reason=LOST_REASON,
            message=_LOST_MESSAGE,
            started_at=started_at,
            finished_at=now,
            container_id="",
        )
        return PreviousRun(restart_count=status.restart_count, ended=ended, was_interrupted=True)
    before = state.terminated or status.last_state.terminated
    if before is None:
        return None
    return PreviousRun(restart_count=status.restart_count, ended=_to_terminated(before, now), was_interrupted=False)


def is_over(policy: str, inits: tuple[PreviousRun | None, ...], mains: tuple[PreviousRun | None, ...]) -> bool:
    """Return whether no container of the pod will run again. `inits` are the init containers without sidecars."""
    if policy == "Never":
        return any(each is not None and each.was_interrupted for each in (*inits, *mains)) or _have_all_ended(mains)
    return policy == "OnFailure" and _have_all_ended(mains) and not any(each and each.ended.exit_code for each in mains)


def _have_all_ended(mains: tuple[PreviousRun | None, ...]) -> bool:
    return all(each is not None for each in mains)


def _to_terminated(state: TerminatedState, now: datetime) -> Terminated:
    return Terminated(
        exit_code=state.exit_code,
        reason=state.reason,
        started_at=state.started_at or now,
        finished_at=state.finished_at or now,
        container_id="",
    )
