"""The files of a pod that runs as processes: its volumes, and how a program finds them without mounts."""

import stat
from pathlib import Path
from typing import Any

import pytest

from grove.api.types.meta import JsonObject
from tests.cluster.kubelet.process_cluster import ProcessCluster, run_processes
from tests.cluster.kubelet.test_process_environment import put_secret


def mounted(volume: JsonObject, **mount: Any) -> dict[str, Any]:
    """One volume, at /data."""
    mounts = [{"name": "v", "mountPath": "/data", **mount}]
    return {"volumes": [{"name": "v", **volume}], "main": {"volumeMounts": mounts}}


def test_mount_paths_in_command_variables_and_folder_lead_to_the_volume() -> None:
    async def story(cluster: ProcessCluster) -> None:
        spec = mounted({"emptyDir": {}})
        spec["main"] |= {"env": [{"name": "FILE", "value": "/data/file"}], "workingDir": "/data"}
        script = 'echo hello > "$FILE"; cat file /data/file "$GROVE_ROOT/data/file"; cat < $1'
        text = await cluster.output("a", "sh", "-c", script, "sh", "/data/file", **spec)
        assert text == "hello\n" * 4

    run_processes(story)


def test_containers_of_a_pod_share_its_volumes_each_at_its_own_path() -> None:
    async def story(cluster: ProcessCluster) -> None:
        first: JsonObject = {"name": "w", "image": "n", "command": ["sh", "-c", "echo hi > /out/x"]}
        first["volumeMounts"] = [{"name": "v", "mountPath": "/out", "subPath": "deep"}]
        second: JsonObject = {"name": "r", "image": "n", "command": ["cat", "/in/deep/x"]}
        second["volumeMounts"] = [{"name": "v", "mountPath": "/in"}]
        volumes = [{"name": "v", "emptyDir": {}}]
        await cluster.put("a", initContainers=[first], containers=[second], volumes=volumes)
        assert (await cluster.ended("a")).phase == "Succeeded"
        assert await cluster.log("a") == "hi\n"

    run_processes(story)


def test_the_folder_of_a_pod_is_for_its_owner_only_and_goes_with_the_pod() -> None:
    async def story(cluster: ProcessCluster) -> None:
        await cluster.put("a", "sh", "-c", "touch /data/x; echo $HOME; sleep 1000", **mounted({"emptyDir": {}}))
        (home,) = await cluster.lines("a")
        folder = Path(home).parent
        assert [stat.S_IMODE(path.stat().st_mode) for path in (folder, folder.parent)] == [0o700, 0o700]
        assert (folder / "volumes" / "v" / "x").exists()
        await cluster.delete("a", grace=0)
        # Its address and its folder are given back together with the task that looked after it.
        await cluster.settled()
        assert not folder.exists()

    run_processes(story)


def test_a_pod_that_has_ended_keeps_its_logs_and_nothing_else() -> None:
    async def story(cluster: ProcessCluster) -> None:
        home = Path((await cluster.output("a", "sh", "-c", "echo $HOME", **mounted({"emptyDir": {}}))).strip())
        assert sorted(path.name for path in home.parent.iterdir()) == ["logs"]

    run_processes(story)


def test_config_maps_and_secrets_are_files(tmp_path: Path) -> None:
    async def story(cluster: ProcessCluster) -> None:
        await cluster.put_config("c", one="1", two="2")
        await put_secret(cluster, "s", key="k3y")
        assert (
            await cluster.output("a", "cat", "/data/one", "/data/two", **mounted({"configMap": {"name": "c"}}))
            == "12\n"
        )
        chosen = {"name": "c", "items": [{"key": "two", "path": "deep/2", "mode": 0o600}]}
        script = "ls -R /data | tail -n 1; stat -c %a /data/deep/2"
        assert await cluster.output("b", "sh", "-c", script, **mounted({"configMap": chosen})) == "2\n600\n"
        secret = {"secretName": "s", "defaultMode": 0o400}
        text = await cluster.output(
            "d", "sh", "-c", "cat /data/key; stat -c %a /data/key", **mounted({"secret": secret})
        )
        assert text == "k3y400\n"
        await cluster.output("e", "true", **mounted({"configMap": {"name": "none", "optional": True}}))

    run_processes(story)


def test_one_file_of_a_config_map_can_be_put_anywhere() -> None:
    async def story(cluster: ProcessCluster) -> None:
        await cluster.put_config("c", script="print(6 * 7)\n")
        spec = mounted({"configMap": {"name": "c"}}, mountPath="/app/main.py", subPath="script")
        assert await cluster.output("a", "python3", "/app/main.py", **spec) == "42\n"

    run_processes(story)


