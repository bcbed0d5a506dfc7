"""Options of an installation, from which every object of it is built."""

import msgspec

from grove.api.types.meta import JsonObject
from grove.api.types.operatorconfiguration import MANUAL, OperatorConfiguration, read_configuration
from grove.errors import UserError

NAME = "grove-operator"
DEFAULT_NAMESPACE = "grove-system"
DEFAULT_REPLICAS = 2
# The operator must not be preempted by the pods of its own gangs.
DEFAULT_PRIORITY_CLASS = "system-cluster-critical"

DEFAULT_CONFIGURATION = """\
apiVersion: operator.config.grove.io/v1alpha1
kind: OperatorConfiguration
leaderElection:
  enabled: true
server:
  webhooks:
    port: 9443
  healthProbes:
    port: 9444
  metrics:
    port: 9445
"""


# For about 3,000 pods; docs/how-to/install.md has the table for more.
DEFAULT_RESOURCES: JsonObject = {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "1Gi"}}


class InstallationError(UserError):
    """An error for options that contradict each other. The user must correct them."""


class Issuer(msgspec.Struct, frozen=True, kw_only=True):
    """An issuer of cert-manager: a ClusterIssuer, or an Issuer in the namespace of the operator."""

    kind: str
    name: str


class OptionalObjects(msgspec.Struct, frozen=True, kw_only=True):
    """Objects that not every cluster wants or can have: some need CRDs of other projects."""

    has_user_roles: bool = True
    has_network_policy: bool = False
    has_service_monitor: bool = False
    has_prometheus_rule: bool = False
    has_grafana_dashboard: bool = False
    # cert-manager creates the certificate of the webhooks.
    issuer: Issuer | None = None


NO_OPTIONS = OptionalObjects()


class Installation(msgspec.Struct, frozen=True, kw_only=True):
    """A checked installation.

    `configuration_text` is the exact configuration file of the operator; `ca_bundle` is base64, or "".
    """

    namespace: str
    image: str
    replicas: int
    priority_class: str
    ca_bundle: str
    configuration_text: str
    configuration: OperatorConfiguration
    # The operator watches only these; empty: all.
    watch_namespaces: tuple[str, ...] = ()
    resources: JsonObject
    optional: OptionalObjects

    @property
    def is_manual(self) -> bool:
        """Return whether the user provides the certificate of the webhooks."""
        return self.configuration.server.webhooks.cert_provision_mode == MANUAL

    @property
    def user(self) -> str:
        """Return the user name of the operator in the API server."""
        return f"system:serviceaccount:{self.namespace}:{NAME}"


def plan_installation(
    *,
    namespace: str = DEFAULT_NAMESPACE,
    image: str,
    replicas: int = DEFAULT_REPLICAS,
    priority_class: str = DEFAULT_PRIORITY_CLASS,
    ca_bundle: str = "",
    configuration_text: str = DEFAULT_CONFIGURATION,
    watch_namespaces: tuple[str, ...] = (),
    resources: JsonObject | None = None,
    optional: OptionalObjects = NO_OPTIONS,
) -> tuple[Installation, tuple[str, ...]]:
    """Return the installation and warnings about its configuration. Raises `UserError` if it could not work."""
    configuration, warnings = read_configuration(configuration_text)
    installation = Installation(
        namespace=namespace,
        image=image,
        replicas=replicas,
        priority_class=priority_class,
        ca_bundle=ca_bundle,
        configuration_text=configuration_text,
        configuration=configuration,
        watch_namespaces=watch_namespaces,
        resources=DEFAULT_RESOURCES if resources is None else resources,
        optional=optional,
    )
    _check(installation)
    return installation, warnings


def _check(installation: Installation) -> None:
    configuration, server = installation.configuration, installation.configuration.server
    if installation.replicas > 1 and not configuration.leader_election.enabled:
        raise InstallationError(
            f"{installation.replicas} replicas need leaderElection.enabled: true, otherwise each of them would write; "
            "enable it, or write --replicas 1"
        )
    ports = (server.webhooks.port, server.health_probes.port, server.metrics.port)
    if 0 in ports or len(frozenset(ports)) < len(ports):
        raise InstallationError(
            f"the ports of webhooks, healthProbes and metrics are {', '.join(map(str, ports))}: "
            "set three different ports that are not 0"
        )
    if installation.ca_bundle and not installation.is_manual:
        raise InstallationError(
            "a CA bundle is only for your own certificates: set server.webhooks.certProvisionMode: manual in the "
            "configuration; or omit the bundle, and the operator creates its certificates"
        )
    if installation.optional.issuer is not None and not installation.is_manual:
        raise InstallationError(
            "an issuer of cert-manager is only for certificates that the operator does not create: set "
            "server.webhooks.certProvisionMode: manual in the configuration, or omit the issuer"
        )
    if installation.optional.issuer is not None and installation.ca_bundle:
        raise InstallationError("cert-manager injects the CA bundle itself: omit the bundle, or the issuer")
