"""Is everything as it was asked for? Counted anew from the objects of the server, without the planner.

For a world at rest, simulated or real, in which nothing is broken; each entry of the answer is not right.
"""

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from grove.api import labels, names
from grove.api.defaulting import default_podcliqueset
from grove.api.resources import (
    CONTROLLER_REVISIONS,
    GROUPS,
    PODCLIQUES,
    PODCLIQUESETS,
    PODGANGS,
    PODS,
    SERVICES,
    Resource,
)
from grove.api.template_revision import Revision, makes_same_pods, read_revision
from grove.api.types.meta import HasMetadata, find_condition, is_condition_true, to_wire
from grove.api.types.pod import Pod
from grove.api.types.podclique import PodClique
from grove.api.types.podcliquescalinggroup import PodCliqueScalingGroup
from grove.api.types.podcliqueset import PodCliqueSet, UpdateType, WorkloadType
from grove.api.types.podgang import PodGang
from grove.planner.views import pod_index
from grove.sim.invariants.rollout import template_of
from tests.scene import Seen


def unrestored(world: Seen) -> list[str]:
    """Everything that is not as asked for, one line each."""
    return list(_Look(world).problems())


def untrue_counts(world: Seen) -> list[str]:
    """Cliques whose status counts their pods wrongly; for any world at rest, whole or broken.

    Except cliques of a group at zero: they wait for their deletion, which cannot be recorded while a foreign object has
    the name of the base gang. The operator writes no status of what it is about to delete.
    """
    look = _Look(world)
    return [
        line
        for clique in look.cliques.values()
        if clique.status.conditions and not look.is_of_group_at_zero(clique)
        for line in look.count_problems(clique)
    ]


