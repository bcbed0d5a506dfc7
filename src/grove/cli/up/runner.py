"""Run an embedded cluster with its HTTPS API and the operator in the foreground.

The kubeconfig is written after the API is ready, and removed before the API stops. `data_dir.py` handles persisted
clusters.
"""

import asyncio
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from pathlib import Path

from grove.cli.commands.apply import apply_all
from grove.cli.commands.up import UpOptions
from grove.cli.common.embedded_cluster import inhabit, new_cluster, prepare_process
from grove.cli.common.manifest_reader import ManifestDocument, read_documents
from grove.cli.common.output import Format, say, say_json_line
from grove.cli.common.random_source import fresh_random
from grove.cli.status.set_watcher import Followed, show_for_ever
from grove.cli.up.data_dir import (
    PersistedCluster,
    check_is_kept,
    describe,
    furnish,
    identity_of,
    keep_identity,
    keeping,
    told_changes,
)
from grove.clock import Clock, LoopClock
from grove.cluster.built_in_resources import NODES
from grove.cluster.embedded_cluster import EmbeddedCluster, KubeletKind
from grove.cluster.http.cluster_identity import ClusterIdentity
from grove.cluster.http.https_server import HttpApi
from grove.cluster.http.kubeconfig_writer import remove_kubeconfig, write_kubeconfig
from grove.cluster.storage.data_dir import DataDir, open_data_dir
from grove.errors import UserError
from grove.kube.kubeconfig import OWN_KUBECONFIG, find_access, is_listening

# This line marks the kubeconfig of an embedded cluster.
CONTEXT = "current-context: grove"


def serve(wishes: UpOptions) -> None:
    """Run until Ctrl-C, SIGTERM, or until the terminal is closed."""
    documents = [document for path in wishes.files for document in read_documents(path)]
    _check_kubeconfig(wishes.kubeconfig)
    with ExitStack() as stack:
        data_dir = None if wishes.data_dir is None else stack.enter_context(open_data_dir(wishes.data_dir))
        prepare_process()
        asyncio.run(_serve(wishes, documents, data_dir))


async def _serve(wishes: UpOptions, documents: list[ManifestDocument], data_dir: DataDir | None) -> None:
    clock = LoopClock.starting_now()
    stop = asyncio.Event()
    for number in _ending_signals():
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    kept = None if data_dir is None else describe(data_dir)
    identity = identity_of(data_dir, clock)
    async with keeping(data_dir) as store:
        cluster = new_cluster(clock, KubeletKind(wishes.kubelet), store, has_operator=wishes.has_operator)
        await check_is_kept(store)
        async with _started(cluster, identity, wishes.port) as api:
            keep_identity(data_dir, identity, port=api.port)
            changes = await furnish(cluster.client(), clock, wishes, data_dir)
            with _kubeconfig(wishes.kubeconfig, api, identity.token):
                _greet(wishes, api.url, kept, node_count=cluster.server.store.table(NODES).count(""))
                for line in told_changes(changes) if wishes.output is Format.TEXT else ():
                    say(line)
                await _inhabit(cluster, clock, wishes, documents, stop)


def _ending_signals() -> Iterator[signal.Signals]:
    yield signal.SIGINT
    yield signal.SIGTERM
    # The terminal was closed. With `nohup` the signal stays ignored.
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        yield signal.SIGHUP


async def _inhabit(
    cluster: EmbeddedCluster, clock: Clock, wishes: UpOptions, documents: list[ManifestDocument], stop: asyncio.Event
) -> None:
    """Run the cluster and all its tasks until `stop`. If one fails, all end with its error."""
    async with asyncio.TaskGroup() as group:
        tasks = inhabit(group, cluster, clock, has_operator=wishes.has_operator)
        await apply_all(cluster.connect(), documents, "default", wishes.output)
        followed = Followed(cluster.client(), clock, fresh_random())
        tasks.append(group.create_task(followed.run()))
        tasks.append(group.create_task(show_for_ever(followed, clock, wishes.output)))
        await stop.wait()
        for task in tasks:
            task.cancel()


@asynccontextmanager
async def _started(cluster: EmbeddedCluster, identity: ClusterIdentity, port: int) -> AsyncIterator[HttpApi]:
    """Serve the API on the requested port; else on its previous port if that is free, else on any."""
    try:
        api = await _start(cluster, identity, port or identity.port)
    except OSError as error:
        if port:
            raise UserError(f"port {port} cannot be used ({error.strerror}); choose another one with --port") from error
        api = await _start(cluster, identity, 0)
    try:
        yield api
    finally:
        await api.stop()


async def _start(cluster: EmbeddedCluster, identity: ClusterIdentity, port: int) -> HttpApi:
    """Start the API. On `OSError` it is stopped completely before the error is raised."""
    api = HttpApi(cluster.server, token=identity.token, port=port, certificates=identity.certificates)
    try:
        await api.start()
    except OSError:
        await api.stop()
        raise
    cluster.root_ca = api.ca
    return api


@contextmanager
def _kubeconfig(path: Path, api: HttpApi, token: str) -> Iterator[None]:
    is_new_folder = not path.parent.exists()
    try:
        write_kubeconfig(path, url=api.url, ca=api.ca, token=token)
    except OSError as error:
        raise UserError(f"{path}: cannot be written ({error.strerror}); choose another --kubeconfig") from error
    try:
        yield
    finally:
        remove_kubeconfig(path, url=api.url)
        if is_new_folder and not any(path.parent.iterdir()):
            path.parent.rmdir()


def _check_kubeconfig(path: Path) -> None:
    """Raise `UserError` for a kubeconfig that is foreign or in use. The file of a killed `grove up` may be replaced."""
    if not path.exists():
        return
    try:
        access = find_access({}, kubeconfig=path)
        is_ours = access.server.startswith("https://127.0.0.1:") and CONTEXT in path.read_text()
    except UserError:
        is_ours = False
    if not is_ours:
        raise UserError(f"{path}: exists and was not written by `grove up`; choose another --kubeconfig")
    if is_listening(access):
        raise UserError(
            f"{path}: another `grove up` serves {access.server}; stop it first, or choose another --kubeconfig"
        )


def _greet(wishes: UpOptions, url: str, kept: PersistedCluster | None, *, node_count: int) -> None:
    if wishes.output is Format.JSON:
        say_json_line({"url": url, "kubeconfig": str(wishes.kubeconfig), **({} if kept is None else kept.to_json())})
        return
    operator = "and the Grove operator" if wishes.has_operator else "without an operator"
    say(f"A cluster with {node_count} nodes {operator}: {url}")
    if kept is not None:
        say(str(kept))
    flag = "" if wishes.kubeconfig == OWN_KUBECONFIG else f" --kubeconfig {wishes.kubeconfig}"
    say(f"  kubectl --kubeconfig {wishes.kubeconfig} get pods")
    say(f"  grove status{flag}      grove why{flag} pcs/NAME      grove apply{flag} -f FILE")
    say("Ctrl-C ends it.")
