"""Discovery of the API server's features for gangs of `default-scheduler`, by requests and not by its version.

Discovery documents are not enough: the API server drops fields of disabled features silently, so each field is tried in
a dry run. This checks the API server only; whether kube-scheduler supports gangs shows when the first gang is placed.
"""

from typing import Any

from grove.api.resources import NATIVE_COMPOSITES, NATIVE_PODGROUPS, PODS, Resource
from grove.api.types.meta import JsonObject
from grove.backends.native_podgroups import NativeFeatures
from grove.kube.api_errors import ApiError
from grove.kube.client import Client

# Only the embedded cluster has this check: its scheduler reads PodGangs.
GANG_SCHEDULER_PATH = "/readyz/gang-scheduler"
NAMESPACE = "default"
_NAME = "grove-probe"
_ADVICE = "see docs/how-to/choose-a-scheduler.md to enable native gangs"
_WORKLOAD = {"workloadName": _NAME, "templateName": "probe"}


async def find_features(client: Client) -> NativeFeatures:
    """Return the features of the API server. Raises `ApiError` when it does not answer."""
    if await client.read(GANG_SCHEDULER_PATH) is not None:
        return NativeFeatures(reads_gangs=True)
    if not await _is_served(client, NATIVE_PODGROUPS):
        return _none(f"the API server does not serve PodGroup of {NATIVE_PODGROUPS.api_version}")
    if not await _stores_scheduling_group(client):
        return _none("the API server drops the schedulingGroup of pods")
    kept = await _stored_group(client)
    has_composites = await _is_served(client, NATIVE_COMPOSITES)
    return NativeFeatures(
        groups=True,
        composites=has_composites and "parentCompositePodGroupName" in kept,
        topology="schedulingConstraints" in kept,
    )


async def read_features(client: Client) -> NativeFeatures:
    """Return the features without a dry run, for read-only users: fields that are served count as supported."""
    if await client.read(GANG_SCHEDULER_PATH) is not None:
        return NativeFeatures(reads_gangs=True)
    if not await _is_served(client, NATIVE_PODGROUPS):
        return NativeFeatures()
    has_composites = await _is_served(client, NATIVE_COMPOSITES)
    return NativeFeatures(groups=True, composites=has_composites, topology=has_composites)


def _none(why: str) -> NativeFeatures:
    return NativeFeatures(why=f"default-scheduler places pods one by one, without gangs: {why}; {_ADVICE}")


async def _is_served(client: Client, resource: Resource[Any]) -> bool:
    page = await client.read(f"/apis/{resource.api_version}")
    served = page.get("resources") if page else None
    return any(isinstance(one, dict) and one.get("name") == resource.plural for one in served or ())


async def _stores_scheduling_group(client: Client) -> bool:
    # The pod meets the strictest Pod Security level and quotas: only the one field is tested.
    container = {
        "name": "probe",
        "image": "probe",
        "resources": {"requests": {"cpu": "1m", "memory": "1Mi"}, "limits": {"cpu": "1m", "memory": "1Mi"}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "runAsNonRoot": True,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
    }
    spec = {
        "containers": [container],
        "automountServiceAccountToken": False,
        "schedulingGroup": {"podGroupName": _NAME},
    }
    return "schedulingGroup" in await _dry_run(client, PODS, spec)


async def _stored_group(client: Client) -> JsonObject:
    spec = {
        "parentCompositePodGroupName": _NAME,
        "workloadRef": _WORKLOAD,
        "schedulingPolicy": {"gang": {"minCount": 1}},
        "schedulingConstraints": {"topology": [{"key": "kubernetes.io/hostname"}]},
    }
    return await _dry_run(client, NATIVE_PODGROUPS, spec)


async def _dry_run(client: Client, resource: Resource[Any], spec: JsonObject) -> JsonObject:
    """Return the spec that would be stored; empty if the API server rejects it."""
    body = {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {"name": _NAME, "namespace": NAMESPACE},
        "spec": spec,
    }
    try:
        stored = await client.dry_run_create(resource, NAMESPACE, body)
    except ApiError as error:
        if error.code in (400, 403, 404, 409, 422):
            return {}
        raise
    kept = stored.get("spec")
    return kept if isinstance(kept, dict) else {}
