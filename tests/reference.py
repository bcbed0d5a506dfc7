"""The reference page of conditions, events and findings, made from `grove.api.reasons`.

Where a word appears is said here; what it means is said beside the word itself. `test_docs.py` compares the page with
`docs/reference/conditions.md`, and finds words that have no place here.
"""

import ast
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

from grove.api.reasons import ConditionType, Documented, EventReason, FindingReason, Reason

SOURCES = Path(__file__).parent.parent / "src" / "grove"

# Per object its conditions, each with its reasons.
CONDITIONS: dict[str, dict[ConditionType, tuple[Reason, ...]]] = {
    "PodCliqueSet": {
        ConditionType.AVAILABLE: (
            Reason.ALL_REPLICAS_AVAILABLE,
            Reason.UPDATING,
            Reason.SCALED_TO_ZERO,
            Reason.REPLICAS_UNAVAILABLE,
            Reason.INVALID_SPEC,
        ),
        ConditionType.PROGRESSING: (
            Reason.COMPLETE,
            Reason.STARTING,
            Reason.SCALING,
            Reason.UPDATING,
            Reason.UPDATE_STALLED,
            Reason.INVALID_SPEC,
        ),
        ConditionType.COMPLETE: (Reason.ALL_REPLICAS_SUCCEEDED,),
        ConditionType.FAILED: (Reason.MAX_RESTARTS_EXCEEDED, Reason.MAX_RUNTIME_EXCEEDED),
        ConditionType.RECONCILE_FAILED: (
            Reason.INVALID_SPEC,
            Reason.OBJECT_BUDGET_EXCEEDED,
            Reason.CREATE_REJECTED,
            Reason.NAME_TAKEN,
            Reason.WRITE_REJECTED,
            Reason.WRITE_CONFLICT,
            Reason.TOO_LARGE,
            Reason.THROTTLED,
            Reason.SERVER_ERROR,
            Reason.NO_ANSWER,
            Reason.NAMESPACE_TERMINATING,
        ),
        ConditionType.UNSUPPORTED_FIELDS: (Reason.NOT_SUPPORTED_YET,),
        ConditionType.TOPOLOGY_LEVELS_UNAVAILABLE: (
            Reason.ALL_TOPOLOGY_LEVELS_AVAILABLE,
            Reason.TOPOLOGY_LEVELS_UNAVAILABLE,
            Reason.CLUSTER_TOPOLOGY_NOT_FOUND,
            Reason.TOPOLOGY_NAME_MISSING,
            Reason.TOPOLOGY_AWARE_SCHEDULING_DISABLED,
        ),
        ConditionType.GANG_SCHEDULING_UNAVAILABLE: (Reason.NO_GANG_SCHEDULING, Reason.MISSING_DEPENDENCY),
        ConditionType.SCHEDULER_LIMITED: (Reason.PARTIALLY_SUPPORTED,),
        ConditionType.STARTUP_ORDER_UNAVAILABLE: (Reason.MISSING_DEPENDENCY,),
        ConditionType.TEARDOWN_HELD: (Reason.MASS_OUTAGE,),
        ConditionType.UPDATE_STALLED: (
            Reason.NO_CAPACITY,
            Reason.MINIMUM_NOT_MET,
            Reason.PODS_NOT_STARTING,
            Reason.PODS_NOT_READY,
            Reason.PODS_REJECTED,
        ),
    },
    "PodCliqueScalingGroup": {
        ConditionType.MIN_AVAILABLE_BREACHED: (
            Reason.SUFFICIENT_AVAILABLE_REPLICAS,
            Reason.INSUFFICIENT_AVAILABLE_REPLICAS,
            Reason.NEVER_AVAILABLE,
            Reason.REPLICA_STATE_UNKNOWN,
            Reason.UPDATE_IN_PROGRESS,
            Reason.SCALED_TO_ZERO,
        ),
        ConditionType.GANG_TERMINATION_IN_PROGRESS: (Reason.GANG_TERMINATION_ACTIVE,),
    },
    "PodClique": {
        ConditionType.POD_CLIQUE_SCHEDULED: (
            Reason.SUFFICIENT_SCHEDULED_PODS,
            Reason.INSUFFICIENT_SCHEDULED_PODS,
            Reason.SCALED_TO_ZERO,
        ),
        ConditionType.MIN_AVAILABLE_BREACHED: (
            Reason.SUFFICIENT_READY_PODS,
            Reason.NEVER_AVAILABLE,
            Reason.UPDATE_IN_PROGRESS,
            Reason.INSUFFICIENT_READY_PODS,
            Reason.POD_FAILED,
            Reason.SCALED_TO_ZERO,
        ),
        ConditionType.PODS_REJECTED: (
            Reason.CREATE_REJECTED,
            Reason.QUOTA_EXCEEDED,
            Reason.PODS_RELEASED,
            Reason.PODS_ACCEPTED,
        ),
        ConditionType.SUCCEEDED: (Reason.ALL_PODS_SUCCEEDED,),
    },
    "PodGang": {
        ConditionType.INITIALIZED: (Reason.PODS_CREATED, Reason.PODS_CREATION_PENDING, Reason.SCALED_TO_ZERO),
        ConditionType.SCHEDULED: (Reason.MINIMUM_SCHEDULED, Reason.MINIMUM_NOT_SCHEDULED, Reason.SCALED_TO_ZERO),
        ConditionType.READY: (Reason.MINIMUM_READY, Reason.MINIMUM_NOT_READY, Reason.SCALED_TO_ZERO),
        ConditionType.UNHEALTHY: (Reason.MINIMUM_KEPT, Reason.MINIMUM_LOST, Reason.SCALED_TO_ZERO),
        ConditionType.DISRUPTION_TARGET: (),
    },
    "Pod": {ConditionType.POD_SCHEDULED: (Reason.UNSCHEDULABLE, Reason.SCHEDULING_GATED)},
    "ClusterTopologyBinding": {
        ConditionType.SCHEDULER_TOPOLOGY_DRIFT: (Reason.IN_SYNC, Reason.DRIFT, Reason.TOPOLOGY_NOT_FOUND)
    },
}

