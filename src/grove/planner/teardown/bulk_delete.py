"""Delete many objects: one request for those that the selector matches, one request each for the others.

A user may have removed a label from an object. A bulk request would not match it, and the operator would wait for its
deletion without end. A user may also have put Grove's labels on a foreign object. So the request names the owners of
the objects to delete, and the executor keeps objects of other owners.
"""

from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Any

from grove.api import labels
from grove.api.resources import Resource
from grove.api.types.meta import ObjectMeta
from grove.planner.actions import Action, DeleteMany, delete_object


def delete_all(
    resource: Resource[Any],
    namespace: str,
    wanted: Mapping[str, str],
    found: Iterable[ObjectMeta],
    reason: str,
    *,
    incarnations: Set[str] | None = None,
    field_selector: str = "",
) -> Iterable[Action]:
    """Delete these objects. `wanted`: the labels to select by.

    `incarnations`: delete only these. Empty: only objects without the label. None: no filter. `field_selector`: a
    further condition of the request; all given objects meet it.
    """
    seen = tuple(found)
    matching = tuple(one for one in seen if _is_selected(one.labels, wanted, incarnations))
    if matching:
        selector = ",".join((labels.selector(dict(wanted)), *_incarnation_selector(incarnations)))
        yield delete_matching(resource, namespace, selector, matching, reason, field_selector=field_selector)
    hit = {one.uid for one in matching}
    yield from (delete_object(resource, one, reason) for one in seen if one.uid not in hit)


def delete_matching(
    resource: Resource[Any],
    namespace: str,
    selector: str,
    found: Sequence[ObjectMeta],
    reason: str,
    *,
    field_selector: str = "",
) -> DeleteMany:
    """Delete these objects, all of which the selector matches, and no object of another owner."""
    return DeleteMany(
        resource=resource,
        namespace=namespace,
        selector=selector,
        field_selector=field_selector,
        owners=tuple(dict.fromkeys(one.controller for one in found if one.controller is not None)),
        uids=tuple(one.uid for one in found),
        reason=reason,
    )


def _is_selected(own: Mapping[str, str], wanted: Mapping[str, str], incarnations: Set[str] | None) -> bool:
    if any(own.get(key) != value for key, value in wanted.items()):
        return False
    incarnation = own.get(labels.INCARNATION)
    return incarnations is None or (incarnation in incarnations if incarnations else incarnation is None)


def _incarnation_selector(incarnations: Set[str] | None) -> tuple[str, ...]:
    if incarnations is None:
        return ()
    return (
        f"{labels.INCARNATION} in ({','.join(sorted(incarnations))})" if incarnations else f"!{labels.INCARNATION}",
    )
