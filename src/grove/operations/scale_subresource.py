"""Read and write the scale of a set, group or clique, as `kubectl scale` and autoscalers do."""

import msgspec

from grove.api.types.meta import ObjectMeta, WireStruct
from grove.errors import UserError
from grove.kube.api_errors import ApiError
from grove.kube.response_decoding import check, decode_object
from grove.kube.transport import MERGE_PATCH, Request
from grove.operations.apply.apply_merge import warnings_of
from grove.operations.connection import Connection
from grove.operations.object_ref import ObjectRef
from grove.operations.resource_args import RESOURCES, no_such_object

# Conflicts are expected: the operator often writes to the object between the read and the patch.
ATTEMPTS = 10
PAUSE_SECONDS = 0.1


class ScaleSpec(WireStruct):
    replicas: int = 0


class ScaleObject(WireStruct):
    metadata: ObjectMeta
    spec: ScaleSpec = ScaleSpec()


class ScaleResult(WireStruct):
    """The result of a change of the number of replicas.

    Example:
        scaled = client.scale("chat", 2)
        print(scaled.before, scaled.replicas)
    """

    kind: str
    namespace: str
    name: str
    before: int
    replicas: int
    warnings: tuple[str, ...] = ()


async def set_replicas(connection: Connection, ref: ObjectRef, replicas: int, expected: int | None) -> ScaleResult:
    """Write the number of replicas. `expected`: fail if the object has another number now. Raises `UserError`."""
    for attempt in range(1, ATTEMPTS + 1):
        try:
            return await _set_once(connection, ref, replicas, expected)
        except ApiError as error:
            if not error.is_conflict or attempt == ATTEMPTS:
                raise
        await connection.clock.sleep(PAUSE_SECONDS * attempt)
    raise AssertionError("unreachable: the last attempt returns or raises")


async def _set_once(connection: Connection, ref: ObjectRef, replicas: int, expected: int | None) -> ScaleResult:
    current = await _read_scale(connection, ref)
    before = current.spec.replicas
    if expected not in (None, before):
        raise UserError(f"{ref} has {before} replicas, not {expected}; omit --current-replicas to scale it anyway")
    patch = {"metadata": {"resourceVersion": current.metadata.resource_version}, "spec": {"replicas": replicas}}
    request = Request(
        method="PATCH",
        path=RESOURCES[ref.kind].path(connection.namespace, ref.name, "scale"),
        query={"fieldManager": "grove"},
        body=msgspec.json.encode(patch),
        content_type=MERGE_PATCH,
    )
    response = await connection.transport.send(request)
    check(request, response)
    return ScaleResult(
        kind=ref.kind,
        namespace=connection.namespace,
        name=ref.name,
        before=before,
        replicas=replicas,
        warnings=warnings_of(response),
    )


async def _read_scale(connection: Connection, ref: ObjectRef) -> ScaleObject:
    resource = RESOURCES[ref.kind].viewed_as(ScaleObject)
    request = Request(method="GET", path=resource.path(connection.namespace, ref.name, "scale"))
    try:
        return decode_object(resource, request, await connection.transport.send(request))
    except ApiError as error:
        if error.is_not_found and error.reason == "NotFound" and ref.name in error.message:
            raise no_such_object(ref, connection.namespace) from error
        raise
