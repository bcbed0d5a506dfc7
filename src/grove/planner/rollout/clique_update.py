"""Update of one standalone clique: select the pods to replace.

spec/rolling-update.md, "PodClique (PCLQ) Pod Selection": pods of an older template that are not ready are deleted at
once; then one ready pod at a time, the oldest first, only while the minimum is ready. The choice of a ready pod is
stored before the pod is deleted. It counts as replaced when its index is ready again, or when one more pod of the new
template is ready than before: the scheduler may give its node to another pod.
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
from grove.planner.rollout.update_progress import (
    UpdateInput,
    UpdateStep,
    choose_update_step,
    start_progress,
)
from grove.planner.views import CliqueView, template_hash_of

# A pod whose deletion is overdue by this is on a node that does not answer. The update does not wait for it.
LINGERING = timedelta(seconds=30)
_EPOCH = datetime.fromtimestamp(0, UTC)


class CliqueRoll(msgspec.Struct, frozen=True, kw_only=True):
    """The state of the update of a clique, and its next step."""

    # The progress to write to the status. The actions below depend on the stored one.
    progress: CliqueRollingUpdateProgress | None = None
    # The stored progress has the newest target: the clique may get the new template.
    may_patch: bool = False
    deletes: tuple[PodToDelete, ...] = ()
    needs_live_read: bool = False
    # No pod of an older template is left, and every replaced pod has a ready successor. The minimum is not checked.
    is_done: bool = True
    wait: StallReason | None = None
    requeue_at: datetime | None = None


def roll_clique(view: CliqueView, target: str, inputs: UpdateInput) -> CliqueRoll:
    """Return the next step. `target`: the desired template hash."""
    stored, now = view.clique.status.rolling_update_progress, inputs.now
    lingering = lingering_pods(view, target, now)
    is_outdated = view.template_hash != target or has_old_pods(view, target) or bool(lingering)
    step = choose_update_step(stored, inputs, is_outdated=is_outdated)
    if stored is None or step in (UpdateStep.IDLE, UpdateStep.REPORT, UpdateStep.START):
        return CliqueRoll(
            progress=start_progress(CliqueRollingUpdateProgress, stored, step, now),
            may_patch=inputs.must_stop and is_outdated,
            is_done=not is_outdated,
        )
    if step is UpdateStep.STOP:
        return CliqueRoll(progress=_end_progress(stored, now), may_patch=True, is_done=not is_outdated)
    if step is UpdateStep.RETARGET:
        again = CliqueRollingUpdateProgress(
            update_started_at=ceil_second(now),
            ready_pods_selected_to_update=_keep_selection(view, target, stored.ready_pods_selected_to_update),
        )
        return CliqueRoll(progress=again, is_done=False)
    if view.template_hash != target:
        return CliqueRoll(progress=stored, may_patch=True, is_done=False)
    roll = _next_step(view, target, stored, lingering, now)
    if inputs.may_start or roll.is_done:
        return roll
    # Another replica became the current one before it was done: it waits until it is current again.
    return CliqueRoll(progress=stored, may_patch=True, is_done=False, requeue_at=earliest(*map(gone_at, lingering)))


def has_old_pods(view: CliqueView, target: str | None) -> bool:
    return any(hash_ != target for hash_ in view.active_hashes)


def old_pods(view: CliqueView, target: str) -> tuple[Pod, ...]:
    if not has_old_pods(view, target):
        return ()
    return tuple(pod for pod in view.active if template_hash_of(pod.metadata) != target)


def lingering_pods(view: CliqueView, target: str, now: datetime) -> tuple[Pod, ...]:
    """Return terminating pods of an older template that will be gone soon."""
    return tuple(pod for pod in view.terminating if template_hash_of(pod.metadata) != target and now < gone_at(pod))


def gone_at(pod: Pod) -> datetime:
    leaves_at = pod.metadata.deletion_timestamp
    return _EPOCH if leaves_at is None else leaves_at + LINGERING


def _next_step(
    view: CliqueView, target: str, progress: CliqueRollingUpdateProgress, lingering: tuple[Pod, ...], now: datetime
) -> CliqueRoll:
    """Return the next step of an update in progress: delete old pods, select the next one, wait, or end."""
    old = old_pods(view, target)
    # A scale-in goes first: together they could delete more than the minimum allows, or one pod twice.
    is_scaled_in = len(view.active) <= view.replicas
    unready = tuple(
        PodToDelete(pod=pod, reason="it runs an older template and is not ready")
        for pod in old
        if is_scaled_in and not pod.is_ready
    )
    ready = sorted((pod for pod in old if pod.is_ready), key=_age_key)
    may_replace = is_scaled_in and view.ready_count >= view.min_available
    rolling = CliqueRoll(
        progress=progress,
        may_patch=True,
        deletes=unready,
        needs_live_read=bool(unready),
        is_done=False,
        requeue_at=earliest(*map(gone_at, lingering)),
    )
    selected = progress.ready_pods_selected_to_update
    chosen = next((pod for pod in ready if selected is not None and pod.metadata.name == selected.current), None)
    if chosen is not None:
        return _replace_chosen(view, rolling, chosen, may_replace=may_replace)
    if not _is_caught_up(view, target, selected):
        return msgspec.structs.replace(rolling, wait=wait_for_new_pods((view,), target))
    if ready and not may_replace:
        return msgspec.structs.replace(rolling, wait=wait_for_minimum(view, progress.update_started_at))
    if ready:
        choosing = _choose(view, target, progress, ready[0])
        return msgspec.structs.replace(rolling, progress=choosing, needs_live_read=True)
    if old or lingering:
        return rolling
    return msgspec.structs.replace(rolling, progress=_end_progress(progress, now), is_done=True)


def _replace_chosen(view: CliqueView, rolling: CliqueRoll, chosen: Pod, *, may_replace: bool) -> CliqueRoll:
    """Delete the ready pod whose selection is stored, while the minimum allows it."""
    started_at = rolling.progress.update_started_at if rolling.progress is not None else None
    delete = PodToDelete(pod=chosen, reason="it runs an older template and is next")
    return msgspec.structs.replace(
        rolling,
        deletes=(*rolling.deletes, delete) if may_replace else rolling.deletes,
        needs_live_read=True,
        wait=None if may_replace else wait_for_minimum(view, started_at),
        requeue_at=None,
    )


def _choose(
    view: CliqueView, target: str, progress: CliqueRollingUpdateProgress, pod: Pod
) -> CliqueRollingUpdateProgress:
    """Select this ready pod. The selection is stored before the pod is deleted."""
    selected = progress.ready_pods_selected_to_update
    choice = PodsSelectedToUpdate(
        current=pod.metadata.name,
        completed=(*selected.completed, selected.current)[-LISTED_AS_UPDATED:] if selected is not None else (),
        ready_before=len(_ready_names(view, target)),
    )
    return msgspec.structs.replace(progress, ready_pods_selected_to_update=choice)


def _is_caught_up(view: CliqueView, target: str, selected: PodsSelectedToUpdate | None) -> bool:
    """Return whether the last replaced pod has a ready successor, or a scale-in removed its index."""
    if selected is None:
        return True
    ready = _ready_names(view, target)
    place = selected.current[: -names.SUFFIX_LENGTH]
    if any(name[: -names.SUFFIX_LENGTH] == place for name in ready):
        return True
    # Old pods that are not ready are replaced at once.
    most = view.replicas - (view.ready_count - len(ready))
    return len(ready) >= min(selected.ready_before + 1, most)


def _ready_names(view: CliqueView, target: str) -> tuple[str, ...]:
    """Return the names of ready pods of the new template."""
    return tuple(pod.metadata.name for pod in view.active if pod.is_ready and template_hash_of(pod.metadata) == target)


def _keep_selection(
    view: CliqueView, target: str, selected: PodsSelectedToUpdate | None
) -> PodsSelectedToUpdate | None:
    """Return the selection to keep after the template changed again: that of a pod without a ready successor."""
    reported = view.clique.status.update_progress
    before = reported.pod_template_hash if reported is not None else ""
    if selected is None or before == target:
        return selected
    if _is_caught_up(view, before, selected):
        return None
    return msgspec.structs.replace(selected, ready_before=len(_ready_names(view, target)))


def _age_key(pod: Pod) -> tuple[datetime, str]:
    return pod.metadata.creation_timestamp or _EPOCH, pod.metadata.name


def _end_progress(progress: CliqueRollingUpdateProgress, now: datetime) -> CliqueRollingUpdateProgress:
    return CliqueRollingUpdateProgress(update_started_at=progress.update_started_at, update_ended_at=ceil_second(now))
