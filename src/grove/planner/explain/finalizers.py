"""Explain objects that finalizers of other controllers keep after their deletion."""

from collections.abc import Iterable

from grove.api.reasons import FindingReason
from grove.api.types.meta import ObjectMeta
from grove.planner.explain.text import LISTED_NAMES, Explanation, cause, namespace_flag, next_step

# Kubernetes sets these itself, and removes them itself.
_OF_KUBERNETES = ("foregroundDeletion", "orphan")


def explain_held_objects(objects: Iterable[tuple[str, ObjectMeta]]) -> tuple[Explanation, ...]:
    """Explain terminating objects, given as KIND/NAME and metadata, by the finalizer that each waits for."""
    held: dict[str, list[str]] = {}
    namespaces: dict[str, str] = {}
    for about, metadata in objects:
        for finalizer in foreign_finalizers(metadata) if metadata.is_terminating else ():
            held.setdefault(finalizer, []).append(about)
            namespaces[about] = metadata.namespace
    return tuple(one for finalizer, abouts in held.items() for one in _explain(finalizer, abouts, namespaces))


def foreign_finalizers(metadata: ObjectMeta) -> list[str]:
    return [name for name in metadata.finalizers if not name.startswith("grove.io/") and name not in _OF_KUBERNETES]


def _explain(finalizer: str, abouts: list[str], namespaces: dict[str, str]) -> tuple[Explanation, ...]:
    rest = f" and {len(abouts) - LISTED_NAMES} more" if len(abouts) > LISTED_NAMES else ""
    flag = namespace_flag(namespaces[abouts[0]])
    return (
        cause(
            abouts[0],
            FindingReason.HELD_BY_FINALIZER,
            f"finalizer {finalizer} blocks the deletion of {', '.join(abouts[:LISTED_NAMES])}{rest}.",
        ),
        next_step(
            abouts[0],
            f"the controller of this finalizer must remove it. If that controller is gone, remove the finalizer: "
            f"kubectl edit {abouts[0]}{flag}.",
        ),
    )