# Which object's events have the reason; an event is about the object that owns what happened.
EVENTS: dict[str, tuple[EventReason, ...]] = {
    "PodCliqueSet": (
        EventReason.POD_CLIQUE_SYNCED,
        EventReason.POD_CLIQUE_SYNC_FAILED,
        EventReason.POD_CLIQUE_DELETED,
        EventReason.POD_CLIQUE_DELETE_FAILED,
        EventReason.GROUP_CREATED,
        EventReason.GROUP_SYNC_FAILED,
        EventReason.GROUP_DELETED,
        EventReason.GROUP_DELETE_FAILED,
        EventReason.GANG_SYNCED,
        EventReason.GANG_SYNC_FAILED,
        EventReason.GANG_DELETED,
        EventReason.GANG_DELETE_FAILED,
        EventReason.SERVICE_SYNC_FAILED,
        EventReason.RECONCILE_FAILED,
        EventReason.UNSUPPORTED_FIELDS,
        EventReason.CREATE_REJECTED,
        EventReason.NAME_TAKEN,
        EventReason.REPLICA_DELETED,
        EventReason.REPLICA_DELETE_FAILED,
        EventReason.GROUP_REPLICA_DELETED,
        EventReason.NO_GANG_SCHEDULING,
        EventReason.PARTIALLY_SUPPORTED,
        EventReason.MISSING_DEPENDENCY,
        EventReason.TEARDOWN_HELD,
        EventReason.UPDATE_STARTED,
        EventReason.UPDATE_TURN,
        EventReason.UPDATE_COMPLETED,
        EventReason.UPDATE_STALLED,
        EventReason.COMPUTE_DOMAIN_CREATED,
        EventReason.COMPUTE_DOMAIN_CREATE_FAILED,
        EventReason.COMPUTE_DOMAIN_DELETED,
        EventReason.COMPUTE_DOMAIN_DELETE_FAILED,
        EventReason.POD_CLIQUE_FAILED,
        EventReason.INDEX_GIVEN_UP,
        EventReason.REPLICA_RESTARTING,
        EventReason.MAX_RESTARTS_EXCEEDED,
        EventReason.MAX_RUNTIME_EXCEEDED,
        EventReason.WORKLOAD_SUCCEEDED,
    ),
    "PodCliqueScalingGroup": (
        EventReason.POD_CLIQUE_CREATED,
        EventReason.POD_CLIQUE_CREATE_FAILED,
        EventReason.MIN_AVAILABLE_BREACHED,
        EventReason.MIN_AVAILABLE_RESTORED,
        EventReason.ALL_SCHEDULED_REPLICAS_LOST,
        EventReason.GROUP_REPLICA_DELETE_FAILED,
    ),
    "PodClique": (
        EventReason.POD_CREATED,
        EventReason.POD_CREATE_FAILED,
        EventReason.POD_DELETED,
        EventReason.POD_DELETE_FAILED,
        EventReason.PODS_REJECTED,
        EventReason.MIN_AVAILABLE_BREACHED,
        EventReason.MIN_AVAILABLE_RESTORED,
        EventReason.ALL_SCHEDULED_REPLICAS_LOST,
    ),
    "PodGang": (EventReason.FAILED_SCHEDULING,),
    "Pod": (EventReason.FAILED_SCHEDULING, EventReason.SCHEDULED),
    "ClusterTopologyBinding": (
        EventReason.TOPOLOGY_DRIFT_DETECTED,
        EventReason.TOPOLOGY_IN_SYNC,
        EventReason.RECONCILE_FAILED,
    ),
}

