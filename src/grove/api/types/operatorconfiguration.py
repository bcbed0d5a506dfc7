"""OperatorConfiguration: the keys of the operator's configuration file, their defaults and their validation.

The keys are those of `operator.config.grove.io/v1alpha1`. Each key is either supported or rejected with a reason. An
unknown key is only a warning, because a file may be older or newer than the operator. The caller reads the file.
"""

import difflib
import math
import types
import typing
from collections.abc import Iterable, Iterator
from datetime import timedelta
from ipaddress import ip_address
from typing import Any

import msgspec
import yaml

from grove.api.schema.limits import OBJECTS_PER_SET
from grove.api.types.meta import WireStruct
from grove.api.validation.field_errors import FieldError, forbidden, invalid, not_supported, required
from grove.api.validation.syntax import check_dns_subdomain
from grove.api.values.durations import DurationError, parse_duration
from grove.errors import UserError

API_VERSION = "operator.config.grove.io/v1alpha1"
KIND = "OperatorConfiguration"
DEFAULT_SCHEDULER = "default-scheduler"
SCHEDULERS = (DEFAULT_SCHEDULER, "kai-scheduler", "volcano", "lpx-scheduler")
LOG_LEVELS = ("debug", "info", "error")
LOG_FORMATS = ("json", "text")
MANUAL = "manual"
PROVISION_MODES = ("auto", MANUAL)
IGNORE = "Ignore"
WAIT = "Wait"


class ConfigurationError(UserError):
    """An error for an invalid file: every error with its path, one per line."""


class ClientConnection(WireStruct):
    # Requests per second and burst; 0 or less: no client-side limit, the API server throttles.
    qps: float = 0.0
    burst: int = 0
    content_type: str = ""
    accept_content_types: str = ""


class LeaderElection(WireStruct):
    enabled: bool = False
    lease_duration: str = "15s"
    renew_deadline: str = "10s"
    retry_period: str = "2s"
    resource_lock: str = "leases"
    resource_name: str = "grove-operator-leader-election"
    # Empty: the operator's own namespace.
    resource_namespace: str = ""

    @property
    def lease_seconds(self) -> int:
        """Return the lease duration for the Lease object: whole seconds, rounded up."""
        return max(1, math.ceil(parse_duration(self.lease_duration).total_seconds()))

    @property
    def renew_seconds(self) -> float:
        return parse_duration(self.renew_deadline).total_seconds()

    @property
    def retry_seconds(self) -> float:
        return parse_duration(self.retry_period).total_seconds()


class HealthProbes(WireStruct):
    # Empty: all interfaces in a cluster, loopback elsewhere. Port 0: a free one.
    bind_address: str = ""
    port: int = 2751


class MetricsServer(WireStruct):
    bind_address: str = ""
    port: int = 2752


class WebhookServerConfiguration(WireStruct):
    bind_address: str = ""
    port: int = 2750
    server_cert_dir: str = "/etc/grove-operator/webhook-certs"
    secret_name: str = "grove-webhook-server-cert"
    cert_provision_mode: str = "auto"


class ServerConfiguration(WireStruct):
    webhooks: WebhookServerConfiguration = WebhookServerConfiguration()
    health_probes: HealthProbes = HealthProbes()
    metrics: MetricsServer = MetricsServer()


class Debugging(WireStruct):
    enable_profiling: bool = False
    pprof_bind_host: str = "127.0.0.1"
    pprof_bind_port: int = 2753


class Syncs(WireStruct):
    concurrent_syncs: int = 10


class FewerSyncs(WireStruct):
    concurrent_syncs: int = 5


class Controllers(WireStruct):
    pod_clique_set: Syncs = Syncs()
    pod_clique: Syncs = Syncs()
    pod_clique_scaling_group: FewerSyncs = FewerSyncs()
    pod_gang: FewerSyncs = FewerSyncs()

    @property
    def workers(self) -> int:
        """Return the number of workers. One controller does the work of all four, with the largest of their counts."""
        return max(
            self.pod_clique_set.concurrent_syncs,
            self.pod_clique.concurrent_syncs,
            self.pod_clique_scaling_group.concurrent_syncs,
            self.pod_gang.concurrent_syncs,
        )


class AuthorizerConfiguration(WireStruct):
    enabled: bool = False
    exempt_service_account_user_names: tuple[str, ...] = ()


