"""Under which name somebody writes, and what his write says about who owns what.

What follows from it is worked out later, if at all: `cluster/storage/managed_fields.py`.
"""

from functools import lru_cache
from typing import Any

from grove.api.types.meta import JsonObject
from grove.cluster.apiserver.codec.request_decoding import WriteOptions
from grove.cluster.apiserver.context import Context
from grove.cluster.apiserver.request_info import RequestInfo
from grove.cluster.built_in_resources import ResourceInfo
from grove.cluster.patches.field_managers import NotManagedFieldsError, manager_name, read_managed_fields
from grove.cluster.storage.managed_fields import UNOWNED, Note, Ownership
from grove.cluster.storage.store import Entry

# What programs in this process are called: they write for Grove, and do not say more.
_INSIDE = "grove"

_name_of = lru_cache(maxsize=256)(manager_name)


def manager_of(context: Context, options: WriteOptions) -> str:
    return options.manager or (_name_of(context.program) if context.program else _INSIDE)


def ownership_of_new(
    context: Context, resource_info: ResourceInfo, given: JsonObject, wanted: JsonObject, options: WriteOptions
) -> Ownership:
    """`given` is what was sent, `wanted` the same with all that the kind fills in."""
    sent = (given.get("metadata") or {}).get("managedFields")
    before = UNOWNED if not sent else _as_sent(sent, UNOWNED)
    return before.after(Note(resource_info, None, wanted, manager_of(context, options), "", context.now(), given))


def ownership_after(
    context: Context, target: RequestInfo, entry: Entry, wanted: JsonObject, options: WriteOptions, sent: Any
) -> Ownership:
    """After a write that changed the object, and may have sent managedFields itself."""
    before = ownership_as_sent(target, entry, sent)
    manager = manager_of(context, options)
    return before.after(Note(target.resource_info, entry.obj, wanted, manager, target.subresource, context.now()))


def ownership_as_sent(target: RequestInfo, entry: Entry, sent: Any) -> Ownership:
    """What it was, unless the client sent something else; through a subresource nobody can."""
    return entry.ownership if sent is None or target.subresource else _as_sent(sent, entry.ownership)


def _as_sent(sent: Any, before: Ownership) -> Ownership:
    """What the client says counts, if it says anything; an empty list, or one empty entry, means: forget it all."""
    if sent in ([], [{}]):
        return UNOWNED if before.managers else before
    try:
        managers = read_managed_fields(sent)
    except NotManagedFieldsError:
        return before
    if not managers or managers == before.managers:
        return before
    return Ownership({manager: owned for manager, owned in managers.items() if owned.fields})