class _Look:
    """One look at a world: every object of ours by name."""

    def __init__(self, world: Seen) -> None:
        self.world = world
        self.sets = _by_name(world.objects(PODCLIQUESETS))
        self.groups = _by_name(_ours(world, GROUPS))
        self.cliques = _by_name(_ours(world, PODCLIQUES))
        self.gangs = _by_name(_ours(world, PODGANGS))
        self.services = _by_name(_ours(world, SERVICES))
        # By set: the revision that was asked for last. None are seen where nobody looked for them.
        self.newest: dict[str, Revision] = {}
        stored = (read_revision(one, _set_name(one)) for one in _ours(world, CONTROLLER_REVISIONS))
        for revision in filter(None, stored):
            known = self.newest.get(_set_name(revision.object))
            if known is None or known.number < revision.number:
                self.newest[_set_name(revision.object)] = revision
        self.pods: dict[str, list[Pod]] = {}
        for pod in _ours(world, PODS):
            self.pods.setdefault(pod.metadata.labels[labels.PODCLIQUE], []).append(pod)
        self.wanted: dict[str, list[str]] = {"groups": [], "cliques": [], "gangs": [], "services": []}

    def problems(self) -> Iterator[str]:
        for pcs in self.sets.values():
            yield from self._set_problems(pcs)
        for kind, wanted in self.wanted.items():
            found = sorted(getattr(self, kind))
            if found != sorted(wanted):
                yield f"{kind}: {_difference(found, wanted)}"
        left = sorted(name for name in self.pods if name not in self.cliques)
        if left:
            yield f"pods are left of cliques {left}"

    def _set_problems(self, pcs: PodCliqueSet) -> Iterator[str]:
        name, status, replicas = pcs.metadata.name, pcs.status, pcs.spec.replicas
        if pcs.metadata.is_terminating:
            yield f"set {name} is still leaving"
            return
        if pcs.spec.workload_type == WorkloadType.TRAINING:
            yield from self._training_problems(pcs)
            return
        for index in range(replicas):
            yield from self._replica_problems(pcs, index)
        counts = (status.replicas, status.available_replicas, status.updated_replicas)
        updated = sum(self._is_newest(pcs, index) for index in range(replicas))
        if counts != (replicas, replicas, updated):
            yield f"set {name}: asks for {replicas} replicas, {updated} run the newest, its status counts {counts}"
        yield from self._update_problems(pcs)
        if status.observed_generation != pcs.metadata.generation:
            yield f"set {name}: the status is of generation {status.observed_generation}"
        if status.pod_gang_statuses or status.last_errors:
            yield f"set {name}: waits for {status.pod_gang_statuses}, errors {status.last_errors}"
        if find_condition(status.conditions, "ReconcileFailed") is not None:
            yield f"set {name}: says that it cannot be carried out"
        if status.phase != ("Running" if any(self._runs(name)) else "Pending"):
            yield f"set {name}: phase {status.phase}"

    def _runs(self, set_name: str) -> Iterator[bool]:
        """Whether each clique of a set asks for pods."""
        return (c.spec.replicas > 0 for c in self.cliques.values() if _set_name(c) == set_name)

    def _training_problems(self, pcs: PodCliqueSet) -> Iterator[str]:
        """It ended well, or failed and only pods that ended are left; or whatever of it has not ended is ready."""
        name, phase = pcs.metadata.name, pcs.status.phase
        for kind, wanted in self.wanted.items():
            # What others deleted after the end is not made again.
            wanted += [found for found, obj in getattr(self, kind).items() if _set_name(obj) == name]
        mine = [clique for clique in self.cliques.values() if _set_name(clique) == name]
        pods = [(clique, pod) for clique in mine for pod in self.pods.get(clique.metadata.name, ())]
        for clique in mine:
            yield from self.count_problems(clique)
        if phase == "Failed":
            yield from (f"set {name} failed, and pod {pod.metadata.name} is there" for _, pod in pods if pod.is_active)
            if find_condition(pcs.status.conditions, "Failed") is None:
                yield f"set {name} failed, and does not say why"
        elif phase == "Succeeded":
            yield from (f"{name} succeeded, and {_state_of(pod)}" for _, pod in pods if not pod.is_succeeded)
            told = [
                clique.metadata.name for clique in mine if not is_condition_true(clique.status.conditions, "Succeeded")
            ]
            if told:
                yield f"set {name} succeeded, and {told} did not"
        elif phase == "Running":
            yield from (
                f"{name} runs, and {_state_of(p)}"
                for clique, p in pods
                if not (p.is_ready or p.is_succeeded or pod_index(p) in clique.status.failed_indices)
            )
            for clique in mine:
                owner = PODCLIQUES.owner_key(clique.metadata)
                done = {pod_index(pod) for _, pod in pods if pod.metadata.controller == owner}
                ended = (*clique.status.succeeded_indices, *clique.status.failed_indices)
                if len(done.union(ended)) != clique.spec.replicas:
                    yield f"clique {clique.metadata.name} of {name} lacks pods"
        else:
            yield f"training set {name} is {phase}"

    def _update_problems(self, pcs: PodCliqueSet) -> Iterator[str]:
        """Everything runs the newest templates, and nobody says that something is still to be done."""
        name, progress, newest = (
            pcs.metadata.name,
            pcs.status.rolling_update_progress,
            self.newest.get(pcs.metadata.name),
        )
        if progress is not None and (progress.update_ended_at is None or progress.currently_updating is not None):
            yield f"set {name}: is still updating, {progress}"
        if find_condition(pcs.status.conditions, "UpdateStalled") is not None:
            yield f"set {name}: says that its update is stalled"
        if newest is None:
            return
        if not makes_same_pods(_defaulted(pcs).spec.template, newest.template):
            yield f"set {name}: revision {newest.number} is not what it asks for"
        if pcs.status.current_generation_hash != newest.generation_hash:
            yield f"set {name}: says that it runs {pcs.status.current_generation_hash}, not {newest.generation_hash}"
        old = [index for index in range(pcs.spec.replicas) if not self._is_newest(pcs, index)]
        if old and not _is_on_delete(pcs):
            yield f"set {name}: replicas {old} do not run the newest templates"

    def _is_newest(self, pcs: PodCliqueSet, index: int) -> bool:
        mine = [
            clique
            for clique in self.cliques.values()
            if _set_name(clique) == pcs.metadata.name and clique.metadata.labels[labels.SET_REPLICA_INDEX] == str(index)
        ]
        return all(
            found.metadata.labels[labels.TEMPLATE_HASH] == self._newest_hash(clique)
            for clique in mine
            for found in (clique, *self.pods.get(clique.metadata.name, ()))
        )

    def _newest_hash(self, clique: PodClique) -> str:
        """What its pods should carry; where no revision is seen, what the clique itself does."""
        own, name = clique.metadata.labels[labels.TEMPLATE_HASH], _set_name(clique)
        newest, pcs = self.newest.get(name), self.sets.get(name)
        return own if newest is None or pcs is None else newest.template.hashes.get(template_of(pcs, clique), own)

    def _replica_problems(self, pcs: PodCliqueSet, index: int) -> Iterator[str]:
        base = names.replica_name(pcs.metadata.name, index)
        self.wanted["services"].append(base)
        grouped = {n for group in pcs.spec.template.pod_clique_scaling_groups for n in group.clique_names}
        members = [
            names.standalone_clique(pcs.metadata.name, index, clique.name)
            for clique in pcs.spec.template.cliques
            if clique.name not in grouped
        ]
        for config in pcs.spec.template.pod_clique_scaling_groups:
            name = names.group(pcs.metadata.name, index, config.name)
            self.wanted["groups"].append(name)
            group = self.groups.get(name)
            if group is None:
                continue
            yield from self._group_problems(group)
            for j in range(group.spec.replicas):
                ours = [names.member_clique(name, j, clique) for clique in config.clique_names]
                if j < group.spec.min_available:
                    members += ours
                else:
                    gang = names.scaled_gang(name, j - group.spec.min_available)
                    yield from self._gang_problems(gang, ours, base)
        yield from self._gang_problems(base, members, "")

    def _group_problems(self, group: PodCliqueScalingGroup) -> Iterator[str]:
        name, asked, status = group.metadata.name, group.spec.replicas, group.status
        counts = (
            status.replicas, status.scheduled_replicas, status.available_replicas, status.updated_replicas,
            status.observed_generation,
        )  # fmt: skip
        updated = sum(self._is_group_replica_newest(group, j) for j in range(asked))
        if counts != (asked, asked, asked, updated, group.metadata.generation):
            yield f"group {name}: asks for {asked} replicas, {updated} run the newest, its status says {counts}"
        if is_condition_true(status.conditions, "MinAvailableBreached"):
            yield f"group {name}: says that it is in breach"

    def _is_group_replica_newest(self, group: PodCliqueScalingGroup, index: int) -> bool:
        members = (
            self.cliques.get(names.member_clique(group.metadata.name, index, n)) for n in group.spec.clique_names
        )
        return all(
            found.metadata.labels[labels.TEMPLATE_HASH] == self._newest_hash(clique)
            for clique in members
            if clique is not None
            for found in (clique, *self.pods.get(clique.metadata.name, ()))
        )

    def _gang_problems(self, name: str, members: list[str], base: str) -> Iterator[str]:
        self.wanted["gangs"].append(name)
        self.wanted["cliques"] += members
        gang = self.gangs.get(name)
        for member in members:
            clique = self.cliques.get(member)
            if clique is not None:
                yield from self._clique_problems(clique)
        if gang is None:
            return
        if gang.metadata.is_terminating or labels.TEARDOWN in gang.metadata.annotations:
            yield f"gang {name}: is being torn down"
        if gang.metadata.labels.get(labels.BASE_PODGANG, "") != base:
            yield f"gang {name}: its base is not {base or 'itself'}"
        if gang.status.phase != "Running":
            yield f"gang {name}: phase {gang.status.phase}"
        yield from self._condition_problems(gang)
        # What is scaled to zero has no podgroup.
        wanted = {member: self._references(member) for member in members if self._asks_for_pods(member)}
        found = {
            group.name: (sorted(r.name for r in group.pod_references), group.min_replicas)
            for group in gang.spec.podgroups
        }
        if found != wanted:
            yield f"gang {name}: references {found}, its pods are {wanted}"

    def _condition_problems(self, gang: PodGang) -> Iterator[str]:
        wanted = {"Initialized": "True", "Scheduled": "True", "Ready": "True", "Unhealthy": "False"}
        found = {condition.type: condition.status for condition in gang.status.conditions}
        if found != wanted:
            yield f"gang {gang.metadata.name}: conditions {found}"

    def _asks_for_pods(self, clique_name: str) -> bool:
        clique = self.cliques.get(clique_name)
        return clique is None or clique.spec.replicas > 0

    def _references(self, clique_name: str) -> tuple[list[str], int]:
        clique = self.cliques.get(clique_name)
        pods = sorted(pod.metadata.name for pod in self.pods.get(clique_name, ()))
        return pods, clique.min_available if clique else -1

    def _clique_problems(self, clique: PodClique) -> Iterator[str]:
        name, asked, status = clique.metadata.name, clique.spec.replicas, clique.status
        pods = self.pods.get(name, [])
        indices = [pod.metadata.labels[labels.POD_INDEX] for pod in pods]
        if len(pods) != asked or len(frozenset(indices)) != asked:
            yield f"clique {name}: asks for {asked} pods, has the indices {sorted(indices)}"
        for pod in pods:
            is_owned = pod.metadata.controller == PODCLIQUES.owner_key(clique.metadata)
            if not pod.is_ready or pod.spec.scheduling_gates or not is_owned:
                yield f"pod {pod.metadata.name}: {_state_of(pod)}"
        yield from self.count_problems(clique)
        if asked and not status.was_available:
            yield f"clique {name}: is available, but was never"
        conditions = {condition.type: condition.status for condition in status.conditions}
        if conditions != {"PodCliqueScheduled": "True", "MinAvailableBreached": "False"}:
            yield f"clique {name}: conditions {conditions}"

    def is_of_group_at_zero(self, clique: PodClique) -> bool:
        group = self.groups.get(clique.metadata.labels.get(labels.GROUP, ""))
        return group is not None and group.spec.replicas == 0

    def count_problems(self, clique: PodClique) -> Iterator[str]:
        status = clique.status
        pods = [pod for pod in self.pods.get(clique.metadata.name, []) if not pod.metadata.is_terminating]
        active = [pod for pod in pods if pod.is_active]
        hash_ = self._newest_hash(clique)
        found = (
            status.replicas, status.ready_replicas, status.scheduled_replicas, status.updated_replicas,
            status.schedule_gated_replicas, status.observed_generation,
        )  # fmt: skip
        true = (
            len(pods), sum(pod.is_ready for pod in active),
            sum(pod.is_succeeded or (pod.is_active and bool(pod.spec.node_name)) for pod in pods)
            + len(frozenset(status.succeeded_indices) - {pod_index(pod) for pod in pods}),
            sum(pod.metadata.labels[labels.TEMPLATE_HASH] == hash_ for pod in active),
            sum(bool(pod.spec.scheduling_gates) for pod in active), clique.metadata.generation,
        )  # fmt: skip
        if found != true:
            yield f"clique {clique.metadata.name}: its status says {found}, true is {true}"


