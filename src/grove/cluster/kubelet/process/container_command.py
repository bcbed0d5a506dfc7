"""Container command on this machine: arguments, environment and working directory, or the reason it cannot run.

Images are not pulled, so nothing is known of their entrypoint, their files or their environment.
"""

import os
import shutil
from collections.abc import Mapping

import msgspec

from grove.cluster.kubelet.process.environment import INHERITED, ConfigLookup, DownwardAPI, variables_of
from grove.cluster.kubelet.process.expansion import Mounts, expand
from grove.cluster.kubelet.process.pod_addresses import hostname_of
from grove.cluster.kubelet.process.pod_spec import Container, NotRunnable
from grove.cluster.kubelet.process.supervisor_client import Command
from grove.cluster.kubelet.process.volumes import PodHome

NOT_ON_THIS_MACHINE = "ErrImageNotSupported"
BAD_FOLDER = "CreateContainerError"


class Launch(msgspec.Struct, frozen=True, kw_only=True):
    command: Command
    mounts: Mounts


class Names(msgspec.Struct, frozen=True, kw_only=True):
    """Where the names of pods are looked up."""

    hosts_file: str
    python_path: str


def inherited_environment(machine: Mapping[str, str]) -> dict[str, str]:
    """The little that every program needs of this machine; never the whole of it: it may hold secrets."""
    return {"PATH": os.defpath} | {name: machine[name] for name in INHERITED if name in machine}


def build_launch(
    container: Container,
    around: DownwardAPI,
    lookup: ConfigLookup,
    home: PodHome,
    *,
    names: Names,
    inherited: Mapping[str, str],
) -> Launch:
    """Raises `NotRunnable`."""
    # A mount may depend on variables (subPathExpr), and variables may name mounts: these are put in afterwards.
    mounts = home.mount(container, variables_of(container, around, lookup, Mounts({})))
    variables = variables_of(container, around, lookup, mounts)
    environment = {**inherited, **_own_facts(container, around, home, names), **variables}
    if environment.get("GROVE_RESOLVER") != "off":
        paths = [names.python_path, *filter(None, [environment.get("PYTHONPATH")])]
        environment["PYTHONPATH"] = os.pathsep.join(paths)
    folder = _folder(container, mounts, home)
    words = [mounts.mapped(expand(word, variables)) for word in (*container.command, *container.args)]
    program = _program(container, words, environment["PATH"], folder)
    return Launch(command=Command(argv=(program, *words[1:]), env=environment, cwd=folder), mounts=mounts)


def _own_facts(container: Container, around: DownwardAPI, home: PodHome, names: Names) -> dict[str, str]:
    return {
        "HOME": str(home.home),
        "TMPDIR": str(home.temporary),
        "HOSTNAME": hostname_of(around.metadata.name, around.spec.hostname),
        "GROVE_ROOT": str(home.root(container.name)),
        "GROVE_POD_IP": around.pod_ip,
        "GROVE_HOSTS_FILE": names.hosts_file,
    }


def _folder(container: Container, mounts: Mounts, home: PodHome) -> str:
    if not container.working_dir:
        return str(home.root(container.name))
    folder = mounts.mapped(container.working_dir)
    if not os.path.isdir(folder):
        raise NotRunnable(
            f"container {container.name}: workingDir {container.working_dir} is neither in a volume nor a folder of "
            "this machine; make it, or mount a volume there",
            reason=BAD_FOLDER,
        )
    return folder


def _program(container: Container, words: list[str], path: str, folder: str) -> str:
    if not container.command:
        raise NotRunnable(
            f"container {container.name} has no command: images are not pulled here, so the entrypoint of "
            f"{container.image} is not known; write command (args alone are not enough)",
            reason=NOT_ON_THIS_MACHINE,
        )
    name = words[0]
    if "\0" in "".join(words):
        raise NotRunnable(f"container {container.name}: the command has a null character; take it out")
    found = shutil.which(os.path.join(folder, name) if "/" in name else name, path=path)
    if found is None:
        raise NotRunnable(
            f"container {container.name}: the command {name!r} is not on this machine, and images are not pulled here "
            f"({container.image}); install it, or write the path of a program that is there",
            reason=NOT_ON_THIS_MACHINE,
        )
    return found
