"""Recovery after a kubelet restart: containers of the earlier kubelet count as killed, as after a reboot. Pure.

Those of a cluster that is kept (`grove up --data-dir`) and was started again. What the pods were told of is in their
status; what to run again is decided as after every end of a container, by the restart policy.
"""

from datetime import datetime

import msgspec

from grove.api.types.pod import ContainerStatus, TerminatedState
from grove.cluster.kubelet.process.pod_status import Terminated

# As a real kubelet says it of a container that it cannot find.
LOST_REASON = "ContainerStatusUnknown"
LOST_EXIT_CODE = 137
_LOST_MESSAGE = "The container was running when the cluster ended, and its process is gone"


class Earlier(msgspec.Struct, frozen=True, kw_only=True):
    """A container's last run before this kubelet."""

    restart_count: int
    ended: Terminated
    # It ran when its kubelet ended.
    was_cut: bool


def earlier_run(status: ContainerStatus, now: datetime) -> Earlier | None:
    """None: it never ran."""
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
        return Earlier(restart_count=status.restart_count, ended=ended, was_cut=True)
    before = state.terminated or status.last_state.terminated
    if before is None:
        return None
    return Earlier(restart_count=status.restart_count, ended=_ended(before, now), was_cut=False)


def is_over(policy: str, inits: tuple[Earlier | None, ...], mains: tuple[Earlier | None, ...]) -> bool:
    """Nothing of the pod is to be run again. `inits` are those that end before the others begin."""
    if policy == "Never":
        return any(each is not None and each.was_cut for each in (*inits, *mains)) or _have_all_ended(mains)
    return policy == "OnFailure" and _have_all_ended(mains) and not any(each and each.ended.exit_code for each in mains)


def _have_all_ended(mains: tuple[Earlier | None, ...]) -> bool:
    return all(each is not None for each in mains)


def _ended(state: TerminatedState, now: datetime) -> Terminated:
    return Terminated(
        exit_code=state.exit_code,
        reason=state.reason,
        started_at=state.started_at or now,
        finished_at=state.finished_at or now,
        container_id="",
    )
