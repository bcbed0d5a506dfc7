"""Default objects of every namespace: the service account `default` and the ConfigMap with the CA of the API server."""

import msgspec

from grove.api.types.meta import JsonObject
from grove.cluster.apiserver.api_server import ApiServer
from grove.cluster.apiserver.auth.user_info import ACCOUNT_CONTROLLER
from grove.cluster.built_in_resources import BY_QUALIFIED, NAMESPACES, ResourceInfo
from grove.cluster.controllers.controller import BatchController
from grove.cluster.storage.store import Change, ChangeType
from grove.kube.transport import Request

_ACCOUNTS = BY_QUALIFIED["serviceaccounts"]
_CONFIGS = BY_QUALIFIED["configmaps"]
_NAMES = _ACCOUNT, _ROOT_CA = "default", "kube-root-ca.crt"


class NamespaceDefaults(BatchController):
    """A controller that creates the default objects of each namespace, and creates them again if they are deleted."""

    def __init__(self, server: ApiServer, *, root_ca: bytes = b"") -> None:
        super().__init__(server, ACCOUNT_CONTROLLER, delay=0)
        self._default_objects: list[tuple[ResourceInfo, str, JsonObject]] = [(_ACCOUNTS, _ACCOUNT, {})]
        if root_ca:
            self._default_objects.append((_CONFIGS, _ROOT_CA, {"data": {"ca.crt": root_ca.decode()}}))
        self._namespaces = server.store.table(NAMESPACES)
        for entry in self._namespaces.entries(""):
            self._enqueue(entry.name)
        server.store.subscribe(self._follow)

    def _follow(self, change: Change) -> None:
        resource_info, entry = change.resource_info, change.entry
        if resource_info is NAMESPACES and change.type is ChangeType.ADDED:
            self._enqueue(entry.name)
        elif change.type is ChangeType.DELETED and entry.name in _NAMES and resource_info in (_ACCOUNTS, _CONFIGS):
            self._enqueue(entry.namespace)

    async def _reconcile(self, name: str) -> None:
        for resource_info, object_name, content in self._default_objects:
            namespace = self._namespaces.find("", name)
            if namespace is None or "deletionTimestamp" in namespace.obj["metadata"]:
                return
            if self._server.store.table(resource_info).find(name, object_name) is None:
                body = msgspec.json.encode({"metadata": {"name": object_name}, **content})
                path = resource_info.path(name, "").rstrip("/")
                await self._writer.write(Request(method="POST", path=path, body=body), name)
