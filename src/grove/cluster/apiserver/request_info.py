"""Resolves the path of a request to a resource. Paths of discovery and OpenAPI: `discovery.py`, `openapi.py`."""

import msgspec

from grove.cluster.apiserver.status_errors import PageNotFoundError, StatusError, bad_request, unknown_path
from grove.cluster.built_in_resources import EVENTS, ResourceInfo
from grove.cluster.resource_registry import ResourceRegistry
from grove.kube.transport import Request

_NAMESPACE_SUBRESOURCES = frozenset({"status", "finalize"})


class RequestInfo(msgspec.Struct, frozen=True):
    """The collection (no name), object or subresource that a path names."""

    resource_info: ResourceInfo
    # Empty for cluster-scoped resources, and for a collection over all namespaces.
    namespace: str
    name: str = ""
    subresource: str = ""
    # Events requested in the group events.k8s.io.
    is_events_v1: bool = False

    @property
    def scope(self) -> str | None:
        """Return the namespace to list; None: all namespaces."""
        return self.namespace if self.namespace or not self.resource_info.namespaced else None


def resolve_request_info(kinds: ResourceRegistry, request: Request) -> RequestInfo:
    """Resolve the path of a request. Raises 404 if it is not served."""
    group, version, rest = _split(request.path)
    namespace, rest = _without_namespace(rest)
    resource_info = kinds.find(group, version, rest[0]) if rest else None
    is_events_v1 = resource_info is EVENTS and group != ""
    if resource_info is None or len(rest) > 3 or "" in rest:
        raise _not_served_error(kinds, group)
    if bool(namespace) and not resource_info.namespaced:
        raise _not_served_error(kinds, group)
    if resource_info.namespaced and not namespace and len(rest) > 1:
        raise _not_served_error(kinds, group)
    name, subresource = (*rest[1:], "", "")[:2]
    if name in (".", "..") or "%" in name:
        raise _illegal_name_error(name)
    return RequestInfo(resource_info, namespace, name, subresource, is_events_v1)


def names_one_object(path: str) -> bool:
    """Return whether the path is longer than that of a collection, served or not."""
    try:
        _, _, rest = _split(path)
    except PageNotFoundError:
        return False
    return len(_without_namespace(rest)[1]) > 1


def _without_namespace(rest: list[str]) -> tuple[str, list[str]]:
    if len(rest) >= 3 and rest[0] == "namespaces" and not (len(rest) == 3 and rest[2] in _NAMESPACE_SUBRESOURCES):
        return rest[1], rest[2:]
    return "", rest


def _split(path: str) -> tuple[str, str, list[str]]:
    """Split a path into group, version and the rest."""
    root, *parts = path.rstrip("/").split("/")
    if not root and len(parts) > 2 and parts[0] == "api":
        return "", parts[1], parts[2:]
    if not root and len(parts) > 3 and parts[0] == "apis" and parts[1]:
        return parts[1], parts[2], parts[3:]
    raise PageNotFoundError()


def _illegal_name_error(name: str) -> StatusError:
    """Return the error for a name that no object can have, and that a proxy could read as another path."""
    why = "may not contain '%'" if "%" in name else f"may not be '{name}'"
    return bad_request(f'Name parameter invalid: "{name}": {why}')


def _not_served_error(kinds: ResourceRegistry, group: str) -> StatusError:
    """Return the 404 of a path: a Status within built-in groups, plain text elsewhere."""
    return unknown_path() if kinds.is_built_in(group) else PageNotFoundError()
