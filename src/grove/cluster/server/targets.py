"""From a request's path to what it is about. Discovery and the like will have their places here."""

import msgspec

from grove.cluster.resources import SERVED, Served
from grove.cluster.server.status_errors import unknown_path
from grove.kube.transport import Request

_BY_PLACE = {(served.group, served.version, served.plural): served for served in SERVED}
_NAMESPACE_SUBRESOURCES = frozenset({"status", "finalize"})


class Target(msgspec.Struct, frozen=True):
    """What a path names: a collection (no name), an object, or a subresource of it."""

    served: Served
    # Empty for cluster-wide kinds, and for a collection over all namespaces.
    namespace: str
    name: str = ""
    subresource: str = ""

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
    if served is None or len(rest) > 3 or "" in rest:
        raise unknown_path()
    if bool(namespace) and not served.namespaced:
        raise unknown_path()
    if served.namespaced and not namespace and len(rest) > 1:
        raise unknown_path()
    return Target(served, namespace, *rest[1:])


def _split(path: str) -> tuple[str, str, list[str]]:
    """Group, version, and what follows them."""
    parts = path.strip("/").split("/")
    if parts[0] == "api" and len(parts) > 2:
        return "", parts[1], parts[2:]
    if parts[0] == "apis" and len(parts) > 3:
        return parts[1], parts[2], parts[3:]
    raise unknown_path()
