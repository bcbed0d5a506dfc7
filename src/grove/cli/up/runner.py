"""Run an embedded cluster with its HTTPS API and the operator in the foreground.

The kubeconfig is written after the API is ready, and removed before the API stops. `data_dir.py` handles persisted
clusters.
"""

import asyncio
import os
import shlex
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from pathlib import Path

from grove.cli.commands.apply import apply_and_print
from grove.cli.commands.up import UpOptions
from grove.cli.common.output import Format, print_error, print_json_line, print_line
from grove.cli.common.process_setup import prepare_process
from grove.cli.status.set_watcher import SetWatcher, show_changes
from grove.cli.up.data_dir import (
    PersistedCluster,
    check_is_persisted,
    describe_data_dir,
    describe_node_changes,
    load_identity,
    open_store,
    persist_identity,
    prepare_nodes,
)
from grove.cli.up.metrics import serve_metrics
from grove.clock import Clock, LoopClock
from grove.cluster.built_in_resources import NODES
from grove.cluster.embedded_cluster import EmbeddedCluster, KubeletKind
from grove.cluster.http.cluster_identity import ClusterIdentity
from grove.cluster.http.https_server import ADDRESS, HttpApi
from grove.cluster.http.kubeconfig_writer import remove_kubeconfig, write_kubeconfig
from grove.cluster.storage.data_dir import DataDir, open_data_dir
from grove.controller.observability.metrics import Metrics
from grove.errors import UserError
from grove.kube.kubeconfig import find_access
from grove.kube.local_cluster import OWN_KUBECONFIG, forget_end, is_listening, record_end
from grove.operations.apply.manifest_reader import ManifestDocument, read_manifests
from grove.operations.embedded_cluster import new_cluster, start_cluster
from grove.operations.hints import HintScope, hint_flags, set_hint_scope
from grove.operations.random_source import fresh_random


def serve(options: UpOptions) -> None:
    """Run until Ctrl-C, SIGTERM, or until the terminal is closed."""
    documents = read_manifests(options.files)
    _check_kubeconfig(options.kubeconfig)
    is_found = options.kubeconfig == OWN_KUBECONFIG and not os.environ.get("KUBECONFIG")
    set_hint_scope(HintScope(kubeconfig="" if is_found else str(options.kubeconfig)))
    with ExitStack() as stack:
        data_dir = None if options.data_dir is None else stack.enter_context(open_data_dir(options.data_dir))
        prepare_process()
        asyncio.run(_serve(options, documents, data_dir))


async def _serve(options: UpOptions, documents: list[ManifestDocument], data_dir: DataDir | None) -> None:
    clock = LoopClock.starting_now()
    stop = asyncio.Event()
    for number in _stop_signals():
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    persisted = None if data_dir is None else describe_data_dir(data_dir)
    identity = load_identity(data_dir, clock)
    async with open_store(data_dir) as store:
        cluster = new_cluster(
            clock,
            KubeletKind(options.kubelet),
            store,
            has_operator=options.has_operator,
            ready_after=options.ready_after,
        )
        metrics = Metrics(clock) if options.has_operator else None
        await check_is_persisted(store)
        async with (
            serve_metrics(metrics, options.metrics_port) as metrics_url,
            _open_api(cluster, identity, options.port) as api,
        ):
            persist_identity(data_dir, identity, port=api.port)
            changes = await prepare_nodes(cluster.client(), clock, options, data_dir)
            with _provide_kubeconfig(options.kubeconfig, api, identity.token):
                _warn_of_other_kubeconfig(options.kubeconfig)
                node_count = cluster.server.store.table(NODES).count("")
                _print_start(options, api.url, metrics_url, persisted, node_count=node_count)
                for line in describe_node_changes(changes) if options.output is Format.TEXT else ():
                    print_line(line)
                await _run_cluster(cluster, clock, options, documents, stop, metrics)


def _stop_signals() -> Iterator[signal.Signals]:
    yield signal.SIGINT
    yield signal.SIGTERM
    # The terminal was closed. With `nohup` the signal stays ignored.
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        yield signal.SIGHUP


