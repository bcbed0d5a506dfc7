"""Images that a simulated kubelet cannot pull: `ErrImagePull`, then `ImagePullBackOff`, as from a real kubelet."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from fnmatch import fnmatchcase

import msgspec

from grove.api.types.meta import JsonObject, find_condition
from grove.api.types.pod import ContainerStatus
from grove.cluster.kubelet.simulated.status_parts import (
    build_conditions,
    build_container,
    build_terminated,
    format_time,
)
from grove.cluster.node_pod_cache import BoundContainer, BoundPod

# Images with this tag do not exist, in every simulated cluster.
MISSING_TAG = "*:pull-error"
# After the first failed pull, a kubelet waits so long before the next one.
BACK_OFF_AFTER = timedelta(seconds=10)


class PullReport(msgspec.Struct, frozen=True, kw_only=True):
    """The status to write now, or when to look again; neither: all is written."""

    status: JsonObject | None = None
    until: datetime | None = None


def find_missing_images(pod: BoundPod, patterns: tuple[str, ...]) -> tuple[str, ...]:
    """Return the images of the pod that cannot be pulled."""
    images = (container.image for container in (*pod.spec.init_containers, *pod.spec.containers))
    return tuple(image for image in images if any(fnmatchcase(image, pattern) for pattern in patterns))


def report_pull_error(pod: BoundPod, missing: tuple[str, ...], now: datetime, address: str) -> PullReport:
    """Return the next report about a pod with missing images. Containers with other images run meanwhile."""
    reported = _waiting_reason(pod, missing)
    failed_at = _failed_at(pod)
    if reported not in ("ErrImagePull", "ImagePullBackOff") or failed_at is None:
        return PullReport(status=_build_status(pod, missing, now, address, is_backing_off=False))
    if reported == "ImagePullBackOff":
        return PullReport()
    if now < failed_at + BACK_OFF_AFTER:
        return PullReport(until=failed_at + BACK_OFF_AFTER)
    return PullReport(status=_build_status(pod, missing, now, address, is_backing_off=True))


def _waiting_reason(pod: BoundPod, missing: tuple[str, ...]) -> str:
    """Return the reason of the first container that waits for its image; "": none is reported."""
    images = {one.name: one.image for one in (*pod.spec.init_containers, *pod.spec.containers)}
    statuses = (*pod.status.init_container_statuses, *pod.status.container_statuses)
    waiting = (one.state.waiting for one in statuses if images.get(one.name) in missing)
    return next((one.reason for one in waiting if one is not None and one.reason != "PodInitializing"), "")


def _failed_at(pod: BoundPod) -> datetime | None:
    """Return when the first pull failed: the kubelet set this condition then."""
    condition = find_condition(pod.status.conditions, "PodReadyToStartContainers")
    return condition.last_transition_time if condition is not None else None


def _build_status(
    pod: BoundPod, missing: tuple[str, ...], now: datetime, address: str, *, is_backing_off: bool
) -> JsonObject:
    is_initialized = not any(container.image in missing for container in pod.spec.init_containers)
    conditions = build_conditions(pod, now, initialized=is_initialized, ready=False)
    if not is_initialized and _failed_at(pod) is None:
        started = {"type": "PodReadyToStartContainers", "status": "True", "lastTransitionTime": format_time(now)}
        conditions = [
            started,
            {**started, "type": "Initialized", "status": "False", "reason": "ContainersNotInitialized"},
        ]
        conditions += build_conditions(pod, now, ready=False)
    status: JsonObject = {
        "phase": "Pending",
        "startTime": format_time(_failed_at(pod) or now),
        "podIP": address,
        "podIPs": [{"ip": address}],
        "conditions": conditions,
        "containerStatuses": [
            _build_container(one, missing, now, _find(pod.status.container_statuses, one.name), is_backing_off)
            if is_initialized
            else build_container(one.name, one.image, {"waiting": {"reason": "PodInitializing"}})
            for one in pod.spec.containers
        ],
    }
    if pod.spec.init_containers:
        status["initContainerStatuses"] = list(_build_init_containers(pod, missing, now, is_backing_off))
    return status


def _build_init_containers(
    pod: BoundPod, missing: tuple[str, ...], now: datetime, is_backing_off: bool
) -> Iterator[JsonObject]:
    """Yield the init containers in order: those before the first that is missing are done, those behind it wait."""
    is_blocked = False
    for container in pod.spec.init_containers:
        if is_blocked:
            yield build_container(container.name, container.image, {"waiting": {"reason": "PodInitializing"}})
        elif container.image in missing:
            is_blocked = True
            yield build_container(container.name, container.image, _build_waiting(container.image, is_backing_off))
        else:
            yield build_container(container.name, container.image, build_terminated(0, now, now), ready=True)


def _build_container(
    container: BoundContainer, missing: tuple[str, ...], now: datetime, before: ContainerStatus | None,
    is_backing_off: bool,
) -> JsonObject:  # fmt: skip
    if container.image in missing:
        return build_container(container.name, container.image, _build_waiting(container.image, is_backing_off))
    running = before.state.running if before is not None else None
    started_at = running.started_at if running is not None else now
    return build_container(
        container.name, container.image, {"running": {"startedAt": format_time(started_at)}}, ready=True
    )


def _build_waiting(image: str, is_backing_off: bool) -> JsonObject:
    cause = f'failed to pull image "{image}": not found (simulated)'
    if is_backing_off:
        message = f'Back-off pulling image "{image}": ErrImagePull: {cause}'
        return {"waiting": {"reason": "ImagePullBackOff", "message": message}}
    return {"waiting": {"reason": "ErrImagePull", "message": cause}}


def _find(statuses: tuple[ContainerStatus, ...], name: str) -> ContainerStatus | None:
    return next((status for status in statuses if status.name == name), None)
