"""Discovery: the served resources in the aggregated (one request) and the legacy form, the version, and health.

The resources are those of `cluster/resource_registry.py`; their schemas are in `openapi.py`.
"""

from collections.abc import Callable, Iterable
from functools import cache, partial
from typing import Any

import msgspec

from grove.api.types.meta import JsonObject
from grove.cluster.apiserver.codec.content_negotiation import not_acceptable, wishes_of
from grove.cluster.apiserver.status_errors import method_not_allowed
from grove.cluster.built_in_resources import NAMESPACES, ResourceInfo
from grove.cluster.resource_registry import Catalogue, version_rank
from grove.kube.transport import Request, Response

Page = Callable[[Request], Response]

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


class Offer(msgspec.Struct, frozen=True, kw_only=True):
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


class Offered:
    """All resources of discovery at one moment, in the order of the response."""

    def __init__(self, kinds: Catalogue) -> None:
        self.offers = tuple(_offer(resource_info) for resource_info in kinds.resource_info) + _WITHOUT_STORE
        # The versions of each group, the core group (an empty name) first.
        self.groups: dict[str, tuple[str, ...]] = {}
        for offer in self.offers:
            versions = {**dict.fromkeys(self.groups.get(offer.group, ())), offer.version: None}
            self.groups[offer.group] = tuple(sorted(versions, key=version_rank))

    def within(self, group: str, version: str) -> list[Offer]:
        return [offer for offer in self.offers if (offer.group, offer.version) == (group, version)]


def pages(kinds: Catalogue) -> dict[str, Page]:
    """Return the handler of each discovery path for the currently served resources."""
    offered = Offered(kinds)
    found: dict[str, Page] = {
        "/version": _fixed(_version),
        "/api": _either(partial(_api_versions, offered), offered, core=True),
        "/apis": _either(partial(_group_list, offered), offered, core=False),
    }
    for group, versions in offered.groups.items():
        if group:
            found[f"/apis/{group}"] = _fixed(partial(_group, offered, group))
        for version in versions:
            found[root(group, version)] = _fixed(partial(_resource_list, offered, group, version))
    # The last one is Grove's own: the default-scheduler of this cluster reads PodGangs.
    for probe in ("/healthz", "/livez", "/readyz", "/readyz/gang-scheduler"):
        found[probe] = _is_well
    return found


def root(group: str, version: str) -> str:
    return f"/apis/{group}/{version}" if group else f"/api/{version}"


