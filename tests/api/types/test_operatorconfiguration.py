"""The configuration file: what every key becomes, and the words for what is wrong."""

from typing import Any

import pytest
import yaml

from grove.api.types.operatorconfiguration import (
    API_VERSION,
    KIND,
    ConfigurationError,
    OperatorConfiguration,
    read_configuration,
)

# What the chart of the Go implementation renders by default.
CHART = """
apiVersion: operator.config.grove.io/v1alpha1
kind: OperatorConfiguration
runtimeClientConnection: {qps: 100, burst: 150}
leaderElection:
  enabled: true
  leaseDuration: 15s
  renewDeadline: 10s
  retryPeriod: 2s
  resourceLock: leases
  resourceName: grove-operator-leader-election
  resourceNamespace: grove-system
server:
  webhooks:
    bindAddress:
    port: 9443
    serverCertDir: /etc/grove-operator/webhook-certs
    secretName: grove-webhook-server-cert
    certProvisionMode: auto
  healthProbes: {port: 9444}
  metrics: {port: 9445}
debugging: {enableProfiling: false, pprofBindHost: 127.0.0.1, pprofBindPort: 2753}
controllers:
  podCliqueSet: {concurrentSyncs: 3}
  podClique: {concurrentSyncs: 3}
  podCliqueScalingGroup: {concurrentSyncs: 3}
logLevel: info
logFormat: json
authorizer: {enabled: false, exemptServiceAccountUserNames: ["system:serviceaccount:kube-system:namespace-controller"]}
topologyAwareScheduling: {enabled: false}
network: {autoMNNVLEnabled: false}
scheduler:
  profiles: [{name: default-scheduler}, {name: kai-scheduler}]
"""


def written(**keys: Any) -> str:
    return yaml.safe_dump({"apiVersion": API_VERSION, "kind": KIND, **keys})


def refused(text: str) -> list[str]:
    with pytest.raises(ConfigurationError) as caught:
        read_configuration(text)
    return str(caught.value).splitlines()


def test_a_file_that_says_nothing_means_the_defaults() -> None:
    configuration, warnings = read_configuration(written())
    assert (configuration, warnings) == (OperatorConfiguration(), ())
    election = configuration.leader_election
    assert (election.enabled, election.lease_seconds, election.renew_seconds, election.retry_seconds) == (
        False, 15, 10.0, 2.0,
    )  # fmt: skip
    server = configuration.server
    assert (server.webhooks.port, server.health_probes.port, server.metrics.port) == (2750, 2751, 2752)
    assert configuration.controllers.workers == 10


def test_the_values_of_the_chart_load() -> None:
    configuration, warnings = read_configuration(CHART)
    assert configuration.runtime_client_connection.qps == 100.0
    assert configuration.leader_election.resource_namespace == "grove-system"
    assert configuration.server.webhooks.bind_address == ""
    # Three are given, the fourth has its default.
    assert configuration.controllers.workers == 5
    assert warnings == ()


@pytest.mark.parametrize(
    ("keys", "error"),
    [
        ({"logLevel": "trace"}, 'logLevel: Unsupported value: "trace": supported values: "debug", "info", "error"'),
        ({"logFormat": "xml"}, 'logFormat: Unsupported value: "xml": supported values: "json", "text"'),
        ({"runtimeClientConnection": {"qps": float("nan")}}, 'runtimeClientConnection.qps: Invalid value: "nan"'),
        ({"runtimeClientConnection": {"qps": float("inf")}}, 'runtimeClientConnection.qps: Invalid value: "inf"'),
        ({"runtimeClientConnection": {"burst": -1}}, "runtimeClientConnection.burst: Invalid value: -1"),
        (
            {"runtimeClientConnection": {"contentType": "application/vnd.kubernetes.protobuf"}},
            "runtimeClientConnection.contentType: Unsupported value",
        ),
        (
            {"runtimeClientConnection": {"acceptContentTypes": "text/plain"}},
            "runtimeClientConnection.acceptContentTypes: Unsupported value",
        ),
        ({"server": {"webhooks": {"port": 70000}}}, "server.webhooks.port: Invalid value: 70000"),
        ({"server": {"metrics": {"port": "many"}}}, "server.metrics.port: Expected `int`, got `str`"),
        (
            {"server": {"webhooks": {"certProvisionMode": "magic"}}},
            "server.webhooks.certProvisionMode: Unsupported value",
        ),
        ({"server": {"webhooks": {"secretName": ""}}}, "server.webhooks.secretName: Required value"),
        ({"server": {"webhooks": {"secretName": "a/b"}}}, 'server.webhooks.secretName: Invalid value: "a/b"'),
        (
            {"leaderElection": {"enabled": True, "resourceName": "BAD NAME"}},
            'leaderElection.resourceName: Invalid value: "BAD NAME"',
        ),
        (
            {"leaderElection": {"enabled": True, "resourceNamespace": "a/b"}},
            'leaderElection.resourceNamespace: Invalid value: "a/b"',
        ),
        (
            {"topologyAwareScheduling": {"onMissingBinding": "Fail"}},
            ('topologyAwareScheduling.onMissingBinding: Unsupported value: "Fail": supported values: "Ignore", "Wait"'),
        ),
        ({"limits": {"objectsPerSet": 0}}, "limits.objectsPerSet: Invalid value: 0: must be greater than 0"),
        ({"controllers": {"podGang": {"concurrentSyncs": 0}}}, "controllers.podGang.concurrentSyncs: Invalid value: 0"),
        (
            {"network": {"autoMNNVLEnabled": True}},
            "network.autoMNNVLEnabled: Forbidden: compute domains are not supported yet",
        ),
        ({"scheduler": {"profiles": [{"name": "slurm"}]}}, 'scheduler.profiles[0].name: Unsupported value: "slurm"'),
        (
            {"scheduler": {"profiles": [{"name": "volcano"}, {"name": "volcano"}]}},
            'scheduler.profiles[1].name: Invalid value: "volcano": duplicate profile: remove one',
        ),
        (
            {"scheduler": {"profiles": [{"name": "volcano", "config": {"a": 1}}]}},
            "scheduler.profiles[0].config: Forbidden",
        ),
        (
            {"scheduler": {"defaultProfileName": "kai-scheduler"}},
            'scheduler.defaultProfileName: Invalid value: "kai-scheduler": has no profile: add it',
        ),
        ({"scheduler": {"defaultProfileName": "slurm"}}, 'scheduler.defaultProfileName: Unsupported value: "slurm"'),
        (
            {"debugging": {"enableProfiling": True, "pprofBindHost": "0.0.0.0"}},
            'debugging.pprofBindHost: Invalid value: "0.0.0.0": must be a loopback address',
        ),
    ],
)
def test_a_wrong_value_is_refused_by_its_path(keys: dict[str, Any], error: str) -> None:
    (line,) = refused(written(**keys))
    assert line.startswith(error)


