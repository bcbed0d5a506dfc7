"""The field manager of a write, and the field ownership after it.

Ownership is computed lazily: `cluster/storage/managed_fields.py`.
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

# The field manager of in-process clients.
_IN_PROCESS_MANAGER = "grove"

_name_of = lru_cache(maxsize=256)(manager_name)


def manager_of(context: Context, options: WriteOptions) -> str:
    return options.manager or (_name_of(context.program) if context.program else _IN_PROCESS_MANAGER)


def ownership_of_new(
    context: Context, resource_info: ResourceInfo, given: JsonObject, wanted: JsonObject, options: WriteOptions
) -> Ownership:
    """Return the ownership after a create. `given` is the object as sent, `wanted` the defaulted object."""
    sent = (given.get("metadata") or {}).get("managedFields")
    before = UNOWNED if not sent else _read_sent(sent, UNOWNED)
    return before.after(Note(resource_info, None, wanted, manager_of(context, options), "", context.now(), given))


def ownership_after(
    context: Context, target: RequestInfo, entry: Entry, wanted: JsonObject, options: WriteOptions, sent: Any
) -> Ownership:
    """Return the ownership after an update, which may have sent managedFields itself."""
    before = ownership_as_sent(target, entry, sent)
    manager = manager_of(context, options)
    return before.after(Note(target.resource_info, entry.obj, wanted, manager, target.subresource, context.now()))


def ownership_as_sent(target: RequestInfo, entry: Entry, sent: Any) -> Ownership:
    """Return the ownership that the client sent, else the old one. A subresource cannot change it."""
    return entry.ownership if sent is None or target.subresource else _read_sent(sent, entry.ownership)


def _read_sent(sent: Any, before: Ownership) -> Ownership:
    """Return the ownership of sent managedFields. An empty list, or one empty entry, clears the ownership."""
    if sent in ([], [{}]):
        return UNOWNED if before.managers else before
    try:
        managers = read_managed_fields(sent)
    except NotManagedFieldsError:
        return before
    if not managers or managers == before.managers:
        return before
    return Ownership({manager: owned for manager, owned in managers.items() if owned.fields})
