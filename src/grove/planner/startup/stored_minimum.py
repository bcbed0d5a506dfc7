"""Decide when the status of a clique must be stored before pods that start after it are created."""

from grove.api.types.podclique import PodCliqueStatus
from grove.api.types.podcliqueset import StartupType
from grove.planner.snapshot import SetContext
from grove.planner.views import CliqueView


def loses_minimum(context: SetContext, clique: CliqueView, new: PodCliqueStatus) -> bool:
    """Return whether init containers that read the stored status of a clique would start too early.

    Pods that start after this clique may be created in the same plan, so its lost minimum must be stored before them.
    """
    if context.spec.template.clique_startup_type not in (StartupType.IN_ORDER, StartupType.EXPLICIT):
        return False
    return _started_count(new) < max(1, clique.min_available) <= _started_count(clique.clique.status)


def _started_count(status: PodCliqueStatus) -> int:
    return status.ready_replicas + len(status.succeeded_indices)