@pytest.mark.parametrize(
    ("keys", "error"),
    [
        ({"leaseDuration": "0s", "renewDeadline": "-1s", "retryPeriod": "-2s"}, "leaderElection.leaseDuration"),
        ({"leaseDuration": "soon"}, "leaderElection.leaseDuration: Invalid value"),
        ({"leaseDuration": "10s"}, 'leaderElection.leaseDuration: Invalid value: "10s": must be longer than renew'),
        ({"retryPeriod": "10s"}, 'leaderElection.renewDeadline: Invalid value: "10s": must be longer than retryPeriod'),
        ({"resourceLock": "endpoints"}, 'leaderElection.resourceLock: Unsupported value: "endpoints"'),
        ({"resourceName": ""}, "leaderElection.resourceName: Required value"),
    ],
)
def test_an_election_that_could_not_be_safe_is_refused(keys: dict[str, Any], error: str) -> None:
    assert refused(written(leaderElection={"enabled": True, **keys}))[0].startswith(error)


def test_an_election_that_is_off_is_not_judged() -> None:
    configuration, _ = read_configuration(written(leaderElection={"leaseDuration": "soon"}))
    assert not configuration.leader_election.enabled


def test_all_errors_are_told_at_once() -> None:
    assert len(refused(written(logLevel="trace", logFormat="xml"))) == 2


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("a: [", "not valid YAML"),
        ("a: &x {b: *x}", "is nested too deeply, or contains itself"),
        ("", "is not an object"),
        ("[]", "is not an object"),
        ("logLevel: info", "apiVersion: Required value"),
        (f"apiVersion: v1\nkind: {KIND}", 'apiVersion: Unsupported value: "v1"'),
    ],
)
def test_what_is_no_configuration_is_refused(text: str, error: str) -> None:
    assert refused(text)[0].startswith(error)


def test_an_unknown_key_is_a_warning_that_names_its_path_and_the_nearest_known_one() -> None:
    text = written(
        loglevel="debug",
        server={"metrics": {"prot": 1, "port": 2}},
        scheduler={"profiles": [{"name": "default-scheduler", "nam": "x"}]},
        banana=1,
    )
    configuration, warnings = read_configuration(text)
    assert (configuration.log_level, configuration.server.metrics.port) == ("info", 2)
    assert sorted(warnings) == [
        "banana: unknown key, ignored",
        "loglevel: unknown key, ignored; did you mean logLevel?",
        "scheduler.profiles[0].nam: unknown key, ignored; did you mean name?",
        "server.metrics.prot: unknown key, ignored; did you mean port?",
    ]


def test_a_lease_is_written_in_whole_seconds_and_never_shorter_than_asked_for() -> None:
    election = {"enabled": True, "leaseDuration": "1500ms", "renewDeadline": "1s", "retryPeriod": "200ms"}
    configuration, _ = read_configuration(written(leaderElection=election))
    assert configuration.leader_election.lease_seconds == 2


def test_kubernetes_own_scheduler_is_always_enabled_and_another_may_be_the_default() -> None:
    text = written(scheduler={"profiles": [{"name": "volcano"}], "defaultProfileName": "volcano"})
    scheduler = read_configuration(text)[0].scheduler
    assert scheduler.enabled == ("default-scheduler", "volcano")
    assert scheduler.default_profile_name == "volcano"
    assert read_configuration(written(scheduler={"profiles": []}))[0].scheduler.enabled == ("default-scheduler",)


@pytest.mark.parametrize(
    ("keys", "is_holding"),
    [
        ({}, True),
        ({"massOutage": {"enabled": False}}, False),
        ({"holdInMassOutage": False}, False),
        ({"holdInMassOutage": False, "massOutage": {"threshold": 70}}, False),
        ({"holdInMassOutage": True}, True),
    ],
)
def test_holding_teardowns_is_switched_off_by_the_new_and_by_the_old_key(
    keys: dict[str, Any], is_holding: bool
) -> None:
    configuration, warnings = read_configuration(written(gangTermination=keys))
    assert (configuration.gang_termination.is_holding, warnings) == (is_holding, ())


def test_limits_of_gang_termination_that_make_no_sense_are_named_by_their_paths() -> None:
    wrong = {"massOutage": {"threshold": 0, "maxHold": "0s"}, "defaultDelay": "4"}
    assert [line.partition(":")[0] for line in refused(written(gangTermination=wrong))] == [
        "gangTermination.massOutage.threshold",
        "gangTermination.massOutage.maxHold",
        "gangTermination.defaultDelay",
    ]
