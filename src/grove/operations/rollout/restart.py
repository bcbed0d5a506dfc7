"""Restart a set: write the time into the annotations of its clique templates, which is a rolling update.

The annotation is the one of `kubectl rollout restart`. The annotations of a clique template are those of its pods and
part of the template hash. `grove apply` keeps them (`clique_annotations.py`).
"""

import msgspec

from grove.api.resources import PODCLIQUESETS
from grove.api.types.meta import JsonObject, WireStruct
from grove.api.types.podcliqueset import UpdateType
from grove.errors import UserError
from grove.kube.api_errors import ApiError
from grove.kube.response_decoding import check
from grove.kube.transport import MERGE_PATCH, Request
from grove.operations.apply.apply_merge import warnings_of
from grove.operations.connection import Connection
from grove.operations.rollout.undo import read_stored

RESTARTED_AT = "kubectl.kubernetes.io/restartedAt"
# Conflicts are expected: the operator often writes to the set between the read and the patch.
ATTEMPTS = 10
PAUSE_SECONDS = 0.1


class RestartResult(WireStruct):
    """The result of a restart, which is a rolling update.

    Example:
        print(client.restart("chat").restarted_at)
    """

    name: str
    namespace: str
    restarted_at: str
    # The operator replaces no pods by itself.
    is_on_delete: bool
    warnings: tuple[str, ...] = ()


async def restart(connection: Connection, name: str) -> RestartResult:
    """Restart a set. Raises `UserError` if it is missing or being deleted, `ApiError` if the server rejects it."""
    restarted_at = f"{connection.clock.now():%Y-%m-%dT%H:%M:%SZ}"
    for attempt in range(1, ATTEMPTS + 1):
        try:
            return await _restart_once(connection, name, restarted_at)
        except ApiError as error:
            if not error.is_conflict or attempt == ATTEMPTS:
                raise
        await connection.clock.sleep(PAUSE_SECONDS)
    raise AssertionError("unreachable: the last attempt returns or raises")


async def _restart_once(connection: Connection, name: str, restarted_at: str) -> RestartResult:
    stored = await read_stored(connection, name)
    body, pcs = stored.body, stored.pcs
    if pcs.metadata.is_terminating:
        raise UserError(f"pcs/{name} is being deleted and cannot be restarted; wait until it is gone")
    cliques = [_with_annotation(clique, restarted_at) for clique in body["spec"]["template"]["cliques"]]
    metadata = {"resourceVersion": pcs.metadata.resource_version}
    request = Request(
        method="PATCH",
        path=PODCLIQUESETS.path(connection.namespace, name),
        query={"fieldManager": "grove"},
        body=msgspec.json.encode({"metadata": metadata, "spec": {"template": {"cliques": cliques}}}),
        content_type=MERGE_PATCH,
    )
    response = await connection.transport.send(request)
    check(request, response)
    return RestartResult(
        name=name,
        namespace=connection.namespace,
        restarted_at=restarted_at,
        is_on_delete=pcs.spec.update_strategy is not None and pcs.spec.update_strategy.type == UpdateType.ON_DELETE,
        warnings=warnings_of(response),
    )


def _with_annotation(clique: JsonObject, restarted_at: str) -> JsonObject:
    annotations = clique.get("annotations") or {}
    if annotations.get(RESTARTED_AT) == restarted_at:
        raise UserError("the set was restarted within the last second; wait a moment to restart it again")
    return {**clique, "annotations": {**annotations, RESTARTED_AT: restarted_at}}
