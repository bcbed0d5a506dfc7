"""Manifests in one line: defaults are healthy, so a test mentions only what matters."""

from typing import Any

import msgspec

from grove.api.defaulting import default_podcliqueset
from grove.api.types.meta import JsonObject
from grove.api.types.podcliqueset import PodCliqueSet


def container(**fields: Any) -> JsonObject:
    return {"name": "main", "image": "pause", **fields}


def clique(
    name: str = "a", *, pod: JsonObject | None = None, spec: JsonObject | None = None, **fields: Any
) -> JsonObject:
    """A clique template; `spec` and `pod` override parts of its spec and podSpec, None removes a field."""
    pod_spec = _without_none({"containers": [container()], **(pod or {})})
    clique_spec = _without_none({"roleName": f"role-{name}", "replicas": 2, "podSpec": pod_spec, **(spec or {})})
    return _without_none({"name": name, "spec": clique_spec, **fields})


def group(name: str = "g", *members: str, **fields: Any) -> JsonObject:
    return _without_none({"name": name, "cliqueNames": list(members), **fields})


def manifest(
    *cliques: JsonObject,
    groups: tuple[JsonObject, ...] = (),
    template: JsonObject | None = None,
    name: str = "web",
    metadata: JsonObject | None = None,
    **spec: Any,
) -> JsonObject:
    """A PodCliqueSet as a user writes it; without cliques it has one."""
    body: JsonObject = {"cliques": list(cliques) or [clique()], **(template or {})}
    if groups:
        body["podCliqueScalingGroups"] = list(groups)
    return {
        "apiVersion": "grove.io/v1alpha1",
        "kind": "PodCliqueSet",
        "metadata": {"name": name, "namespace": "default", **(metadata or {})},
        "spec": {"replicas": 1, "template": body, **spec},
    }


def explicit(*cliques: JsonObject) -> JsonObject:
    """Cliques with an explicit start-up order."""
    return manifest(*cliques, template={"cliqueStartupType": "CliqueStartupTypeExplicit"})


def training(*cliques: JsonObject, **fields: Any) -> JsonObject:
    return manifest(*cliques, workloadType="Training", **fields)


def claim(name: str) -> JsonObject:
    """A resource claim template."""
    return {"name": name, "templateSpec": {"spec": {"devices": {"requests": [{"name": "gpu"}]}}}}


def share(name: str, **fields: Any) -> JsonObject:
    return {"name": name, "scope": "AllReplicas", **fields}


def decoded(json: JsonObject) -> PodCliqueSet:
    """The set as the rules see it: defaulted and typed."""
    return msgspec.convert(default_podcliqueset(json), type=PodCliqueSet)


def _without_none(fields: JsonObject) -> JsonObject:
    return {key: value for key, value in fields.items() if value is not None}
