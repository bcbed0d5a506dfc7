"""A good object of every kind that is served, where such objects are, and what grows from the tables of their fields.

How they are spoilt: `mischief.py`.
"""

from functools import cache
from random import Random
from typing import Any

import msgspec

from grove.api.schema.crd_generator import custom_resource_definitions
from grove.api.types.meta import JsonObject
from grove.cluster.apiserver.codec import protobuf
from grove.cluster.built_in_resources import BY_QUALIFIED, SERVED, ResourceInfo
from tests.fuzz.vocabulary import WORDS
from tests.protobuf_wire import field, varint

NAMES = ("a", "b", "c")
SPACES = ("default", "other")
POD_SPEC: JsonObject = {"containers": [{"name": "main", "image": "i", "resources": {"requests": {"cpu": "1"}}}]}
_CLIQUE: JsonObject = {"roleName": "w", "replicas": 1, "minAvailable": 1, "podSpec": POD_SPEC}
_RBAC = "rbac.authorization.k8s.io"
_WEBHOOK: JsonObject = {
    "name": "hook.example.com",
    "clientConfig": {"url": "https://127.0.0.1:1/x"},
    "rules": [{"operations": ["*"], "apiGroups": [""], "apiVersions": ["*"], "resources": ["configmaps"]}],
    "sideEffects": "None",
    "admissionReviewVersions": ["v1"],
    "failurePolicy": "Ignore",
    "matchConditions": [{"name": "c", "expression": "object != null"}],
}
_BODIES: dict[str, JsonObject] = {
    "namespaces": {},
    "nodes": {"spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}, "status": {"capacity": {"cpu": "4"}}},
    "pods": {"spec": {**POD_SPEC, "tolerations": [{"operator": "Exists"}], "nodeSelector": {"x": "y"}}},
    "events": {"reason": "R", "type": "Normal"},
    "services": {"spec": {"selector": {"x": "y"}, "ports": [{"name": "p", "port": 80, "targetPort": "http"}]}},
    "secrets": {"data": {"k": "eA=="}, "stringData": {"s": "t"}},
    "configmaps": {"data": {"k": "v"}, "binaryData": {"b": "eA=="}},
    "serviceaccounts": {"secrets": [{"name": "s"}]},
    "resourcequotas": {"spec": {"hard": {"pods": "50", "requests.cpu": "50", "count/configmaps": "50"}}},
    "leases.coordination.k8s.io": {"spec": {"holderIdentity": "h", "renewTime": "2026-01-01T00:00:00.000000Z"}},
    "horizontalpodautoscalers.autoscaling": {
        "spec": {
            "maxReplicas": 3,
            "scaleTargetRef": {"apiVersion": "grove.io/v1alpha1", "kind": "PodClique", "name": "a"},
        }
    },
    "controllerrevisions.apps": {"revision": 1, "data": {"x": [1, {"y": None}]}},
    "priorityclasses.scheduling.k8s.io": {"value": 5, "globalDefault": False},
    "customresourcedefinitions.apiextensions.k8s.io": {},
    "mutatingwebhookconfigurations.admissionregistration.k8s.io": {"webhooks": [_WEBHOOK]},
    "validatingwebhookconfigurations.admissionregistration.k8s.io": {"webhooks": [_WEBHOOK]},
    f"roles.{_RBAC}": {"rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]},
    f"clusterroles.{_RBAC}": {
        "rules": [{"nonResourceURLs": ["/x"], "verbs": ["get"]}],
        "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"x": "y"}}]},
    },
    f"rolebindings.{_RBAC}": {
        "roleRef": {"apiGroup": _RBAC, "kind": "Role", "name": "a"},
        "subjects": [{"kind": "ServiceAccount", "name": "a", "namespace": "default"}],
    },
    f"clusterrolebindings.{_RBAC}": {
        "roleRef": {"apiGroup": _RBAC, "kind": "ClusterRole", "name": "a"},
        "subjects": [{"kind": "User", "apiGroup": _RBAC, "name": "u"}],
    },
    "podcliquesets.grove.io": {
        "spec": {
            "replicas": 1,
            "template": {
                "cliques": [{"name": "c", "spec": {**_CLIQUE, "roleName": "c"}}],
                "podCliqueScalingGroups": [{"name": "g", "cliqueNames": ["c"]}],
            },
        }
    },
    "podcliques.grove.io": {"spec": _CLIQUE},
    "podcliquescalinggroups.grove.io": {"spec": {"replicas": 1, "minAvailable": 1, "cliqueNames": ["c"]}},
    "clustertopologybindings.grove.io": {
        "spec": {"levels": [{"domain": "zone", "key": "topology.kubernetes.io/zone"}]}
    },
    "podgangs.scheduler.grove.io": {
        "spec": {
            "podgroups": [{"name": "g", "minReplicas": 1, "podReferences": [{"name": "a", "namespace": "default"}]}]
        }
    },
}
_SUBRESOURCES = (
    "status",
    "scale",
    "log",
    "binding",
    "eviction",
    "finalize",
    "token",
    "exec",
    "ephemeralcontainers",
    "",
)


def specimen(resource_info: ResourceInfo, name: str, namespace: str) -> JsonObject:
    """One that is taken as it is. The name of a definition follows from that of its kind."""
    is_definition = resource_info.plural == "customresourcedefinitions" and name in NAMES
    metadata: JsonObject = {
        "name": f"{name}s.{GROUP}" if is_definition else name,
        "labels": {"x": "y"},
        "annotations": {"k": "v"},
    }
    if resource_info.namespaced:
        metadata["namespace"] = namespace
    body = definition(name) if is_definition else _BODIES.get(resource_info.qualified, {})
    if resource_info.plural == "events":
        body = {**body, "involvedObject": {"kind": "Pod", "name": "a", "namespace": namespace}}
    return {"kind": resource_info.kind, "apiVersion": resource_info.api_version, "metadata": metadata, **body}


def collection(resource_info: ResourceInfo, namespace: str) -> str:
    return resource_info.path(namespace, "").rstrip("/")


def kinds() -> tuple[ResourceInfo, ...]:
    return SERVED


# --- definitions -----------------------------------------------------------------------------------------------------

GROUP = "example.com"


def definition(name: str, schema: JsonObject | None = None) -> JsonObject:
    """The body of one whose objects are called `as`, `bs` or `cs`; its own name follows from that."""
    plural = f"{name}s"
    version: JsonObject = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema or {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
        "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.n", "statusReplicasPath": ".status.n"}},
        "additionalPrinterColumns": [{"name": "N", "type": "integer", "jsonPath": ".spec.n"}],
    }
    names = {"plural": plural, "singular": name, "kind": name.upper() + "x", "listKind": name.upper() + "xList"}
    return {"spec": {"group": GROUP, "scope": "Namespaced", "names": names, "versions": [version]}}


