"""Discovery: the served resources in the aggregated (one request) and the legacy form, the version, and health.

The resources are those of `cluster/resource_registry.py`; their schemas are in `openapi.py`.
"""

from collections.abc import Callable, Iterable
from functools import cache, partial
from typing import Any

import msgspec

from grove.api.types.meta import JsonObject
from grove.cluster.apiserver.codec.content_negotiation import not_acceptable, parse_accept
from grove.cluster.apiserver.metrics.metrics_api import NODE_METRICS, POD_METRICS
from grove.cluster.apiserver.status_errors import method_not_allowed
from grove.cluster.built_in_resources import NAMESPACES, ResourceInfo
from grove.cluster.resource_registry import ResourceRegistry, version_rank
from grove.kube.transport import Request, Response

Handler = Callable[[Request], Response]

# The Kubernetes release that this server follows; the suffix marks that it is not that release.
GIT_VERSION = "v1.37.1+grove"

_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
_CUSTOM_VERBS = ("delete", "deletecollection", "get", "list", "patch", "create", "update", "watch")
_NAMESPACE_VERBS = tuple(verb for verb in _VERBS if verb != "deletecollection")
_READ_WRITE = ("get", "patch", "update")
_SHORT_NAMES = {
    "configmaps": ("cm",), "events": ("ev",), "namespaces": ("ns",), "nodes": ("no",), "pods": ("po",),
    "resourcequotas": ("quota",), "serviceaccounts": ("sa",), "services": ("svc",),
    "horizontalpodautoscalers": ("hpa",), "poddisruptionbudgets": ("pdb",), "priorityclasses": ("pc",),
    "customresourcedefinitions": ("crd", "crds"),
}  # fmt: skip
_CATEGORIES = {
    "pods": ("all",), "services": ("all",), "horizontalpodautoscalers": ("all",),
    "customresourcedefinitions": ("api-extensions",), "mutatingwebhookconfigurations": ("api-extensions",),
    "validatingwebhookconfigurations": ("api-extensions",),
}  # fmt: skip