class TopologyAwareScheduling(WireStruct):
    enabled: bool = False
    # What happens to new gangs of a set if its ClusterTopologyBinding, or a level of it, was deleted.
    on_missing_binding: str = IGNORE


class MassOutageConfiguration(WireStruct):
    """The mass outage protection.

    While more than `threshold` percent of the nodes, and at least 3, are not ready, the operator tears nothing down.
    """

    enabled: bool = True
    threshold: int = 55
    max_hold: str = "30m"


class GangTermination(WireStruct):
    mass_outage: MassOutageConfiguration = MassOutageConfiguration()
    # Key of an earlier version: false means `massOutage.enabled: false`.
    hold_in_mass_outage: bool = True
    # The default terminationDelay of new Inference sets; None: no default.
    default_delay: str | None = None

    @property
    def is_holding(self) -> bool:
        return self.mass_outage.enabled and self.hold_in_mass_outage


class Limits(WireStruct):
    # Pods, PodCliques, PodCliqueScalingGroups, PodGangs and Services of one set.
    objects_per_set: int = OBJECTS_PER_SET


class InitContainer(WireStruct):
    """The init container that waits for other cliques."""

    # Empty: the image of the operator, from the environment variable GROVE_INIT_CONTAINER_IMAGE.
    image: str = ""


class Network(WireStruct):
    auto_mnnvl_enabled: bool = msgspec.field(default=False, name="autoMNNVLEnabled")


class SchedulerProfile(WireStruct):
    name: str
    config: dict[str, Any] | None = None


class SchedulerConfiguration(WireStruct):
    profiles: tuple[SchedulerProfile, ...] = (SchedulerProfile(name=DEFAULT_SCHEDULER),)
    # The scheduler of sets without schedulerName.
    default_profile_name: str = DEFAULT_SCHEDULER

    @property
    def enabled(self) -> tuple[str, ...]:
        """Return the schedulers that sets may use: always kube-scheduler, and those that have a profile."""
        return tuple(dict.fromkeys((DEFAULT_SCHEDULER, *(profile.name for profile in self.profiles))))


class OperatorConfiguration(WireStruct):
    api_version: str = API_VERSION
    kind: str = KIND
    runtime_client_connection: ClientConnection = ClientConnection()
    leader_election: LeaderElection = LeaderElection()
    server: ServerConfiguration = ServerConfiguration()
    debugging: Debugging = Debugging()
    controllers: Controllers = Controllers()
    log_level: str = "info"
    log_format: str = "json"
    authorizer: AuthorizerConfiguration = AuthorizerConfiguration()
    gang_termination: GangTermination = GangTermination()
    topology_aware_scheduling: TopologyAwareScheduling = TopologyAwareScheduling()
    limits: Limits = Limits()
    init_container: InitContainer = InitContainer()
    network: Network = Network()
    scheduler: SchedulerConfiguration = SchedulerConfiguration()


def read_configuration(text: str) -> tuple[OperatorConfiguration, tuple[str, ...]]:
    """Return the configuration and its warnings. Raises `ConfigurationError`, which lists every invalid key by path."""
    try:
        content = _without_absent(_content(text))
    except RecursionError as error:
        raise ConfigurationError("is nested too deeply, or contains itself: correct the file") from error
    _raise_if_any(_errors_of_kind(content))
    try:
        configuration = msgspec.convert(content, OperatorConfiguration)
    except msgspec.ValidationError as error:
        detail, _, path = str(error).partition(" - at `$")
        raise ConfigurationError(f"{path.strip('.`')}: {detail}") from error
    _raise_if_any(_errors(configuration))
    return configuration, tuple(_unknown_keys(content, OperatorConfiguration, ""))


def _content(text: str) -> dict[str, Any]:
    try:
        content = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ConfigurationError(f"not valid YAML: {' '.join(str(error).split())}") from error
    if not isinstance(content, dict):
        raise ConfigurationError(f"is not an object; begin it with apiVersion: {API_VERSION} and kind: {KIND}")
    return content


def _without_absent(value: Any) -> Any:
    """Drop keys without a value, as a chart renders them for values that are not set."""
    if isinstance(value, dict):
        return {str(key): _without_absent(inner) for key, inner in value.items() if inner is not None}
    if isinstance(value, list):
        return [_without_absent(inner) for inner in value]
    return value


