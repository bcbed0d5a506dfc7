"""Errors of pod subresources that the embedded cluster does not support."""

from grove.cluster.apiserver.context import Context
from grove.cluster.apiserver.request_info import RequestInfo
from grove.cluster.apiserver.status_errors import StatusError, bad_request
from grove.cluster.apiserver.verbs.read import find_entry

_NO_PROCESS = "no process runs in a simulated pod, and those of a pod that is a process are processes of this machine"
_INTO_CONTAINERS = ("exec", "attach", "portforward")
_REASONS = {
    **dict.fromkeys(_INTO_CONTAINERS, _NO_PROCESS),
    "ephemeralcontainers": f"containers are not added to a pod here; {_NO_PROCESS}",
    "resize": "resources of a pod do not change here; delete it, so that it is made anew",
}
CLOSED_DOORS = frozenset(_REASONS)


def closed_door(context: Context, target: RequestInfo) -> StatusError:
    """Return the error of an unsupported subresource of an existing pod. Raises 404 if the pod does not exist."""
    pod = find_entry(context, target).obj
    if target.subresource in _INTO_CONTAINERS and not pod["spec"].get("nodeName"):
        return bad_request(f"pod {target.name} does not have a host assigned")
    message = f"the embedded cluster does not serve pods/{target.subresource}: {_REASONS[target.subresource]}"
    # Without details, as for an unknown subresource: clients distinguish it from a missing pod by the details.
    return StatusError(404, "NotFound", message, {})
