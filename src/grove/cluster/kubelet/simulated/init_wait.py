"""Status of a simulated pod whose last init container waits for other cliques."""

from datetime import datetime

from grove.api.types.meta import JsonObject
from grove.cluster.kubelet.simulated.status_parts import (
    build_conditions,
    build_container,
    build_terminated,
    format_time,
)
from grove.cluster.node_pod_cache import BoundPod


def report_init_wait(pod: BoundPod, now: datetime) -> JsonObject:
    """Return the status while the last init container runs. The user's init containers have ended before it."""
    *before, last = pod.spec.init_containers
    done = build_terminated(0, now, now)
    running = {"running": {"startedAt": format_time(now)}}
    waiting = {"waiting": {"reason": "PodInitializing"}}
    not_initialized = {
        "type": "Initialized",
        "status": "False",
        "reason": "ContainersNotInitialized",
        "message": f"containers with incomplete status: [{last.name}]",
        "lastTransitionTime": format_time(now),
    }
    return {
        "phase": "Pending",
        "startTime": format_time(now),
        "conditions": [not_initialized, *build_conditions(pod, now, ready=False)],
        "initContainerStatuses": [
            *(build_container(container.name, container.image, done, ready=True) for container in before),
            build_container(last.name, last.image, running),
        ],
        "containerStatuses": [build_container(one.name, one.image, waiting) for one in pod.spec.containers],
    }
