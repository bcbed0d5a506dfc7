"""Headless Service, with the fields that the operator writes and compares."""

from grove.api.types.meta import ObjectMeta, WireStruct


class ServiceSpec(WireStruct):
    publish_not_ready_addresses: bool = False
    selector: dict[str, str] = {}


class Service(WireStruct):
    metadata: ObjectMeta
    spec: ServiceSpec = ServiceSpec()
