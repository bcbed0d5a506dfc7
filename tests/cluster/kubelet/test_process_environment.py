"""What a process in a pod is told: variables, fields, configuration; and what it is not told."""

import base64
import os
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from grove.api.resources import SECRETS
from grove.api.types.meta import JsonObject, ObjectMeta, Uid
from grove.cluster.kubelet.process.config_watcher import CONFIG_MAPS
from grove.cluster.kubelet.process.environment import DownwardAPI, field_value, resource_value
from grove.cluster.kubelet.process.expansion import Mounts, expand, normal_path
from grove.cluster.kubelet.process.pod_spec import (
    Container,
    FieldSelector,
    NotRunnable,
    ResourceAmounts,
    ResourceSelector,
    RunnablePodSpec,
)
from tests.cluster.kubelet.process_cluster import ProcessCluster, run_processes


@pytest.mark.parametrize(
    ("text", "expanded"),
    [
        ("$(NAME)", "value"),
        ("a $(NAME)$(OTHER) b", "a valueother b"),
        ("$(MISSING)", "$(MISSING)"),
        ("$$(NAME)", "$(NAME)"),
        ("$$$(NAME)", "$value"),
        ("$$", "$"),
        ("$", "$"),
        ("$NAME ${NAME}", "$NAME ${NAME}"),
        ("$(NAME", "$(NAME"),
        ("$(", "$("),
        ("$()", "$()"),
        ("$(a b)", "$(a b)"),
        ("$($(NAME))", "$($(NAME))"),
    ],
)
def test_references_are_replaced_as_kubernetes_does(text: str, expanded: str) -> None:
    assert expand(text, {"NAME": "value", "OTHER": "other"}) == expanded


@pytest.mark.parametrize(
    ("text", "mapped"),
    [
        ("/data", "/r/data"),
        ("/data/x/y", "/r/data/x/y"),
        ("--to=/data/x", "--to=/r/data/x"),
        ("cat '/data/x' > /data/y", "cat '/r/data/x' > /r/data/y"),
        ("/usr/bin:/data/bin", "/usr/bin:/r/data/bin"),
        ("/data/deep/x", "/r/deep/x"),
        ("/data2 /data-3 /data.bak", "/data2 /data-3 /data.bak"),
        ("/var/data $HOME/data ${HOME}/data ./data", "/var/data $HOME/data ${HOME}/data ./data"),
        ("http://host/data", "http://host/data"),
    ],
)
def test_mount_paths_in_a_text_lead_to_the_files(text: str, mapped: str) -> None:
    assert Mounts({"/data": "/r/data", "/data/deep": "/r/deep"}).translate(text) == mapped


@pytest.mark.parametrize(("path", "normal"), [("/data/", "/data"), ("data", "/data"), ("//a//b/./c", "/a/b/c")])
def test_a_mount_path_is_compared_in_its_normal_form(path: str, normal: str) -> None:
    assert normal_path(path) == normal


_AROUND = DownwardAPI(
    metadata=ObjectMeta(
        name="p", namespace="ns", uid=Uid("u"), labels={"a": "1", "b/c": "2"}, annotations={"note": 'say "hi"\n'}
    ),
    spec=RunnablePodSpec(node_name="node-7", containers=(Container(name="main"),)),
    pod_ip="127.1.2.3",
    host_ip="127.0.0.1",
    allocatable={"cpu": "8", "memory": "32Gi"},
)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("metadata.name", "p"),
        ("metadata.namespace", "ns"),
        ("metadata.uid", "u"),
        ("metadata.labels['b/c']", "2"),
        ("metadata.labels['none']", ""),
        ("metadata.annotations['note']", 'say "hi"\n'),
        ("metadata.labels", 'a="1"\nb/c="2"'),
        ("metadata.annotations", 'note="say \\"hi\\"\\n"'),
        ("spec.nodeName", "node-7"),
        ("spec.serviceAccountName", "default"),
        ("status.podIP", "127.1.2.3"),
        ("status.hostIP", "127.0.0.1"),
    ],
)
def test_a_pod_is_told_its_own_fields(path: str, value: str) -> None:
    assert field_value(FieldSelector(field_path=path), _AROUND) == value


