"""Validate a PodClique that is edited or scaled directly: replicas must be 0 or at least minAvailable."""

from collections.abc import Iterator

from grove.api.resources import GROUPS
from grove.api.types.podclique import PodClique
from grove.api.validation.cliques import pod_shape_errors
from grove.api.validation.field_errors import FieldError, invalid
from grove.api.validation.object_budget import count_errors


def podclique_errors(clique: PodClique) -> Iterator[FieldError]:
    replicas, minimum = clique.spec.replicas, clique.spec.min_available
    yield from pod_shape_errors(clique.spec.pod_spec, "spec.podSpec")
    yield from count_errors("spec.replicas", replicas)
    if replicas < 0:
        yield invalid("spec.replicas", replicas, "must be at least 0")
    if minimum is None:
        return
    if minimum <= 0:
        yield invalid("spec.minAvailable", minimum, "must be greater than 0")
    elif 0 < replicas < minimum:
        yield invalid("spec.replicas", replicas, f"must be 0, or at least minAvailable ({minimum})")
    elif replicas == 0 and (group := _group_of(clique)) is not None:
        detail = f'must be at least minAvailable ({minimum}) for a member of group "{group}": scale the group'
        yield invalid("spec.replicas", replicas, detail)


def _group_of(clique: PodClique) -> str | None:
    owner = clique.metadata.controller_reference
    return owner.name if owner is not None and owner.kind == GROUPS.kind else None
