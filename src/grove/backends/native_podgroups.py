"""Kubernetes' own gangs: PodGroup and CompositePodGroup of `scheduling.k8s.io`, read by kube-scheduler.

What is said here follows from how kube-scheduler 1.37 behaves (docs/how-to/choose-a-scheduler.md, "Native gangs"):

* Cliques that are placed together are leaves of one root, whose every leaf must reach its minimum. A gang of one clique
  needs no root. Without CompositePodGroup all of it is one group.
* Only as many pods as the minimum may be in the gang's groups: one more could take a sibling's room and block the root
  for ever. Pods above the minimum are in a group of their own, which nothing waits for.
* Once placed, the root is swapped for one that asks for nothing: else a clique that cannot be repaired would hold up
  the repairs of the others.
* Names are new for every life of a clique: pods on their way out still count as placed. They are new for another
  priority class too: a group whose pods differ in priority is never placed.
"""

from collections.abc import Iterator, Sequence

from grove.api import labels, names
from grove.api.resources import NATIVE_COMPOSITES, NATIVE_PODGROUPS, Resource
from grove.api.types.meta import JsonObject, find_condition
from grove.api.types.podgang import GangTopologyConstraint, PodGang
from grove.api.types.scheduler_object import SchedulerObject, conditions_of
from grove.backends.base import (
    CliqueAsk,
    GangAsk,
    MirrorDelete,
    MirrorPatch,
    MirrorPlan,
    NewMirror,
    SchedulerMessage,
    Value,
)

INITIALLY_SCHEDULED = "PodGroupInitiallyScheduled"
_BASIC: JsonObject = {"basic": {}}
# A gang that loses one pod is of no use: whoever needs its room takes all of it.
_AS_ONE: JsonObject = {"all": {}}


class NativeFeatures(Value):
    """How `default-scheduler` gets its gangs here, as far as the API server tells."""

    # PodGroup is served, and a pod keeps the group that it names.
    groups: bool = False
    # CompositePodGroup is served, and a group keeps its parent.
    composites: bool = False
    # A group keeps its topology.
    topology: bool = False
    # Whoever serves the name here reads PodGangs themselves, as the embedded cluster's scheduler does.
    reads_gangs: bool = False
    # Why there are no gangs, if there are none; and what to do about it.
    why: str = ""


# --- names -----------------------------------------------------------------------------------------------------------


def root_name(gang: PodGang, life: str, priority: str) -> str:
    return _named(gang.metadata.name, gang, life, priority)


def leaf_name(gang: PodGang, clique_name: str, clique_uid: str, priority: str) -> str:
    return _named(clique_name, gang, clique_uid, priority)


def extras_name(gang: PodGang, clique_name: str, clique_uid: str, priority: str) -> str:
    return _named(f"{clique_name}-extras", gang, clique_uid, priority)


def _named(stem: str, gang: PodGang, life: str, priority: str) -> str:
    seed = "/".join((gang.metadata.uid, life, *([priority] if priority else ()))).encode()
    return f"{stem}-{names.derived_letters(seed, names.SUFFIX_LENGTH)}"


# --- groups ----------------------------------------------------------------------------------------------------------


class _Unit(Value):
    """Cliques that are placed together, or none of them is: all of a gang, or a part that was made anew on its own."""

    root: str
    cliques: tuple[CliqueAsk, ...]
    is_relaxed: bool

    @property
    def is_placed(self) -> bool:
        return all(clique.placed_count >= clique.minimum for clique in self.cliques)


