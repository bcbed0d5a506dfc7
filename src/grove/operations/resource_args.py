"""The resources of the kinds that a user may name on the command line: find objects, and errors for missing ones."""

from typing import Any

from grove.api.resources import GROUPS, PODCLIQUES, PODCLIQUESETS, PODGANGS, PODS, Object, Resource
from grove.errors import UserError
from grove.kube.api_errors import ApiError
from grove.kube.client import Client
from grove.operations.hints import hint
from grove.operations.object_ref import ObjectRef

RESOURCES: dict[str, Resource[Any]] = {
    "podcliqueset": PODCLIQUESETS,
    "podcliquescalinggroup": GROUPS,
    "podclique": PODCLIQUES,
    "podgang": PODGANGS,
    "pod": PODS,
}


def full_name(kind: str, name: str) -> str:
    """Return a name as `kubectl -o name` prints it, such as `podcliqueset.grove.io/chat`."""
    group = RESOURCES[kind].group
    return f"{kind}.{group}/{name}" if group else f"{kind}/{name}"


async def find_kind(client: Client, namespace: str, target: ObjectRef) -> ObjectRef:
    """Return the target with its kind. A bare name is that of a set, or of any object of one."""
    if target.kind:
        return target
    for kind, resource in RESOURCES.items():
        try:
            await client.get(resource.viewed_as(Object), namespace, target.name)
        except ApiError as error:
            if error.is_not_found and error.reason == "NotFound" and target.name in error.message:
                continue
            raise
        return ObjectRef(kind, target.name)
    raise no_such_set(target.name, namespace)


def no_such_object(target: ObjectRef, namespace: str) -> UserError:
    return UserError(f"no {target} in namespace {namespace!r}; check the name and the namespace (-n)")


def no_such_set(name: str, namespace: str) -> UserError:
    return UserError(f"no PodCliqueSet {name!r} in namespace {namespace!r}; `{hint('status -A')}` lists all sets")
