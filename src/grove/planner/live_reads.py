"""Live reads of pods before some of them are deleted: one watch can be stale while others work."""

from grove.api import labels
from grove.planner.actions import LiveRead
from grove.planner.views import CliqueView


def read_live(clique: CliqueView) -> LiveRead:
    return LiveRead(
        namespace=clique.clique.metadata.namespace,
        selector=labels.selector({labels.PODCLIQUE: clique.name}),
        owners=(clique.owner_key,),
    )
