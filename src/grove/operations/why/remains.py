"""Objects that outlive their set: explain why they still exist."""

import asyncio
from typing import Any

from grove.api import labels
from grove.api.reasons import FindingReason
from grove.api.resources import GROUPS, PODCLIQUES, PODGANGS, PODS, Object, Resource
from grove.api.types.meta import ObjectMeta
from grove.kube.client import Client
from grove.planner.explain.finalizers import explain_held_objects
from grove.planner.explain.text import Explanation, count_noun, effect, next_step, order_by_kind, verb

_KINDS: dict[str, Resource[Any]] = {
    "pod": PODS,
    "podclique": PODCLIQUES,
    "podcliquescalinggroup": GROUPS,
    "podgang": PODGANGS,
}


async def explain_deleted_set(client: Client, namespace: str, name: str) -> tuple[Explanation, ...]:
    """Explain what still exists of a set that is deleted. Empty if nothing does, or if no finalizer keeps it."""
    found = await _list_remains(client, namespace, name)
    held = explain_held_objects(found)
    if not held:
        return ()
    about, count = f"podcliqueset/{name}", len(found)
    return order_by_kind(
        (
            *held,
            effect(
                about,
                FindingReason.BEING_DELETED,
                f"{count_noun(count, 'object')} of {about} still {verb(count, 'exists', 'exist')}, "
                "although the set is deleted.",
            ),
            next_step(about, f"a new set {name} uses other pods; it does not wait for them."),
        )
    )


async def _list_remains(client: Client, namespace: str, name: str) -> list[tuple[str, ObjectMeta]]:
    selector = labels.selector(labels.default_labels(name))
    listings = await asyncio.gather(
        *(client.list(kind.viewed_as(Object), namespace=namespace, label_selector=selector) for kind in _KINDS.values())
    )
    return [
        (f"{kind}/{one.metadata.name}", one.metadata)
        for kind, listing in zip(_KINDS, listings, strict=True)
        for one in listing.items
    ]
