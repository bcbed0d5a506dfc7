"""Delete one pod, and record an event on its clique."""

from grove.api.reasons import EventReason
from grove.api.resources import PODCLIQUES, PODS
from grove.api.types.meta import ObjectMeta
from grove.planner.actions import Delete, EventRecord, delete_object, subject_of
from grove.planner.views import CliqueView


def delete_pod(clique: CliqueView, pod: ObjectMeta, reason: str) -> Delete:
    reported = EventRecord(
        subject=subject_of(PODCLIQUES, clique.clique.metadata),
        reason=EventReason.POD_DELETED,
        message=f"deleted pod ({reason})",
        names=(pod.name,),
    )
    return delete_object(PODS, pod, reason, reported)