async def _run_cluster(
    cluster: EmbeddedCluster,
    clock: Clock,
    options: UpOptions,
    documents: list[ManifestDocument],
    stop: asyncio.Event,
    metrics: Metrics | None,
) -> None:
    """Run the cluster and all its tasks until `stop`. If one fails, all end with its error."""
    async with asyncio.TaskGroup() as group:
        tasks = start_cluster(group, cluster, clock, has_operator=options.has_operator, metrics=metrics)
        await apply_and_print(cluster.connect(), documents, "default", options.output)
        watcher = SetWatcher(cluster.client(), clock, fresh_random())
        tasks.append(group.create_task(watcher.run()))
        tasks.append(group.create_task(show_changes(watcher, clock, options.output)))
        await stop.wait()
        for task in tasks:
            task.cancel()


@asynccontextmanager
async def _open_api(cluster: EmbeddedCluster, identity: ClusterIdentity, port: int) -> AsyncIterator[HttpApi]:
    """Serve the API on the requested port; else on its previous port if that is free, else on any."""
    try:
        api = await _start(cluster, identity, port or identity.port)
    except OSError as error:
        if port:
            raise UserError(
                f"port {port} cannot be used ({error.strerror}); choose another port with --port"
            ) from error
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
    cluster.api_address = (ADDRESS, api.port)
    return api


@contextmanager
def _provide_kubeconfig(path: Path, api: HttpApi, token: str) -> Iterator[None]:
    is_new_folder = not path.parent.exists()
    try:
        write_kubeconfig(path, url=api.url, ca=api.ca, token=token)
    except OSError as error:
        raise UserError(
            f"{path}: cannot be written ({error.strerror}); choose another file with --kubeconfig"
        ) from error
    forget_end(os.environ, path)
    try:
        yield
    finally:
        record_end(os.environ, path, api.url)
        remove_kubeconfig(path, url=api.url)
        if is_new_folder and not any(path.parent.iterdir()):
            path.parent.rmdir()


def _check_kubeconfig(path: Path) -> None:
    """Raise `UserError` for a kubeconfig that is foreign or in use. The file of a killed `grove up` may be replaced."""
    if not path.exists():
        return
    try:
        access = find_access({}, kubeconfig=path)
        is_written_by_up = access.is_local
    except UserError:
        is_written_by_up = False
    if not is_written_by_up:
        raise UserError(f"{path}: exists and was not written by `grove up`; choose another file with --kubeconfig")
    if is_listening(access.server):
        raise UserError(
            f"{path}: another `grove up` serves {access.server}; stop it, or choose another file with --kubeconfig"
        )


def _warn_of_other_kubeconfig(path: Path) -> None:
    """Warn that the environment selects another cluster, and print the line that selects this one."""
    named = os.environ.get("KUBECONFIG", "")
    if named and Path(named).absolute() != path.absolute():
        print_error(f"Warning: KUBECONFIG={named} is set, so grove and kubectl use that cluster. To use this one:")
        print_error(f"  export KUBECONFIG={shlex.quote(str(path.absolute()))}")


def _print_start(
    options: UpOptions, url: str, metrics_url: str, persisted: PersistedCluster | None, *, node_count: int
) -> None:
    if options.output is Format.JSON:
        metrics = {"metrics": metrics_url} if metrics_url else {}
        kept = {} if persisted is None else persisted.to_json()
        print_json_line({"url": url, "kubeconfig": str(options.kubeconfig), **metrics, **kept})
        return
    operator = "and the Grove operator" if options.has_operator else "without an operator"
    print_line(f"A cluster with {node_count} nodes {operator}: {url}")
    if persisted is not None:
        print_line(str(persisted))
    flag = hint_flags()
    print_line(f"  kubectl --kubeconfig {shlex.quote(str(options.kubeconfig))} get pods")
    print_line(f"  grove status{flag}      grove why{flag} pcs/NAME      grove apply{flag} -f FILE")
    if metrics_url:
        print_line(f"  curl {metrics_url}")
    print_line("Ctrl-C ends it.")
