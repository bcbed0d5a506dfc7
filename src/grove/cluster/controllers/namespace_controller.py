"""Namespace controller: deletes the content of terminating namespaces, then finalizes them.

The conditions of a terminating namespace list what remains in it.
"""

import msgspec

from grove.api.types.meta import JsonObject
from grove.cluster.apiserver.api_server import ApiServer
from grove.cluster.apiserver.auth.user_info import NAMESPACE_CONTROLLER
from grove.cluster.apiserver.conditions import with_condition
from grove.cluster.apiserver.registry.metadata import format_time
from grove.cluster.built_in_resources import NAMESPACES
from grove.cluster.controllers.controller import BatchController
from grove.cluster.storage.store import Change, ChangeType, Entry, Table
from grove.kube.transport import MERGE_PATCH, Request

# Failures that a real cluster reports and that cannot happen here.
_NO_FAILURES = (
    ("NamespaceDeletionDiscoveryFailure", "ResourcesDiscovered", "All resources successfully discovered"),
    (
        "NamespaceDeletionGroupVersionParsingFailure",
        "ParsedGroupVersions",
        "All legacy kube types successfully parsed",
    ),
    (
        "NamespaceDeletionContentFailure",
        "ContentDeleted",
        "All content successfully deleted, may be waiting on finalization",
    ),
)


class NamespaceController(BatchController):
    """A controller that finalizes terminating namespaces."""

    def __init__(self, server: ApiServer, *, delay: float) -> None:
        super().__init__(server, NAMESPACE_CONTROLLER, delay=delay)
        self._namespaces = server.store.table(NAMESPACES)
        for entry in self._namespaces.entries(""):
            self._enqueue_if_terminating(entry)
        server.store.subscribe(self._follow)

    def _follow(self, change: Change) -> None:
        if change.resource_info is NAMESPACES:
            if change.type is not ChangeType.DELETED:
                self._enqueue_if_terminating(change.entry)
        elif change.type is not ChangeType.MODIFIED and change.entry.namespace:
            # Nothing is created in a terminating namespace, but the store may roll back a deletion.
            namespace = self._namespaces.find("", change.entry.namespace)
            if namespace is not None:
                self._enqueue_if_terminating(namespace)

    def _enqueue_if_terminating(self, namespace: Entry) -> None:
        if "deletionTimestamp" in namespace.obj["metadata"] and namespace.obj["spec"].get("finalizers"):
            self._enqueue(namespace.name)

    async def _reconcile(self, name: str) -> None:
        """Delete the content. The API server rejects creates in a terminating namespace, so one pass is enough."""
        namespace = self._namespaces.find("", name)
        if namespace is None:
            return
        is_empty = True
        for table in self._tables():
            for entry in list(table.entries(name)):
                is_empty = False
                if "deletionTimestamp" not in entry.obj["metadata"]:
                    request = Request(method="DELETE", path=table.resource_info.path(name, entry.name))
                    await self._writer.write(request, name)
        if not is_empty:
            await self._write_conditions(name)
        else:
            body = msgspec.json.encode({**namespace.obj, "spec": {**namespace.obj["spec"], "finalizers": []}})
            request = Request(method="PUT", path=f"{NAMESPACES.path('', name)}/finalize", body=body)
            await self._writer.write(request, name)

    async def _write_conditions(self, name: str) -> None:
        """Write what remains in the namespace to its conditions, if that changed."""
        namespace = self._namespaces.find("", name)
        if namespace is None:
            return
        remaining: dict[str, int] = {}
        finalizers: dict[str, int] = {}
        for table in self._tables():
            for entry in table.entries(name):
                resource = f"{table.resource_info.plural}.{table.resource_info.group}"
                remaining[resource] = remaining.get(resource, 0) + 1
                for finalizer in entry.obj["metadata"].get("finalizers", ()):
                    finalizers[finalizer] = finalizers.get(finalizer, 0) + 1
        before = namespace.obj.get("status") or {}
        status = _status(before, remaining, finalizers, format_time(self._server.clock.now()))
        if remaining and status != before:
            path, body = f"{NAMESPACES.path('', name)}/status", msgspec.json.encode({"status": status})
            await self._writer.write(Request(method="PATCH", path=path, body=body, content_type=MERGE_PATCH), name)

    def _tables(self) -> list[Table]:
        return [table for table in self._server.store.tables() if table.resource_info.namespaced]


def _status(status: JsonObject, remaining: dict[str, int], finalizers: dict[str, int], now: str) -> JsonObject:
    for type_, reason, message in _NO_FAILURES:
        status = with_condition(status, _condition(type_, "False", reason, message, now))
    listed = ", ".join(f"{resource} has {count} resource instances" for resource, count in sorted(remaining.items()))
    content = ("SomeResourcesRemain", f"Some resources are remaining: {listed}")
    status = with_condition(status, _condition("NamespaceContentRemaining", "True", *content, now))
    if not finalizers:
        done = ("ContentHasNoFinalizers", "All content-preserving finalizers finished")
        return with_condition(status, _condition("NamespaceFinalizersRemaining", "False", *done, now))
    listed = ", ".join(f"{finalizer} in {count} resource instances" for finalizer, count in sorted(finalizers.items()))
    remain = ("SomeFinalizersRemain", f"Some content in the namespace has finalizers remaining: {listed}")
    return with_condition(status, _condition("NamespaceFinalizersRemaining", "True", *remain, now))


def _condition(type_: str, status: str, reason: str, message: str, now: str) -> JsonObject:
    return {"type": type_, "status": status, "lastTransitionTime": now, "reason": reason, "message": message}
