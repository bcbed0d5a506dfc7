"""The operator's account on a cluster, with the rights that `grove manifests` gives it and no more; without kubectl."""

import asyncio
from pathlib import Path

import msgspec
import yaml

from grove.api.types.meta import JsonObject
from grove.clock import LoopClock
from grove.cluster.built_in_resources import SERVED
from grove.kube.http_transport import HttpTransport
from grove.kube.kubeconfig import find_access
from grove.kube.response_decoding import check
from grove.kube.transport import Request, Transport
from tests.e2e.installation import ACCOUNT, NAMESPACE, printed_manifests

_BY_KIND = {(resource_info.api_version, resource_info.kind): resource_info for resource_info in SERVED}
# What says who the operator is and what it may do.
_RIGHTS = ("Namespace", "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")


def restricted_kubeconfig(admin: Path, folder: Path) -> Path:
    """A kubeconfig with a token of the account, for the cluster of which this is the administrator's."""
    token = asyncio.run(_token(admin, printed_manifests(folder, {})))
    config: JsonObject = yaml.safe_load(admin.read_text())
    config["users"][0]["user"] = {"token": token}
    path = folder / "operator.kubeconfig"
    path.touch(mode=0o600)
    path.write_text(yaml.safe_dump(config))
    return path


async def _token(admin: Path, documents: list[JsonObject]) -> str:
    async with HttpTransport(find_access({}, kubeconfig=admin), LoopClock.starting_now()) as transport:
        for document in documents:
            if document["kind"] in _RIGHTS:
                await _create(transport, document)
        account = _BY_KIND["v1", "ServiceAccount"].path(NAMESPACE, ACCOUNT)
        answer = await _post(transport, f"{account}/token", {"spec": {"expirationSeconds": 7200}})
        token: str = answer["status"]["token"]
        return token


async def _create(transport: Transport, document: JsonObject) -> None:
    resource_info = _BY_KIND[document["apiVersion"], document["kind"]]
    namespace = document["metadata"].get("namespace", "") if resource_info.namespaced else ""
    path = resource_info.path(namespace, document["metadata"]["name"])
    await _post(transport, path.rpartition("/")[0], document)


async def _post(transport: Transport, path: str, body: JsonObject) -> JsonObject:
    request = Request(method="POST", path=path, body=msgspec.json.encode(body))
    response = await transport.send(request)
    check(request, response)
    decoded: JsonObject = msgspec.json.decode(response.body)
    return decoded
