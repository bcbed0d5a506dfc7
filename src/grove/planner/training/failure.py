"""A training set that failed for good: nothing is made any more, what still runs or waits goes, then its phase says so.

Pods that ended by themselves stay for their logs until the set is deleted.
"""

from collections.abc import Iterator
from datetime import datetime

import msgspec

from grove.api import labels
from grove.api.resources import PODS
from grove.api.types.pod import Pod
from grove.api.types.podcliqueset import SetPhase
from grove.planner.actions import WHOLE_SET, ChainPriority, Plan, chain, earliest
from grove.planner.rollout.clique_update import gone_at
from grove.planner.snapshot import Snapshot
from grove.planner.status.set_status import course_write
from grove.planner.teardown.bulk_delete import delete_all
from grove.planner.training.lifecycle import failure_of, is_finished

NOT_ENDED = "status.phase!=Succeeded,status.phase!=Failed"


def plan_failing(snapshot: Snapshot, now: datetime) -> Plan | None:
    """None: it has not failed, or all that is left to do was done."""
    status = snapshot.pcs.status
    failure = failure_of(status)
    if failure is None:
        return None
    pods = tuple(_pods(snapshot))
    left = [pod for pod in pods if pod.is_active]
    # A create that was under way may arrive after the end: its pod goes too.
    if is_finished(snapshot.pcs) and not left:
        return None
    # One that should have left long ago hangs on a node that does not answer: nobody waits for it.
    leaving = [gone_at(pod) for pod in pods if pod.metadata.is_terminating and now < gone_at(pod)]
    if left:
        deletes = delete_all(
            PODS,
            snapshot.context.namespace,
            labels.default_labels(snapshot.context.name),
            (pod.metadata for pod in left),
            f"the set failed: {failure.message}",
            field_selector=NOT_ENDED,
        )
        return Plan(chains=chain("failed", WHOLE_SET, tuple(deletes), rank=ChainPriority.FIRST))
    if leaving:
        return Plan(requeue_at=earliest(*leaving))
    return Plan(statuses=course_write(snapshot.pcs, msgspec.structs.replace(status, phase=SetPhase.FAILED)))


def _pods(snapshot: Snapshot) -> Iterator[Pod]:
    for replica in snapshot.replicas:
        for view in replica.cliques.values():
            yield from (*view.active, *view.leaving, *view.failed, *view.succeeded)
