"""Strategy of services: defaults, cluster addresses and node ports. No proxy serves these addresses."""

import zlib
from typing import Any

import msgspec

from grove.api.types.meta import JsonObject
from grove.api.validation.field_errors import FieldError, forbidden, invalid, not_supported, required
from grove.cluster.apiserver.codec.lenient_json import items
from grove.cluster.apiserver.status_errors import UnreadableError

_DEFAULTS: JsonObject = {"type": "ClusterIP", "sessionAffinity": "None"}
_TYPES = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
_INSIDE: JsonObject = {"internalTrafficPolicy": "Cluster"}
_OUTSIDE: JsonObject = {**_INSIDE, "externalTrafficPolicy": "Cluster"}
_DEFAULTS_OF: dict[str, JsonObject] = {
    "ExternalName": {},
    "NodePort": _OUTSIDE,
    "LoadBalancer": {**_OUTSIDE, "allocateLoadBalancerNodePorts": True},
}
_HEADLESS = "None"
_ADDRESS_FIELDS = ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy")
# Fields that are dropped when the type of a service changes.
_DEPENDS_ON_TYPE = (*_ADDRESS_FIELDS, "internalTrafficPolicy", "externalTrafficPolicy", "allocateLoadBalancerNodePorts")
_NODE_PORTS = range(30000, 32768)


class _Port(msgspec.Struct, frozen=True, rename="camel"):
    port: int | None = None
    target_port: int | str | None = None
    node_port: int | None = None
    protocol: str | None = None
    name: str | None = None


class _Shape(msgspec.Struct, frozen=True, rename="camel"):
    """The fields of the spec that are validated, with their types."""

    type: str = ""
    cluster_ip: str | None = msgspec.field(name="clusterIP", default=None)
    ports: tuple[_Port, ...] | None = None
    selector: dict[str, str] | None = None


def _check_shape(obj: JsonObject) -> None:
    """Raise 400 for wrong types in the spec."""
    try:
        msgspec.convert(obj.get("spec") or {}, _Shape)
    except msgspec.ValidationError as error:
        message = "json: " + str(error).replace("`$", "`$.spec")
        raise UnreadableError("Service", "v1", "Service", message) from None


def prepare_service(obj: JsonObject) -> JsonObject:
    _check_shape(obj)
    return {
        **obj,
        "spec": _with_defaults(obj.get("spec") or {}, obj["metadata"]["uid"]),
        "status": {"loadBalancer": {}},
    }


def prepare_service_update(old: JsonObject, new: JsonObject) -> JsonObject:
    """Return the updated service. Omitted fields keep their values. `validate_service_update` rejects a new address."""
    spec, before = new.get("spec") or {}, old["spec"]
    if spec is before:
        return new
    _check_shape(new)
    filled = {**_DEFAULTS, **spec}
    if filled["type"] != before.get("type"):
        filled = _without_type_fields(filled, before)
    if filled["type"] != "ExternalName":
        filled |= {field: before[field] for field in _ADDRESS_FIELDS if field in before and not filled.get(field)}
        if (address := filled.get("clusterIP")) != before.get("clusterIP") and address:
            filled["clusterIPs"] = [address]
    if _has_node_ports(filled) and _has_node_ports(before):
        filled = _keep_node_ports(filled, before)
    return {**new, "spec": _with_defaults(filled, old["metadata"]["uid"])}


def _with_defaults(spec: JsonObject, uid: str) -> JsonObject:
    filled = {**_DEFAULTS, **spec}
    filled = {**_DEFAULTS_OF.get(filled["type"], _INSIDE), **filled}
    if filled["type"] != "ExternalName":
        filled |= _build_addresses(filled, uid)
    filled = _with_ports(filled)
    return _with_node_ports(filled, uid) if _has_node_ports(filled) else filled


def _without_type_fields(spec: JsonObject, before: JsonObject) -> JsonObject:
    """Return the spec without the fields that the old type added, unless the update changes them."""
    kind = spec["type"]
    supported = {*_DEFAULTS_OF.get(kind, _INSIDE), *(() if kind == "ExternalName" else _ADDRESS_FIELDS)}
    dropped = {field for field in _DEPENDS_ON_TYPE if field not in supported and spec.get(field) == before.get(field)}
    kept = {field: value for field, value in spec.items() if field not in dropped}
    if _has_node_ports(kept) or not isinstance(spec.get("ports"), list):
        return kept
    allocated = {port.get("nodePort") for port in items(before.get("ports"))}
    return {**kept, "ports": [_without_node_port(port, allocated) for port in spec["ports"]]}


def _without_node_port(port: Any, allocated: set[Any]) -> Any:
    if not isinstance(port, dict) or port.get("nodePort") not in allocated:
        return port
    return {field: value for field, value in port.items() if field != "nodePort"}


