"""Finalizer of CRDs: delete all objects of a terminating CRD, then remove the cleanup finalizer from the CRD."""

import msgspec

from grove.api.types.meta import JsonObject
from grove.cluster.apiserver.api_server import ApiServer
from grove.cluster.apiserver.auth.user_info import DEFINITION_CONTROLLER
from grove.cluster.apiserver.registry.crd_strategy import CLEANUP, build_deleting_status
from grove.cluster.apiserver.registry.metadata import format_time
from grove.cluster.built_in_resources import DEFINITIONS
from grove.cluster.controllers.controller import BatchController
from grove.cluster.storage.store import Change, ChangeType, Entry
from grove.kube.transport import MERGE_PATCH, Request


class CrdFinalizer(BatchController):
    """A controller that finalizes terminating CRDs."""

    def __init__(self, server: ApiServer, *, delay: float) -> None:
        super().__init__(server, DEFINITION_CONTROLLER, delay=delay)
        self._definitions = server.store.table(DEFINITIONS)
        # Names of terminating CRDs. Deleting an object of one of them may complete the cleanup.
        self._terminating: dict[str, None] = {}
        for entry in self._definitions.entries(""):
            self._enqueue_if_terminating(entry)
        server.store.subscribe(self._follow)

    def _follow(self, change: Change) -> None:
        if change.resource_info is DEFINITIONS:
            if change.type is ChangeType.DELETED:
                self._terminating.pop(change.entry.name, None)
            else:
                self._enqueue_if_terminating(change.entry)
        elif (
            self._terminating
            and change.type is ChangeType.DELETED
            and change.resource_info.qualified in self._terminating
        ):
            self._enqueue(change.resource_info.qualified)

    def _enqueue_if_terminating(self, definition: Entry) -> None:
        metadata = definition.obj["metadata"]
        is_ours = "deletionTimestamp" in metadata and CLEANUP in metadata.get("finalizers", ())
        if is_ours and definition.name not in self._terminating:
            self._terminating[definition.name] = None
            self._enqueue(definition.name)

    async def _reconcile(self, name: str) -> None:
        """Delete the objects of the CRD. The API server rejects new ones, so one pass is enough."""
        definition = self._definitions.find("", name)
        if definition is None:
            return
        table = next((table for table in self._server.store.tables() if table.resource_info.qualified == name), None)
        present = [] if table is None else list(table.entries(None))
        not_terminating = [entry for entry in present if "deletionTimestamp" not in entry.obj["metadata"]]
        if not_terminating:
            now = format_time(self._server.clock.now())
            await self._patch(name, {"status": build_deleting_status(definition.obj, now)}, "/status")
        for entry in not_terminating:
            await self._delete(name, entry)
        if table is None or next(table.entries(None), None) is None:
            remaining = [each for each in definition.obj["metadata"].get("finalizers", ()) if each != CLEANUP]
            await self._patch(name, {"metadata": {"finalizers": remaining}})

    async def _delete(self, name: str, entry: Entry) -> None:
        resource_info = next(
            (resource_info for resource_info in self._server.kinds.resources if resource_info.qualified == name),
            None,
        )
        if resource_info is not None:
            await self._writer.write(
                Request(method="DELETE", path=resource_info.path(entry.namespace, entry.name)), name
            )

    async def _patch(self, name: str, patch: JsonObject, subresource: str = "") -> None:
        path, body = f"{DEFINITIONS.path('', name)}{subresource}", msgspec.json.encode(patch)
        request = Request(method="PATCH", path=path, body=body, content_type=MERGE_PATCH)
        await self._writer.write(request, name)
