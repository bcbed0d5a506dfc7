"""Options of an installation that validation depends on."""

from collections.abc import Callable

import msgspec

from grove.api.schema.limits import OBJECTS_PER_SET
from grove.api.types.clustertopologybinding import ClusterTopologyBinding
from grove.api.values.clique_counts import LOCAL_IMAGE

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
    # The image of the init container that waits for other cliques; "": not known, and sets that need it get a warning.
    init_image: str = LOCAL_IMAGE
