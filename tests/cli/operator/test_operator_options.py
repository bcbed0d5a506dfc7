"""What the configuration and the flags mean for each part of the operator."""

from pathlib import Path

import msgspec
import pytest

from grove.admission.webhook_app import WebhookOptions
from grove.api.types.operatorconfiguration import (
    AuthorizerConfiguration,
    Limits,
    OperatorConfiguration,
    SchedulerConfiguration,
    SchedulerProfile,
    ServerConfiguration,
)
from grove.api.types.operatorconfiguration import TopologyAwareScheduling as Topology
from grove.api.types.operatorconfiguration import WebhookServerConfiguration as Webhooks
from grove.cli.common.options import UsageError
from grove.cli.operator.operator_options import (
    SERVICE_ACCOUNT_NAME,
    build_controller_options,
    build_lease_options,
    build_webhook_options,
    is_in_cluster,
)
from grove.kube.kubeconfig import SERVICE_ACCOUNT, Access

POD = Access(server="https://10.0.0.1", source=str(SERVICE_ACCOUNT), namespace="grove-system")
LAPTOP = Access(server="https://127.0.0.1:1", source=".grove/kubeconfig")
WITH_VOLCANO = OperatorConfiguration(
    scheduler=SchedulerConfiguration(profiles=(SchedulerProfile(name="volcano"),), default_profile_name="volcano"),
    topology_aware_scheduling=Topology(enabled=True),
)


def asked(
    configuration: OperatorConfiguration | None = None, access: Access = POD, url: str = "", account: str = ""
) -> WebhookOptions:
    found = build_webhook_options(
        configuration or OperatorConfiguration(), access, url, {SERVICE_ACCOUNT_NAME: account} if account else {}
    )
    assert found is not None
    return found


def test_a_pod_serves_webhooks_behind_its_service_and_a_laptop_does_not() -> None:
    assert (is_in_cluster(POD), is_in_cluster(LAPTOP)) == (True, False)
    assert build_webhook_options(OperatorConfiguration(), LAPTOP, "", {}) is None
    options = asked()
    assert (options.host, options.port, options.namespace, options.url) == ("", 2750, "grove-system", "")
    assert (options.secret_name, options.is_manual) == ("grove-webhook-server-cert", False)
    # Where its user happens to work is no place for the operator's certificate.
    assert asked(access=LAPTOP, url="https://127.0.0.1:9443").namespace == "grove-system"


@pytest.mark.parametrize(
    ("url", "host", "port"),
    [
        ("https://127.0.0.1:9443", "127.0.0.1", 9443),
        ("https://[::1]:9443/prefix", "::1", 9443),
        ("https://my-laptop.example:443", "", 443),
    ],
)
def test_a_url_says_where_to_listen(url: str, host: str, port: int) -> None:
    options = asked(access=LAPTOP, url=url)
    assert (options.host, options.port, options.url) == (host, port, url)


@pytest.mark.parametrize("url", ["http://h:1", "https://h", "https://h:0", "https://h:70000", "https://:1", "h:1", "x"])
def test_a_url_that_nobody_can_ask_is_refused(url: str) -> None:
    with pytest.raises(UsageError, match="write https://HOST:PORT"):
        asked(access=LAPTOP, url=url)


def test_an_address_of_the_configuration_counts_more() -> None:
    server = ServerConfiguration(webhooks=Webhooks(bind_address="192.0.2.1", port=1, cert_provision_mode="manual"))
    options = asked(OperatorConfiguration(server=server), LAPTOP, "https://127.0.0.1:9443")
    assert (options.host, options.port) == ("192.0.2.1", 9443)
    assert (options.is_manual, options.certificate_dir) == (True, Path("/etc/grove-operator/webhook-certs"))


def test_the_authorizer_knows_the_operator_by_its_service_account() -> None:
    configuration = OperatorConfiguration(
        authorizer=AuthorizerConfiguration(enabled=True, exempt_service_account_user_names=("system:admin",))
    )
    authorizer = asked(configuration, account="grove-operator").authorizer
    assert authorizer is not None
    assert authorizer.operator_user == "system:serviceaccount:grove-system:grove-operator"
    assert authorizer.exempt_users == ("system:admin",)
    with pytest.raises(UsageError, match=SERVICE_ACCOUNT_NAME):
        asked(configuration)
    with pytest.raises(UsageError, match="requires webhooks"):
        build_webhook_options(configuration, LAPTOP, "", {})


def test_validation_follows_the_configuration() -> None:
    settings = asked().settings
    assert (settings.schedulers, settings.is_topology_aware, settings.is_mnnvl_enabled) == (
        ("default-scheduler",), False, False,
    )  # fmt: skip
    settings = asked(WITH_VOLCANO).settings
    assert (settings.schedulers, settings.default_scheduler, settings.is_topology_aware) == (
        ("default-scheduler", "volcano"), "volcano", True,
    )  # fmt: skip


def test_the_controller_follows_the_configuration() -> None:
    settings = build_controller_options(OperatorConfiguration(), {})
    assert (settings.schedulers, settings.default_scheduler, settings.is_topology_aware) == (
        ("default-scheduler",), "default-scheduler", False,
    )  # fmt: skip
    settings = build_controller_options(WITH_VOLCANO, {})
    assert (settings.schedulers, settings.default_scheduler, settings.is_topology_aware) == (
        ("default-scheduler", "volcano"), "volcano", True,
    )  # fmt: skip


def test_the_object_budget_of_the_configuration_counts_for_admission_and_for_the_planner() -> None:
    configuration = OperatorConfiguration(limits=Limits(objects_per_set=7))
    assert asked(configuration).settings.objects_per_set == 7
    assert build_controller_options(configuration, {}).objects_per_set == 7


def test_the_lease_is_in_our_namespace_unless_another_is_named() -> None:
    election = OperatorConfiguration().leader_election
    assert build_lease_options(election, "grove-system").namespace == "grove-system"
    named = msgspec.structs.replace(election, resource_namespace="elsewhere", lease_duration="1500ms")
    options = build_lease_options(named, "grove-system")
    assert (options.namespace, options.lease_seconds) == ("elsewhere", 2)