def validate_service(obj: JsonObject) -> list[FieldError]:
    spec = obj["spec"]
    kind = spec.get("type", _DEFAULTS["type"])
    errors: list[FieldError] = []
    if kind not in _TYPES:
        errors.append(not_supported("spec.type", kind, _TYPES))
    ports = items(spec.get("ports"))
    if not ports and spec.get("clusterIP") != _HEADLESS and kind != "ExternalName":
        errors.append(required("spec.ports", ""))
    for index, port in enumerate(ports):
        errors += _validate_port(f"spec.ports[{index}]", port, is_only=len(ports) == 1)
        errors += _validate_node_port(f"spec.ports[{index}].nodePort", port.get("nodePort"), kind)
    return errors


def validate_service_update(old: JsonObject, new: JsonObject) -> list[FieldError]:
    before, after = old["spec"].get("clusterIP"), new["spec"].get("clusterIP")
    if not before or before == after or new["spec"].get("type") == "ExternalName":
        return []
    return [invalid("spec.clusterIPs[0]", [after], "may not change once set")]


# Addresses


def _build_addresses(spec: JsonObject, uid: str) -> JsonObject:
    address = spec.get("clusterIP") or _allocate_address(uid)
    if address == _HEADLESS and not spec.get("selector"):
        # The endpoints are written by the user and may be of either IP family.
        families = {"ipFamilies": ["IPv4", "IPv6"], "ipFamilyPolicy": "RequireDualStack"}
    else:
        families = {"ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack"}
    return {"clusterIP": address, "clusterIPs": [address], **families}


def _allocate_address(uid: str) -> str:
    """Return an address derived from the uid, so that it does not depend on the order of requests."""
    number = zlib.crc32(uid.encode()) & 0xFFFFF
    return f"10.{96 + (number >> 16)}.{number >> 8 & 255}.{number & 255}"


# Ports


def _with_ports(spec: JsonObject) -> JsonObject:
    ports = spec.get("ports")
    if not isinstance(ports, list):
        return spec
    filled = [_port_with_defaults(port) if isinstance(port, dict) else port for port in ports]
    return {**spec, "ports": filled}


def _port_with_defaults(port: JsonObject) -> JsonObject:
    return {"protocol": "TCP", **port, "targetPort": port.get("targetPort") or port.get("port")}


def _has_node_ports(spec: JsonObject) -> bool:
    kind = spec.get("type")
    return kind == "NodePort" or (kind == "LoadBalancer" and spec.get("allocateLoadBalancerNodePorts") is not False)


def _keep_node_ports(spec: JsonObject, before: JsonObject) -> JsonObject:
    """Keep the node ports of service ports that the update does not set."""
    if not isinstance(spec.get("ports"), list):
        return spec
    allocated = {(port.get("port"), port.get("protocol")): port.get("nodePort") for port in items(before.get("ports"))}
    ports = []
    for port in spec["ports"]:
        node_port = allocated.get((port.get("port"), port.get("protocol", "TCP"))) if isinstance(port, dict) else None
        ports.append({**port, "nodePort": node_port} if node_port and not port.get("nodePort") else port)
    return {**spec, "ports": ports}


def _with_node_ports(spec: JsonObject, uid: str) -> JsonObject:
    """Assign missing node ports, derived from the uid. A port has the same node port for every protocol."""
    used = {port["nodePort"]: port.get("port") for port in items(spec.get("ports")) if port.get("nodePort")}
    ports = []
    for port in items(spec.get("ports")):
        if not port.get("nodePort") and (allocated := _allocate_node_port(used, uid, port.get("port"))):
            port = {**port, "nodePort": allocated}
        ports.append(port)
    return {**spec, "ports": ports} if ports else spec


def _allocate_node_port(used: dict[int, Any], uid: str, number: Any) -> int | None:
    """Return a node port that no other port of the service uses, or None if there is none."""
    first = zlib.crc32(f"{uid}/{number}".encode())
    for step in range(len(_NODE_PORTS)):
        candidate = _NODE_PORTS[(first + step) % len(_NODE_PORTS)]
        if used.setdefault(candidate, number) == number:
            return candidate
    return None


def _validate_port(path: str, port: JsonObject, *, is_only: bool) -> list[FieldError]:
    errors = []
    if not is_only and not port.get("name"):
        errors.append(required(f"{path}.name", ""))
    for field in ("port", "targetPort"):
        number = port.get(field)
        if isinstance(number, int) and not 1 <= number <= 65535:
            errors.append(invalid(f"{path}.{field}", number, "must be between 1 and 65535, inclusive"))
    return errors


def _validate_node_port(path: str, number: Any, kind: str) -> list[FieldError]:
    if not isinstance(number, int) or number == 0:
        return []
    if kind not in ("NodePort", "LoadBalancer"):
        return [forbidden(path, f"may not be used when `type` is '{kind}'")]
    if number not in _NODE_PORTS:
        bounds = f"{_NODE_PORTS[0]}-{_NODE_PORTS[-1]}"
        return [invalid(path, number, f"provided port is not in the valid range. The range of valid ports is {bounds}")]
    return []