def test_a_field_that_does_not_exist_is_named() -> None:
    with pytest.raises(NotRunnable, match=r"'spec\.hostname' is not supported"):
        field_value(FieldSelector(field_path="spec.hostname"), _AROUND)


@pytest.mark.parametrize(
    ("resource", "divisor", "value"),
    [
        ("limits.cpu", "1", "2"),
        ("limits.cpu", "1m", "1500"),
        ("requests.memory", "1Mi", "64"),
        ("requests.memory", "1", "67108864"),
        ("limits.memory", "1Gi", "32"),
        ("requests.cpu", "1", "0"),
    ],
)
def test_amounts_are_rounded_up_and_the_nodes_where_there_is_no_limit(resource: str, divisor: str, value: str) -> None:
    amounts = {"limits": {"cpu": "1500m"}, "requests": {"memory": "64Mi"}}
    container = Container(name="main", resources=msgspec.convert(amounts, ResourceAmounts))
    assert resource_value(ResourceSelector(resource=resource, divisor=divisor), container, _AROUND) == value


def _env(**variables: Any) -> list[JsonObject]:
    return [
        {"name": name, "value": value} if isinstance(value, str) else {"name": name, "valueFrom": value}
        for name, value in variables.items()
    ]


def test_variables_are_literal_or_come_from_the_pod_and_may_name_earlier_ones() -> None:
    async def story(cluster: ProcessCluster) -> None:
        env = _env(
            ONE="1",
            TWO="$(ONE)2 $$(ONE) $(LATER)",
            LATER="3",
            NODE={"fieldRef": {"fieldPath": "spec.nodeName"}},
            ROLE={"fieldRef": {"fieldPath": "metadata.labels['role']"}},
            IP={"fieldRef": {"fieldPath": "status.podIP"}},
            CPU={"resourceFieldRef": {"resource": "limits.cpu"}},
        )
        script = 'echo "$ONE|$TWO|$NODE|$ROLE|$CPU|$1|$2"; test "$IP" = "$GROVE_POD_IP"'
        text = await cluster.output(
            "a", "sh", "-c", script, metadata={"labels": {"role": "worker"}},
            main={"env": env, "args": ["name", "$(TWO)", "$(HOME)"]},
        )  # fmt: skip
        assert text == "1|12 $(ONE) $(LATER)|node-0|worker|8|12 $(ONE) $(LATER)|$(HOME)\n"

    run_processes(story)


def test_a_process_knows_little_of_who_started_the_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_SECRET", "hunter2")

    async def story(cluster: ProcessCluster) -> None:
        text = await cluster.output("a", "env")
        variables = dict(line.split("=", 1) for line in text.splitlines())
        expected = {"GROVE_CONTAINER_ID", "GROVE_HOSTS_FILE", "GROVE_POD_IP", "GROVE_ROOT", "HOME", "HOSTNAME", "PATH"}
        assert expected <= variables.keys()
        assert variables.keys() <= expected | {"LANG", "LC_ALL", "TZ", "PYTHONPATH", "TMPDIR"}
        assert (variables["HOSTNAME"], variables["PATH"]) == (
            "a",
            f"{os.environ['PATH']}:{Path(sys.executable).parent}",
        )
        assert variables["HOME"] != os.environ.get("HOME")

    run_processes(story)