def _ours(world: Seen, resource: Resource[Any]) -> tuple[Any, ...]:
    return world.objects(resource, label_selector=f"{labels.MANAGED_BY}={labels.MANAGED_BY_VALUE}")


def _set_name(obj: HasMetadata) -> str:
    return obj.metadata.labels[labels.PART_OF]


def _defaulted(pcs: PodCliqueSet) -> PodCliqueSet:
    """As the operator reads it: where there is no webhook, nobody has filled it in."""
    return msgspec.convert(default_podcliqueset(to_wire(pcs)), PodCliqueSet)


def _is_on_delete(pcs: PodCliqueSet) -> bool:
    return pcs.spec.update_strategy is not None and pcs.spec.update_strategy.type == UpdateType.ON_DELETE


def _by_name(objects: Iterable[Any]) -> dict[str, Any]:
    return {obj.metadata.name: obj for obj in objects}


def _difference(found: list[str], wanted: list[str]) -> str:
    missing = [name for name in wanted if name not in found]
    left = [name for name in found if name not in wanted]
    return f"missing {missing}, left over {left}"


def _state_of(pod: Pod) -> str:
    gates = [gate.name for gate in pod.spec.scheduling_gates]
    leaving = ", leaving" if pod.metadata.is_terminating else ""
    scheduled = find_condition(pod.status.conditions, "PodScheduled")
    why = f", {scheduled.message}" if scheduled and scheduled.message else ""
    return f"{pod.status.phase} on {pod.spec.node_name or 'no node'}, gates {gates}{leaving}{why}"
