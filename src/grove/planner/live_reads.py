"""A fresh look at pods before some of them are given up: a watch can be cut while others live."""

from grove.api import labels
from grove.planner.actions import FreshLook
from grove.planner.views import CliqueView


def look_at(clique: CliqueView) -> FreshLook:
    return FreshLook(
        namespace=clique.clique.metadata.namespace,
        selector=labels.selector({labels.PODCLIQUE: clique.name}),
        owners=(clique.owner_key,),
    )
