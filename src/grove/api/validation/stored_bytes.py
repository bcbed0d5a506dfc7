"""Validate that a set and its gangs fit into etcd, which stores objects of at most 1.5 MiB.

A PodGang has the names of all its pods, which limits the pods of a gang. This is checked when a set is written or
scaled; stored objects are known to fit.
"""

from collections.abc import Iterator, Mapping

import msgspec

from grove.api.names import SUFFIX_LENGTH
from grove.api.schema.limits import LARGEST_OBJECT
from grove.api.types.meta import JsonObject
from grove.api.types.podclique import PodClique
from grove.api.types.podcliqueset import CliqueTemplate, PodCliqueSet, WorkloadType
from grove.api.validation.field_errors import FieldError, invalid, too_long
from grove.api.validation.object_budget import size_errors, template_of

# A set is stored with its status and managed fields beside it, and a second time as a revision.
LARGEST_SPEC = 1024 * 1024
# Kept free in every object: for metadata, managed fields and conditions.
_RESERVE = 64 * 1024
_RESTARTS_ENTRY = len('{"replicaIndex":100000,"count":1000},')
_REFERENCE = len('{"namespace":"","name":""},')
_POD_GROUP = len('{"name":"","podReferences":[],"minReplicas":100000,"topologyConstraint":{"packConstraint":{}}},')


class _Share(msgspec.Struct, frozen=True, kw_only=True):
    """The bytes that one clique of the template needs in the base gang of a replica."""

    index: int
    # The number of its PodCliques in this gang, and the pods of each.
    copies: int
    pods: int
    # Bytes of a PodClique without its pods, and of one reference to a pod.
    head: int
    reference: int

    @property
    def total(self) -> int:
        return self.copies * (self.head + self.pods * self.reference)


def spec_errors(pcs: JsonObject) -> tuple[FieldError, ...]:
    """Validate the size of the whole spec of a set."""
    size = len(msgspec.json.encode(pcs.get("spec")))
    return (too_long("spec", LARGEST_SPEC),) if size > LARGEST_SPEC else ()


def byte_errors(pcs: PodCliqueSet) -> Iterator[FieldError]:
    if not any(size_errors(pcs)):
        yield from _restart_errors(pcs)
        yield from _gang_errors(pcs)


def scaled_clique_byte_errors(clique: PodClique, pcs: PodCliqueSet) -> Iterator[FieldError]:
    """Validate that the pod names of one scaled clique fit into its gang beside the others."""
    template = template_of(clique, pcs)
    if template is None:
        return
    shares = _shares(pcs)
    share = next(one for one in shares if pcs.spec.template.cliques[one.index] is template)
    others = sum(one.total for one in shares) - share.pods * share.reference
    fit = max((_available_bytes(pcs) - others) // share.reference, 0)
    if clique.spec.replicas > fit:
        yield invalid("spec.replicas", clique.spec.replicas, _too_many_pods(fit))


def _restart_errors(pcs: PodCliqueSet) -> Iterator[FieldError]:
    """Validate that the status of a training set has space for the restart counts of all replicas."""
    spec_bytes = len(msgspec.json.encode(pcs.spec, enc_hook=str))
    fit = (LARGEST_OBJECT - _RESERVE - min(spec_bytes, LARGEST_SPEC)) // _RESTARTS_ENTRY
    if pcs.spec.workload_type == WorkloadType.TRAINING and pcs.spec.replicas > fit:
        reason = (
            "the restart counts of all replicas must fit into one object, "
            f"and etcd stores at most {LARGEST_OBJECT} bytes"
        )
        yield invalid("spec.replicas", pcs.spec.replicas, f"{reason}: write at most {fit}")


def _gang_errors(pcs: PodCliqueSet) -> Iterator[FieldError]:
    """Validate the base gang, the largest: it has the standalone cliques and the first replicas of each group."""
    shares = _shares(pcs)
    available, total = _available_bytes(pcs), sum(share.total for share in shares)
    if total <= available:
        return
    largest = max(shares, key=lambda share: share.total)
    others = total - largest.copies * largest.pods * largest.reference
    fit = max((available - others) // (largest.copies * largest.reference), 0)
    at = f"spec.template.cliques[{largest.index}].spec.replicas"
    yield invalid(at, largest.pods, _too_many_pods(fit))


def _too_many_pods(fit: int) -> str:
    reason = f"the names of all pods of a gang must fit into one object, and etcd stores at most {LARGEST_OBJECT} bytes"
    return f"{reason}: write at most {fit}" if fit else f"{reason}: reduce the other cliques of the gang first"


def _available_bytes(pcs: PodCliqueSet) -> int:
    """Return the bytes that are left for pod names. A gang also has the labels and annotations of its set."""
    copied = (pcs.metadata.labels, pcs.metadata.annotations)
    return LARGEST_OBJECT - _RESERVE - sum(len(key) + len(value) + 6 for one in copied for key, value in one.items())


def _shares(pcs: PodCliqueSet) -> list[_Share]:
    template = pcs.spec.template
    prefix = len(pcs.metadata.name or pcs.metadata.generate_name) + 1 + _digits(pcs.spec.replicas) + 1
    # By clique: the length of its name prefix, and how often it is in the base gang.
    members: dict[str, tuple[int, int]] = {}
    for group in template.pod_clique_scaling_groups:
        inner = prefix + len(group.name) + 1 + _digits(group.replicas) + 1
        members |= {name: (inner, max(group.min_available, 0)) for name in group.clique_names}
    return [_share(i, clique, prefix, members, pcs) for i, clique in enumerate(template.cliques)]


def _share(
    index: int, clique: CliqueTemplate, prefix: int, members: Mapping[str, tuple[int, int]], pcs: PodCliqueSet
) -> _Share:
    before, copies = members.get(clique.name, (prefix, 1))
    name, pods = before + len(clique.name), max(clique.spec.replicas, 0)
    pod_name = name + 1 + _digits(pods) + 1 + SUFFIX_LENGTH
    reference = _REFERENCE + len(pcs.metadata.namespace) + pod_name
    return _Share(index=index, copies=copies, pods=pods, head=_POD_GROUP + name, reference=reference)


def _digits(count: int) -> int:
    return len(str(max(count, 1)))
