"""Errors of pod subresources that the embedded cluster does not support."""

from grove.cluster.apiserver.context import Context
from grove.cluster.apiserver.request_info import RequestInfo
from grove.cluster.apiserver.status_errors import StatusError, bad_request
from grove.cluster.apiserver.verbs.read import find_entry

_NO_PROCESS = "simulated pods have no processes, and other pods run as local processes without containers"
_INTO_CONTAINERS = ("exec", "attach", "portforward")
_REASONS = {
    **dict.fromkeys(_INTO_CONTAINERS, _NO_PROCESS),
    "ephemeralcontainers": f"ephemeral containers are not supported; {_NO_PROCESS}",
    "resize": "in-place resize is not supported; delete the pod, so that its controller recreates it",
}
UNSUPPORTED_SUBRESOURCES = frozenset(_REASONS)


def build_unsupported_error(context: Context, target: RequestInfo) -> StatusError:
    """Return the error of an unsupported subresource of an existing pod. Raises 404 if the pod does not exist."""
    pod = find_entry(context, target).obj
    if target.subresource in _INTO_CONTAINERS and not pod["spec"].get("nodeName"):
        return bad_request(f"pod {target.name} does not have a host assigned")
    message = f"the embedded cluster does not support pods/{target.subresource}: {_REASONS[target.subresource]}"
    # Without details, as for an unknown subresource: clients distinguish it from a missing pod by the details.
    return StatusError(404, "NotFound", message, {})