def _raise_if_any(errors: Iterable[FieldError]) -> None:
    messages = [str(error) for error in errors]
    if messages:
        raise ConfigurationError("\n".join(messages))


def _errors_of_kind(content: dict[str, Any]) -> Iterator[FieldError]:
    for key, expected in (("apiVersion", API_VERSION), ("kind", KIND)):
        if key not in content:
            yield required(key, f"write {key}: {expected}")
        elif content[key] != expected:
            yield not_supported(key, content[key], (expected,))


# --- rules -----------------------------------------------------------------------------------------------------------


def _errors(configuration: OperatorConfiguration) -> Iterator[FieldError]:
    yield from _value_errors("logLevel", configuration.log_level, LOG_LEVELS)
    yield from _value_errors("logFormat", configuration.log_format, LOG_FORMATS)
    yield from _connection_errors(configuration.runtime_client_connection)
    if configuration.leader_election.enabled:
        yield from _election_errors(configuration.leader_election)
    yield from _server_errors(configuration.server)
    yield from _debugging_errors(configuration.debugging)
    yield from _controller_errors(configuration.controllers)
    if configuration.limits.objects_per_set <= 0:
        yield invalid("limits.objectsPerSet", configuration.limits.objects_per_set, "must be greater than 0")
    yield from _scheduler_errors(configuration.scheduler)
    yield from _termination_errors(configuration.gang_termination)
    on_missing = configuration.topology_aware_scheduling.on_missing_binding
    yield from _value_errors("topologyAwareScheduling.onMissingBinding", on_missing, (IGNORE, WAIT))
    if configuration.network.auto_mnnvl_enabled:
        yield forbidden(
            "network.autoMNNVLEnabled", "compute domains are not supported yet: write false, or remove the key"
        )


def _value_errors(path: str, value: str, supported: tuple[str, ...]) -> Iterator[FieldError]:
    if value not in supported:
        yield not_supported(path, value, supported)


def _connection_errors(connection: ClientConnection) -> Iterator[FieldError]:
    path = "runtimeClientConnection"
    if not math.isfinite(connection.qps):
        yield invalid(f"{path}.qps", str(connection.qps), "must be a number; 0 means no limit")
    if connection.burst < 0:
        yield invalid(f"{path}.burst", connection.burst, "must not be negative")
    for key, value in (
        ("contentType", connection.content_type),
        ("acceptContentTypes", connection.accept_content_types),
    ):
        yield from _value_errors(f"{path}.{key}", value, ("", "application/json"))


def _election_errors(election: LeaderElection) -> Iterator[FieldError]:
    path = "leaderElection"
    spans: dict[str, timedelta] = {}
    for key, text in (
        ("leaseDuration", election.lease_duration),
        ("renewDeadline", election.renew_deadline),
        ("retryPeriod", election.retry_period),
    ):
        try:
            spans[key] = parse_duration(text)
        except DurationError as error:
            yield invalid(f"{path}.{key}", text, str(error))
            continue
        if spans[key] <= timedelta(0):
            yield invalid(f"{path}.{key}", text, "must be longer than 0")
    if len(spans) == 3:
        if spans["leaseDuration"] <= spans["renewDeadline"]:
            detail = "must be longer than renewDeadline, so that a leader stops before another may start"
            yield invalid(f"{path}.leaseDuration", election.lease_duration, detail)
        if spans["renewDeadline"] <= spans["retryPeriod"]:
            detail = "must be longer than retryPeriod, so that a renewal may be tried again"
            yield invalid(f"{path}.renewDeadline", election.renew_deadline, detail)
    yield from _value_errors(f"{path}.resourceLock", election.resource_lock, ("leases",))
    yield from _name_errors(f"{path}.resourceName", election.resource_name, "the name of the Lease")
    if election.resource_namespace:
        yield from _name_errors(f"{path}.resourceNamespace", election.resource_namespace, "")


def _server_errors(server: ServerConfiguration) -> Iterator[FieldError]:
    yield from _port_errors("server.webhooks.port", server.webhooks.port)
    yield from _port_errors("server.healthProbes.port", server.health_probes.port)
    yield from _port_errors("server.metrics.port", server.metrics.port)
    yield from _value_errors("server.webhooks.certProvisionMode", server.webhooks.cert_provision_mode, PROVISION_MODES)
    what = "the name of the Secret that holds the certificates"
    yield from _name_errors("server.webhooks.secretName", server.webhooks.secret_name, what)