_ACCESS_REVIEWS = (
    "LocalSubjectAccessReview", "SelfSubjectAccessReview", "SelfSubjectRulesReview", "SubjectAccessReview",
)  # fmt: skip
# Resources without storage. Events of events.k8s.io are those of the core group in another form.
_WITHOUT_STORE = (
    Offer(
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
        Offer(
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


def _offer(resource_info: ResourceInfo) -> Offer:
    custom = resource_info.custom
    return Offer(
        group=resource_info.group,
        version=resource_info.version,
        plural=resource_info.plural,
        kind=resource_info.kind,
        singular=custom.singular if custom else resource_info.kind.lower(),
        namespaced=resource_info.namespaced,
        verbs=_verbs(resource_info),
        short_names=custom.short_names if custom else _SHORT_NAMES.get(resource_info.plural, ()),
        categories=custom.categories if custom else _CATEGORIES.get(resource_info.plural, ()),
        subresources=tuple(_subresources(resource_info)),
        is_custom=resource_info.is_custom,
    )


def _verbs(resource_info: ResourceInfo) -> tuple[str, ...]:
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


def _fixed(build: Callable[[], JsonObject]) -> Page:
    """Return a handler with a constant response, built on the first request."""
    encoded = cache(lambda: msgspec.json.encode(build()))
    return lambda request: _read_only(request, Response(status=200, body=encoded()))


def _either(legacy: Callable[[], JsonObject], offered: Offered, *, core: bool) -> Page:
    """Return the handler of `/api` or `/apis`, which negotiates the aggregated or the legacy form."""
    aggregated = cache(lambda version: msgspec.json.encode(_aggregated(offered, version, core=core)))
    encoded = cache(lambda: msgspec.json.encode(legacy()))

    def page(request: Request) -> Response:
        for wish in wishes_of(request.accept):
            if wish.asks_for("apidiscovery.k8s.io", "APIGroupDiscoveryList", ("v2", "v2beta1")):
                version = wish.parameters["v"]
                content_type = f"application/json;g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList"
                headers = {"Content-Type": content_type, "Vary": "Accept"}
                return _read_only(request, Response(status=200, body=aggregated(version), headers=headers))
            if wish.is_json and "as" not in wish.parameters:
                return _read_only(request, Response(status=200, body=encoded()))
        raise not_acceptable()

    return page


def _read_only(request: Request, response: Response) -> Response:
    if request.method not in ("GET", "HEAD"):
        raise method_not_allowed()
    return response


def _is_well(request: Request) -> Response:
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


def _aggregated(offered: Offered, version: str, *, core: bool) -> JsonObject:
    chosen = [group for group in offered.groups if (group == "") is core]
    items = [_discovered_group(offered, group) for group in chosen]
    return {"kind": "APIGroupDiscoveryList", "apiVersion": f"apidiscovery.k8s.io/{version}", "metadata": {},
            "items": items}  # fmt: skip


def _discovered_group(offered: Offered, group: str) -> JsonObject:
    versions = [
        {
            "version": version,
            "resources": [_discovered(offer) for offer in offered.within(group, version)],
            "freshness": "Current",
        }
        for version in offered.groups[group]
    ]
    return {"metadata": {"name": group} if group else {}, "versions": versions}


def _discovered(offer: Offer) -> JsonObject:
    found: JsonObject = {
        "resource": offer.plural,
        "responseKind": _response_kind(offer, offer.kind),
        "scope": "Namespaced" if offer.namespaced else "Cluster",
        "singularResource": offer.singular,
        "verbs": offer.verbs,
        **_names(offer),
    }
    if offer.subresources:
        found["subresources"] = [_discovered_subresource(offer, each) for each in offer.subresources]
    return found


def _discovered_subresource(offer: Offer, subresource: Subresource) -> JsonObject:
    kind = _response_kind(offer, subresource.kind)
    if subresource.group:
        kind = {"group": subresource.group, "version": subresource.version, "kind": subresource.kind}
    return {"subresource": subresource.name, "responseKind": kind, "verbs": subresource.verbs}


def _response_kind(offer: Offer, kind: str) -> JsonObject:
    """Return the response kind. Built-in groups omit group and version, which the group already has."""
    if not offer.is_custom:
        return {"group": "", "version": "", "kind": kind}
    return {"group": offer.group, "version": offer.version, "kind": kind}


# The legacy form


def _api_versions(offered: Offered) -> JsonObject:
    addresses = [{"clientCIDR": "0.0.0.0/0", "serverAddress": ""}]
    return {"kind": "APIVersions", "versions": list(offered.groups[""]), "serverAddressByClientCIDRs": addresses}


def _group_list(offered: Offered) -> JsonObject:
    found = [_group_body(offered, group) for group in offered.groups if group]
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": found}


def _group(offered: Offered, group: str) -> JsonObject:
    return {"kind": "APIGroup", "apiVersion": "v1", **_group_body(offered, group)}


def _group_body(offered: Offered, group: str) -> JsonObject:
    versions = [{"groupVersion": f"{group}/{version}", "version": version} for version in offered.groups[group]]
    return {"name": group, "versions": versions, "preferredVersion": versions[0]}


def _resource_list(offered: Offered, group: str, version: str) -> JsonObject:
    resources: list[JsonObject] = []
    for offer in offered.within(group, version):
        resources.append(_resource(offer))
        resources += [_subresource(offer, each) for each in offer.subresources]
    group_version = f"{group}/{version}" if group else version
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version, "resources": resources}


def _resource(offer: Offer) -> JsonObject:
    return {
        "name": offer.plural,
        "singularName": offer.singular,
        "namespaced": offer.namespaced,
        "kind": offer.kind,
        "verbs": offer.verbs,
        **_names(offer),
    }


def _subresource(offer: Offer, subresource: Subresource) -> JsonObject:
    found: dict[str, Any] = {
        "name": f"{offer.plural}/{subresource.name}",
        "singularName": "",
        "namespaced": offer.namespaced,
        "kind": subresource.kind,
        "verbs": subresource.verbs,
    }
    return found | ({"group": subresource.group, "version": subresource.version} if subresource.group else {})


def _names(offer: Offer) -> JsonObject:
    names = {"shortNames": offer.short_names, "categories": offer.categories}
    return {field: value for field, value in names.items() if value}