class Drawing:
    """The groups of one gang as they should be, beside those that were found."""

    def __init__(
        self, ask: GangAsk, found: Sequence[tuple[Resource[SchedulerObject], SchedulerObject]], features: NativeFeatures
    ) -> None:
        self._ask = ask
        self._features = features
        self._gang = ask.gang
        self._found = {(resource.plural, mirror.metadata.name): mirror for resource, mirror in found}
        self._resources = {resource.plural: resource for resource, _ in found}
        self._create: list[NewMirror] = []
        self._patch: list[MirrorPatch] = []
        self._delete: list[MirrorDelete] = []
        self._wanted: set[tuple[str, str]] = set()
        self._missing: list[str] = []
        self._gangless: list[str] = []
        self._keys = _Keys(self._gang) if features.topology else _Keys(None)

    def plan(self) -> MirrorPlan:
        for unit in self._units():
            if self._features.composites:
                self._draw_tree(unit)
            else:
                self._draw_group(unit)
        for clique in self._ask.cliques:
            if clique.has_extras:
                self._draw_extras(clique)
        for key, mirror in self._found.items():
            if key not in self._wanted and not mirror.metadata.is_terminating:
                self._delete.append(
                    MirrorDelete(resource=self._resources[key[0]], mirror=mirror, reason="nothing of the gang needs it")
                )
        return MirrorPlan(
            create=tuple(self._create),
            patch=tuple(self._patch),
            delete=tuple(self._delete),
            waits=f"{self._missing[0]} is written first" if self._missing else "",
            said=tuple(self._said()),
            gangless=tuple(dict.fromkeys((*self._gangless, *self._mixed_priorities()))),
            unmet=tuple(self._unmet_topology()),
        )

    # Which cliques belong together

    def _units(self) -> list[_Unit]:
        members: dict[str, list[CliqueAsk]] = {}
        for clique in self._ask.cliques:
            members.setdefault(self._root_of(clique), []).append(clique)
        return [self._unit(root, tuple(cliques)) for root, cliques in members.items()]

    def _root_of(self, clique: CliqueAsk) -> str:
        """Where a leaf is it stays; a clique that was made anew stands with those made together with it.

        As long as nothing of the gang was ever placed, all of it is one unit, whenever its parts were made.
        """
        if not self._features.composites:
            return root_name(self._gang, clique.life, clique.priority_class_name)
        own = self._leaf(clique)
        if own is not None:
            # Without a root it stands for itself.
            return self._top_of(own) or own.metadata.name
        is_started = self._ask.is_started
        mates = [one for one in self._ask.cliques if not is_started or _is_mate(one, clique)]
        tops = [top for leaf in map(self._leaf, mates) if leaf is not None and (top := self._top_of(leaf))]
        for top in tops:
            if not is_started or not self._is_basic(top):
                return top
        if tops:
            # Made anew alone, after the others were placed: it neither waits for them nor holds them up.
            return root_name(self._gang, clique.uid, clique.priority_class_name)
        first = clique if is_started else self._ask.cliques[0]
        return root_name(self._gang, first.life, first.priority_class_name)

    def _leaf(self, clique: CliqueAsk) -> SchedulerObject | None:
        return self._group(self._leaf_name(clique))

    def _leaf_name(self, clique: CliqueAsk) -> str:
        return leaf_name(self._gang, clique.name, clique.uid, clique.priority_class_name)

    def _is_basic(self, root_name: str) -> bool:
        root = self._found.get((NATIVE_COMPOSITES.plural, root_name))
        return root is not None and "basic" in (root.spec.get("schedulingPolicy") or {})

    def _top_of(self, leaf: SchedulerObject) -> str:
        """The root above a leaf; between them may be the composite of a group replica, so the leaf itself tells."""
        parent = str(leaf.spec.get("parentCompositePodGroupName") or "")
        return leaf.metadata.annotations.get(labels.GANG_ROOT, parent) if parent else ""

    def _unit(self, root: str, cliques: tuple[CliqueAsk, ...]) -> _Unit:
        unit = _Unit(root=root, cliques=cliques, is_relaxed=False)
        return _Unit(root=root, cliques=cliques, is_relaxed=self._is_relaxed(unit))

    def _is_relaxed(self, unit: _Unit) -> bool:
        """Its first placement is over. A fact that must survive us, so it is read from what stands there."""
        groups = [self._group(name) for name in self._group_names(unit)]
        known = [group for group in groups if group is not None]
        if not known:
            # Pods that were placed before there was a group to place them: they come back one by one.
            return any(clique.placed_count for clique in unit.cliques)
        if self._is_basic(unit.root) or any(clique.has_outsiders for clique in unit.cliques):
            return True
        root = self._found.get((NATIVE_COMPOSITES.plural, unit.root))
        was_placed = len(known) == len(groups) and all(map(_is_initially_scheduled, known))
        if self._has_root(unit):
            # Between the two writes of a swap there is no root.
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
        # A leaf names its root for good, also when the other leaves are gone.
        leaves = [self._leaf(clique) for clique in unit.cliques]
        is_below_one = any(leaf is not None and self._top_of(leaf) for leaf in leaves)
        return is_below_one or len(unit.cliques) > 1 or len(self._keys.above(unit.cliques[0])) > 1

    # Drawing them

    def _draw_tree(self, unit: _Unit) -> None:
        if not self._has_root(unit):
            clique = unit.cliques[0]
            key = next(iter(self._keys.above(clique)), "")
            minimum = 1 if unit.is_relaxed else clique.minimum
            self._draw_podgroup(self._leaf_name(clique), minimum, clique, key=key)
            self._check_heard(unit)
            return
        by_replica: dict[str, list[CliqueAsk]] = {}
        for clique in unit.cliques:
            by_replica.setdefault(clique.group_replica if self._keys.of_replica(clique) else "", []).append(clique)
        inner = {
            replica: _named(replica, self._gang, members[0].life, members[0].priority_class_name)
            for replica, members in by_replica.items()
            if replica
        }
        children = len(inner) + len(by_replica.get("", ()))
        self._draw_composite(unit.root, unit, children, key=self._keys.of_gang)
        for replica, members in by_replica.items():
            if replica:
                key = self._keys.of_replica(members[0])
                self._draw_composite(inner[replica], unit, len(members), key=key, parent=unit.root)
            for clique in members:
                self._draw_leaf(unit, clique, parent=inner.get(replica, unit.root))
        self._check_heard(unit)

    def _draw_leaf(self, unit: _Unit, clique: CliqueAsk, *, parent: str) -> None:
        found = self._leaf(clique)
        minimum = clique.minimum
        if unit.is_relaxed:
            # Repaired pod by pod, not all that were lost at once; said only when there is something to repair.
            minimum = 1 if found is None or clique.has_waiting_member else _min_count(found)
        key = self._keys.of_clique(clique)
        self._draw_podgroup(self._leaf_name(clique), minimum, clique, key=key, parent=parent, root=unit.root)

    def _draw_group(self, unit: _Unit) -> None:
        """All in one group: as near as it gets without CompositePodGroup."""
        total = sum(clique.minimum for clique in unit.cliques)
        key = self._keys.of_gang
        if not key and len(unit.cliques) == 1:
            key = next(iter(reversed(self._keys.above(unit.cliques[0]))), "")
        self._draw_podgroup(unit.root, 1 if unit.is_relaxed else total, unit.cliques[0], key=key)
        self._check_heard(unit)

    def _draw_extras(self, clique: CliqueAsk) -> None:
        name = extras_name(self._gang, clique.name, clique.uid, clique.priority_class_name)
        self._draw_podgroup(name, 1, clique, key="", is_gang=False)

    def _draw_podgroup(
        self,
        name: str,
        minimum: int,
        clique: CliqueAsk,
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
                "workloadRef": {"workloadName": self._ask.pcs.name, "templateName": "clique"},
                "schedulingPolicy": {"gang": {"minCount": count}},
                **_shared(clique, key, is_gang=is_gang),
            }
            self._create.append(self._new(NATIVE_PODGROUPS, name, spec, root if root != parent else ""))
        elif not found.metadata.is_terminating and _min_count(found) != count:
            patch: JsonObject = {"spec": {"schedulingPolicy": {"gang": {"minCount": count}}}}
            reason = "it was placed: what is lost comes back pod by pod" if count == 1 else "its minimum changed"
            self._patch.append(MirrorPatch(resource=NATIVE_PODGROUPS, mirror=found, patch=patch, reason=reason))

    def _draw_composite(self, name: str, unit: _Unit, children: int, *, key: str, parent: str = "") -> None:
        """Its spec never changes, so it is swapped: bound pods do not care, and waiting ones wait for the new one."""
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
            self._delete.append(MirrorDelete(resource=NATIVE_COMPOSITES, mirror=found, reason=reason))
        spec: JsonObject = {
            **({"parentCompositePodGroupName": parent} if parent else {}),
            "workloadRef": {"workloadName": self._ask.pcs.name, "templateName": "group-replica" if parent else "gang"},
            "schedulingPolicy": policy,
            **_shared(unit.cliques[0], key, is_gang=True),
        }
        self._create.append(self._new(NATIVE_COMPOSITES, name, spec))

    def _new(self, resource: Resource[SchedulerObject], name: str, spec: JsonObject, root: str = "") -> NewMirror:
        metadata = {
            "name": name,
            "labels": {**labels.default_labels(self._ask.pcs.name), labels.PODGANG: self._gang.metadata.name},
            **({"annotations": {labels.GANG_ROOT: root}} if root else {}),
        }
        body = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata, "spec": spec}
        return NewMirror(resource=resource, name=name, body=body)

    # What they tell

    def _said(self) -> Iterator[SchedulerMessage]:
        for unit in self._units():
            for clique, name in zip(unit.cliques, self._told_by(unit), strict=True):
                group = self._group(name)
                told = find_condition(conditions_of(group), INITIALLY_SCHEDULED) if group is not None else None
                if told is not None and told.status == "False":
                    yield SchedulerMessage(clique=clique.name, reason=told.reason, message=told.message)

    def _told_by(self, unit: _Unit) -> list[str]:
        found = self._group_names(unit)
        return found if len(found) == len(unit.cliques) else found * len(unit.cliques)

    def _check_heard(self, unit: _Unit) -> None:
        """A group that was placed and relaxed without a word of kube-scheduler about it: it does not know of groups.

        Of one that was made after its pods were placed, it has nothing to say.
        """
        groups = [group for group in map(self._group, self._group_names(unit)) if group is not None]
        is_settled = unit.is_relaxed and unit.is_placed
        # Of a gang that it knows, some pods are never on nodes while others are told that there is no room.
        is_torn = any(c.placed_count for c in unit.cliques) and any(c.is_told_full for c in unit.cliques)
        is_whole = len(groups) == len(self._group_names(unit))
        if not (is_settled or is_torn) or not is_whole or self._create or self._delete:
            return
        newest = [clique.newest_placed_at for clique in unit.cliques if clique.newest_placed_at is not None]
        made = [at for group in groups if (at := group.metadata.creation_timestamp) is not None]
        came_through_them = bool(newest and made) and max(newest) >= min(made)
        if came_through_them and not any(map(conditions_of, groups)):
            self._gangless.append(
                "kube-scheduler passes over the gang's groups and places pods one by one: "
                "switch its feature gate GenericWorkload on, as on the API server"
            )

    def _mixed_priorities(self) -> Iterator[str]:
        classes = dict.fromkeys(clique.priority_class_name or "none" for clique in self._ask.cliques)
        if len(classes) > 1:
            yield (
                f"its cliques have different priority classes ({', '.join(classes)}), and kube-scheduler places no "
                "gang of mixed priorities: set one for all, as spec.template.priorityClassName"
            )

    def _unmet_topology(self) -> Iterator[str]:
        asked = _Keys(self._gang)
        if asked.is_any and not self._features.topology:
            yield (
                "required topology is not carried out by kube-scheduler here: "
                "switch the feature gate TopologyAwareWorkloadScheduling on"
            )
        elif not self._features.composites and any(len(asked.above(clique)) > 1 for clique in self._ask.cliques):
            yield (
                "of several levels of required topology only the gang's own is carried out by kube-scheduler here: "
                "switch the feature gate CompositePodGroup on"
            )