def _name_errors(path: str, name: str, what: str) -> Iterator[FieldError]:
    if not name:
        yield required(path, what)
    elif error_message := check_dns_subdomain(name):
        yield invalid(path, name, error_message)


def _port_errors(path: str, port: int) -> Iterator[FieldError]:
    if not 0 <= port <= 65535:
        yield invalid(path, port, "must be between 0 and 65535; 0 is a free port")


def _debugging_errors(debugging: Debugging) -> Iterator[FieldError]:
    yield from _port_errors("debugging.pprofBindPort", debugging.pprof_bind_port)
    if debugging.enable_profiling and not _is_loopback(debugging.pprof_bind_host):
        detail = "must be a loopback address: reach it with kubectl port-forward"
        yield invalid("debugging.pprofBindHost", debugging.pprof_bind_host, detail)


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _controller_errors(controllers: Controllers) -> Iterator[FieldError]:
    for key, syncs in (
        ("podCliqueSet", controllers.pod_clique_set),
        ("podClique", controllers.pod_clique),
        ("podCliqueScalingGroup", controllers.pod_clique_scaling_group),
        ("podGang", controllers.pod_gang),
    ):
        if syncs.concurrent_syncs <= 0:
            path = f"controllers.{key}.concurrentSyncs"
            yield invalid(path, syncs.concurrent_syncs, "must be greater than 0")


def _termination_errors(termination: GangTermination) -> Iterator[FieldError]:
    path, outage = "gangTermination", termination.mass_outage
    if not 1 <= outage.threshold <= 100:
        yield invalid(f"{path}.massOutage.threshold", outage.threshold, "must be a percentage between 1 and 100")
    yield from _span_errors(f"{path}.massOutage.maxHold", outage.max_hold)
    if termination.default_delay is not None:
        yield from _span_errors(f"{path}.defaultDelay", termination.default_delay)


def _span_errors(path: str, text: str) -> Iterator[FieldError]:
    try:
        if parse_duration(text) <= timedelta(0):
            yield invalid(path, text, "must be longer than 0")
    except DurationError as error:
        yield invalid(path, text, str(error))


def _scheduler_errors(scheduler: SchedulerConfiguration) -> Iterator[FieldError]:
    path = "scheduler.profiles"
    seen: set[str] = set()
    for i, profile in enumerate(scheduler.profiles):
        yield from _value_errors(f"{path}[{i}].name", profile.name, SCHEDULERS)
        if profile.name in seen:
            yield invalid(f"{path}[{i}].name", profile.name, "duplicate profile: remove one")
        if profile.config:
            yield forbidden(f"{path}[{i}].config", f"{profile.name} has no settings: remove the key")
        seen.add(profile.name)
    default = scheduler.default_profile_name
    if default not in SCHEDULERS:
        yield not_supported("scheduler.defaultProfileName", default, SCHEDULERS)
    elif default not in scheduler.enabled:
        yield invalid("scheduler.defaultProfileName", default, "has no profile: add it to scheduler.profiles")


# --- unknown keys ----------------------------------------------------------------------------------------------------


def _unknown_keys(content: Any, kind: Any, path: str) -> Iterator[str]:
    """Yield a warning for every key of the file that the struct does not have."""
    if typing.get_origin(kind) is tuple:
        for i, inner in enumerate(content):
            yield from _unknown_keys(inner, typing.get_args(kind)[0], f"{path}[{i}]")
    if not (isinstance(kind, type) and issubclass(kind, msgspec.Struct)):
        return
    fields = {field.encode_name: field.type for field in msgspec.structs.fields(kind)}
    for key, value in content.items():
        at = f"{path}.{key}" if path else key
        if key in fields:
            yield from _unknown_keys(value, _without_none(fields[key]), at)
        else:
            near = difflib.get_close_matches(key, fields, n=1)
            yield f"{at}: unknown key, ignored" + (f"; did you mean {near[0]}?" if near else "")


def _without_none(kind: Any) -> Any:
    if isinstance(kind, types.UnionType):
        return next(inner for inner in typing.get_args(kind) if inner is not type(None))
    return kind
