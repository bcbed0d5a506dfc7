"""Pods with all fields that are needed to run them. `read_spec` rejects what the process kubelet cannot run.

Fields that have no meaning without containers (images, security contexts, limits) are not decoded.
"""

from datetime import datetime

import msgspec

from grove.api.resources import PODS
from grove.api.types.meta import Condition, JsonObject, ObjectMeta, WireStruct, without_nulls
from grove.api.types.pod import ContainerStatus

CONFIG_ERROR = "CreateContainerConfigError"
_VOLUME_SOURCES = ("name", "emptyDir", "hostPath", "configMap", "secret", "downwardAPI", "projected")


class NotRunnable(Exception):
    """A container or pod cannot start now: its author must change it, or a referenced object must appear."""

    def __init__(self, message: str, *, reason: str = CONFIG_ERROR) -> None:
        super().__init__(message)
        self.message = message
        self.reason = reason


class KeySelector(WireStruct):
    name: str = ""
    key: str = ""
    optional: bool = False


class FieldSelector(WireStruct):
    field_path: str = ""


class ResourceSelector(WireStruct):
    container_name: str = ""
    resource: str = ""
    divisor: str | int | float = "1"


class EnvSource(WireStruct):
    field_ref: FieldSelector | None = None
    resource_field_ref: ResourceSelector | None = None
    config_map_key_ref: KeySelector | None = None
    secret_key_ref: KeySelector | None = None


class EnvVar(WireStruct):
    name: str
    value: str | None = None
    value_from: EnvSource | None = None


class NamedSource(WireStruct):
    name: str = ""
    optional: bool = False


class EnvFrom(WireStruct):
    prefix: str = ""
    config_map_ref: NamedSource | None = None
    secret_ref: NamedSource | None = None


class HttpHeader(WireStruct):
    name: str
    value: str = ""


class HttpGet(WireStruct):
    port: int | str
    path: str = "/"
    host: str = ""
    scheme: str = "HTTP"
    http_headers: tuple[HttpHeader, ...] = ()


class TcpSocket(WireStruct):
    port: int | str
    host: str = ""


class Exec(WireStruct):
    command: tuple[str, ...] = ()


class Sleep(WireStruct):
    seconds: int = 0


class Hook(WireStruct):
    """A lifecycle hook: `exec`, `httpGet` or `sleep`."""

    exec: Exec | None = None
    http_get: HttpGet | None = None
    sleep: Sleep | None = None


class Probe(WireStruct):
    exec: Exec | None = None
    http_get: HttpGet | None = None
    tcp_socket: TcpSocket | None = None
    grpc: JsonObject | None = None
    initial_delay_seconds: int = 0
    period_seconds: int = 10
    timeout_seconds: int = 1
    success_threshold: int = 1
    failure_threshold: int = 3
    termination_grace_period_seconds: int | None = None


class Lifecycle(WireStruct):
    post_start: Hook | None = None
    pre_stop: Hook | None = None
    stop_signal: str = "SIGTERM"


class VolumeMount(WireStruct):
    name: str
    mount_path: str
    sub_path: str = ""
    sub_path_expr: str = ""


class ContainerPort(WireStruct):
    container_port: int
    name: str = ""


class ResourceAmounts(WireStruct):
    limits: dict[str, str | int | float] = {}
    requests: dict[str, str | int | float] = {}


class Container(WireStruct):
    name: str
    image: str = ""
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    working_dir: str = ""
    env: tuple[EnvVar, ...] = ()
    env_from: tuple[EnvFrom, ...] = ()
    ports: tuple[ContainerPort, ...] = ()
    resources: ResourceAmounts = ResourceAmounts()
    volume_mounts: tuple[VolumeMount, ...] = ()
    startup_probe: Probe | None = None
    readiness_probe: Probe | None = None
    liveness_probe: Probe | None = None
    lifecycle: Lifecycle = Lifecycle()
    termination_message_path: str = "/dev/termination-log"
    termination_message_policy: str = "File"
    restart_policy: str = ""

    @property
    def is_sidecar(self) -> bool:
        """Return whether an init container keeps running beside the main containers."""
        return self.restart_policy == "Always"


class KeyToPath(WireStruct):
    key: str
    path: str
    mode: int | None = None


class ConfigMapFiles(WireStruct):
    name: str = ""
    items: tuple[KeyToPath, ...] = ()
    default_mode: int | None = None
    optional: bool = False


class SecretFiles(WireStruct):
    """A Secret in a volume (`secretName`) or in a projection (`name`)."""

    secret_name: str = ""
    name: str = ""
    items: tuple[KeyToPath, ...] = ()
    default_mode: int | None = None
    optional: bool = False


class DownwardFile(WireStruct):
    path: str
    field_ref: FieldSelector | None = None
    resource_field_ref: ResourceSelector | None = None
    mode: int | None = None


