"""The resources of the kinds that a user may name on the command line."""

from typing import Any

from grove.api.resources import GROUPS, PODCLIQUES, PODCLIQUESETS, PODGANGS, PODS, Resource

RESOURCES: dict[str, Resource[Any]] = {
    "podcliqueset": PODCLIQUESETS,
    "podclique": PODCLIQUES,
    "podcliquescalinggroup": GROUPS,
    "podgang": PODGANGS,
    "pod": PODS,
}