def test_a_container_runs_in_its_root_or_where_it_says(tmp_path: Path) -> None:
    async def story(cluster: ProcessCluster) -> None:
        assert await cluster.output("a", "sh", "-c", 'test "$PWD" = "$GROVE_ROOT" && echo yes') == "yes\n"
        assert await cluster.output("b", "pwd", main={"workingDir": str(tmp_path)}) == f"{tmp_path}\n"
        (tmp_path / "here").write_text("#!/bin/sh\necho from here\n")
        (tmp_path / "here").chmod(0o700)
        assert await cluster.output("c", "./here", main={"workingDir": str(tmp_path)}) == "from here\n"

    run_processes(story)


def test_its_own_path_decides_where_a_command_is_found(tmp_path: Path) -> None:
    async def story(cluster: ProcessCluster) -> None:
        (tmp_path / "greet").write_text("#!/bin/sh\necho hello\n")
        (tmp_path / "greet").chmod(0o700)
        env = [{"name": "PATH", "value": f"{tmp_path}:/usr/bin:/bin"}]
        assert await cluster.output("a", "greet", main={"env": env}) == "hello\n"

    run_processes(story)


async def put_secret(cluster: ProcessCluster, name: str, **data: str) -> None:
    encoded = {key: base64.b64encode(value.encode()).decode() for key, value in data.items()}
    await cluster.create(
        SECRETS, {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "data": encoded}
    )  # fmt: skip


def test_variables_come_from_config_maps_and_secrets() -> None:
    async def story(cluster: ProcessCluster) -> None:
        await cluster.put_config("settings", COLOUR="blue", SIZE="3")
        await put_secret(cluster, "keys", token="t0ken", COLOUR="red")
        sources = [
            {"configMapRef": {"name": "settings"}},
            {"secretRef": {"name": "keys"}, "prefix": "KEY_"},
            {"configMapRef": {"name": "none", "optional": True}},
        ]
        env = _env(
            TOKEN={"secretKeyRef": {"name": "keys", "key": "token"}},
            SIZE="$(SIZE)0",
            NOTHING={"configMapKeyRef": {"name": "none", "key": "k", "optional": True}},
        )
        script = 'echo "$COLOUR|$SIZE|$TOKEN|$KEY_token|$KEY_COLOUR|${NOTHING-unset}"'
        text = await cluster.output("a", "sh", "-c", script, main={"envFrom": sources, "env": env})
        assert text == "blue|30|t0ken|t0ken|red|unset\n"

    run_processes(story)


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ({"configMapKeyRef": {"name": "late", "key": "k"}}, 'configmap "late" not found'),
        ({"secretKeyRef": {"name": "late", "key": "k"}}, 'secret "late" not found'),
    ],
)
def test_a_pod_waits_for_configuration_that_is_missing_and_goes_on_when_it_appears(
    source: JsonObject, words: str
) -> None:
    async def story(cluster: ProcessCluster) -> None:
        await cluster.put("a", "sh", "-c", "echo $K", main={"env": _env(K=source)})
        pod = await cluster.until("a", lambda pod: pod.waits_for == "CreateContainerConfigError")
        assert pod.state["waiting"]["message"] == words
        if "secret" in words:
            await put_secret(cluster, "late", k="here")
        else:
            await cluster.put_config("late", other="x")
            await cluster.until("a", lambda pod: "couldn't find key k in configmap late" in str(pod.state))
            await cluster.client.patch(CONFIG_MAPS, "default", "late", {"data": {"k": "here"}})
        assert (await cluster.ended("a")).phase == "Succeeded"
        assert await cluster.log("a") == "here\n"

    run_processes(story)


def test_what_a_program_leaves_to_say_is_its_message() -> None:
    async def story(cluster: ProcessCluster) -> None:
        await cluster.put("a", "sh", "-c", "echo out of luck > /dev/termination-log; exit 1")
        assert (await cluster.ended("a")).state["terminated"]["message"] == "out of luck\n"
        policy = {"terminationMessagePolicy": "FallbackToLogsOnError"}
        await cluster.put("b", "sh", "-c", "echo last words; exit 1", main=policy)
        assert (await cluster.ended("b")).state["terminated"]["message"] == "last words"

    run_processes(story)
