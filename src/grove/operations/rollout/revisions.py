"""Read the stored revisions of a set and find the current one. Pure; `template_diff.py` compares them."""

from collections.abc import Iterable

import msgspec

from grove.api import labels
from grove.api.defaulting import default_podcliqueset
from grove.api.resources import PODCLIQUESETS
from grove.api.template_revision import Revision, makes_same_pods, read_revision
from grove.api.types.controllerrevision import ControllerRevision
from grove.api.types.meta import to_wire
from grove.api.types.podcliqueset import PodCliqueSet, SetTemplate


def revision_selector(pcs_name: str) -> str:
    return labels.selector({**labels.default_labels(pcs_name), labels.COMPONENT: labels.COMPONENT_REVISION})


def revisions_of(pcs: PodCliqueSet, stored: Iterable[ControllerRevision]) -> tuple[Revision, ...]:
    """Return the revisions that this set owns, oldest first. The last one is what the operator observed last."""
    owner = PODCLIQUESETS.owner_key(pcs.metadata)
    mine = (one for one in stored if one.metadata.controller == owner and not one.metadata.is_terminating)
    found = (read_revision(one, pcs.metadata.name) for one in mine)
    return tuple(sorted(filter(None, found), key=lambda revision: revision.number))


def template_with_defaults(pcs: PodCliqueSet) -> SetTemplate:
    """Return the template of the set with defaults, as the operator reads it."""
    return msgspec.convert(default_podcliqueset(to_wire(pcs)), PodCliqueSet).spec.template


def find_matching_revision(template: SetTemplate, revisions: tuple[Revision, ...]) -> Revision | None:
    """Return the stored revision that makes the same pods as the template. None: not stored yet."""
    return next((one for one in reversed(revisions) if makes_same_pods(template, one.template)), None)


def format_revision_numbers(revisions: tuple[Revision, ...]) -> str:
    """Format revision numbers for messages, such as `revisions 1, 2 and 5`."""
    numbers = [str(one.number) for one in revisions]
    if not numbers:
        return "none"
    if len(numbers) == 1:
        return f"revision {numbers[0]}"
    return f"revisions {', '.join(numbers[:-1])} and {numbers[-1]}"
