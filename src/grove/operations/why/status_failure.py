"""A set whose status the operator cannot write: its condition cannot say so, but an event does.

The event counts until the status is written again. The API server records in `managedFields` when that was.
"""

import re
from datetime import datetime

from grove.api.reasons import ConditionType, EventReason
from grove.api.resources import EVENTS, PODCLIQUESETS
from grove.api.types.meta import Condition, ConditionStatus, ObjectMeta, WireStruct, is_condition_true
from grove.api.types.podcliqueset import PodCliqueSet
from grove.kube.api_errors import ApiError
from grove.kube.client import Client
from grove.planner.status.write_failures import heading, reason_of

# `... since 2026-01-01T00:00:00Z: 403 ...`; without a code if the server did not answer.
_CODE = re.compile(r" since \S+: (\d{3}) ")


class _Event(WireStruct):
    metadata: ObjectMeta
    message: str = ""
    last_timestamp: datetime | None = None


class _FieldsOwner(WireStruct):
    subresource: str = ""
    time: datetime | None = None


class _ManagedMeta(ObjectMeta):
    managed_fields: tuple[_FieldsOwner, ...] = ()


class _ManagedSet(WireStruct):
    metadata: _ManagedMeta


async def find_status_failure(client: Client, pcs: PodCliqueSet) -> Condition | None:
    """Return the condition `ReconcileFailed` that the operator could not write; None: its status can be written."""
    if is_condition_true(pcs.status.conditions, ConditionType.RECONCILE_FAILED):
        return None
    event = await _find_event(client, pcs.metadata)
    if event is None or event.last_timestamp is None:
        return None
    if await _is_written_since(client, pcs, event.last_timestamp):
        return None
    code = _CODE.search(event.message)
    return Condition(
        type=ConditionType.RECONCILE_FAILED,
        status=ConditionStatus.TRUE,
        reason=reason_of(int(code[1]) if code else 0, event.message),
        message=event.message,
        last_transition_time=event.last_timestamp,
    )


async def _find_event(client: Client, metadata: ObjectMeta) -> _Event | None:
    """Return the newest event that says that this set cannot be written."""
    selector = f"involvedObject.uid={metadata.uid},reason={EventReason.RECONCILE_FAILED}"
    try:
        found = await client.list(EVENTS.viewed_as(_Event), namespace=metadata.namespace, field_selector=selector)
    except ApiError as error:
        # A user who may read the set may lack permission for events.
        if error.code == 403:
            return None
        raise
    what = heading(f"{PODCLIQUESETS.kind} {metadata.namespace}/{metadata.name}", "patch")
    about = [one for one in found.items if one.message.startswith(what) and one.last_timestamp is not None]
    return max(about, key=lambda one: str(one.last_timestamp), default=None)


async def _is_written_since(client: Client, pcs: PodCliqueSet, instant: datetime) -> bool:
    """Return whether the status was written since then. In-process servers record no times: there any write counts."""
    metadata = pcs.metadata
    found = await client.get(PODCLIQUESETS.viewed_as(_ManagedSet), metadata.namespace, metadata.name)
    fields = found.metadata.managed_fields
    if not fields:
        return pcs.status.observed_generation is not None
    return any(one.subresource == "status" and one.time is not None and one.time >= instant for one in fields)
