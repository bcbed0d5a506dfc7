"""Namespaces that are being deleted: everything in them is deleted first, then they go."""

import msgspec

from grove.cluster.caretaker import Rounds
from grove.cluster.resources import NAMESPACES
from grove.cluster.server import ApiServer
from grove.cluster.server.callers import NAMESPACE_CONTROLLER
from grove.cluster.store import Change, ChangeType, Entry
from grove.kube.transport import Request


class LeavingNamespaces(Rounds):
    def __init__(self, server: ApiServer, *, delay: float) -> None:
        super().__init__(server, NAMESPACE_CONTROLLER, delay=delay)
        self._namespaces = server.store.table(NAMESPACES)
        for entry in self._namespaces.entries(""):
            self._notice(entry)
        server.store.subscribe(self._follow)

    def _follow(self, change: Change) -> None:
        if change.served is NAMESPACES:
            if change.type is not ChangeType.DELETED:
                self._notice(change.entry)
        elif change.type is not ChangeType.MODIFIED and change.entry.namespace:
            # Nothing is created in a leaving namespace, but a deletion may be taken back.
            namespace = self._namespaces.find("", change.entry.namespace)
            if namespace is not None:
                self._notice(namespace)

    def _notice(self, namespace: Entry) -> None:
        if "deletionTimestamp" in namespace.obj["metadata"] and namespace.obj["spec"].get("finalizers"):
            self._enqueue(namespace.name)

    async def _visit(self, name: str) -> None:
        """Nothing new can come into it, so what is deleted once stays deleted."""
        namespace = self._namespaces.find("", name)
        if namespace is None:
            return
        is_empty = True
        for table in list(self._server.store.tables()):
            for entry in list(table.entries(name)) if table.served.namespaced else ():
                is_empty = False
                if "deletionTimestamp" not in entry.obj["metadata"]:
                    request = Request(method="DELETE", path=table.served.path(name, entry.name))
                    await self._caretaker.write(request, name)
        if is_empty:
            body = msgspec.json.encode({**namespace.obj, "spec": {**namespace.obj["spec"], "finalizers": []}})
            request = Request(method="PUT", path=f"{NAMESPACES.path('', name)}/finalize", body=body)
            await self._caretaker.write(request, name)
