"""The resources of the kinds that a user may name on the command line: find objects, and errors for missing ones."""

from collections.abc import Sequence
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
    """Return the target with its kind.

    A name without a kind matches a set first, then any object of a set. Raises `UserError` if none has this name.
    """
    if target.kind:
        return target
    for kind in RESOURCES:
        if await _exists(client, namespace, ObjectRef(kind, target.name)):
            return ObjectRef(kind, target.name)
    raise no_such_set(target.name, namespace)


async def find_only_kind(client: Client, namespace: str, target: ObjectRef, kinds: Sequence[str]) -> ObjectRef:
    """Return the target with its kind, one of these. Raises `UserError` if a bare name has none or several."""
    if target.kind:
        return target
    refs = [ObjectRef(kind, target.name) for kind in kinds]
    found = [ref for ref in refs if await _exists(client, namespace, ref)]
    if not found:
        raise no_such_set(target.name, namespace)
    if len(found) > 1:
        raise UserError(f"{target.name!r} is the name of several objects; use one of {', '.join(map(str, found))}")
    return found[0]


async def _exists(client: Client, namespace: str, ref: ObjectRef) -> bool:
    try:
        await client.get(RESOURCES[ref.kind].viewed_as(Object), namespace, ref.name)
    except ApiError as error:
        if error.is_not_found and error.reason == "NotFound" and ref.name in error.message:
            return False
        raise
    return True


def no_such_object(target: ObjectRef, namespace: str) -> UserError:
    return UserError(f"no {target} in namespace {namespace!r}; check the name and the namespace (-n)")


def no_such_set(name: str, namespace: str) -> UserError:
    return UserError(f"no PodCliqueSet {name!r} in namespace {namespace!r}; `{hint('status -A')}` lists all sets")