def test_projected_and_downward_volumes_tell_a_pod_of_itself() -> None:
    async def story(cluster: ProcessCluster) -> None:
        await cluster.put_config("c", one="1")
        await put_secret(cluster, "s", key="k3y")
        items = [
            {"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}},
            {"path": "cpu", "resourceFieldRef": {"containerName": "main", "resource": "limits.cpu"}},
        ]
        sources = [{"configMap": {"name": "c"}}, {"secret": {"name": "s"}}, {"downwardAPI": {"items": items}}]
        metadata = {"labels": {"a": "b"}}
        # A pod on a node carries the zone of that node.
        labels = 'a="b"\ntopology.kubernetes.io/zone="zone-0"\n'
        text = await cluster.output(
            "a",
            "sh",
            "-c",
            "cd /data && tail -n +1 *",
            metadata=metadata,
            **mounted({"projected": {"sources": sources}}),
        )
        assert text == "==> cpu <==\n8\n==> key <==\nk3y\n==> labels <==\n" + labels + "==> one <==\n1\n"
        text = await cluster.output(
            "b", "cat", "/data/labels", metadata=metadata, **mounted({"downwardAPI": {"items": items}})
        )  # fmt: skip
        assert text == labels

    run_processes(story)


def test_a_host_path_is_a_folder_that_pods_share_and_that_stays(tmp_path: Path) -> None:
    async def story(cluster: ProcessCluster) -> None:
        shared = {"hostPath": {"path": str(tmp_path / "checkpoints"), "type": "DirectoryOrCreate"}}
        await cluster.output("a", "sh", "-c", "echo epoch 3 > /data/latest", **mounted(shared))
        await cluster.delete("a")
        await cluster.settled()
        assert await cluster.output("b", "cat", "/data/latest", **mounted(shared)) == "epoch 3\n"
        assert (tmp_path / "checkpoints" / "latest").read_text() == "epoch 3\n"

    run_processes(story)


def test_what_lies_in_a_host_path_is_never_replaced_by_a_mount(tmp_path: Path) -> None:
    async def story(cluster: ProcessCluster) -> None:
        (tmp_path / "old").write_text("kept\n")
        (tmp_path / "inner").symlink_to(tmp_path / "old")
        volumes = [{"name": "v", "hostPath": {"path": str(tmp_path)}}, {"name": "e", "emptyDir": {}}]
        mounts = [{"name": "v", "mountPath": "/data"}, {"name": "e", "mountPath": "/data/inner"}]
        script = "echo new > /data/inner/x && cat /data/old"
        text = await cluster.output("a", "sh", "-c", script, volumes=volumes, main={"volumeMounts": mounts})
        assert text == "kept\n"
        assert (tmp_path / "inner").readlink() == tmp_path / "old"

    run_processes(story)


@pytest.mark.parametrize(
    ("volume", "words"),
    [
        ({"persistentVolumeClaim": {"claimName": "c"}}, "volume v: persistentVolumeClaim is not supported"),
        ({"configMap": {"name": "none"}}, 'volume v: configmap "none" not found'),
        ({"secret": {"secretName": "none"}}, 'volume v: secret "none" not found'),
        ({"hostPath": {"path": "relative"}}, "volume v: hostPath relative: is not absolute"),
        ({"hostPath": {"path": "/no/such", "type": "Directory"}}, "volume v: hostPath /no/such: is not a directory"),
        ({"projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}}, 'serviceaccounts "default" not found'),
    ],
)  # fmt: skip
def test_a_volume_that_cannot_be_had_is_named_and_why(volume: JsonObject, words: str) -> None:
    async def story(cluster: ProcessCluster) -> None:
        await cluster.put("a", "true", **mounted(volume))
        pod = await cluster.until("a", lambda pod: pod.waits_for == "CreateContainerConfigError")
        assert (pod.phase, words in pod.state["waiting"]["message"]) == ("Pending", True), pod.state

    run_processes(story)


def test_a_pod_goes_on_when_the_files_it_waits_for_appear() -> None:
    async def story(cluster: ProcessCluster) -> None:
        await cluster.put("a", "cat", "/data/k", **mounted({"configMap": {"name": "late"}}))
        await cluster.until("a", lambda pod: pod.waits_for == "CreateContainerConfigError")
        await cluster.put_config("late", k="here")
        assert (await cluster.ended("a")).phase == "Succeeded"
        assert await cluster.log("a") == "here\n"

    run_processes(story)
