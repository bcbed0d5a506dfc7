"""The revisions of a set as people look back on them: which is asked for, who runs it, what each changed. Pure."""

from collections.abc import Iterable, Mapping
from datetime import datetime

from grove.api.template_revision import Revision
from grove.api.types.meta import WireStruct
from grove.cli.rollout.template_diff import CliqueChange, template_changes
from grove.planner.rollout.revision_history import CHANGE_CAUSE


class HistoryEntry(WireStruct):
    revision: int
    generation_hash: str
    # The templates that the set asks for now.
    is_current: bool
    # Set replicas that run it.
    replicas: int
    created_at: datetime | None
    change_cause: str = ""
    # Compared with the entry before; the first one has nothing to be compared with.
    changes: tuple[CliqueChange, ...] = ()


class RevisionList(WireStruct):
    name: str
    namespace: str
    revisions: tuple[HistoryEntry, ...]


def build_history(
    revisions: tuple[Revision, ...], current: Revision | None, running: Mapping[str, int]
) -> tuple[HistoryEntry, ...]:
    """`running`: how many replicas run each revision, by its hash."""
    return tuple(
        HistoryEntry(
            revision=one.number,
            generation_hash=one.generation_hash,
            is_current=one is current,
            replicas=running.get(one.generation_hash, 0),
            created_at=one.object.metadata.creation_timestamp,
            change_cause=one.object.metadata.annotations.get(CHANGE_CAUSE, ""),
            changes=() if before is None else template_changes(before.template, one.template),
        )
        for before, one in _with_the_one_before(revisions)
    )


def _with_the_one_before(revisions: tuple[Revision, ...]) -> Iterable[tuple[Revision | None, Revision]]:
    return zip((None, *revisions), revisions, strict=False)
