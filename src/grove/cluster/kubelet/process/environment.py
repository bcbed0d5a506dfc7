"""The environment of a container: what its pod says, what it is told of itself, and little of this machine's.

Also the values of fields and resources that files may hold (`volumes.py`). Pure, but for asking for config maps and
secrets.
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

# All that is taken over from whoever started the cluster.
INHERITED = ("PATH", "LANG", "LC_ALL", "TZ")
_KEYED = re.compile(r"metadata\.(labels|annotations)\['([^']+)'\]")


class ConfigLookup(Protocol):
    """Config maps and secrets of one namespace, decoded; None: there is no such object."""

    def config_map(self, name: str) -> Mapping[str, bytes] | None: ...
    def secret(self, name: str) -> Mapping[str, bytes] | None: ...


class DownwardAPI(msgspec.Struct, frozen=True, kw_only=True):
    """What a pod may be told of itself."""

    metadata: ObjectMeta
    spec: RunnablePodSpec
    pod_ip: str
    host_ip: str
    # What its node has: the limit of who has none.
    allocatable: Mapping[str, Any]


def variables_of(container: Container, around: DownwardAPI, lookup: ConfigLookup, mounts: Mounts) -> dict[str, str]:
    """What the pod says: the only ones that `$(VAR)` can mean. Raises `NotRunnable`."""
    variables: dict[str, str] = {}
    for source in container.env_from:
        variables |= dict(_from_source(source, lookup, mounts))
    for variable in container.env:
        value = _value(variable, variables, container, around, lookup, mounts)
        if value is not None:
            variables[variable.name] = value
    for name, value in variables.items():
        if not name or "=" in name or "\0" in name + value:
            raise NotRunnable(f"container {container.name}: {name!r} cannot be a variable of a process; rename it")
    return variables


def field_value(field: FieldSelector, around: DownwardAPI) -> str:
    """Raises `NotRunnable` for a field that nobody knows."""
    metadata, path = around.metadata, field.field_path
    plain = {
        "metadata.name": metadata.name,
        "metadata.namespace": metadata.namespace,
        "metadata.uid": metadata.uid,
        "spec.nodeName": around.spec.node_name,
        "spec.serviceAccountName": around.spec.service_account_name or "default",
        "status.hostIP": around.host_ip,
        "status.hostIPs": around.host_ip,
        "status.podIP": around.pod_ip,
        "status.podIPs": around.pod_ip,
        "metadata.labels": _listed(metadata.labels),
        "metadata.annotations": _listed(metadata.annotations),
    }
    if path in plain:
        return plain[path]
    if keyed := _KEYED.fullmatch(path):
        return (metadata.labels if keyed[1] == "labels" else metadata.annotations).get(keyed[2], "")
    raise NotRunnable(f"fieldRef: {path!r} is not a field that a pod is told; see the fields that Kubernetes lists")


def resource_value(selector: ResourceSelector, container: Container, around: DownwardAPI) -> str:
    """Rounded up to whole units of the divisor."""
    kind, _, resource = selector.resource.partition(".")
    if kind not in ("limits", "requests") or not resource:
        raise NotRunnable(f"resourceFieldRef: {selector.resource!r} is neither limits.NAME nor requests.NAME")
    asked = _named(selector.container_name, container, around.spec).resources
    amount = asked.requests.get(resource) if kind == "requests" else asked.limits.get(resource)
    if amount is None and kind == "limits":
        amount = around.allocatable.get(resource)
    try:
        divisor = parse_milli(selector.divisor or "1") or 1000
        return str(-(-parse_milli(amount or "0") // divisor))
    except QuantityError as error:
        raise NotRunnable(f"resourceFieldRef {selector.resource}: {error}") from None


def _named(name: str, container: Container, spec: RunnablePodSpec) -> Container:
    if not name or name == container.name:
        return container
    for each in (*spec.containers, *spec.init_containers):
        if each.name == name:
            return each
    raise NotRunnable(f"resourceFieldRef: there is no container {name!r} in this pod")


def _from_source(source: EnvFrom, lookup: ConfigLookup, mounts: Mounts) -> Iterator[tuple[str, str]]:
    if source.config_map_ref is not None:
        wanted = source.config_map_ref
        found = lookup.config_map(wanted.name)
        if found is None and not wanted.optional:
            raise NotRunnable(f'configmap "{wanted.name}" not found')
        yield from ((source.prefix + key, mounts.mapped(_text(value))) for key, value in (found or {}).items())
    if source.secret_ref is not None:
        wanted = source.secret_ref
        found = lookup.secret(wanted.name)
        if found is None and not wanted.optional:
            raise NotRunnable(f'secret "{wanted.name}" not found')
        yield from ((source.prefix + key, _text(value)) for key, value in (found or {}).items())


def _value(
    variable: EnvVar,
    before: Mapping[str, str],
    container: Container,
    around: DownwardAPI,
    lookup: ConfigLookup,
    mounts: Mounts,
) -> str | None:
    """None: it refers to something that is not there and need not be."""
    if variable.value_from is None:
        return mounts.mapped(expand(variable.value or "", before))
    match variable.value_from:
        case EnvSource(field_ref=FieldSelector() as field):
            return field_value(field, around)
        case EnvSource(resource_field_ref=ResourceSelector() as resource):
            return resource_value(resource, container, around)
        case EnvSource(config_map_key_ref=KeySelector() as key):
            value = _key(key, "configmap", lookup.config_map(key.name))
            return None if value is None else mounts.mapped(value)
        case EnvSource(secret_key_ref=KeySelector() as key):
            # Never changed: what looks like a path in a secret is none.
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


def decoded(data: Mapping[str, str], *, text: Mapping[str, str] | None = None) -> dict[str, bytes]:
    """The content of a config map or secret as bytes: `data` is base64."""
    plain = {key: value.encode() for key, value in (text or {}).items()}
    return plain | {key: base64.b64decode(value) for key, value in data.items()}


def _text(value: bytes) -> str:
    return value.decode(errors="replace")


def _listed(pairs: Mapping[str, str]) -> str:
    return "\n".join(f'{key}="{_escaped(value)}"' for key, value in sorted(pairs.items()))


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
