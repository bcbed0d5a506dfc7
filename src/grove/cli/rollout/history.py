"""Build the revision history of a set: which is current, how many replicas run each, what each changed. Pure."""

from collections.abc import Iterable, Mapping
from datetime import datetime

from grove.api.template_revision import Revision
from grove.api.types.meta import WireStruct
from grove.operations.rollout.template_diff import CliqueChange, template_changes
from grove.planner.rollout.revision_history import CHANGE_CAUSE


class HistoryEntry(WireStruct):
    revision: int
    generation_hash: str
    # Whether the set has these templates now.
    is_current: bool
    # Number of set replicas that run it.
    replicas: int
    created_at: datetime | None
    change_cause: str = ""
    # Differences from the previous entry; empty for the first.
    changes: tuple[CliqueChange, ...] = ()


class RevisionList(WireStruct):
    name: str
    namespace: str
    revisions: tuple[HistoryEntry, ...]


def build_history(
    revisions: tuple[Revision, ...], current: Revision | None, running: Mapping[str, int]
) -> tuple[HistoryEntry, ...]:
    """Return one entry per revision. `running`: the number of replicas that run each revision, by hash."""
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
        for before, one in _with_previous(revisions)
    )


def _with_previous(revisions: tuple[Revision, ...]) -> Iterable[tuple[Revision | None, Revision]]:
    return zip((None, *revisions), revisions, strict=False)
