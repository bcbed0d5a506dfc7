"""Pod garbage collector: fails and deletes pods of nodes that no longer exist, because no kubelet will stop them."""

import asyncio

import msgspec

from grove.api.types.meta import JsonObject
from grove.cluster.apiserver.api_server import ApiServer
from grove.cluster.apiserver.auth.user_info import POD_COLLECTOR
from grove.cluster.built_in_resources import NODES, PODS
from grove.cluster.controllers.controller import ControllerWriter
from grove.cluster.storage.store import Change, ChangeType, Entry
from grove.kube.transport import STRATEGIC_PATCH, Request

# A node that comes back within this time keeps its pods.
_QUARANTINE_SECONDS = 40.0


class PodGarbageCollector:
    """A controller that deletes the pods of deleted nodes."""

    def __init__(self, server: ApiServer) -> None:
        self._server = server
        self._nodes = server.store.table(NODES)
        self._pods = server.store.table(PODS)
        # When to check each deleted node, earliest first. All nodes wait equally long.
        self._due: dict[str, float] = {}
        self._has_work = asyncio.Event()
        self._writer = ControllerWriter(server, POD_COLLECTOR, self._quarantine)
        for entry in self._pods.entries(None):
            self._check_node(entry)
        server.store.subscribe(self._follow)

    async def run(self) -> None:
        """Run until cancelled."""
        clock = self._server.clock
        while True:
            await self._has_work.wait()
            node, due = next(iter(self._due.items()))
            await clock.sleep(max(0.0, due - clock.monotonic()))
            del self._due[node]
            if not self._due:
                self._has_work.clear()
            if self._nodes.find("", node) is None:
                await self._remove_pods_of(node)
            if self._writer.has_failed:
                await self._writer.wait_and_retry()

    def _follow(self, change: Change) -> None:
        if change.resource_info is PODS:
            if change.type is not ChangeType.DELETED and _was_not_bound(change.before):
                self._check_node(change.entry)
        elif change.resource_info is NODES and change.type is ChangeType.DELETED:
            self._quarantine(change.entry.name)

    def _check_node(self, pod: Entry) -> None:
        node = pod.obj["spec"].get("nodeName")
        if node and self._nodes.find("", node) is None:
            self._quarantine(node)

    def _quarantine(self, node: str) -> None:
        if node not in self._due:
            self._due[node] = self._server.clock.monotonic() + _QUARANTINE_SECONDS
            self._has_work.set()

    async def _remove_pods_of(self, node: str) -> None:
        for pod in [entry for entry in self._pods.entries(None) if entry.obj["spec"].get("nodeName") == node]:
            path = PODS.path(pod.namespace, pod.name)
            if (pod.obj.get("status") or {}).get("phase") not in ("Succeeded", "Failed"):
                body = msgspec.json.encode({"status": self._failure()})
                await self._writer.write(
                    Request(method="PATCH", path=f"{path}/status", body=body, content_type=STRATEGIC_PATCH), node
                )
            options = {"gracePeriodSeconds": 0, "preconditions": {"uid": pod.obj["metadata"]["uid"]}}
            request = Request(method="DELETE", path=path, body=msgspec.json.encode(options))
            await self._writer.write(request, node)

    def _failure(self) -> JsonObject:
        now = self._server.clock.now()
        condition = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "DeletionByPodGC",
            "message": "PodGC: node no longer exists",
            "lastTransitionTime": now.replace(microsecond=0),
        }
        return {"phase": "Failed", "conditions": [condition]}


def _was_not_bound(before: Entry | None) -> bool:
    return before is None or not before.obj["spec"].get("nodeName")
