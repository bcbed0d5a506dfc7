"""Find the pods of the object that `grove logs` names."""

from typing import Any

import msgspec

from grove.api import labels
from grove.api.resources import PODS, Resource
from grove.api.types.pod import Pod
from grove.kube.api_errors import ApiError
from grove.operations.connection import Connection
from grove.operations.object_ref import ObjectRef
from grove.operations.resource_args import RESOURCES, no_such_object

# The label of pods that has the name of an object of this kind.
_LABELS = {
    "podcliqueset": labels.PART_OF,
    "podclique": labels.PODCLIQUE,
    "podcliquescalinggroup": labels.GROUP,
    "podgang": labels.PODGANG,
}


class LogTarget(msgspec.Struct, frozen=True, kw_only=True):
    """The pods to read, by label selector."""

    ref: ObjectRef
    selector: str
    # The object that owns them; None: a host name, whose pods have no object of that name.
    owner: Resource[Any] | None


async def find_target(connection: Connection, ref: ObjectRef) -> LogTarget:
    """Return the pods of an object. Raises `UserError` if it does not exist."""
    resource = RESOURCES[ref.kind]
    try:
        await connection.client.get(resource, connection.namespace, ref.name)
    except ApiError as error:
        if not error.is_not_found:
            raise
        raise no_such_object(ref, connection.namespace) from error
    ours = {labels.MANAGED_BY: labels.MANAGED_BY_VALUE, _LABELS[ref.kind]: ref.name}
    return LogTarget(ref=ref, selector=labels.selector(ours), owner=resource)


async def find_by_host(connection: Connection, host: str) -> tuple[LogTarget, tuple[Pod, ...]] | None:
    """Return the pods with this stable name, such as `chat-0-router-1`: the hostname of a pod and its successors."""
    clique, _, index = host.rpartition("-")
    if not clique or not index.isdecimal():
        return None
    selector = labels.selector({labels.PODCLIQUE: clique, labels.POD_INDEX: index})
    found = await connection.client.list(PODS, namespace=connection.namespace, label_selector=selector)
    target = LogTarget(ref=ObjectRef("pod", host), selector=selector, owner=None)
    return (target, tuple(found.items)) if found.items else None


def host_of(pod: Pod) -> str:
    """Return the stable name of a pod, or its name if it is of no clique."""
    clique, index = (pod.metadata.labels.get(label, "") for label in (labels.PODCLIQUE, labels.POD_INDEX))
    return f"{clique}-{index}" if clique and index else pod.metadata.name
