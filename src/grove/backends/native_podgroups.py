"""Native gangs of Kubernetes: PodGroup and CompositePodGroup of `scheduling.k8s.io` for kube-scheduler.

The rules follow from the behavior of kube-scheduler 1.37 (docs/how-to/choose-a-scheduler.md, "Native gangs"):

* Cliques that are placed together are leaves of one root, whose every leaf must reach its minimum. A gang of one clique
  needs no root. Without CompositePodGroup all of it is one group.
* Only as many pods as the minimum may be in the gang's groups: one more could take the resources of a sibling and
  block the root. Pods above the minimum are in a group of their own, for which nothing waits.
* Once placed, the root is replaced by one without a minimum: else a clique that cannot be repaired would block the
  repair of the others.
* Every incarnation of a clique has new names: terminating pods still count as placed. Another priority class has new
  names too: a group whose pods differ in priority is never placed.
"""

from collections.abc import Iterator, Sequence

from grove.api import labels, names
from grove.api.resources import NATIVE_COMPOSITES, NATIVE_PODGROUPS, Resource
from grove.api.types.meta import JsonObject, find_condition
from grove.api.types.podgang import GangTopologyConstraint, PodGang
from grove.api.types.scheduler_object import SchedulerObject, conditions_of
from grove.backends.base import (
    CliqueInput,
    GangInput,
    NewSchedulerObject,
    SchedulerMessage,
    SchedulerObjectDelete,
    SchedulerObjectPatch,
    SchedulerObjectPlan,
    Value,
)

INITIALLY_SCHEDULED = "PodGroupInitiallyScheduled"
_BASIC: JsonObject = {"basic": {}}
# A gang without one of its pods is useless: preemption takes all of it.
_AS_ONE: JsonObject = {"all": {}}


class NativeFeatures(Value):
    """The support for gangs of `default-scheduler`, as discovered from the API server."""

    # PodGroup is served, and a pod keeps the group that it names.
    groups: bool = False
    # CompositePodGroup is served, and a group keeps its parent.
    composites: bool = False
    # A group keeps its topology.
    topology: bool = False
    # The scheduler reads PodGangs, as in the embedded cluster.
    reads_gangs: bool = False
    # Why gangs are not supported, and what to do about it.
    why: str = ""


# --- names -----------------------------------------------------------------------------------------------------------


def root_name(gang: PodGang, incarnation: str, priority: str) -> str:
    return _derive_name(gang.metadata.name, gang, incarnation, priority)


def leaf_name(gang: PodGang, clique_name: str, clique_uid: str, priority: str) -> str:
    return _derive_name(clique_name, gang, clique_uid, priority)


def surplus_name(gang: PodGang, clique_name: str, clique_uid: str, priority: str) -> str:
    return _derive_name(f"{clique_name}-extras", gang, clique_uid, priority)


def _derive_name(stem: str, gang: PodGang, incarnation: str, priority: str) -> str:
    seed = "/".join((gang.metadata.uid, incarnation, *([priority] if priority else ()))).encode()
    return f"{stem}-{names.derived_letters(seed, names.SUFFIX_LENGTH)}"


# --- groups ----------------------------------------------------------------------------------------------------------


class _Unit(Value):
    """Cliques that are placed all or nothing: all of a gang, or a part that was recreated on its own."""

    root: str
    cliques: tuple[CliqueInput, ...]
    is_relaxed: bool

    @property
    def is_placed(self) -> bool:
        return all(clique.placed_count >= clique.minimum for clique in self.cliques)


