"""Scale-in of a clique: choose the pods to delete, the least useful first."""

from collections.abc import Collection, Iterable
from math import inf

from grove.api.types.pod import Pod
from grove.planner.views import pod_index, template_hash_of


def select_pods_to_delete(
    pods: Iterable[Pod], excess: int, referenced: Collection[str], template_hash: str
) -> list[Pod]:
    """Return `excess` pods. `referenced`: the names that the gang references; `template_hash`: the newest template."""
    if excess <= 0:
        return []
    return sorted(pods, key=lambda pod: _usefulness(pod, referenced, template_hash))[:excess]


def _usefulness(pod: Pod, referenced: Collection[str], template_hash: str) -> tuple[object, ...]:
    """Return a sort key: least useful first. A pod that was chosen before is no longer referenced by its gang."""
    phases = {"Pending": 0, "Unknown": 1}
    created = pod.metadata.creation_timestamp
    return (
        pod.metadata.name in referenced,
        pod.is_scheduled,
        phases.get(pod.status.phase, 2),
        pod.is_ready,
        template_hash_of(pod.metadata) == template_hash,
        -created.timestamp() if created else -inf,
        -pod_index(pod),
    )
