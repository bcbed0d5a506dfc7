"""Selectors of the scale subresources: the pods that an autoscaler measures.

A HorizontalPodAutoscaler multiplies the ratio of usage and target by the number of pods that the selector matches, and
takes the result for the number of replicas. So the selector must match as many pods as there are replicas: of a
standalone clique all pods, of a group replica or set replica one, the first pod of its first clique.
"""

from collections.abc import Iterable

from grove.api import labels, names
from grove.api.types.meta import ObjectMeta
from grove.api.types.podcliqueset import GroupConfig
from grove.planner.snapshot import SetContext

# A selector does not list more names: it is part of a status, and of every request for metrics.
_LISTED_NAMES = 500


def clique_selector(context: SetContext, metadata: ObjectMeta) -> str | None:
    """Return the selector of a standalone clique. A member has none: it scales with its group."""
    if labels.GROUP in metadata.labels:
        return None
    return labels.selector({**labels.default_labels(context.name), labels.PODCLIQUE: metadata.name})


def group_selector(context: SetContext, config: GroupConfig, name: str, replicas: int) -> str:
    first = (names.member_clique(name, j, config.clique_names[0]) for j in range(replicas))
    wanted = {**labels.default_labels(context.name), labels.GROUP: name, labels.POD_INDEX: "0"}
    return _select_first(wanted, first, replicas, is_only_clique=len(config.clique_names) == 1)


def set_selector(context: SetContext) -> str:
    template = context.spec.template
    leader = template.cliques[0].name if template.cliques else ""
    config = next((group for group in context.groups if leader in group.clique_names), None)
    wanted = {**labels.default_labels(context.name), labels.POD_INDEX: "0"}
    if config is not None:
        wanted[labels.GROUP_REPLICA_INDEX] = "0"
    replicas = context.spec.replicas
    first = (_first_clique(context.name, index, config, leader) for index in range(replicas))
    return _select_first(wanted, first, replicas, is_only_clique=len(template.cliques) == 1)


def _first_clique(pcs: str, index: int, config: GroupConfig | None, clique: str) -> str:
    if config is None:
        return names.standalone_clique(pcs, index, clique)
    return names.member_clique(names.group(pcs, index, config.name), 0, clique)


def _select_first(wanted: dict[str, str], cliques: Iterable[str], count: int, *, is_only_clique: bool) -> str:
    """Return a selector of the first pods of these cliques. Their names are needed only if there are other cliques."""
    everything = labels.selector(wanted)
    if is_only_clique or not 0 < count <= _LISTED_NAMES:
        return everything
    return f"{everything},{labels.PODCLIQUE} in ({','.join(sorted(cliques))})"
