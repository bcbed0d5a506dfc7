"""What `grove up` does: wires cluster, HTTP, operator and pictures together, and takes them apart again.

The order matters: the kubeconfig appears once the API answers, and is gone before the API is.
"""

import asyncio
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

from grove.cli.apply import apply_all
from grove.cli.chance import fresh_random, new_token
from grove.cli.documents import Document, read_documents
from grove.cli.embedding import inhabit, new_cluster, prepare_process
from grove.cli.following import Followed, show_for_ever
from grove.cli.output import Format, say, say_json_line
from grove.cli.up import Wishes
from grove.clock import Clock, LoopClock
from grove.cluster.app import EmbeddedCluster, KubeletKind
from grove.cluster.http.kubeconfig import remove_kubeconfig, write_kubeconfig
from grove.cluster.http.server import HttpApi
from grove.cluster.nodes import Nodes
from grove.errors import UserError
from grove.kube.config import OWN_KUBECONFIG, find_access, is_listening

# How the kubeconfig of an embedded cluster is recognised.
CONTEXT = "current-context: grove"


def serve(wishes: Wishes) -> None:
    """Until Ctrl-C or SIGTERM."""
    documents = [document for path in wishes.files for document in read_documents(path)]
    _check_kubeconfig(wishes.kubeconfig)
    prepare_process()
    asyncio.run(_serve(wishes, documents))


async def _serve(wishes: Wishes, documents: list[Document]) -> None:
    clock = LoopClock.starting_now()
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    cluster = new_cluster(clock, KubeletKind(wishes.kubelet))
    token = new_token()
    api = HttpApi(cluster.server, token=token, port=wishes.port)
    async with _started(api, wishes.port):
        await Nodes(cluster.client(), clock).create(wishes.nodes, wishes.node_resources)
        with _kubeconfig(wishes.kubeconfig, api, token):
            _greet(wishes, api.url)
            await _inhabit(cluster, clock, wishes, documents, stop)


async def _inhabit(
    cluster: EmbeddedCluster, clock: Clock, wishes: Wishes, documents: list[Document], stop: asyncio.Event
) -> None:
    """Everything that lives in the cluster, until `stop`. One that fails ends all, with its error."""
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
async def _started(api: HttpApi, port: int) -> AsyncIterator[None]:
    try:
        await api.start()
    except OSError as error:
        raise UserError(f"port {port} cannot be used ({error.strerror}); choose another one with --port") from error
    try:
        yield
    finally:
        await api.stop()


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
    """Refuse to overwrite what is not ours, or is in use; what a killed `grove up` left behind is replaced."""
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


def _greet(wishes: Wishes, url: str) -> None:
    if wishes.output is Format.JSON:
        say_json_line({"url": url, "kubeconfig": str(wishes.kubeconfig)})
        return
    operator = "and the Grove operator" if wishes.has_operator else "without an operator"
    say(f"A cluster with {wishes.nodes} nodes {operator}: {url}")
    flag = "" if wishes.kubeconfig == OWN_KUBECONFIG else f" --kubeconfig {wishes.kubeconfig}"
    say(f"  kubectl --kubeconfig {wishes.kubeconfig} get pods")
    say(f"  grove status{flag}      grove why{flag} pcs/NAME      grove apply{flag} -f FILE")
    say("Ctrl-C ends it.")
