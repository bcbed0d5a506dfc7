"""Open a persisted cluster (`grove up --data-dir`): store, identity and nodes."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec

from grove.api.types.meta import JsonObject
from grove.cli.commands.up import NODE_RESOURCES, NODES, UpOptions, parse_resources
from grove.cli.common.random_source import new_token
from grove.clock import Clock
from grove.cluster.default_topology_binding import create_topology
from grove.cluster.http.cluster_identity import ClusterIdentity, new_identity, read_identity
from grove.cluster.nodes import NodeChanges, Nodes
from grove.cluster.storage.data_dir import DataDir
from grove.cluster.storage.group_commit import GroupCommit
from grove.cluster.storage.store import NotKeptError, Storage
from grove.errors import UserError
from grove.kube.api_errors import ApiError
from grove.kube.client import Client

_NAMED_NODES = 3


class PersistedCluster(msgspec.Struct, frozen=True, kw_only=True):
    """The state of the data directory at the start."""

    path: str
    object_count: int
    revision: int

    def to_json(self) -> JsonObject:
        return {"dataDir": self.path, "objects": self.object_count, "resourceVersion": str(self.revision)}

    def __str__(self) -> str:
        if not self.revision:
            return f"Kept in {self.path}: started with the same --data-dir again, it goes on."
        return f"Kept in {self.path}: goes on with {self.object_count:,} objects, resourceVersion {self.revision}."


def describe(data_dir: DataDir) -> PersistedCluster:
    store = data_dir.store
    number = sum(sum(1 for _ in table.entries(None)) for table in store.tables())
    return PersistedCluster(path=str(data_dir.path), object_count=number, revision=store.revision)


@asynccontextmanager
async def keeping(data_dir: DataDir | None) -> AsyncIterator[Storage | None]:
    """Yield the store of the data directory and persist its writes. Yields None without a directory."""
    if data_dir is None:
        yield None
        return
    journal = GroupCommit(data_dir.store, data_dir.log)
    try:
        yield data_dir.store
    finally:
        await journal.close()


async def check_is_kept(store: Storage | None) -> None:
    """Wait for the first writes. Raises `UserError` if they cannot be persisted."""
    if store is None or store.keeper is None:
        return
    try:
        await store.keeper.settled()
    except NotKeptError as problem:
        raise UserError(f"{problem}; see that there is room on the disk, and try again") from problem


def identity_of(data_dir: DataDir | None, clock: Clock) -> ClusterIdentity:
    """Return the persisted identity, so that old kubeconfigs work, or a new one."""
    kept = None if data_dir is None else read_identity(data_dir.read_identity(), clock.now())
    return kept or new_identity(new_token(), clock.now())


def keep_identity(data_dir: DataDir | None, identity: ClusterIdentity, *, port: int) -> None:
    if data_dir is None:
        return
    text = msgspec.structs.replace(identity, port=port).to_json()
    if text != data_dir.read_identity():
        data_dir.write_identity(text)


async def furnish(client: Client, clock: Clock, wishes: UpOptions, data_dir: DataDir | None) -> NodeChanges | None:
    """Create nodes and topology of a new cluster, or change the nodes of a persisted one and return the changes."""
    nodes, usual = Nodes(client, clock), parse_resources(NODE_RESOURCES)
    if data_dir is not None and data_dir.is_begun:
        return await nodes.reconcile(wishes.nodes, wishes.node_resources, usual=usual)
    # A cluster that was killed during its first start has some of the nodes.
    number = NODES if wishes.nodes is None else wishes.nodes
    await nodes.reconcile(number, wishes.node_resources or usual, usual=usual)
    try:
        await create_topology(client)
    except ApiError as error:
        if not error.is_already_exists:
            raise
    if data_dir is not None:
        data_dir.mark_begun()
    return None


def told_changes(changes: NodeChanges | None) -> list[str]:
    """Return one line per kind of change."""
    if changes is None:
        return []
    happened = (("added", changes.added), ("removed", changes.removed), ("resized", changes.resized))
    return [f"{_counted(names)} {verb}: {_named(names)}" for verb, names in happened if names]


def _counted(names: tuple[str, ...]) -> str:
    return "1 node" if len(names) == 1 else f"{len(names)} nodes"


def _named(names: tuple[str, ...]) -> str:
    return ", ".join(names) if len(names) <= _NAMED_NODES else f"{names[0]} ... {names[-1]}"
