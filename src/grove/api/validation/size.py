"""How large a set may be. Greater numbers are slips of the pen, and to carry them out would hold up everybody else."""

from collections.abc import Iterator

from grove.api.fielderrors import FieldError, invalid
from grove.api.podcliqueset import PodCliqueSet, SetTemplate

# Pods of a clique, replicas of a group, replicas of a set.
LARGEST_COUNT = 100_000
# Pods of a set; a cluster is said to hold 150,000.
LARGEST_SET = 200_000


def count_errors(path: str, count: int) -> Iterator[FieldError]:
    if count > LARGEST_COUNT:
        yield invalid(path, count, f"must not be greater than {LARGEST_COUNT}")


def size_errors(pcs: PodCliqueSet) -> Iterator[FieldError]:
    template, replicas = pcs.spec.template, pcs.spec.replicas
    errors = [
        *count_errors("spec.replicas", replicas),
        *(e for i, c in enumerate(template.cliques) for e in count_errors(_clique_path(i), c.spec.replicas)),
        *(
            e
            for i, group in enumerate(template.pod_clique_scaling_groups)
            for e in count_errors(f"spec.template.podCliqueScalingGroups[{i}].replicas", group.replicas)
        ),
    ]
    pods = replicas * _replica_pods(template)
    if not errors and pods > LARGEST_SET:
        detail = f"these are {pods} pods, and one set may have {LARGEST_SET}: make several sets of it"
        errors.append(invalid("spec.replicas", replicas, detail))
    yield from errors


def _clique_path(index: int) -> str:
    return f"spec.template.cliques[{index}].spec.replicas"


def _replica_pods(template: SetTemplate) -> int:
    """The pods of one set replica, as the template asks for them."""
    times = {name: group.replicas for group in template.pod_clique_scaling_groups for name in group.clique_names}
    return sum(clique.spec.replicas * times.get(clique.name, 1) for clique in template.cliques)
