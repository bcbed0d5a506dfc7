"""Container config on this machine: command, environment, working directory and mounts; or why it cannot run.

Images are not pulled, so their entrypoints, files and environments are not available.
"""

import os
import shutil
import sys
from collections.abc import Mapping

import msgspec

from grove.cluster.kubelet.process.environment import INHERITED, ConfigLookup, DownwardAPI, variables_of
from grove.cluster.kubelet.process.expansion import Mounts, expand
from grove.cluster.kubelet.process.pod_addresses import hostname_of
from grove.cluster.kubelet.process.pod_spec import Container, NotRunnable
from grove.cluster.kubelet.process.supervisor_client import Command
from grove.cluster.kubelet.process.volumes import PodDirectory

NOT_ON_THIS_MACHINE = "ErrImageNotSupported"
BAD_FOLDER = "CreateContainerError"


class ContainerConfig(msgspec.Struct, frozen=True, kw_only=True):
    command: Command
    mounts: Mounts


class DnsConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The files that resolve the names of pods."""

    hosts_file: str
    python_path: str


def inherited_environment(machine: Mapping[str, str]) -> dict[str, str]:
    """Return the few variables that every program needs. The others may hold secrets.

    The folder of this program is last on the PATH: init containers run `grove wait`.
    """
    inherited = {"PATH": os.defpath} | {name: machine[name] for name in INHERITED if name in machine}
    return {**inherited, "PATH": os.pathsep.join((inherited["PATH"], os.path.dirname(sys.executable)))}


def build_container_config(
    container: Container,
    downward_api: DownwardAPI,
    lookup: ConfigLookup,
    directory: PodDirectory,
    *,
    dns: DnsConfig,
    inherited: Mapping[str, str],
) -> ContainerConfig:
    """Build the config of a container. Raises `NotRunnable`."""
    # Mounts may depend on variables (subPathExpr), and variables may name mount paths: so read variables twice.
    mounts = directory.mount(container, variables_of(container, downward_api, lookup, Mounts({})))
    variables = variables_of(container, downward_api, lookup, mounts)
    environment = {**inherited, **_builtin_variables(container, downward_api, directory, dns), **variables}
    if environment.get("GROVE_RESOLVER") != "off":
        paths = [dns.python_path, *filter(None, [environment.get("PYTHONPATH")])]
        environment["PYTHONPATH"] = os.pathsep.join(paths)
    working_dir = _working_dir(container, mounts, directory)
    words = [mounts.translate(expand(word, variables)) for word in (*container.command, *container.args)]
    program = _program(container, words, environment["PATH"], working_dir)
    return ContainerConfig(command=Command(argv=(program, *words[1:]), env=environment, cwd=working_dir), mounts=mounts)


def _builtin_variables(
    container: Container, downward_api: DownwardAPI, directory: PodDirectory, dns: DnsConfig
) -> dict[str, str]:
    return {
        "HOME": str(directory.home),
        "TMPDIR": str(directory.temporary),
        "HOSTNAME": hostname_of(downward_api.metadata.name, downward_api.spec.hostname),
        "GROVE_ROOT": str(directory.root(container.name)),
        "GROVE_POD_IP": downward_api.pod_ip,
        "GROVE_HOSTS_FILE": dns.hosts_file,
    }


def _working_dir(container: Container, mounts: Mounts, directory: PodDirectory) -> str:
    if not container.working_dir:
        return str(directory.root(container.name))
    working_dir = mounts.translate(container.working_dir)
    if not os.path.isdir(working_dir):
        raise NotRunnable(
            f"container {container.name}: workingDir {container.working_dir} is neither in a volume nor a directory of "
            "this machine; create it, or mount a volume there",
            reason=BAD_FOLDER,
        )
    return working_dir


def _program(container: Container, words: list[str], path: str, working_dir: str) -> str:
    if not container.command:
        raise NotRunnable(
            f"container {container.name} has no command: images are not pulled here, so the entrypoint of "
            f"{container.image} is unknown; set command (args are not enough)",
            reason=NOT_ON_THIS_MACHINE,
        )
    name = words[0]
    if "\0" in "".join(words):
        raise NotRunnable(f"container {container.name}: the command contains a null character; remove it")
    found = shutil.which(os.path.join(working_dir, name) if "/" in name else name, path=path)
    if found is None:
        raise NotRunnable(
            f"container {container.name}: the command {name!r} is not on this machine, and images are not pulled here "
            f"({container.image}); install it, or use the path of an installed program",
            reason=NOT_ON_THIS_MACHINE,
        )
    return found
