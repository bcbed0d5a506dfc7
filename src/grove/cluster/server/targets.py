"""From a request's path to what it is about. Paths that are not about objects: `discovery.py`, `openapi.py`."""

import msgspec

from grove.cluster.resources import EVENTS, SERVED, Served
from grove.cluster.server.status_errors import PageNotFoundError, RefusedError, unknown_path
from grove.kube.transport import Request

_BY_PLACE = {(served.group, served.version, served.plural): served for served in SERVED}
_BY_PLACE["events.k8s.io", "v1", "events"] = EVENTS
_BUILT_IN_GROUPS = frozenset(served.group for served in SERVED if not served.is_custom) | {"events.k8s.io"}
_NAMESPACE_SUBRESOURCES = frozenset({"status", "finalize"})


class Target(msgspec.Struct, frozen=True):
    """What a path names: a collection (no name), an object, or a subresource of it."""

    served: Served
    # Empty for cluster-wide kinds, and for a collection over all namespaces.
    namespace: str
    name: str = ""
    subresource: str = ""
    # Events asked for as those of their newer group.
    is_newer_event: bool = False

    @property
    def scope(self) -> str | None:
        """The namespace to look into; None: all of them."""
        return self.namespace if self.namespace or not self.served.namespaced else None


def find_target(request: Request) -> Target:
    """Raises a 404 for everything that is not served."""
    group, version, rest = _split(request.path)
    if len(rest) >= 3 and rest[0] == "namespaces" and not (len(rest) == 3 and rest[2] in _NAMESPACE_SUBRESOURCES):
        namespace, rest = rest[1], rest[2:]
    else:
        namespace = ""
    served = _BY_PLACE.get((group, version, rest[0])) if rest else None
    is_newer_event = served is EVENTS and group != ""
    if served is None or len(rest) > 3 or "" in rest:
        raise _nothing_there(group)
    if bool(namespace) and not served.namespaced:
        raise _nothing_there(group)
    if served.namespaced and not namespace and len(rest) > 1:
        raise _nothing_there(group)
    name, subresource = (*rest[1:], "", "")[:2]
    return Target(served, namespace, name, subresource, is_newer_event)


def _split(path: str) -> tuple[str, str, list[str]]:
    """Group, version, and what follows them."""
    parts = path.strip("/").split("/")
    if parts[0] == "api" and len(parts) > 2:
        return "", parts[1], parts[2:]
    if parts[0] == "apis" and len(parts) > 3:
        return parts[1], parts[2], parts[3:]
    raise PageNotFoundError()


def _nothing_there(group: str) -> RefusedError:
    """Built-in groups know that they do not serve this; elsewhere is nobody to say so."""
    return unknown_path() if group in _BUILT_IN_GROUPS else PageNotFoundError()
