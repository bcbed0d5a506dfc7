"""The official Python client, when it comes back too late: the server has forgotten where it was."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from kubernetes import config, watch
from kubernetes.client import CoreV1Api
from kubernetes.client.exceptions import ApiException

from tests.cli.console import ROOT
from tests.kube.controlplane.plane import running_plane

# A safety net, far above what anything takes.
SECONDS = 180


@contextmanager
def forgetful(kubeconfig: Path) -> Iterator[None]:
    """The embedded API without a past, in a process of its own."""
    command = [sys.executable, "-m", "tests.clients.forgetful", str(kubeconfig)]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "serving\n"
        yield
        process.communicate(timeout=SECONDS)
    assert process.returncode == 0


@pytest.fixture(scope="module", params=["embedded", pytest.param("real", marks=pytest.mark.kube)])
def core(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[CoreV1Api]:
    """To servers that have forgotten their first version: a real one has, when it is started again."""
    folder = tmp_path_factory.mktemp("late")
    with ExitStack() as stack:
        if request.param == "real":
            plane = stack.enter_context(running_plane(folder))
            # Lest it make those only after it was started again, and the watches below see them come.
            for name in ("kube-system", "kube-public", "kube-node-lease", "default"):
                plane.kubectl("wait", f"namespace/{name}", "--for=create", f"--timeout={SECONDS}s")
            plane.restart("kube-apiserver")
            plane.await_ready()
            kubeconfig = plane.kubeconfig
        else:
            kubeconfig = folder / "kubeconfig"
            stack.enter_context(forgetful(kubeconfig))
        yield CoreV1Api(stack.enter_context(config.new_client_from_config(config_file=str(kubeconfig))))


@pytest.mark.parametrize("seconds", [{"timeout_seconds": SECONDS}, {}], ids=["once", "again"])
def test_a_watch_from_long_ago_is_told_to_list_again(core: CoreV1Api, seconds: dict[str, int]) -> None:
    stream = watch.Watch().stream(core.list_namespace, resource_version="1", _request_timeout=SECONDS, **seconds)
    with pytest.raises(ApiException) as expired:
        next(stream)
    assert expired.value.status == 410
    assert str(expired.value.reason).startswith("Expired: too old resource version: 1 (")


def test_the_version_of_a_list_is_never_too_late(core: CoreV1Api) -> None:
    version = core.list_namespace().metadata.resource_version
    assert list(watch.Watch().stream(core.list_namespace, resource_version=version, timeout_seconds=1)) == []
