"""Many objects that go at once: one request for those that its selector finds, one each for the others.

Somebody may have taken a label away. What a bulk request does not find would be waited for, for ever.
"""

from collections.abc import Iterable, Mapping, Set
from typing import Any

from grove.api import labels
from grove.api.meta import ObjectMeta
from grove.api.resources import Resource
from grove.planner.actions import Action, DeleteMany, delete_object


def delete_all(
    resource: Resource[Any],
    namespace: str,
    wanted: Mapping[str, str],
    found: Iterable[ObjectMeta],
    reason: str,
    *,
    lives: Set[str] | None = None,
) -> Iterable[Action]:
    """`lives`: only these incarnations, or with none in it only what names none; None: whatever it says."""
    seen = tuple(found)
    matching = tuple(one for one in seen if _is_found(one.labels, wanted, lives))
    if matching:
        yield DeleteMany(
            resource=resource,
            namespace=namespace,
            selector=",".join((labels.selector(dict(wanted)), *_of_lives(lives))),
            uids=tuple(one.uid for one in matching),
            reason=reason,
        )
    hit = {one.uid for one in matching}
    yield from (delete_object(resource, one, reason) for one in seen if one.uid not in hit)


def _is_found(told: Mapping[str, str], wanted: Mapping[str, str], lives: Set[str] | None) -> bool:
    if any(told.get(key) != value for key, value in wanted.items()):
        return False
    life = told.get(labels.INCARNATION)
    return lives is None or (life in lives if lives else life is None)


def _of_lives(lives: Set[str] | None) -> tuple[str, ...]:
    if lives is None:
        return ()
    return (f"{labels.INCARNATION} in ({','.join(sorted(lives))})" if lives else f"!{labels.INCARNATION}",)
