"""End a training set that failed: delete its running and waiting pods, then set its phase to Failed.

The operator creates nothing more for the set. Pods that ended on their own stay until the set is deleted, for their
logs.
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
from grove.planner.status.set_status import plan_final_status
from grove.planner.teardown.bulk_delete import delete_all
from grove.planner.training.lifecycle import failure_of, is_finished

NOT_ENDED = "status.phase!=Succeeded,status.phase!=Failed"


def plan_failing(snapshot: Snapshot, now: datetime) -> Plan | None:
    """Return the next step of ending a failed set. None: the set has not failed, or nothing is left to do."""
    status = snapshot.pcs.status
    failure = failure_of(status)
    if failure is None:
        return None
    pods = tuple(_pods(snapshot))
    left = [pod for pod in pods if pod.is_active]
    # A create that was in flight may arrive after the end. Its pod is deleted too.
    if is_finished(snapshot.pcs) and not left:
        return None
    # A pod whose deletion is overdue is on a node that does not answer. Do not wait for it.
    terminating = [gone_at(pod) for pod in pods if pod.metadata.is_terminating and now < gone_at(pod)]
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
    if terminating:
        return Plan(requeue_at=earliest(*terminating))
    return Plan(statuses=plan_final_status(snapshot.pcs, msgspec.structs.replace(status, phase=SetPhase.FAILED)))


def _pods(snapshot: Snapshot) -> Iterator[Pod]:
    for replica in snapshot.replicas:
        for view in replica.cliques.values():
            yield from (*view.active, *view.terminating, *view.failed, *view.succeeded)