# Written by the embedded API server itself, in Kubernetes' own words.
KUBERNETES_WORDS: tuple[Documented, ...] = (ConditionType.POD_SCHEDULED, Reason.SCHEDULING_GATED)

_HEAD = """\
# Conditions, events and findings

Every condition, event and finding that Grove writes, and its meaning. They are defined in `src/grove/api/reasons.py`,
and this page is generated from them: `python -m tests.field_reference` writes it again.

*Later* marks names that are reserved for features that are not supported yet: Grove does not write them today.
Messages are for people: they contain the numbers and names behind a reason, and may change.
"""


def conditions_page() -> str:
    return "\n".join([_HEAD, *_conditions(), *_events(), *_findings()])


def placed_words() -> tuple[Documented, ...]:
    """Every word that has a place on the page."""
    conditions = [words for kinds in CONDITIONS.values() for words in kinds.items()]
    return (
        *(type_ for type_, _ in conditions),
        *(reason for _, reasons in conditions for reason in reasons),
        *(reason for reasons in EVENTS.values() for reason in reasons),
        *FindingReason,
    )


def _conditions() -> Iterator[str]:
    yield "## Conditions\n"
    for kind, conditions in CONDITIONS.items():
        yield f"### {kind}\n"
        yield from _table_head("condition", "reason", "meaning")
        for type_, reasons in conditions.items():
            yield _row(f"`{type_}`", "", _meaning(type_))
            yield from (_row("", f"`{reason}`", _meaning(reason)) for reason in reasons)
        yield ""


def _events() -> Iterator[str]:
    yield "## Events\n"
    yield "Several events of one kind become one event that lists the names. Repeated events are counted.\n"
    for kind, reasons in EVENTS.items():
        yield f"### Events of a {kind}\n"
        yield from _words_table(reasons)


def _findings() -> Iterator[str]:
    yield "## Findings\n"
    yield "A finding is the reason why an object waits. `grove why` prints findings; they are not stored.\n"
    yield from _words_table(FindingReason)


def _words_table(words: Iterable[Documented]) -> Iterator[str]:
    yield from _table_head("reason", "meaning")
    yield from (_row(f"`{word}`", _meaning(word)) for word in words)
    yield ""


def _table_head(*titles: str) -> Iterator[str]:
    yield _row(*titles)
    yield "|" + "---|" * len(titles)


def _row(*cells: str) -> str:
    return "| " + " | ".join(cells) + " |"


def _meaning(word: Documented) -> str:
    return word.meaning if _is_written(word) else f"*Later.* {word.meaning}"


def _is_written(word: Documented) -> bool:
    return word in KUBERNETES_WORDS or f"{type(word).__name__}.{word.name}" in _mentioned()


@cache
def _mentioned() -> frozenset[str]:
    """Return `Enum.MEMBER` for each place where the program names one."""
    return frozenset(
        f"{node.value.id}.{node.attr}"
        for path in SOURCES.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
    )
