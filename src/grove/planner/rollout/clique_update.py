"""One standalone clique in an update: which pods go next.

spec/rolling-update.md, "PodClique (PCLQ) Pod Selection": pods of an older template that are not ready go at once; then
one ready pod at a time, the oldest first, only while the minimum is ready. Every choice of a ready pod is stored
before the pod is deleted. It counts as replaced when its index is ready again, or another pod of the new template than
were ready before: who takes its place on the node is not ours to say.
"""

from datetime import UTC, datetime, timedelta

import msgspec

from grove.api import names
from grove.api.schema.limits import LISTED_AS_UPDATED
from grove.api.types.pod import Pod
from grove.api.types.podclique import CliqueRollingUpdateProgress, PodsSelectedToUpdate
from grove.api.values.times import ceil_second
from grove.planner.actions import earliest
from grove.planner.pods.pod_sync import PodToDelete
from grove.planner.rollout.stall import StallReason, wait_for_minimum, wait_for_new_pods
from grove.planner.rollout.update_progress import Phase, end_at_once, phase_of
from grove.planner.views import CliqueView, template_hash_of

# A pod that should have left so long ago hangs on a node that does not answer: nobody waits for it.
LINGERING = timedelta(seconds=30)
_EPOCH = datetime.fromtimestamp(0, UTC)


class CliqueRoll(msgspec.Struct, frozen=True, kw_only=True):
    """How the update of a clique stands and what it does next."""

    # What its status should say; the acts below rest on what it says already.
    progress: CliqueRollingUpdateProgress | None = None
    # The stored progress aims at what is newest for this clique: its object may take the new template over.
    may_patch: bool = False
    deletes: tuple[PodToDelete, ...] = ()
    needs_look: bool = False
    # Nothing of an older template is left, and whatever was taken is made up for. Its minimum is not asked here.
    is_done: bool = True
    wait: StallReason | None = None
    requeue_at: datetime | None = None


def roll_clique(
    view: CliqueView, target: str, *, is_aimed: bool, may_start: bool, must_stop: bool, now: datetime
) -> CliqueRoll:
    """`target` is the template hash that its replica is to run; `is_aimed`: the stored progress is about that."""
    stored = view.clique.status.rolling_update_progress
    old = old_pods(view, target)
    lingering = lingering_pods(view, target, now)
    is_outdated = view.template_hash != target or bool(old or lingering)
    requeue_at = earliest(*(gone_at(pod) for pod in lingering))
    phase = phase_of(stored, is_outdated=is_outdated, is_aimed=is_aimed, may_start=may_start, must_stop=must_stop)
    if stored is None or phase in (Phase.REST, Phase.TELL, Phase.START):
        return CliqueRoll(
            progress=_begun(stored, phase, now), may_patch=must_stop and is_outdated, is_done=not is_outdated
        )
    if phase is Phase.STOP:
        return CliqueRoll(progress=_ended(stored, now), may_patch=True, is_done=not is_outdated)
    if phase is Phase.AIM:
        again = CliqueRollingUpdateProgress(
            update_started_at=ceil_second(now),
            ready_pods_selected_to_update=_still_owed(view, target, stored.ready_pods_selected_to_update),
        )
        return CliqueRoll(progress=again, is_done=False)
    if view.template_hash != target:
        return CliqueRoll(progress=stored, may_patch=True, is_done=False)
    roll = _next_step(view, target, stored, old, bool(lingering), requeue_at, now)
    if may_start or roll.is_done:
        return roll
    # Its turn went to another replica before it was done: it waits for the next one.
    return CliqueRoll(progress=stored, may_patch=True, is_done=False, requeue_at=requeue_at)


def _begun(
    stored: CliqueRollingUpdateProgress | None, phase: Phase, now: datetime
) -> CliqueRollingUpdateProgress | None:
    if phase is Phase.START:
        return CliqueRollingUpdateProgress(update_started_at=ceil_second(now))
    if phase is Phase.TELL:
        instant = end_at_once(stored.update_ended_at if stored else None, now)
        return CliqueRollingUpdateProgress(update_started_at=instant, update_ended_at=instant)
    return stored


def has_old_pods(view: CliqueView, target: str | None) -> bool:
    return any(hash_ != target for hash_ in view.active_hashes)


def old_pods(view: CliqueView, target: str) -> tuple[Pod, ...]:
    if not has_old_pods(view, target):
        return ()
    return tuple(pod for pod in view.active if template_hash_of(pod.metadata) != target)