class Subresource(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    kind: str
    group: str = ""
    version: str = ""
    verbs: tuple[str, ...]


class ApiResource(msgspec.Struct, frozen=True, kw_only=True):
    """One resource of discovery."""

    group: str
    version: str
    plural: str
    kind: str
    singular: str
    namespaced: bool
    verbs: tuple[str, ...]
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    subresources: tuple[Subresource, ...] = ()
    is_custom: bool = False


class ApiResources:
    """All resources of discovery at one moment, in the order of the response."""

    def __init__(self, kinds: ResourceRegistry, *, has_metrics: bool) -> None:
        without_store = (*_WITHOUT_STORE, *(_METRICS if has_metrics else ()))
        self.resources = tuple(_build_resource(resource_info) for resource_info in kinds.resources) + without_store
        # The versions of each group, the core group (an empty name) first.
        self.groups: dict[str, tuple[str, ...]] = {}
        for api_resource in self.resources:
            versions = {**dict.fromkeys(self.groups.get(api_resource.group, ())), api_resource.version: None}
            self.groups[api_resource.group] = tuple(sorted(versions, key=version_rank))

    def of_version(self, group: str, version: str) -> list[ApiResource]:
        return [
            api_resource
            for api_resource in self.resources
            if (api_resource.group, api_resource.version) == (group, version)
        ]


def build_handlers(kinds: ResourceRegistry, *, has_metrics: bool) -> dict[str, Handler]:
    """Return the handler of each discovery path for the currently served resources."""
    api_resources = ApiResources(kinds, has_metrics=has_metrics)
    found: dict[str, Handler] = {
        "/version": _constant_handler(_version),
        "/api": _negotiating_handler(partial(_api_versions, api_resources), api_resources, core=True),
        "/apis": _negotiating_handler(partial(_group_list, api_resources), api_resources, core=False),
    }
    for group, versions in api_resources.groups.items():
        if group:
            found[f"/apis/{group}"] = _constant_handler(partial(_group, api_resources, group))
        for version in versions:
            found[root(group, version)] = _constant_handler(partial(_resource_list, api_resources, group, version))
    # The last one is Grove's own: the default-scheduler of this cluster reads PodGangs.
    for probe in ("/healthz", "/livez", "/readyz", "/readyz/gang-scheduler"):
        found[probe] = _report_healthy
    return found


def root(group: str, version: str) -> str:
    return f"/apis/{group}/{version}" if group else f"/api/{version}"


_ACCESS_REVIEWS = (
    "LocalSubjectAccessReview", "SelfSubjectAccessReview", "SelfSubjectRulesReview", "SubjectAccessReview",
)  # fmt: skip
# Resources without storage. Events of events.k8s.io are those of the core group in another form.
_WITHOUT_STORE = (
    ApiResource(
        group="events.k8s.io",
        version="v1",
        plural="events",
        kind="Event",
        singular="event",
        namespaced=True,
        verbs=("get", "list", "watch"),
        short_names=("ev",),
    ),
    *(
        ApiResource(
            group=f"{group}.k8s.io",
            version="v1",
            plural=f"{kind.lower()}s",
            kind=kind,
            singular=kind.lower(),
            namespaced=kind.startswith("Local"),
            verbs=("create",),
        )
        for group, kinds in (
            ("authorization", _ACCESS_REVIEWS),
            ("authentication", ("SelfSubjectReview", "TokenReview")),
        )
        for kind in kinds
    ),
)

# The metrics API, if it is served.
_METRICS = tuple(
    ApiResource(
        group=resource_info.group,
        version=resource_info.version,
        plural=resource_info.plural,
        kind=resource_info.kind,
        singular="",
        namespaced=resource_info.namespaced,
        verbs=("get", "list"),
    )
    for resource_info in (NODE_METRICS, POD_METRICS)
)


def _build_resource(resource_info: ResourceInfo) -> ApiResource:
    custom = resource_info.custom
    return ApiResource(
        group=resource_info.group,
        version=resource_info.version,
        plural=resource_info.plural,
        kind=resource_info.kind,
        singular=custom.singular if custom else resource_info.kind.lower(),
        namespaced=resource_info.namespaced,
        verbs=_verbs_of(resource_info),
        short_names=custom.short_names if custom else _SHORT_NAMES.get(resource_info.plural, ()),
        categories=custom.categories if custom else _CATEGORIES.get(resource_info.plural, ()),
        subresources=tuple(_subresources(resource_info)),
        is_custom=resource_info.is_custom,
    )


def _verbs_of(resource_info: ResourceInfo) -> tuple[str, ...]:
    if resource_info.is_custom:
        return _CUSTOM_VERBS
    return _NAMESPACE_VERBS if resource_info is NAMESPACES else _VERBS


def _subresources(resource_info: ResourceInfo) -> Iterable[Subresource]:
    if resource_info.plural == "pods":
        yield Subresource(name="binding", kind="Binding", verbs=("create",))
        yield Subresource(name="eviction", kind="Eviction", group="policy", version="v1", verbs=("create",))
        yield Subresource(name="log", kind="Pod", verbs=("get",))
    if resource_info.plural == "serviceaccounts":
        yield Subresource(
            name="token", kind="TokenRequest", group="authentication.k8s.io", version="v1", verbs=("create",)
        )
    if resource_info.plural == "namespaces":
        yield Subresource(name="finalize", kind="Namespace", verbs=("update",))
    if resource_info.has_scale:
        yield Subresource(name="scale", kind="Scale", group="autoscaling", version="v1", verbs=_READ_WRITE)
    if resource_info.has_status:
        yield Subresource(name="status", kind=resource_info.kind, verbs=_READ_WRITE)


def _constant_handler(build: Callable[[], JsonObject]) -> Handler:
    """Return a handler with a constant response, built on the first request."""
    encoded = cache(lambda: msgspec.json.encode(build()))
    return lambda request: _read_only(request, Response(status=200, body=encoded()))


def _negotiating_handler(legacy: Callable[[], JsonObject], api_resources: ApiResources, *, core: bool) -> Handler:
    """Return the handler of `/api` or `/apis`, which negotiates the aggregated or the legacy form."""
    aggregated = cache(lambda version: msgspec.json.encode(_encode_discovery(api_resources, version, core=core)))
    encoded = cache(lambda: msgspec.json.encode(legacy()))

    def page(request: Request) -> Response:
        for media in parse_accept(request.accept):
            if media.is_kind("apidiscovery.k8s.io", "APIGroupDiscoveryList", ("v2", "v2beta1")):
                version = media.parameters["v"]
                content_type = f"application/json;g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList"
                headers = {"Content-Type": content_type, "Vary": "Accept"}
                return _read_only(request, Response(status=200, body=aggregated(version), headers=headers))
            if media.is_json and "as" not in media.parameters:
                return _read_only(request, Response(status=200, body=encoded()))
        raise not_acceptable()

    return page


def _read_only(request: Request, response: Response) -> Response:
    if request.method not in ("GET", "HEAD"):
        raise method_not_allowed()
    return response


def _report_healthy(request: Request) -> Response:
    return _read_only(request, Response(status=200, body=b"ok", headers={"Content-Type": "text/plain; charset=utf-8"}))


def _version() -> JsonObject:
    return {
        "major": "1",
        "minor": "37",
        "gitVersion": GIT_VERSION,
        "gitCommit": "",
        "gitTreeState": "",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": "",
        "platform": "python",
    }


# The aggregated form


def _encode_discovery(api_resources: ApiResources, version: str, *, core: bool) -> JsonObject:
    chosen = [group for group in api_resources.groups if (group == "") is core]
    items = [_encode_discovery_group(api_resources, group) for group in chosen]
    return {"kind": "APIGroupDiscoveryList", "apiVersion": f"apidiscovery.k8s.io/{version}", "metadata": {},
            "items": items}  # fmt: skip


def _encode_discovery_group(api_resources: ApiResources, group: str) -> JsonObject:
    versions = [
        {
            "version": version,
            "resources": [
                _encode_discovery_resource(api_resource) for api_resource in api_resources.of_version(group, version)
            ],
            "freshness": "Current",
        }
        for version in api_resources.groups[group]
    ]
    return {"metadata": {"name": group} if group else {}, "versions": versions}


def _encode_discovery_resource(api_resource: ApiResource) -> JsonObject:
    found: JsonObject = {
        "resource": api_resource.plural,
        "responseKind": _response_kind(api_resource, api_resource.kind),
        "scope": "Namespaced" if api_resource.namespaced else "Cluster",
        "singularResource": api_resource.singular,
        "verbs": api_resource.verbs,
        **_names(api_resource),
    }
    if api_resource.subresources:
        found["subresources"] = [
            _encode_discovery_subresource(api_resource, each) for each in api_resource.subresources
        ]
    return found


def _encode_discovery_subresource(api_resource: ApiResource, subresource: Subresource) -> JsonObject:
    kind = _response_kind(api_resource, subresource.kind)
    if subresource.group:
        kind = {"group": subresource.group, "version": subresource.version, "kind": subresource.kind}
    return {"subresource": subresource.name, "responseKind": kind, "verbs": subresource.verbs}


def _response_kind(api_resource: ApiResource, kind: str) -> JsonObject:
    """Return the response kind. Built-in groups omit group and version, which the group already has."""
    if not api_resource.is_custom:
        return {"group": "", "version": "", "kind": kind}
    return {"group": api_resource.group, "version": api_resource.version, "kind": kind}


# The legacy form


def _api_versions(api_resources: ApiResources) -> JsonObject:
    addresses = [{"clientCIDR": "0.0.0.0/0", "serverAddress": ""}]
    return {"kind": "APIVersions", "versions": list(api_resources.groups[""]), "serverAddressByClientCIDRs": addresses}


def _group_list(api_resources: ApiResources) -> JsonObject:
    found = [_group_body(api_resources, group) for group in api_resources.groups if group]
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": found}


def _group(api_resources: ApiResources, group: str) -> JsonObject:
    return {"kind": "APIGroup", "apiVersion": "v1", **_group_body(api_resources, group)}


def _group_body(api_resources: ApiResources, group: str) -> JsonObject:
    versions = [{"groupVersion": f"{group}/{version}", "version": version} for version in api_resources.groups[group]]
    return {"name": group, "versions": versions, "preferredVersion": versions[0]}


def _resource_list(api_resources: ApiResources, group: str, version: str) -> JsonObject:
    resources: list[JsonObject] = []
    for api_resource in api_resources.of_version(group, version):
        resources.append(_resource(api_resource))
        resources += [_subresource(api_resource, each) for each in api_resource.subresources]
    group_version = f"{group}/{version}" if group else version
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version, "resources": resources}


def _resource(api_resource: ApiResource) -> JsonObject:
    return {
        "name": api_resource.plural,
        "singularName": api_resource.singular,
        "namespaced": api_resource.namespaced,
        "kind": api_resource.kind,
        "verbs": api_resource.verbs,
        **_names(api_resource),
    }


def _subresource(api_resource: ApiResource, subresource: Subresource) -> JsonObject:
    found: dict[str, Any] = {
        "name": f"{api_resource.plural}/{subresource.name}",
        "singularName": "",
        "namespaced": api_resource.namespaced,
        "kind": subresource.kind,
        "verbs": subresource.verbs,
    }
    return found | ({"group": subresource.group, "version": subresource.version} if subresource.group else {})


def _names(api_resource: ApiResource) -> JsonObject:
    names = {"shortNames": api_resource.short_names, "categories": api_resource.categories}
    return {field: value for field, value in names.items() if value}
