"""The async client: every operation of the SDK. `sync_client.py` runs it for code that is not async."""

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec

from grove.api.resources import PODCLIQUESETS
from grove.api.types.podcliqueset import PodCliqueSet
from grove.kube.api_errors import ApiError
from grove.operations.apply.apply_merge import ApplyRejected, apply_document
from grove.operations.apply.manifest_reader import ManifestDocument
from grove.operations.connection import Connection
from grove.operations.logs.log_reader import LogSelection
from grove.operations.logs.log_targets import find_target
from grove.operations.object_ref import ObjectRef, parse_kind
from grove.operations.resource_args import RESOURCES
from grove.operations.rollout.restart import RestartResult, restart
from grove.operations.rollout.undo import UndoResult, undo
from grove.operations.scale_subresource import ScaleResult, set_replicas
from grove.planner.explain.text import Explanation
from grove.sdk.errors import GroveError, SetNotFound, SetRejected, translate_errors
from grove.sdk.log_stream import PodLogLine, follow_lines, read_lines
from grove.sdk.manifests import to_dict
from grove.sdk.session import Session
from grove.sdk.set_waiter import SetWaiter, WaitCondition, WaitProgress

SetOrName = PodCliqueSet | str


class Submitted(msgspec.Struct, frozen=True, kw_only=True):
    """A set that was submitted: as the API server stored it, what was done, and the warnings of the server.

    Example:
        submitted = client.submit(chat)
        print(submitted.action, submitted.stored.metadata.uid, submitted.warnings)
    """

    stored: PodCliqueSet
    # "created", "configured" or "unchanged".
    action: str
    warnings: tuple[str, ...] = ()


