"""Start-up order of a set: the clique templates that each clique template starts after."""

from collections.abc import Mapping
from itertools import pairwise

from grove.api.types.podcliqueset import SetTemplate, StartupType


def dependencies_by_clique(template: SetTemplate) -> Mapping[str, tuple[str, ...]]:
    """Return the cliques that each clique starts after, without those that start at once."""
    match template.clique_startup_type:
        case StartupType.IN_ORDER:
            in_order = [clique.name for clique in template.cliques]
            return {name: (before,) for before, name in pairwise(in_order)}
        case StartupType.EXPLICIT:
            return {clique.name: clique.spec.starts_after for clique in template.cliques if clique.spec.starts_after}
        case _:
            return {}


def describe_unknown_image(template: SetTemplate, image: str) -> str:
    """Return why cliques that start after others get no pods: the image of the init container is not known. Or ""."""
    waiting = dependencies_by_clique(template)
    if not waiting or image:
        return ""
    return (
        f"cliques that start after others ({', '.join(waiting)}) get no pods: the image of the init container is not "
        "known; set initContainer.image in the OperatorConfiguration"
    )
