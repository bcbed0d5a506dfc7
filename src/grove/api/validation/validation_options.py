"""Options of an installation that validation depends on."""

from collections.abc import Callable

import msgspec

from grove.api.schema.limits import OBJECTS_PER_SET
from grove.api.types.clustertopologybinding import ClusterTopologyBinding

FindBinding = Callable[[str], ClusterTopologyBinding | None]


class ValidationOptions(msgspec.Struct, frozen=True, kw_only=True):
    schedulers: tuple[str, ...] = ("default-scheduler", "kai-scheduler", "volcano", "lpx-scheduler")
    default_scheduler: str = "default-scheduler"
    # Schedulers with a topology resource that a ClusterTopologyBinding may reference.
    topology_schedulers: tuple[str, ...] = ("kai-scheduler",)
    is_topology_aware: bool = True
    is_mnnvl_enabled: bool = True
    # The terminationDelay of new Inference sets that have none.
    default_delay: str | None = None
    # Pods, PodCliques, PodCliqueScalingGroups, PodGangs and Services of one set.
    objects_per_set: int = OBJECTS_PER_SET