class NativeGroupPlanner:
    """A planner that compares the desired groups of one gang with the existing ones."""

    def __init__(
        self,
        inputs: GangInput,
        found: Sequence[tuple[Resource[SchedulerObject], SchedulerObject]],
        features: NativeFeatures,
    ) -> None:
        self._inputs = inputs
        self._features = features
        self._gang = inputs.gang
        self._found = {(resource.plural, existing.metadata.name): existing for resource, existing in found}
        self._resources = {resource.plural: resource for resource, _ in found}
        self._create: list[NewSchedulerObject] = []
        self._patch: list[SchedulerObjectPatch] = []
        self._delete: list[SchedulerObjectDelete] = []
        self._wanted: set[tuple[str, str]] = set()
        self._missing: list[str] = []
        self._gang_obstacles: list[str] = []
        self._keys = _Keys(self._gang) if features.topology else _Keys(None)

    def plan(self) -> SchedulerObjectPlan:
        for unit in self._units():
            if self._features.composites:
                self._plan_tree(unit)
            else:
                self._plan_single_group(unit)
        for clique in self._inputs.cliques:
            if clique.has_surplus:
                self._plan_surplus(clique)
        for key, existing in self._found.items():
            if key not in self._wanted and not existing.metadata.is_terminating:
                self._delete.append(
                    SchedulerObjectDelete(
                        resource=self._resources[key[0]], existing=existing, reason="nothing of the gang needs it"
                    )
                )
        return SchedulerObjectPlan(
            create=tuple(self._create),
            patch=tuple(self._patch),
            delete=tuple(self._delete),
            waits=f"{self._missing[0]} is written first" if self._missing else "",
            messages=tuple(self._scheduler_messages()),
            gangless=tuple(dict.fromkeys((*self._gang_obstacles, *self._mixed_priorities()))),
            unmet=tuple(self._unmet_topology()),
        )

    # Which cliques belong together

    def _units(self) -> list[_Unit]:
        members: dict[str, list[CliqueInput]] = {}
        for clique in self._inputs.cliques:
            members.setdefault(self._root_of(clique), []).append(clique)
        return [self._unit(root, tuple(cliques)) for root, cliques in members.items()]

    def _root_of(self, clique: CliqueInput) -> str:
        """Return the root of a clique. A leaf keeps its root; a recreated clique joins those recreated with it.

        Until a pod of the gang was placed, all of the gang is one unit.
        """
        if not self._features.composites:
            return root_name(self._gang, clique.incarnation, clique.priority_class_name)
        own = self._leaf(clique)
        if own is not None:
            # Without a root it is its own unit.
            return self._top_of(own) or own.metadata.name
        is_started = self._inputs.is_started
        companions = [one for one in self._inputs.cliques if not is_started or _is_placed_with(one, clique)]
        tops = [top for leaf in map(self._leaf, companions) if leaf is not None and (top := self._top_of(leaf))]
        for top in tops:
            if not is_started or not self._is_basic(top):
                return top
        if tops:
            # Recreated alone, after the others were placed: it is a unit of its own.
            return root_name(self._gang, clique.uid, clique.priority_class_name)
        first = clique if is_started else self._inputs.cliques[0]
        return root_name(self._gang, first.incarnation, first.priority_class_name)

    def _leaf(self, clique: CliqueInput) -> SchedulerObject | None:
        return self._group(self._leaf_name(clique))

    def _leaf_name(self, clique: CliqueInput) -> str:
        return leaf_name(self._gang, clique.name, clique.uid, clique.priority_class_name)

    def _is_basic(self, root_name: str) -> bool:
        root = self._found.get((NATIVE_COMPOSITES.plural, root_name))
        return root is not None and "basic" in (root.spec.get("schedulingPolicy") or {})

    def _top_of(self, leaf: SchedulerObject) -> str:
        """Return the root of a leaf. It is an annotation, because a composite of a group replica may be in between."""
        parent = str(leaf.spec.get("parentCompositePodGroupName") or "")
        return leaf.metadata.annotations.get(labels.GANG_ROOT, parent) if parent else ""

    def _unit(self, root: str, cliques: tuple[CliqueInput, ...]) -> _Unit:
        unit = _Unit(root=root, cliques=cliques, is_relaxed=False)
        return _Unit(root=root, cliques=cliques, is_relaxed=self._is_relaxed(unit))

    def _is_relaxed(self, unit: _Unit) -> bool:
        """Return whether its first placement is over; read from existing objects, so that it survives a restart."""
        groups = [self._group(name) for name in self._group_names(unit)]
        known = [group for group in groups if group is not None]
        if not known:
            # Pods that were placed before the group existed are replaced one by one.
            return any(clique.placed_count for clique in unit.cliques)
        if self._is_basic(unit.root) or any(clique.has_outsiders for clique in unit.cliques):
            return True
        root = self._found.get((NATIVE_COMPOSITES.plural, unit.root))
        was_placed = len(known) == len(groups) and all(map(_is_initially_scheduled, known))
        if self._has_root(unit):
            # While the root is replaced, there is none.
            return unit.is_placed or (root is None and was_placed)
        is_begun = was_placed or any(clique.placed_count for clique in unit.cliques)
        return unit.is_placed or (is_begun and _min_count(known[0]) == 1)

    def _group_names(self, unit: _Unit) -> list[str]:
        if not self._features.composites:
            return [unit.root]
        return [self._leaf_name(clique) for clique in unit.cliques]

    def _group(self, name: str) -> SchedulerObject | None:
        return self._found.get((NATIVE_PODGROUPS.plural, name))

    def _has_root(self, unit: _Unit) -> bool:
        if not self._features.composites:
            return False
        # The root of a leaf is immutable, also when the other leaves are gone.
        leaves = [self._leaf(clique) for clique in unit.cliques]
        is_below_one = any(leaf is not None and self._top_of(leaf) for leaf in leaves)
        return is_below_one or len(unit.cliques) > 1 or len(self._keys.above(unit.cliques[0])) > 1

    # Plan the groups

    def _plan_tree(self, unit: _Unit) -> None:
        if not self._has_root(unit):
            clique = unit.cliques[0]
            key = next(iter(self._keys.above(clique)), "")
            minimum = 1 if unit.is_relaxed else clique.minimum
            self._plan_podgroup(self._leaf_name(clique), minimum, clique, key=key)
            self._check_scheduler_support(unit)
            return
        by_replica: dict[str, list[CliqueInput]] = {}
        for clique in unit.cliques:
            by_replica.setdefault(clique.group_replica if self._keys.of_replica(clique) else "", []).append(clique)
        inner = {
            replica: _derive_name(replica, self._gang, members[0].incarnation, members[0].priority_class_name)
            for replica, members in by_replica.items()
            if replica
        }
        children = len(inner) + len(by_replica.get("", ()))
        self._plan_composite(unit.root, unit, children, key=self._keys.of_gang)
        for replica, members in by_replica.items():
            if replica:
                key = self._keys.of_replica(members[0])
                self._plan_composite(inner[replica], unit, len(members), key=key, parent=unit.root)
            for clique in members:
                self._plan_leaf(unit, clique, parent=inner.get(replica, unit.root))
        self._check_scheduler_support(unit)

    def _plan_leaf(self, unit: _Unit, clique: CliqueInput, *, parent: str) -> None:
        found = self._leaf(clique)
        minimum = clique.minimum
        if unit.is_relaxed:
            # Lost pods are replaced one by one; written only when one waits.
            minimum = 1 if found is None or clique.has_waiting_member else _min_count(found)
        key = self._keys.of_clique(clique)
        self._plan_podgroup(self._leaf_name(clique), minimum, clique, key=key, parent=parent, root=unit.root)

    def _plan_single_group(self, unit: _Unit) -> None:
        """Plan one group for all cliques: without CompositePodGroup there is nothing better."""
        total = sum(clique.minimum for clique in unit.cliques)
        key = self._keys.of_gang
        if not key and len(unit.cliques) == 1:
            key = next(iter(reversed(self._keys.above(unit.cliques[0]))), "")
        self._plan_podgroup(unit.root, 1 if unit.is_relaxed else total, unit.cliques[0], key=key)
        self._check_scheduler_support(unit)

    def _plan_surplus(self, clique: CliqueInput) -> None:
        name = surplus_name(self._gang, clique.name, clique.uid, clique.priority_class_name)
        self._plan_podgroup(name, 1, clique, key="", is_gang=False)

    def _plan_podgroup(
        self,
        name: str,
        minimum: int,
        clique: CliqueInput,
        *,
        key: str,
        parent: str = "",
        root: str = "",
        is_gang: bool = True,
    ) -> None:
        self._wanted.add((NATIVE_PODGROUPS.plural, name))
        found = self._group(name)
        count = max(1, minimum)
        if found is None:
            self._missing.append(f"PodGroup {name}")
            spec: JsonObject = {
                **({"parentCompositePodGroupName": parent} if parent else {}),
                "workloadRef": {"workloadName": self._inputs.pcs.name, "templateName": "clique"},
                "schedulingPolicy": {"gang": {"minCount": count}},
                **_common_fields(clique, key, is_gang=is_gang),
            }
            self._create.append(self._new(NATIVE_PODGROUPS, name, spec, root if root != parent else ""))
        elif not found.metadata.is_terminating and _min_count(found) != count:
            patch: JsonObject = {"spec": {"schedulingPolicy": {"gang": {"minCount": count}}}}
            reason = "it was placed: lost pods are replaced one by one" if count == 1 else "its minimum changed"
            self._patch.append(
                SchedulerObjectPatch(resource=NATIVE_PODGROUPS, existing=found, patch=patch, reason=reason)
            )

    def _plan_composite(self, name: str, unit: _Unit, children: int, *, key: str, parent: str = "") -> None:
        """Plan a composite. Its spec is immutable, so it is replaced; waiting pods wait for the new one."""
        self._wanted.add((NATIVE_COMPOSITES.plural, name))
        policy: JsonObject = _BASIC if unit.is_relaxed else {"gang": {"minGroupCount": children}}
        found = self._found.get((NATIVE_COMPOSITES.plural, name))
        priority = unit.cliques[0].priority_class_name
        is_same_priority = found is not None and (found.spec.get("priorityClassName") or "") == priority
        if found is not None and found.metadata.is_terminating:
            self._missing.append(f"CompositePodGroup {name}")
            return
        if found is not None and is_same_priority and (found.spec.get("schedulingPolicy") or {}) == policy:
            return
        if found is None:
            self._missing.append(f"CompositePodGroup {name}")
        else:
            reason = "the gang was placed: from now on each clique is repaired on its own"
            if not unit.is_relaxed:
                reason = "the number of its cliques changed" if is_same_priority else "its priority class changed"
            self._delete.append(SchedulerObjectDelete(resource=NATIVE_COMPOSITES, existing=found, reason=reason))
        spec: JsonObject = {
            **({"parentCompositePodGroupName": parent} if parent else {}),
            "workloadRef": {
                "workloadName": self._inputs.pcs.name,
                "templateName": "group-replica" if parent else "gang",
            },
            "schedulingPolicy": policy,
            **_common_fields(unit.cliques[0], key, is_gang=True),
        }
        self._create.append(self._new(NATIVE_COMPOSITES, name, spec))

    def _new(
        self, resource: Resource[SchedulerObject], name: str, spec: JsonObject, root: str = ""
    ) -> NewSchedulerObject:
        metadata = {
            "name": name,
            "labels": {**labels.default_labels(self._inputs.pcs.name), labels.PODGANG: self._gang.metadata.name},
            **({"annotations": {labels.GANG_ROOT: root}} if root else {}),
        }
        body = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata, "spec": spec}
        return NewSchedulerObject(resource=resource, name=name, body=body)

    # Messages and warnings

    def _scheduler_messages(self) -> Iterator[SchedulerMessage]:
        for unit in self._units():
            for clique, name in zip(unit.cliques, self._group_name_by_clique(unit), strict=True):
                group = self._group(name)
                condition = find_condition(conditions_of(group), INITIALLY_SCHEDULED) if group is not None else None
                if condition is not None and condition.status == "False":
                    yield SchedulerMessage(clique=clique.name, reason=condition.reason, message=condition.message)

    def _group_name_by_clique(self, unit: _Unit) -> list[str]:
        found = self._group_names(unit)
        return found if len(found) == len(unit.cliques) else found * len(unit.cliques)

    def _check_scheduler_support(self, unit: _Unit) -> None:
        """Report a kube-scheduler that ignores groups: one was placed without a condition of the scheduler.

        A group that is newer than its pods has no condition in any case.
        """
        groups = [group for group in map(self._group, self._group_names(unit)) if group is not None]
        is_settled = unit.is_relaxed and unit.is_placed
        # In a gang, it is impossible that some pods have nodes while others do not fit.
        is_torn = any(c.placed_count for c in unit.cliques) and any(c.is_unschedulable for c in unit.cliques)
        is_whole = len(groups) == len(self._group_names(unit))
        if not (is_settled or is_torn) or not is_whole or self._create or self._delete:
            return
        newest = [clique.newest_placed_at for clique in unit.cliques if clique.newest_placed_at is not None]
        made = [at for group in groups if (at := group.metadata.creation_timestamp) is not None]
        is_newer_than_groups = bool(newest and made) and max(newest) >= min(made)
        if is_newer_than_groups and not any(map(conditions_of, groups)):
            self._gang_obstacles.append(
                "kube-scheduler ignores the groups of the gang and places pods one by one: "
                "enable its feature gate GenericWorkload, as on the API server"
            )

    def _mixed_priorities(self) -> Iterator[str]:
        classes = dict.fromkeys(clique.priority_class_name or "none" for clique in self._inputs.cliques)
        if len(classes) > 1:
            yield (
                f"its cliques have different priority classes ({', '.join(classes)}), and kube-scheduler places no "
                "gang of mixed priorities: set one for all, as spec.template.priorityClassName"
            )

    def _unmet_topology(self) -> Iterator[str]:
        requested = _Keys(self._gang)
        if requested.is_any and not self._features.topology:
            yield (
                "kube-scheduler does not support required topology in this cluster: "
                "enable the feature gate TopologyAwareWorkloadScheduling"
            )
        elif not self._features.composites and any(len(requested.above(clique)) > 1 for clique in self._inputs.cliques):
            yield (
                "of several levels of required topology, "
                "kube-scheduler supports only that of the gang in this cluster: "
                "enable the feature gate CompositePodGroup"
            )


