"""The environment of a container: variables of the pod spec, the downward API, and a few variables of this machine.

It also computes the fields and resources of downward API files (`volumes.py`). It does no I/O except config lookups.
"""

import base64
import re
from collections.abc import Iterator, Mapping
from typing import Any, Protocol

import msgspec

from grove.api.types.meta import ObjectMeta
from grove.api.values.quantities import QuantityError, parse_milli
from grove.cluster.kubelet.process.expansion import Mounts, expand
from grove.cluster.kubelet.process.pod_spec import (
    Container,
    EnvFrom,
    EnvSource,
    EnvVar,
    FieldSelector,
    KeySelector,
    NotRunnable,
    ResourceSelector,
    RunnablePodSpec,
)

# The only variables that a container inherits from the process of the cluster.
INHERITED = ("PATH", "LANG", "LC_ALL", "TZ")
_SUBSCRIPT = re.compile(r"metadata\.(labels|annotations)\['([^']+)'\]")


class ConfigLookup(Protocol):
    """Content of the ConfigMaps and Secrets of one namespace; None: there is no such object."""

    def config_map(self, name: str) -> Mapping[str, bytes] | None: ...
    def secret(self, name: str) -> Mapping[str, bytes] | None: ...


class DownwardAPI(msgspec.Struct, frozen=True, kw_only=True):
    """The data about a pod that its containers can read."""

    metadata: ObjectMeta
    spec: RunnablePodSpec
    pod_ip: str
    host_ip: str
    # Resources of the node: the limits of containers that have none.
    allocatable: Mapping[str, Any]


def variables_of(
    container: Container, downward_api: DownwardAPI, lookup: ConfigLookup, mounts: Mounts
) -> dict[str, str]:
    """Return the variables of the pod spec; `$(VAR)` can reference only these. Raises `NotRunnable`."""
    variables: dict[str, str] = {}
    for source in container.env_from:
        variables |= dict(_from_source(source, lookup, mounts))
    for variable in container.env:
        value = _value(variable, variables, container, downward_api, lookup, mounts)
        if value is not None:
            variables[variable.name] = value
    for name, value in variables.items():
        if not name or "=" in name or "\0" in name + value:
            raise NotRunnable(f"container {container.name}: {name!r} is not a valid variable name or value; change it")
    return variables


def field_value(field: FieldSelector, downward_api: DownwardAPI) -> str:
    """Return the value of a fieldRef. Raises `NotRunnable` for an unknown field."""
    metadata, path = downward_api.metadata, field.field_path
    fields = {
        "metadata.name": metadata.name,
        "metadata.namespace": metadata.namespace,
        "metadata.uid": metadata.uid,
        "spec.nodeName": downward_api.spec.node_name,
        "spec.serviceAccountName": downward_api.spec.service_account_name or "default",
        "status.hostIP": downward_api.host_ip,
        "status.hostIPs": downward_api.host_ip,
        "status.podIP": downward_api.pod_ip,
        "status.podIPs": downward_api.pod_ip,
        "metadata.labels": _format_pairs(metadata.labels),
        "metadata.annotations": _format_pairs(metadata.annotations),
    }
    if path in fields:
        return fields[path]
    if subscript := _SUBSCRIPT.fullmatch(path):
        return (metadata.labels if subscript[1] == "labels" else metadata.annotations).get(subscript[2], "")
    raise NotRunnable(f"fieldRef: {path!r} is not supported; use a field that Kubernetes lists for the downward API")


def resource_value(selector: ResourceSelector, container: Container, downward_api: DownwardAPI) -> str:
    """Return the value of a resourceFieldRef, rounded up to whole units of its divisor."""
    kind, _, resource = selector.resource.partition(".")
    if kind not in ("limits", "requests") or not resource:
        raise NotRunnable(f"resourceFieldRef: {selector.resource!r} is neither limits.NAME nor requests.NAME")
    resources = _find_container(selector.container_name, container, downward_api.spec).resources
    amount = resources.requests.get(resource) if kind == "requests" else resources.limits.get(resource)
    if amount is None and kind == "limits":
        amount = downward_api.allocatable.get(resource)
    try:
        divisor = parse_milli(selector.divisor or "1") or 1000
        return str(-(-parse_milli(amount or "0") // divisor))
    except QuantityError as error:
        raise NotRunnable(f"resourceFieldRef {selector.resource}: {error}") from None


def _find_container(name: str, container: Container, spec: RunnablePodSpec) -> Container:
    if not name or name == container.name:
        return container
    for each in (*spec.containers, *spec.init_containers):
        if each.name == name:
            return each
    raise NotRunnable(f"resourceFieldRef: there is no container {name!r} in this pod")


def _from_source(source: EnvFrom, lookup: ConfigLookup, mounts: Mounts) -> Iterator[tuple[str, str]]:
    if source.config_map_ref is not None:
        reference = source.config_map_ref
        found = lookup.config_map(reference.name)
        if found is None and not reference.optional:
            raise NotRunnable(f'configmap "{reference.name}" not found')
        yield from ((source.prefix + key, mounts.translate(_text(value))) for key, value in (found or {}).items())
    if source.secret_ref is not None:
        reference = source.secret_ref
        found = lookup.secret(reference.name)
        if found is None and not reference.optional:
            raise NotRunnable(f'secret "{reference.name}" not found')
        yield from ((source.prefix + key, _text(value)) for key, value in (found or {}).items())


def _value(
    variable: EnvVar,
    before: Mapping[str, str],
    container: Container,
    downward_api: DownwardAPI,
    lookup: ConfigLookup,
    mounts: Mounts,
) -> str | None:
    """Return the value, or None if an optional reference does not exist."""
    if variable.value_from is None:
        return mounts.translate(expand(variable.value or "", before))
    match variable.value_from:
        case EnvSource(field_ref=FieldSelector() as field):
            return field_value(field, downward_api)
        case EnvSource(resource_field_ref=ResourceSelector() as resource):
            return resource_value(resource, container, downward_api)
        case EnvSource(config_map_key_ref=KeySelector() as key):
            value = _key(key, "configmap", lookup.config_map(key.name))
            return None if value is None else mounts.translate(value)
        case EnvSource(secret_key_ref=KeySelector() as key):
            # Not translated: a text in a secret that looks like a path may be none.
            return _key(key, "secret", lookup.secret(key.name))
    raise NotRunnable(
        f"env {variable.name}: valueFrom is not supported by the process kubelet; "
        "use fieldRef, resourceFieldRef, configMapKeyRef or secretKeyRef"
    )


def _key(selector: KeySelector, kind: str, found: Mapping[str, bytes] | None) -> str | None:
    if found is not None and selector.key in found:
        return _text(found[selector.key])
    if selector.optional:
        return None
    if found is None:
        raise NotRunnable(f'{kind} "{selector.name}" not found')
    raise NotRunnable(f"couldn't find key {selector.key} in {kind} {selector.name}")


def decode_data(data: Mapping[str, str], *, text: Mapping[str, str] | None = None) -> dict[str, bytes]:
    """Return the content of a ConfigMap or Secret as bytes; `data` is base64."""
    fields = {key: value.encode() for key, value in (text or {}).items()}
    return fields | {key: base64.b64decode(value) for key, value in data.items()}


def _text(value: bytes) -> str:
    return value.decode(errors="replace")


def _format_pairs(pairs: Mapping[str, str]) -> str:
    return "\n".join(f'{key}="{_escape(value)}"' for key, value in sorted(pairs.items()))


def _escape(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
