"""The client for code that is not async: notebooks, scripts and tests."""

from collections.abc import Callable, Generator
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from grove.api.types.podcliqueset import PodCliqueSet
from grove.operations.rollout.restart import RestartResult
from grove.operations.rollout.undo import UndoResult
from grove.operations.scale_subresource import ScaleResult
from grove.planner.explain.text import Explanation
from grove.sdk.async_client import AsyncClient, SetOrName, Submitted
from grove.sdk.log_stream import PodLogLine
from grove.sdk.loop_thread import LoopThread
from grove.sdk.set_waiter import WaitCondition, WaitProgress


class SyncClient:
    """A client for the sets of one namespace. `grove.sdk` exports it as `Client`.

    The cluster is found like that of the command line: `kubeconfig`, the variable KUBECONFIG, the `.grove/kubeconfig`
    of a local cluster that answers, then kubectl's default. It connects at the first call. Every method raises a
    `GroveError`. Ctrl-C ends any call, and leaves nothing of it running.

    Example:
        with Client(namespace="team") as client:
            client.submit(chat)
            client.wait("chat", timeout=600, on_progress=print)
    """

    def __init__(self, *, kubeconfig: str | Path | None = None, context: str = "", namespace: str = "") -> None:
        """`namespace`: by default that of the context."""
        self._async = AsyncClient(kubeconfig=kubeconfig, context=context, namespace=namespace)
        self._started: LoopThread | None = None
        self._is_owner = True

    @classmethod
    def _of(cls, client: AsyncClient, thread: LoopThread) -> Self:
        """Return a client that runs in the thread of another owner, which also closes its connections."""
        found = cls()
        found._async, found._started, found._is_owner = client, thread, False
        return found

    @property
    def _thread(self) -> LoopThread:
        self._started = self._started or LoopThread()
        return self._started

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections. A later call opens new ones. Does nothing for a client of `in_namespace`."""
        if self._started is not None and self._is_owner:
            self._started.run(self._async.close())
            self._started.stop()
            self._started = None

    def in_namespace(self, namespace: str) -> Self:
        """Return a client of another namespace of the same cluster. Both share their connections."""
        return self._of(self._async.in_namespace(namespace), self._thread)

    def submit(self, pcs: PodCliqueSet | dict[str, Any]) -> Submitted:
        """Create a set, or update the one of its name, like `grove apply`. Raises `SetRejected`.

        Fields that were submitted before and are gone now are removed; fields of other writers stay. A set without a
        namespace belongs to the namespace of the client.
        """
        return self._thread.run(self._async.submit(pcs))

    def get(self, pcs: SetOrName) -> PodCliqueSet:
        """Return a set with its status. Raises `SetNotFound`."""
        return self._thread.run(self._async.get(pcs))

    def list(self, *, selector: str = "", all_namespaces: bool = False) -> tuple[PodCliqueSet, ...]:
        """Return the sets of the namespace, or of all. `selector`: of labels, such as `team=search`."""
        return self._thread.run(self._async.list(selector=selector, all_namespaces=all_namespaces))

    def wait(
        self,
        pcs: SetOrName,
        condition: WaitCondition = "available",
        *,
        timeout: float | None = None,
        on_progress: Callable[[WaitProgress], None] | None = None,
    ) -> PodCliqueSet:
        """Wait for a condition and return the set. `on_progress` gets every change, in the thread that waits.

        * `"available"`: all replicas are available.
        * `"updated"`: nothing is left to do: all pods run the newest templates, and all replicas are available.
        * `"ready"`: the same, and every pod is ready, also those above the minimum.
        * `"complete"`: a training set succeeded.
        * `"deleted"`: the set is gone.
        * A function: it gets the set and returns whether to stop waiting.

        Raises `WaitTimeout` after `timeout` seconds; `SetFailed` if a training set failed, the set is invalid, or the
        update that is waited for has stalled; `SetDeleted` if the set is deleted; `SetNotFound` if there is none.
        """
        return self._thread.run_with_callback(
            lambda report: self._async.wait(pcs, condition, timeout=timeout, on_progress=report),
            on_progress or _ignore,
        )

    def logs(
        self,
        target: SetOrName,
        *,
        follow: bool = False,
        container: str = "",
        tail: int | None = None,
        since_seconds: int | None = None,
    ) -> Generator[PodLogLine, None, None]:
        """Yield the lines of all pods of a set, or of `pclq/NAME`, `pcsg/NAME`, `pg/NAME`.

        Without `follow`: the lines that exist, by time. With it: lines as they are written, also of pods that start
        later, until the object is deleted or a training set has ended. `tail`: only so many lines of each log.
        """
        lines = self._async.logs(target, follow=follow, container=container, tail=tail, since_seconds=since_seconds)
        return self._thread.iterate(lines)

    def scale(self, target: SetOrName, replicas: int) -> ScaleResult:
        """Set the number of replicas of a set, or of `pcsg/NAME` or `pclq/NAME`."""
        return self._thread.run(self._async.scale(target, replicas))

    def restart(self, pcs: SetOrName) -> RestartResult:
        """Replace all pods of a set by a rolling update, without a change of its templates."""
        return self._thread.run(self._async.restart(pcs))

    def undo(self, pcs: SetOrName, *, to_revision: int | None = None) -> UndoResult:
        """Roll a set back to the revision before the current one, or to another one. Wait for `"updated"` then."""
        return self._thread.run(self._async.undo(pcs, to_revision=to_revision))

    def why(self, target: SetOrName) -> tuple[Explanation, ...]:
        """Explain what a set waits for and what happens next, like `grove why`; also any object, as `pod/NAME`.

        The most important reason comes first. Its `text` is a sentence, its `reason` a word for programs.
        """
        return self._thread.run(self._async.why(target))

    def delete(self, pcs: SetOrName, *, wait: bool = True, timeout: float | None = None) -> None:
        """Delete a set with everything that it owns, and wait until it is gone. Raises `SetNotFound`."""
        self._thread.run(self._async.delete(pcs, wait=wait, timeout=timeout))


def _ignore(_: object) -> None:
    pass
