"""Build the options of the operator's components from its configuration and flags. Starts nothing."""

import re
from collections.abc import Mapping
from ipaddress import ip_address
from pathlib import Path

from grove.admission.authorizer import AuthorizerOptions
from grove.admission.webhook_app import WebhookOptions
from grove.api.types.operatorconfiguration import (
    MANUAL,
    WAIT,
    ConfigurationError,
    GangTermination,
    LeaderElection,
    OperatorConfiguration,
    read_configuration,
)
from grove.api.validation.validation_options import ValidationOptions
from grove.api.values.durations import parse_duration
from grove.cli.common.options import UsageError
from grove.controller.controller_options import ControllerOptions, MassOutageOptions
from grove.controller.leader.leader_election import LeaseOptions
from grove.installation.install_options import DEFAULT_NAMESPACE
from grove.kube.kubeconfig import SERVICE_ACCOUNT, Access

SERVICE_ACCOUNT_NAME = "GROVE_OPERATOR_SERVICE_ACCOUNT_NAME"
# The image of the operator. A pod cannot find out its own image, so the Deployment names it.
INIT_IMAGE = "GROVE_INIT_CONTAINER_IMAGE"


def load_configuration(path: Path | None) -> tuple[OperatorConfiguration, tuple[str, ...]]:
    if path is None:
        return OperatorConfiguration(), ()
    try:
        return read_configuration(path.read_text())
    except OSError as error:
        raise UsageError(f"{path}: cannot be read ({error.strerror}); check --config") from error
    except (ConfigurationError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: {error}") from error


def build_lease_options(election: LeaderElection, namespace: str) -> LeaseOptions:
    return LeaseOptions(
        namespace=election.resource_namespace or namespace,
        name=election.resource_name,
        lease_seconds=election.lease_seconds,
        renew_seconds=election.renew_seconds,
        retry_seconds=election.retry_seconds,
    )


def init_image(configuration: OperatorConfiguration, environment: Mapping[str, str]) -> str:
    """Return the image of the init container that waits for other cliques; "" if it is not known."""
    return configuration.init_container.image or environment.get(INIT_IMAGE, "")


def build_controller_options(
    configuration: OperatorConfiguration, environment: Mapping[str, str], watch_namespaces: tuple[str, ...] = ()
) -> ControllerOptions:
    return ControllerOptions(
        watch_namespaces=watch_namespaces,
        workers=configuration.controllers.workers,
        schedulers=configuration.scheduler.enabled,
        default_scheduler=configuration.scheduler.default_profile_name,
        is_topology_aware=configuration.topology_aware_scheduling.enabled,
        waits_for_topology=configuration.topology_aware_scheduling.on_missing_binding == WAIT,
        mass_outage=_build_mass_outage(configuration.gang_termination),
        objects_per_set=configuration.limits.objects_per_set,
        init_image=init_image(configuration, environment),
    )


def _build_mass_outage(termination: GangTermination) -> MassOutageOptions:
    return MassOutageOptions(
        is_enabled=termination.is_holding,
        threshold=termination.mass_outage.threshold,
        max_hold=parse_duration(termination.mass_outage.max_hold),
    )


def is_in_cluster(access: Access) -> bool:
    """Return whether this process runs in a pod of the cluster, with its service account."""
    return access.source == str(SERVICE_ACCOUNT)


def build_webhook_options(
    configuration: OperatorConfiguration,
    access: Access,
    url: str,
    environment: Mapping[str, str],
    watch_namespaces: tuple[str, ...] = (),
) -> WebhookOptions | None:
    """Return the webhook options. None outside of a pod without a URL: the API server could not reach this process."""
    if not url and not is_in_cluster(access):
        if configuration.authorizer.enabled:
            raise UsageError(
                "authorizer.enabled: requires webhooks; run the operator in the cluster, or set --webhook-url"
            )
        return None
    server = configuration.server.webhooks
    host, port = _parse_listen_address(url) if url else ("", server.port)
    return WebhookOptions(
        host=server.bind_address or host,
        port=port,
        # Outside a cluster, the namespace of the kubeconfig is the user's, not the operator's.
        namespace=access.namespace if is_in_cluster(access) else DEFAULT_NAMESPACE,
        secret_name=server.secret_name,
        url=url,
        watch_namespaces=watch_namespaces,
        is_manual=server.cert_provision_mode == MANUAL,
        certificate_dir=Path(server.server_cert_dir),
        authorizer=_build_authorizer(configuration, access, environment),
        settings=_build_validation(configuration, environment),
    )


def _parse_listen_address(url: str) -> tuple[str, int]:
    """Return the listen address of a URL: its host if that is an IP address, else all addresses, and its port."""
    match = re.fullmatch(r"https://(\[[0-9a-fA-F:.]+\]|[\w.-]+):(\d{1,5})(/.*)?", url)
    if match is None or not 0 < int(match[2]) < 65536:
        raise UsageError(f"--webhook-url {url!r}: write https://HOST:PORT, where the API server reaches this process")
    host = match[1].strip("[]")
    try:
        return str(ip_address(host)), int(match[2])
    except ValueError:
        return "", int(match[2])


def _build_authorizer(
    configuration: OperatorConfiguration, access: Access, environment: Mapping[str, str]
) -> AuthorizerOptions | None:
    if not configuration.authorizer.enabled:
        return None
    account = environment.get(SERVICE_ACCOUNT_NAME, "")
    if not account:
        raise UsageError(f"authorizer.enabled: set {SERVICE_ACCOUNT_NAME} to the operator's service account")
    return AuthorizerOptions(
        operator_user=f"system:serviceaccount:{access.namespace}:{account}",
        exempt_users=configuration.authorizer.exempt_service_account_user_names,
    )


def _build_validation(configuration: OperatorConfiguration, environment: Mapping[str, str]) -> ValidationOptions:
    return ValidationOptions(
        schedulers=configuration.scheduler.enabled,
        default_scheduler=configuration.scheduler.default_profile_name,
        is_topology_aware=configuration.topology_aware_scheduling.enabled,
        is_mnnvl_enabled=configuration.network.auto_mnnvl_enabled,
        default_delay=configuration.gang_termination.default_delay,
        objects_per_set=configuration.limits.objects_per_set,
        init_image=init_image(configuration, environment),
    )
