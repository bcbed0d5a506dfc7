"""The rules of services: defaults, an address that stays, ports that can be told apart. Nothing listens there."""

import zlib
from typing import Any

from grove.api.fielderrors import FieldError, invalid, not_supported, required
from grove.api.meta import JsonObject
from grove.cluster.server.loose import items

_DEFAULTS: JsonObject = {"type": "ClusterIP", "sessionAffinity": "None", "internalTrafficPolicy": "Cluster"}
_TYPES = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
_HEADLESS = "None"


def prepared_service(obj: JsonObject) -> JsonObject:
    spec = {**_DEFAULTS, **(obj.get("spec") or {})}
    if spec["type"] != "ExternalName":
        spec |= _addresses(spec.get("clusterIP"), obj["metadata"]["uid"], has_selector=bool(spec.get("selector")))
    return {**obj, "spec": _with_ports(spec), "status": {"loadBalancer": {}}}


def prepared_service_update(old: JsonObject, new: JsonObject) -> JsonObject:
    """What is left out stays; a new address is noticed by `service_change_errors`."""
    spec, before = new.get("spec") or {}, old["spec"]
    if spec is before:
        return new
    kept = {
        field: before[field]
        for field in ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy")
        if field in before and not spec.get(field)
    }
    filled = {**_DEFAULTS, **spec, **kept}
    if filled.get("clusterIP") != before.get("clusterIP"):
        filled["clusterIPs"] = [filled["clusterIP"]]
    return {**new, "spec": _with_ports(filled)}


def service_errors(obj: JsonObject) -> list[FieldError]:
    spec = obj["spec"]
    kind = spec.get("type", _DEFAULTS["type"])
    errors: list[FieldError] = []
    if kind not in _TYPES:
        errors.append(not_supported("spec.type", kind, _TYPES))
    ports = items(spec.get("ports"))
    if not ports and spec.get("clusterIP") != _HEADLESS and kind != "ExternalName":
        errors.append(required("spec.ports", ""))
    for index, port in enumerate(ports):
        errors += _port_errors(f"spec.ports[{index}]", port, is_only=len(ports) == 1)
    return errors


def service_change_errors(old: JsonObject, new: JsonObject) -> list[FieldError]:
    before, after = old["spec"].get("clusterIP"), new["spec"].get("clusterIP")
    if not before or before == after or new["spec"].get("type") == "ExternalName":
        return []
    return [invalid("spec.clusterIPs[0]", [after], "may not change once set")]


def _addresses(wanted: Any, uid: str, *, has_selector: bool) -> JsonObject:
    address = wanted or _address(uid)
    if address == _HEADLESS and not has_selector:
        # Whoever writes the endpoints may write those of either family.
        families = {"ipFamilies": ["IPv4", "IPv6"], "ipFamilyPolicy": "RequireDualStack"}
    else:
        families = {"ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack"}
    return {"clusterIP": address, "clusterIPs": [address], **families}


def _address(uid: str) -> str:
    """One of a million, drawn by the uid, so that the order of requests does not matter."""
    number = zlib.crc32(uid.encode()) & 0xFFFFF
    return f"10.{96 + (number >> 16)}.{number >> 8 & 255}.{number & 255}"


def _with_ports(spec: JsonObject) -> JsonObject:
    ports = spec.get("ports")
    if not isinstance(ports, list):
        return spec
    filled = [_port(port) if isinstance(port, dict) else port for port in ports]
    return {**spec, "ports": filled}


def _port(port: JsonObject) -> JsonObject:
    return {"protocol": "TCP", **port, "targetPort": port.get("targetPort") or port.get("port")}


def _port_errors(path: str, port: JsonObject, *, is_only: bool) -> list[FieldError]:
    errors = []
    if not is_only and not port.get("name"):
        errors.append(required(f"{path}.name", ""))
    for field in ("port", "targetPort"):
        number = port.get(field)
        if isinstance(number, int) and not 1 <= number <= 65535:
            errors.append(invalid(f"{path}.{field}", number, "must be between 1 and 65535, inclusive"))
    return errors
