"""Parses verb, resource and object from the method and path of a request."""

import msgspec

from grove.kube.transport import Request

_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "GET": "read"}


class RequestSummary(msgspec.Struct, frozen=True, kw_only=True):
    """The verb, resource and object of a request: `create pods default/`, `patch podcliques/status default/a`."""

    verb: str
    resource: str
    namespace: str = ""
    name: str = ""

    @property
    def object_name(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


def summarize(request: Request) -> RequestSummary:
    parts = request.path.strip("/").split("/")
    # /api/v1/... or /apis/GROUP/VERSION/...
    parts = parts[2:] if parts[0] == "api" else parts[3:]
    namespace = ""
    if len(parts) > 2 and parts[0] == "namespaces":
        namespace, parts = parts[1], parts[2:]
    plural, name, subresource = (*parts, "", "", "")[:3]
    return RequestSummary(
        verb=_verb(request.method, name),
        resource=f"{plural}/{subresource}" if subresource else plural,
        namespace=namespace,
        name=name,
    )


def plural_of(request: Request) -> str:
    return summarize(request).resource.partition("/")[0]


def _verb(method: str, name: str) -> str:
    if method == "DELETE":
        return "delete" if name else "deletecollection"
    return _VERBS[method]