class _Keys:
    """Node label keys of required topology: all nodes of a scope have one value of the key; "": no constraint."""

    def __init__(self, gang: PodGang | None) -> None:
        spec = gang.spec if gang is not None else None
        self.of_gang = _required_key(spec.topology_constraint) if spec else ""
        self._replicas = {
            name: _required_key(config.topology_constraint)
            for config in (spec.topology_constraint_group_configs if spec else ())
            for name in config.pod_group_names
        }
        self._cliques = {
            group.name: _required_key(group.topology_constraint) for group in (spec.podgroups if spec else ())
        }

    @property
    def is_any(self) -> bool:
        return bool(self.of_gang) or any(self._replicas.values()) or any(self._cliques.values())

    def of_replica(self, clique: CliqueInput) -> str:
        return self._replicas.get(clique.name, "")

    def of_clique(self, clique: CliqueInput) -> str:
        return self._cliques.get(clique.name, "")

    def above(self, clique: CliqueInput) -> list[str]:
        """Return all keys for a clique, broadest first."""
        keys = (self.of_gang, self.of_replica(clique), self.of_clique(clique))
        return list(dict.fromkeys(key for key in keys if key))


def _is_placed_with(one: CliqueInput, other: CliqueInput) -> bool:
    """Return whether both are of one incarnation and priority, so that they can be placed together."""
    return (one.incarnation, one.priority_class_name) == (other.incarnation, other.priority_class_name)


def _common_fields(clique: CliqueInput, key: str, *, is_gang: bool) -> JsonObject:
    priority = clique.priority_class_name
    return {
        **({"schedulingConstraints": {"topology": [{"key": key}]}} if key else {}),
        **({"priorityClassName": priority} if priority else {}),
        **({"disruptionMode": _AS_ONE} if is_gang else {}),
    }


def _required_key(constraint: GangTopologyConstraint | None) -> str:
    pack = constraint.pack_constraint if constraint else None
    return (pack.required if pack else None) or ""


def _min_count(group: SchedulerObject) -> int:
    gang = (group.spec.get("schedulingPolicy") or {}).get("gang") or {}
    count = gang.get("minCount", 1)
    return count if isinstance(count, int) else 1


def _is_initially_scheduled(group: SchedulerObject) -> bool:
    condition = find_condition(conditions_of(group), INITIALLY_SCHEDULED)
    return condition is not None and condition.status == "True"
