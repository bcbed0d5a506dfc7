"""The slim view of a headless Service: what we wrote, to see whether it is still so."""

from grove.api.types.meta import ObjectMeta, WireStruct


class ServiceSpec(WireStruct):
    publish_not_ready_addresses: bool = False
    selector: dict[str, str] = {}


class Service(WireStruct):
    metadata: ObjectMeta
    spec: ServiceSpec = ServiceSpec()
