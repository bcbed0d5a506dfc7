"""Open a persisted cluster (`grove up --data-dir`): store, identity and nodes."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec

from grove.api.types.meta import JsonObject
from grove.cli.commands.up import NODE_RESOURCES, NODES, UpOptions, parse_resources
from grove.clock import Clock
from grove.cluster.default_topology_binding import create_topology
from grove.cluster.http.cluster_identity import ClusterIdentity, new_identity, read_identity
from grove.cluster.nodes import NodeChanges, Nodes
from grove.cluster.storage.data_dir import DataDir
from grove.cluster.storage.group_commit import GroupCommit
from grove.cluster.storage.store import NotPersistedError, Storage
from grove.errors import UserError
from grove.kube.api_errors import ApiError
from grove.kube.client import Client
from grove.operations.random_source import new_token

_MAX_NAMES = 3


class PersistedCluster(msgspec.Struct, frozen=True, kw_only=True):
    """The state of the data directory at the start."""

    path: str
    object_count: int
    revision: int

    def to_json(self) -> JsonObject:
        return {"dataDir": self.path, "objects": self.object_count, "resourceVersion": str(self.revision)}

    def __str__(self) -> str:
        if not self.revision:
            return f"Persisted in {self.path}: start it with the same --data-dir to resume."
        return f"Persisted in {self.path}: resumes with {self.object_count:,} objects, resourceVersion {self.revision}."


def describe_data_dir(data_dir: DataDir) -> PersistedCluster:
    store = data_dir.store
    number = sum(sum(1 for _ in table.entries(None)) for table in store.tables())
    return PersistedCluster(path=str(data_dir.path), object_count=number, revision=store.revision)


@asynccontextmanager
async def open_store(data_dir: DataDir | None) -> AsyncIterator[Storage | None]:
    """Yield the store of the data directory and persist its writes. Yields None without a directory."""
    if data_dir is None:
        yield None
        return
    group_commit = GroupCommit(data_dir.store, data_dir.log)
    try:
        yield data_dir.store
    finally:
        await group_commit.close()


async def check_is_persisted(store: Storage | None) -> None:
    """Wait for the first writes. Raises `UserError` if they cannot be persisted."""
    if store is None or store.persister is None:
        return
    try:
        await store.persister.wait_persisted()
    except NotPersistedError as error:
        raise UserError(f"{error}; free some disk space and try again") from error


def load_identity(data_dir: DataDir | None, clock: Clock) -> ClusterIdentity:
    """Return the persisted identity, so that old kubeconfigs work, or a new one."""
    persisted = None if data_dir is None else read_identity(data_dir.read_identity(), clock.now())
    return persisted or new_identity(new_token(), clock.now())


def persist_identity(data_dir: DataDir | None, identity: ClusterIdentity, *, port: int) -> None:
    if data_dir is None:
        return
    text = msgspec.structs.replace(identity, port=port).to_json()
    if text != data_dir.read_identity():
        data_dir.write_identity(text)


async def prepare_nodes(
    client: Client, clock: Clock, options: UpOptions, data_dir: DataDir | None
) -> NodeChanges | None:
    """Create nodes and topology of a new cluster, or change the nodes of a persisted one and return the changes."""
    nodes, usual = Nodes(client, clock), parse_resources(NODE_RESOURCES)
    if data_dir is not None and data_dir.is_initialized:
        return await nodes.reconcile(options.nodes, options.node_resources, default_resources=usual)
    # A cluster that was killed during its first start has some of the nodes.
    number = NODES if options.nodes is None else options.nodes
    await nodes.reconcile(number, options.node_resources or usual, default_resources=usual)
    try:
        await create_topology(client)
    except ApiError as error:
        if not error.is_already_exists:
            raise
    if data_dir is not None:
        data_dir.mark_initialized()
    return None


def describe_node_changes(changes: NodeChanges | None) -> list[str]:
    """Return one line per kind of change."""
    if changes is None:
        return []
    groups = (("added", changes.added), ("removed", changes.removed), ("resized", changes.resized))
    return [f"{_count_nodes(names)} {verb}: {_list_names(names)}" for verb, names in groups if names]


def _count_nodes(names: tuple[str, ...]) -> str:
    return "1 node" if len(names) == 1 else f"{len(names)} nodes"


def _list_names(names: tuple[str, ...]) -> str:
    return ", ".join(names) if len(names) <= _MAX_NAMES else f"{names[0]} ... {names[-1]}"