class AsyncClient:
    """A client for the sets of one namespace, for async code.

    The cluster is found like that of the command line: `kubeconfig`, the variable KUBECONFIG, the `.grove/kubeconfig`
    of a local cluster that answers, then kubectl's default. It connects at the first call. Every method raises a
    `GroveError`.

    Example:
        async with AsyncClient(namespace="team") as client:
            await client.submit(chat)
            await client.wait("chat", timeout=600)
    """

    def __init__(self, *, kubeconfig: str | Path | None = None, context: str = "", namespace: str = "") -> None:
        """`namespace`: by default that of the context."""
        self._session = Session(kubeconfig=None if kubeconfig is None else Path(kubeconfig), context=context)
        self._namespace = namespace

    @classmethod
    def _of(cls, session: Session, namespace: str) -> Self:
        client = cls(namespace=namespace)
        client._session = session
        return client

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections. A later call opens new ones."""
        await self._session.close()

    def in_namespace(self, namespace: str) -> Self:
        """Return a client of another namespace of the same cluster. Both share their connections."""
        return self._of(self._session, namespace)

    async def submit(self, pcs: PodCliqueSet | dict[str, Any]) -> Submitted:
        """Create a set, or update the one of its name, like `grove apply`. Raises `SetRejected`.

        Fields that were submitted before and are gone now are removed; fields of other writers stay. A set without a
        namespace belongs to the namespace of the client.
        """
        body = to_dict(pcs) if isinstance(pcs, PodCliqueSet) else pcs
        with translate_errors():
            connection = await self._connect()
            document = ManifestDocument(place=f"namespace {connection.namespace}", body=body)
            try:
                result = await apply_document(connection.transport, document, connection.namespace)
            except ApplyRejected as error:
                raise SetRejected(str(error)) from error
            stored = await connection.client.get(PODCLIQUESETS, result.namespace, result.name)
        return Submitted(stored=stored, action=str(result.action), warnings=result.warnings)

    async def get(self, pcs: SetOrName) -> PodCliqueSet:
        """Return a set with its status. Raises `SetNotFound`."""
        with translate_errors():
            connection = await self._connect(pcs)
            return await _get(connection, _name_of(pcs))

    async def list(self, *, selector: str = "", all_namespaces: bool = False) -> tuple[PodCliqueSet, ...]:
        """Return the sets of the namespace, or of all. `selector`: of labels, such as `team=search`."""
        with translate_errors():
            connection = await self._connect()
            namespace = "" if all_namespaces else connection.namespace
            found = await connection.client.list(PODCLIQUESETS, namespace=namespace, label_selector=selector)
        return found.items

    async def wait(
        self,
        pcs: SetOrName,
        condition: WaitCondition = "available",
        *,
        timeout: float | None = None,
        on_progress: Callable[[WaitProgress], None] | None = None,
    ) -> PodCliqueSet:
        """Wait for a condition and return the set. `on_progress` gets every change.

        * `"available"`: all replicas are available.
        * `"updated"`: nothing is left to do: all pods run the newest templates, and all replicas are available.
        * `"ready"`: the same, and every pod is ready, also those above the minimum.
        * `"complete"`: a training set succeeded.
        * `"deleted"`: the set is gone.
        * A function: it gets the set and returns whether to stop waiting.

        Raises `WaitTimeout` after `timeout` seconds; `SetFailed` if a training set failed, the set is invalid, or the
        update that is waited for has stalled; `SetDeleted` if the set is deleted; `SetNotFound` if there is none.
        """
        with translate_errors():
            connection = await self._connect(pcs)
            found = await _get(connection, _name_of(pcs))
            return await SetWaiter(connection, found, condition).wait(timeout, on_progress)

    async def logs(
        self,
        target: SetOrName,
        *,
        follow: bool = False,
        container: str = "",
        tail: int | None = None,
        since_seconds: int | None = None,
    ) -> AsyncGenerator[PodLogLine, None]:
        """Yield the lines of all pods of a set, or of `pclq/NAME`, `pcsg/NAME`, `pg/NAME`.

        Without `follow`: the lines that exist, by time. With it: lines as they are written, also of pods that start
        later, until the object is deleted or a training set has ended. `tail`: only so many lines of each log.
        """
        options = LogSelection(container=container, tail=tail, since_seconds=since_seconds)
        with translate_errors():
            connection = await self._connect(target)
            ref = _ref_of(target, kinds=("podcliqueset", "podclique", "podcliquescalinggroup", "podgang"))
            await _find(connection, ref)
            found = await find_target(connection, ref)
            if not follow:
                for line in await read_lines(connection, found, options):
                    yield line
                return
            async with aclosing(follow_lines(connection, found, options)) as lines:
                async for line in lines:
                    yield line

    async def scale(self, target: SetOrName, replicas: int) -> ScaleResult:
        """Set the number of replicas of a set, or of `pcsg/NAME` or `pclq/NAME`."""
        with translate_errors():
            connection = await self._connect(target)
            ref = _ref_of(target, kinds=("podcliqueset", "podcliquescalinggroup", "podclique"))
            await _find(connection, ref)
            return await set_replicas(connection, ref, replicas, None)

    async def restart(self, pcs: SetOrName) -> RestartResult:
        """Replace all pods of a set by a rolling update, without a change of its templates."""
        with translate_errors():
            connection = await self._connect(pcs)
            await _get(connection, _name_of(pcs))
            return await restart(connection, _name_of(pcs))

    async def undo(self, pcs: SetOrName, *, to_revision: int | None = None) -> UndoResult:
        """Roll a set back to the revision before the current one, or to another one. Wait for `"updated"` then."""
        with translate_errors():
            connection = await self._connect(pcs)
            await _get(connection, _name_of(pcs))
            return await undo(connection, _name_of(pcs), to_revision, is_dry_run=False)

    async def why(self, target: SetOrName) -> tuple[Explanation, ...]:
        """Explain what a set waits for and what happens next, like `grove why`; also any object, as `pod/NAME`.

        The most important reason comes first. Its `text` is a sentence, its `reason` a word for programs.
        """
        from grove.operations.why.runner import explain

        with translate_errors():
            connection = await self._connect(target)
            ref = _ref_of(target, kinds=tuple(RESOURCES))
            await _find(connection, ref)
            return await explain(connection.client, connection.clock.now(), connection.namespace, ref)

    async def delete(self, pcs: SetOrName, *, wait: bool = True, timeout: float | None = None) -> None:
        """Delete a set with everything that it owns, and wait until it is gone. Raises `SetNotFound`."""
        with translate_errors():
            connection = await self._connect(pcs)
            found = await _get(connection, _name_of(pcs))
            metadata = found.metadata
            await connection.client.delete(PODCLIQUESETS, metadata.namespace, metadata.name, uid=metadata.uid)
            if wait:
                await SetWaiter(connection, found, "deleted").wait(timeout)

    async def _connect(self, target: SetOrName = "") -> Connection:
        """Return the connection, with the namespace of the target, of the client, or of the context."""
        connection = await self._session.connect()
        own = target.metadata.namespace if isinstance(target, PodCliqueSet) else ""
        return msgspec.structs.replace(connection, namespace=own or self._namespace or connection.namespace)


async def _get(connection: Connection, name: str) -> PodCliqueSet:
    found: PodCliqueSet = await _find(connection, ObjectRef("podcliqueset", name))
    return found


async def _find(connection: Connection, ref: ObjectRef) -> Any:
    """Return an object. Raises `SetNotFound`."""
    try:
        return await connection.client.get(RESOURCES[ref.kind], connection.namespace, ref.name)
    except ApiError as error:
        if error.is_not_found and error.reason == "NotFound" and ref.name in error.message:
            where = f"namespace {connection.namespace!r}"
            raise SetNotFound(f"no {ref} in {where}; check the name and the namespace") from error
        raise


def _name_of(pcs: SetOrName) -> str:
    return _ref_of(pcs, kinds=("podcliqueset",)).name


def _ref_of(target: SetOrName, *, kinds: tuple[str, ...]) -> ObjectRef:
    """Return the object that the caller names: a set, the name of one, or `KIND/NAME`."""
    if isinstance(target, PodCliqueSet):
        return ObjectRef("podcliqueset", target.metadata.name)
    kind, _, name = target.rpartition("/")
    found = parse_kind(kind) if kind else "podcliqueset"
    if found not in kinds or not name:
        raise GroveError(f"{target!r}: expected the name of a set, or KIND/NAME with one of {', '.join(kinds)}")
    return ObjectRef(found, name)