def custom_collection(name: str, namespace: str) -> str:
    return f"/apis/{GROUP}/v1/namespaces/{namespace}/{name}s"


def custom_object(name: str, kind: str) -> JsonObject:
    head: JsonObject = {"apiVersion": f"{GROUP}/v1", "kind": kind.upper() + "x"}
    return {**head, "metadata": {"name": name}, "spec": {"n": 1}}


# --- what the tables of fields let grow ------------------------------------------------------------------------------


@cache
def _tables() -> dict[str, dict[int, str]]:
    """The fields of every message, as `name type`."""
    found: dict[str, dict[int, str]] = protobuf._numbers()["messages"]
    return {name: {int(number): text for number, text in fields.items()} for name, fields in found.items()}


@cache
def _message_of(api_version: str, kind: str) -> str:
    found: dict[str, str] = protobuf._numbers()["kinds"]
    return found.get(f"{api_version} {kind}", "")


def message_of(resource_info: ResourceInfo) -> str:
    """Empty for kinds without field numbers."""
    return _message_of(resource_info.api_version, resource_info.kind)


@cache
def _schema_of(qualified: str) -> JsonObject:
    for definition_ in custom_resource_definitions():
        if definition_["metadata"]["name"] == qualified:
            schema: JsonObject = definition_["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
            return schema
    return {}


class Grower:
    """Draws objects that have the right fields in the right places, and anything in them."""

    def __init__(self, random: Random) -> None:
        self._random = random

    def object_of(self, resource_info: ResourceInfo, name: str, namespace: str) -> JsonObject:
        base = specimen(resource_info, name, namespace)
        if message := message_of(resource_info):
            grown = self.message(message, 0)
        else:
            grown = self._by_schema({"type": "object", **_schema_of(resource_info.qualified)}, 0)
        metadata = {**(grown.get("metadata") or {}), "name": base["metadata"]["name"]}
        if self._random.random() < 0.7:
            metadata.pop("namespace", None)
            metadata.pop("resourceVersion", None)
            metadata.pop("uid", None)
        if self._random.random() < 0.5:
            # The good object with one or two parts of the grown one, so that some rules are met.
            for key in self._random.sample(sorted(grown), min(2, len(grown))):
                base[key] = self._blended(base.get(key), grown[key])
            return base
        return {**grown, "kind": resource_info.kind, "apiVersion": resource_info.api_version, "metadata": metadata}

    def _blended(self, base: Any, grown: Any) -> Any:
        if isinstance(base, dict) and isinstance(grown, dict) and grown:
            key = self._random.choice(sorted(grown))
            return {**base, key: self._blended(base.get(key), grown[key])}
        if isinstance(base, list) and base and isinstance(grown, list) and grown:
            return [self._blended(base[0], grown[0]), *base[1:]]
        return grown

    def message(self, name: str, depth: int) -> JsonObject:
        fields = list(_tables()[name].values())
        count = self._random.randint(0, min(len(fields), 6 if depth < 2 else 3))
        found: JsonObject = {}
        for text in self._random.sample(fields, count):
            known = protobuf._read_field(text)
            value = self._field(known, depth)
            if known.name:
                found[known.name] = value
            elif isinstance(value, dict):
                found |= value
        return found

    def _field(self, known: Any, depth: int) -> Any:
        if known.is_map:
            return {self.text(): self._value(known.type, depth) for _ in range(self._random.randint(0, 2))}
        if known.is_list:
            return [self._value(known.type, depth) for _ in range(self._random.randint(0, 3))]
        return self._value(known.type, depth)

    def _value(self, type_: str, depth: int) -> Any:
        match type_:
            case "int":
                return self.number()
            case "bool":
                return self._random.random() < 0.5
            case "string":
                return self.text()
            case "bytes":
                return self._random.choice(("eA==", "", "AAAA", "/w=="))
            case "Time" | "MicroTime":
                return self._random.choice(
                    ("2026-01-01T00:00:00Z", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999999Z")
                )
            case "Quantity":
                return self._random.choice(
                    ("1", "100m", "1Gi", "-1", "1e3", "0.5", "1e400", "1Ei", "99999999999999999999")
                )
            case "IntOrString":
                return self._random.choice((1, "a", "50%", 0, -1, 2**31 - 1))
            case "Raw":
                return {"x": self.text()}
            case "items":
                return [self.text()]
            case _ if depth > 7:
                return {}
            case _:
                return self.message(type_, depth + 1)

    def _by_schema(self, schema: JsonObject, depth: int) -> Any:
        if depth > 9:
            return None
        match schema.get("type"):
            case "object":
                known = schema.get("properties") or {}
                chosen = self._random.sample(sorted(known), self._random.randint(0, min(len(known), 4)))
                chosen += [name for name in schema.get("required") or () if self._random.random() < 0.8]
                found = {name: self._by_schema(known[name], depth + 1) for name in chosen if name in known}
                if isinstance(inner := schema.get("additionalProperties"), dict):
                    found |= {self.text(): self._by_schema(inner, depth + 1) for _ in range(self._random.randint(0, 2))}
                return found
            case "array":
                return [self._by_schema(schema["items"], depth + 1) for _ in range(self._random.randint(0, 3))]
            case "integer":
                return self.number()
            case "number":
                return self._random.choice((0.5, 1, -1.0))
            case "boolean":
                return self._random.random() < 0.5
            case _:
                words = schema.get("enum") or ()
                return self._random.choice(words) if words and self._random.random() < 0.8 else self.text()

    def number(self) -> int:
        return self._random.choice((0, 1, 1, 2, 3, 5, 80, 443, -1, 65536, 2**31 - 1, 2**31, 2**63 - 1, -(2**63)))

    def text(self) -> str:
        return self._random.choice(WORDS)


# --- the same as protobuf --------------------------------------------------------------------------------------------


def as_protobuf(api_version: str, kind: str, obj: JsonObject) -> bytes:
    """As a Go client would send it, as far as the values are what the fields want."""
    message = _message_of(api_version, kind)
    head = field(1, api_version.encode()) + field(2, kind.encode())
    return b"k8s\0" + field(1, head) + field(2, _encoded_message(message, obj) if message else b"")


def _encoded_message(name: str, obj: Any) -> bytes:
    if not isinstance(obj, dict):
        return b""
    out = []
    for number, text in _tables()[name].items():
        known = protobuf._read_field(text)
        value = obj if not known.name else obj.get(known.name)
        if value is None:
            continue
        if known.is_map and isinstance(value, dict):
            for key, inner in value.items():
                pair = field(1, str(key).encode("utf-8", "replace")) + _encoded_value(2, known.type, inner)
                out.append(field(number, pair))
        elif known.is_list and isinstance(value, list):
            out += [_encoded_value(number, known.type, inner) for inner in value]
        else:
            out.append(_encoded_value(number, known.type, value))
    return b"".join(out)


def _encoded_value(number: int, type_: str, value: Any) -> bytes:
    match type_:
        case "int" | "bool":
            return varint(number << 3) + varint(int(value) if isinstance(value, int | float) and value == value else 0)
        case "string" | "bytes":
            return field(number, str(value).encode("utf-8", "replace"))
        case "Quantity":
            return field(number, field(1, str(value).encode("utf-8", "replace")))
        case "Time" | "MicroTime":
            return field(number, varint(1 << 3) + varint(1_800_000_000))
        case "IntOrString" if isinstance(value, int):
            return field(number, varint(2 << 3) + varint(value))
        case "IntOrString":
            return field(number, varint(1 << 3) + varint(1) + field(3, str(value).encode()))
        case "Raw":
            return field(number, field(1, msgspec.json.encode({"x": 1})))
        case "items":
            return field(number, b"")
        case _:
            return field(number, _encoded_message(type_, value))


def subresources() -> tuple[str, ...]:
    return _SUBRESOURCES


PODS = BY_QUALIFIED["pods"]