class _Keys:
    """The node label keys in one value of which all pods of a scope must be; "": anywhere."""

    def __init__(self, gang: PodGang | None) -> None:
        spec = gang.spec if gang is not None else None
        self.of_gang = _required(spec.topology_constraint) if spec else ""
        self._replicas = {
            name: _required(config.topology_constraint)
            for config in (spec.topology_constraint_group_configs if spec else ())
            for name in config.pod_group_names
        }
        self._cliques = {group.name: _required(group.topology_constraint) for group in (spec.podgroups if spec else ())}

    @property
    def is_any(self) -> bool:
        return bool(self.of_gang) or any(self._replicas.values()) or any(self._cliques.values())

    def of_replica(self, clique: CliqueAsk) -> str:
        return self._replicas.get(clique.name, "")

    def of_clique(self, clique: CliqueAsk) -> str:
        return self._cliques.get(clique.name, "")

    def above(self, clique: CliqueAsk) -> list[str]:
        """All that hold for a clique, widest first."""
        keys = (self.of_gang, self.of_replica(clique), self.of_clique(clique))
        return list(dict.fromkeys(key for key in keys if key))


def _is_mate(one: CliqueAsk, other: CliqueAsk) -> bool:
    """Made together, and of one priority: only then can they be placed together."""
    return (one.life, one.priority_class_name) == (other.life, other.priority_class_name)


def _shared(clique: CliqueAsk, key: str, *, is_gang: bool) -> JsonObject:
    priority = clique.priority_class_name
    return {
        **({"schedulingConstraints": {"topology": [{"key": key}]}} if key else {}),
        **({"priorityClassName": priority} if priority else {}),
        **({"disruptionMode": _AS_ONE} if is_gang else {}),
    }


def _required(constraint: GangTopologyConstraint | None) -> str:
    pack = constraint.pack_constraint if constraint else None
    return (pack.required if pack else None) or ""


def _min_count(group: SchedulerObject) -> int:
    gang = (group.spec.get("schedulingPolicy") or {}).get("gang") or {}
    count = gang.get("minCount", 1)
    return count if isinstance(count, int) else 1


def _is_initially_scheduled(group: SchedulerObject) -> bool:
    told = find_condition(conditions_of(group), INITIALLY_SCHEDULED)
    return told is not None and told.status == "True"