class DownwardFiles(WireStruct):
    items: tuple[DownwardFile, ...] = ()
    default_mode: int | None = None


class TokenProjection(WireStruct):
    """A file with a token of the pod's service account."""

    path: str = ""
    audience: str = ""
    expiration_seconds: int = 3600


class Projection(WireStruct):
    config_map: ConfigMapFiles | None = None
    secret: SecretFiles | None = None
    downward_api: DownwardFiles | None = msgspec.field(default=None, name="downwardAPI")
    service_account_token: TokenProjection | None = None


class Projected(WireStruct):
    sources: tuple[Projection, ...] = ()
    default_mode: int | None = None


class HostPath(WireStruct):
    path: str
    type: str = ""


class Volume(WireStruct):
    name: str
    empty_dir: JsonObject | None = None
    host_path: HostPath | None = None
    config_map: ConfigMapFiles | None = None
    secret: SecretFiles | None = None
    downward_api: DownwardFiles | None = msgspec.field(default=None, name="downwardAPI")
    projected: Projected | None = None


class ReadinessGate(WireStruct):
    condition_type: str = ""


class RunnablePodSpec(WireStruct):
    node_name: str = ""
    hostname: str = ""
    subdomain: str = ""
    service_account_name: str = ""
    restart_policy: str = "Always"
    termination_grace_period_seconds: int = 30
    active_deadline_seconds: int | None = None
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    volumes: tuple[Volume, ...] = ()
    readiness_gates: tuple[ReadinessGate, ...] = ()


class LocalPodStatus(WireStruct):
    """A pod status that a previous kubelet may have written."""

    phase: str = "Pending"
    start_time: datetime | None = None
    conditions: tuple[Condition, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()


class LocalPod(WireStruct):
    """A pod with its spec not decoded: an invalid spec must be reported in the status of the pod."""

    metadata: ObjectMeta
    spec: JsonObject = {}
    status: LocalPodStatus = LocalPodStatus()

    @property
    def node_name(self) -> str:
        return str(self.spec.get("nodeName") or "")

    @property
    def is_finished(self) -> bool:
        return self.status.phase in ("Succeeded", "Failed")

    @property
    def active_deadline_seconds(self) -> int | None:
        """Return the current `activeDeadlineSeconds`. A user can lower it while the pod runs."""
        seconds = self.spec.get("activeDeadlineSeconds")
        return seconds if isinstance(seconds, int) else None


LOCAL_PODS = PODS.viewed_as(LocalPod)


def read_spec(raw: JsonObject) -> RunnablePodSpec:
    """Decode the spec. Raises `NotRunnable` if it is invalid or not supported."""
    try:
        spec = msgspec.convert(without_nulls(raw), RunnablePodSpec)
    except msgspec.ValidationError as error:
        error_message = str(error).replace("`$", "`spec")
        raise NotRunnable(f"the pod cannot be read: {error_message}; correct it") from None
    for volume in raw.get("volumes") or ():
        _check_volume_source(volume)
    for container in (*spec.init_containers, *spec.containers):
        _check_probes(container)
        for hook in (container.lifecycle.post_start, container.lifecycle.pre_stop):
            if hook is not None and hook.http_get is not None:
                port_of(hook.http_get.port, container)
    return spec


def port_of(port: int | str, container: Container) -> int:
    """Return the number of a port that is given by number or name. Raises `NotRunnable`."""
    if isinstance(port, int) or port.isdecimal():
        return int(port)
    for each in container.ports:
        if each.name == port:
            return each.container_port
    raise NotRunnable(
        f"container {container.name}: no port is named {port!r}; add a port of this name, or use a number"
    )


def _check_probes(container: Container) -> None:
    probes = {
        "startupProbe": container.startup_probe,
        "readinessProbe": container.readiness_probe,
        "livenessProbe": container.liveness_probe,
    }
    for field, probe in probes.items():
        if probe is None:
            continue
        if probe.grpc is not None:
            raise NotRunnable(
                f"container {container.name}: {field}.grpc is not supported by the process kubelet; "
                "use exec, httpGet or tcpSocket"
            )
        action = probe.http_get or probe.tcp_socket
        if action is not None:
            port_of(action.port, container)
        elif probe.exec is None:
            raise NotRunnable(f"container {container.name}: {field} has no action; add exec, httpGet or tcpSocket")


def _check_volume_source(volume: JsonObject) -> None:
    unknown = [kind for kind, value in volume.items() if value is not None and kind not in _VOLUME_SOURCES]
    if unknown:
        raise NotRunnable(
            f"volume {volume['name']}: {unknown[0]} is not supported by the process kubelet; "
            "use hostPath for shared or persistent files, emptyDir for others"
        )