def lingering_pods(view: CliqueView, target: str, now: datetime) -> tuple[Pod, ...]:
    """Pods of an older template that are leaving, and will be gone soon."""
    return tuple(pod for pod in view.leaving if template_hash_of(pod.metadata) != target and now < gone_at(pod))


def gone_at(pod: Pod) -> datetime:
    leaves_at = pod.metadata.deletion_timestamp
    return _EPOCH if leaves_at is None else leaves_at + LINGERING


def _next_step(
    view: CliqueView,
    target: str,
    progress: CliqueRollingUpdateProgress,
    old: tuple[Pod, ...],
    is_lingering: bool,
    requeue_at: datetime | None,
    now: datetime,
) -> CliqueRoll:
    # A scale-in goes first: both at once could take more than the minimum allows, or one pod twice.
    is_scaled_in = len(view.active) <= view.replicas
    unready = tuple(
        PodToDelete(pod=pod, reason="it runs an older template and is not ready")
        for pod in old
        if is_scaled_in and not pod.is_ready
    )
    ready = sorted((pod for pod in old if pod.is_ready), key=_age)
    may_take = is_scaled_in and view.ready_count >= view.min_available
    selected = progress.ready_pods_selected_to_update
    chosen = next((pod for pod in ready if selected is not None and pod.metadata.name == selected.current), None)
    if chosen is not None:
        taken = (PodToDelete(pod=chosen, reason="its turn has come: it runs an older template"),) if may_take else ()
        return CliqueRoll(
            progress=progress,
            may_patch=True,
            deletes=(*unready, *taken),
            needs_look=True,
            is_done=False,
            wait=None if may_take else wait_for_minimum(view, progress.update_started_at),
        )
    rolling = CliqueRoll(
        progress=progress,
        may_patch=True,
        deletes=unready,
        needs_look=bool(unready),
        is_done=False,
        requeue_at=requeue_at,
    )
    if not _is_caught_up(view, target, selected):
        return msgspec.structs.replace(rolling, wait=wait_for_new_pods((view,), target))
    if ready:
        if not may_take:
            return msgspec.structs.replace(rolling, wait=wait_for_minimum(view, progress.update_started_at))
        choice = PodsSelectedToUpdate(
            current=ready[0].metadata.name,
            completed=(*selected.completed, selected.current)[-LISTED_AS_UPDATED:] if selected is not None else (),
            ready_before=len(_ready_names(view, target)),
        )
        choosing = msgspec.structs.replace(progress, ready_pods_selected_to_update=choice)
        return msgspec.structs.replace(rolling, progress=choosing, needs_look=True)
    if old or is_lingering:
        return rolling
    return msgspec.structs.replace(rolling, progress=_ended(progress, now), is_done=True)


def _is_caught_up(view: CliqueView, target: str, selected: PodsSelectedToUpdate | None) -> bool:
    """The last pod that was taken has a ready successor; of one that a scale-in took too, nobody is waited for."""
    if selected is None:
        return True
    ready = _ready_names(view, target)
    place = selected.current[: -names.SUFFIX_LENGTH]
    if any(name[: -names.SUFFIX_LENGTH] == place for name in ready):
        return True
    # Old pods that are not ready make room for new ones at once.
    most = view.replicas - (view.ready_count - len(ready))
    return len(ready) >= min(selected.ready_before + 1, most)


def _ready_names(view: CliqueView, target: str) -> tuple[str, ...]:
    """What is ready of the new template."""
    return tuple(pod.metadata.name for pod in view.active if pod.is_ready and template_hash_of(pod.metadata) == target)


def _still_owed(view: CliqueView, target: str, selected: PodsSelectedToUpdate | None) -> PodsSelectedToUpdate | None:
    """What a further change of the template leaves of the last choice: all of it, if nothing ready made up for it."""
    told = view.clique.status.update_progress
    before = told.pod_template_hash if told is not None else ""
    if selected is None or before == target:
        return selected
    if _is_caught_up(view, before, selected):
        return None
    return msgspec.structs.replace(selected, ready_before=len(_ready_names(view, target)))


def _age(pod: Pod) -> tuple[datetime, str]:
    return pod.metadata.creation_timestamp or _EPOCH, pod.metadata.name


def _ended(progress: CliqueRollingUpdateProgress, now: datetime) -> CliqueRollingUpdateProgress:
    return CliqueRollingUpdateProgress(update_started_at=progress.update_started_at, update_ended_at=ceil_second(now))
