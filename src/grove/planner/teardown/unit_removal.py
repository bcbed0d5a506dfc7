"""Delete a unit for good: a set replica or a group replica that was scaled in, or whose teardown has begun.

A removal is many writes. The unit's PodGang is marked first and deleted last. While a marked gang exists, the removal
continues, even if the unit is scaled out again meanwhile. So half a gang never looks healthy.
"""

from collections.abc import Iterable

from grove.api import labels
from grove.api.reasons import EventReason
from grove.api.resources import AUTOSCALERS, GROUPS, PODCLIQUES, PODGANGS, PODS, SERVICES
from grove.api.types.podgang import PodGang
from grove.planner.actions import Action, EventRecord, EventSubject, Patch, Stage, delete_object
from grove.planner.snapshot import SetContext
from grove.planner.teardown.bulk_delete import delete_all
from grove.planner.views import CliqueView, ReplicaView


def is_marked(gang: PodGang | None) -> bool:
    return gang is not None and labels.TEARDOWN in gang.metadata.annotations


def plan_replica_removal(context: SetContext, replica: ReplicaView, base_name: str, reason: str) -> tuple[Stage, ...]:
    """Delete everything of a set replica; its base gang last."""
    base = replica.gangs.get(base_name)
    selector = {**labels.default_labels(context.name), labels.SET_REPLICA_INDEX: str(replica.index)}
    others: list[Action] = [
        *(delete_object(GROUPS, g.metadata, reason) for g in replica.groups.values() if not g.metadata.is_terminating),
        *(
            delete_object(SERVICES, s.metadata, reason)
            for s in replica.services.values()
            if not s.metadata.is_terminating
        ),
        *(
            delete_object(AUTOSCALERS, a.metadata, reason)
            for a in replica.autoscalers.values()
            if not a.metadata.is_terminating
        ),
        *(
            delete_object(PODGANGS, gang.metadata, reason)
            for gang in replica.gangs.values()
            if gang is not base and not gang.metadata.is_terminating
        ),
    ]
    others_exist = replica.cliques or replica.groups or replica.services or replica.autoscalers
    is_bare = not (others_exist or len(replica.gangs) > (base is not None))
    return _unit_stages(
        context, base, tuple(replica.cliques.values()), selector, others, is_bare=is_bare, reason=reason
    )


def plan_group_replica_removal(
    context: SetContext, gang: PodGang | None, cliques: tuple[CliqueView, ...], selector: dict[str, str], reason: str
) -> tuple[Stage, ...]:
    """Remove one scaled group replica: its pods, its cliques, and last its gang."""
    selector = {**labels.default_labels(context.name), **selector}
    return _unit_stages(context, gang, cliques, selector, [], is_bare=not cliques, reason=reason)


def _unit_stages(
    context: SetContext,
    gang: PodGang | None,
    cliques: tuple[CliqueView, ...],
    selector: dict[str, str],
    others: list[Action],
    *,
    is_bare: bool,
    reason: str,
) -> tuple[Stage, ...]:
    if is_bare:
        return (_delete_gang(context.subject, gang, reason),)
    mark: Stage = (_mark(gang, reason),) if gang is not None and not is_marked(gang) else ()
    pods = tuple(_delete_pods(context, cliques, selector, reason))
    children = [
        delete_object(
            PODCLIQUES,
            clique.clique.metadata,
            reason,
            EventRecord(
                subject=context.subject,
                reason=EventReason.POD_CLIQUE_DELETED,
                message=f"deleted PodClique ({reason})",
                names=(clique.name,),
            ),
        )
        for clique in cliques
        if not clique.is_terminating
    ]
    # Cliques before their group: without the group their owner is unknown.
    return (mark, pods, tuple(children), tuple(others))


def _mark(gang: PodGang, reason: str) -> Patch:
    incarnation = gang.metadata.labels.get(labels.INCARNATION, "")
    return Patch(
        resource=PODGANGS,
        namespace=gang.metadata.namespace,
        name=gang.metadata.name,
        uid=gang.metadata.uid,
        patch={"metadata": {"annotations": {labels.TEARDOWN: incarnation or "0"}}},
        reason=f"recorded before anything is deleted: {reason}",
    )


def _delete_pods(
    context: SetContext, cliques: Iterable[CliqueView], selector: dict[str, str], reason: str
) -> Iterable[Action]:
    """Delete pods with one request per incarnation, so that a late request cannot delete the next incarnation."""
    by_incarnation: dict[str, list[CliqueView]] = {}
    for clique in cliques:
        by_incarnation.setdefault(clique.incarnation, []).append(clique)
    for incarnation, members in sorted(by_incarnation.items()):
        pods = (p.metadata for clique in members for p in (*clique.active, *clique.failed, *clique.succeeded))
        wanted = {**selector, labels.INCARNATION: incarnation} if incarnation else selector
        yield from delete_all(PODS, context.namespace, wanted, pods, reason)


def _delete_gang(subject: EventSubject, gang: PodGang | None, reason: str) -> Stage:
    if gang is None or gang.metadata.is_terminating:
        return ()
    emit = EventRecord(
        subject=subject,
        reason=EventReason.GANG_DELETED,
        message=f"deleted PodGang ({reason})",
        names=(gang.metadata.name,),
    )
    return (delete_object(PODGANGS, gang.metadata, reason, emit),)
