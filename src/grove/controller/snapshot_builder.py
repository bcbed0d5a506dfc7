"""Builds snapshots from the caches, incrementally: a view is rebuilt only when one of its objects changed.

It also maps each object to the set to enqueue. It decides nothing.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeVar

import msgspec

from grove.api import labels
from grove.api.resources import GROUPS, PODCLIQUES, PODCLIQUESETS, PODGANGS, Resource
from grove.api.types.clustertopologybinding import ClusterTopologyBinding
from grove.api.types.controllerrevision import ControllerRevision
from grove.api.types.horizontalpodautoscaler import HorizontalPodAutoscaler
from grove.api.types.meta import HasMetadata, OwnerKey, Uid
from grove.api.types.node import Node
from grove.api.types.pod import Pod, has_succeeded_before_deletion
from grove.api.types.podclique import PodClique
from grove.api.types.podcliquescalinggroup import PodCliqueScalingGroup
from grove.api.types.podcliqueset import PodCliqueSet
from grove.api.types.podgang import PodGang
from grove.api.types.scheduler_object import SchedulerObject
from grove.api.values.numbers_in_text import parse_number
from grove.backends.registry import Backends
from grove.controller.controller_options import MassOutageOptions
from grove.controller.failed_writes import FailedWrites
from grove.controller.informers import Caches
from grove.controller.mass_outage import Outage
from grove.controller.rejected_creates import RejectedCreates
from grove.kube.store import Store
from grove.planner.snapshot import DEFAULT_CLUSTER, ClusterContext, SetContext, Snapshot, build_context
from grove.planner.status.availability import is_group_updating
from grove.planner.views import CliqueView, ReplicaView, pod_index, view_clique

T = TypeVar("T", bound=HasMetadata)

# A replica of the set that this key names.
ReplicaKey = tuple[OwnerKey, int]

DEFAULT_MASS_OUTAGE = MassOutageOptions()


class _SetState:
    """The cached state of one set between reconciles."""

    def __init__(self, context: SetContext) -> None:
        self.context = context
        # Ordered by index.
        self.views: dict[int, ReplicaView] = {}
        self.dirty: dict[int, None] = {}
        # The number of replicas that the views were built for.
        self.replicas = 0

    def put(self, index: int, view: ReplicaView) -> None:
        is_last = index not in self.views and (not self.views or index > next(reversed(self.views)))
        is_in_place = index in self.views
        self.views[index] = view
        if not (is_last or is_in_place):
            self.views = dict(sorted(self.views.items()))


class Observer:
    """A builder of snapshots that caches views until their objects change.

    It calls `wake` with the uid of each affected set.
    """

    def __init__(
        self,
        caches: Caches,
        failures: RejectedCreates,
        wake: Callable[[Uid], None],
        *,
        failed_writes: FailedWrites | None = None,
        mass_outage: MassOutageOptions = DEFAULT_MASS_OUTAGE,
        cluster: ClusterContext = DEFAULT_CLUSTER,
    ) -> None:
        self._caches = caches
        self._failures = failures
        self._failed_writes = failed_writes
        self._wake = wake
        self._sets: dict[Uid, _SetState] = {}
        self._cliques: dict[Uid, CliqueView] = {}
        # The name of the last deleted pod of each index; names of earlier ones precede it in the derived sequence.
        self._gone_names: dict[Uid, dict[int, str]] = {}
        # Indices whose pods succeeded and were deleted before that was written to a status.
        self._done: dict[Uid, set[int]] = {}
        # Children of a set by replica; member cliques are found through their group.
        self._by_replica: dict[str, dict[OwnerKey, dict[int, dict[Uid, Any]]]] = {}
        # Gangs without a replica label, by set.
        self._orphans: dict[OwnerKey, dict[Uid, PodGang]] = {}
        # The ControllerRevisions of a set, cached until one changes.
        self._revisions: dict[OwnerKey, tuple[ControllerRevision, ...]] = {}
        self._cluster_context = cluster
        # Replaced, never changed: plans may hold on to it.
        self._node_labels: Mapping[str, Mapping[str, str]] = {}
        self.touched_count = 0
        self._outage = Outage(caches.nodes, mass_outage, changed=self._wake_all)
        caches.sets.subscribe(self._set_changed)
        caches.groups.subscribe(self._group_changed)
        caches.cliques.subscribe(self._clique_changed)
        caches.pods.subscribe(self._pod_changed)
        caches.gangs.subscribe(self._gang_changed)
        caches.revisions.subscribe(self._revision_changed)
        caches.roles.subscribe(self._access_changed)
        caches.role_bindings.subscribe(self._access_changed)
        caches.nodes.subscribe(self._node_changed)
        caches.bindings.subscribe(self._binding_changed)
        for kind, store in caches.queues.items():
            store.subscribe(partial(self._queue_changed, kind))
        for store in caches.scheduler_objects.values():
            store.subscribe(self._scheduler_object_changed)
        self._index("cliques", caches.cliques)
        self._index("groups", caches.groups)
        self._index("gangs", caches.gangs)
        self._index("services", caches.services)
        self._index("autoscalers", caches.autoscalers, is_same=_is_same_autoscaler)

    @property
    def remembered_count(self) -> int:
        """Return the number of sets, cliques and replicas with cached state; deleted ones have none."""
        by_replica = sum(len(sets) for sets in self._by_replica.values())
        cliques = len(self._cliques) + len(self._gone_names) + len(self._done)
        return len(self._sets) + cliques + len(self._orphans) + len(self._revisions) + by_replica

    # Changes of the caches

    def _set_changed(self, old: PodCliqueSet | None, new: PodCliqueSet | None) -> None:
        known = new or old
        assert known is not None
        uid = known.metadata.uid
        if new is None:
            self._sets.pop(uid, None)
            self._revisions.pop(PODCLIQUESETS.owner_key(known.metadata), None)
            self._failures.forget_set(uid)
        self._wake(uid)

    def _group_changed(self, old: PodCliqueScalingGroup | None, new: PodCliqueScalingGroup | None) -> None:
        # Its cliques may have been cached before it: their set is known only now.
        if old is None and new is not None:
            for clique in self._caches.cliques.owned_by(GROUPS.owner_key(new.metadata)):
                self._mark_clique(clique)

    def _clique_changed(self, old: PodClique | None, new: PodClique | None) -> None:
        for known in (old, new):
            if known is not None:
                self._cliques.pop(known.metadata.uid, None)
                self._mark_clique(known)
        if old is not None and new is None:
            self._gone_names.pop(old.metadata.uid, None)
            self._done.pop(old.metadata.uid, None)

    def _gang_changed(self, old: PodGang | None, new: PodGang | None) -> None:
        for gang in (old, new):
            owner = None if gang is None else gang.metadata.controller
            if gang is None or owner is None or replica_index_of(gang) >= 0:
                continue
            orphans = self._orphans.setdefault(owner, {})
            orphans.pop(gang.metadata.uid, None)
            if gang is new:
                orphans[gang.metadata.uid] = gang
            if not orphans:
                del self._orphans[owner]
            self._mark(owner, -1)

    def _revision_changed(self, old: ControllerRevision | None, new: ControllerRevision | None) -> None:
        for owner in dict.fromkeys(one.metadata.controller for one in (old, new) if one is not None):
            if owner is not None:
                self._revisions.pop(owner, None)
                self._mark(owner, -1)

    def _access_changed(self, old: HasMetadata | None, new: HasMetadata | None) -> None:
        for owner in dict.fromkeys(one.metadata.controller for one in (old, new) if one is not None):
            self._mark(owner, -1)

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        owner = new.metadata.controller if new is not None else None
        before = old.metadata.controller if old is not None else None
        if owner is not None:
            self._pods_changed(self._clique_of(owner))
        if old is not None and before is not None and before != owner:
            clique = self._clique_of(before)
            if clique is not None:
                # Deleted, or orphaned by a user; in both cases its name must not be used again.
                uid = clique.metadata.uid
                self._gone_names.setdefault(uid, {})[pod_index(old)] = old.metadata.name
                if has_succeeded_before_deletion(old):
                    self._done.setdefault(uid, set()).add(pod_index(old))
            self._pods_changed(clique)

    def _clique_of(self, owner: OwnerKey) -> PodClique | None:
        return _find_owner(self._caches.cliques, PODCLIQUES, owner)

    def _pods_changed(self, clique: PodClique | None) -> None:
        if clique is not None:
            self._cliques.pop(clique.metadata.uid, None)
            self._mark_clique(clique)

    def _mark_clique(self, clique: PodClique) -> None:
        group = _find_owner(self._caches.groups, GROUPS, clique.metadata.controller)
        # A member belongs to the replica of its group, whatever its own label is.
        top: HasMetadata = clique if group is None else group
        self._mark(top.metadata.controller, replica_index_of(top))

    def mark(self, set_uid: Uid, replica_index: int) -> None:
        """Mark a replica as changed for a reason that is not an object, such as a rejected create."""
        state = self._sets.get(set_uid)
        if state is not None and replica_index >= 0:
            state.dirty[replica_index] = None
        if self._caches.sets.get(set_uid) is not None:
            self._wake(set_uid)

    def _mark(self, owner: OwnerKey | None, replica_index: int) -> None:
        pcs = _find_owner(self._caches.sets, PODCLIQUESETS, owner)
        if pcs is not None:
            self.mark(pcs.metadata.uid, replica_index)

    def _index(
        self, kind: str, store: Store[Any], is_same: Callable[[Any, Any], bool] = lambda _old, _new: False
    ) -> None:
        """Index the objects of a kind by replica. A change that `is_same` of two versions denies wakes no set."""
        by_replica = self._by_replica.setdefault(kind, {})

        def on_change(old: HasMetadata | None, new: HasMetadata | None) -> None:
            before, after = _replica_key_of(old), _replica_key_of(new)
            if old is not None and before is not None and before != after:
                _remove_from_index(by_replica, before, old.metadata.uid)
                self._mark(*before)
            if new is not None and after is not None:
                by_replica.setdefault(after[0], {}).setdefault(after[1], {})[new.metadata.uid] = new
                if old is None or before != after or not is_same(old, new):
                    self._mark(*after)

        store.subscribe(on_change)

    def _scheduler_object_changed(self, old: SchedulerObject | None, new: SchedulerObject | None) -> None:
        for owner in dict.fromkeys(one.metadata.controller for one in (old, new) if one is not None):
            gang = _find_owner(self._caches.gangs, PODGANGS, owner)
            if gang is not None:
                self._mark(gang.metadata.controller, replica_index_of(gang))

    def _node_changed(self, old: Node | None, new: Node | None) -> None:
        before = {} if old is None else old.metadata.labels
        after = {} if new is None else new.metadata.labels
        if before != after:
            named = {node.metadata.name: node.metadata.labels for node in self._caches.nodes.values()}
            self._node_labels = {name: labels for name, labels in named.items() if labels}

    def _binding_changed(self, old: ClusterTopologyBinding | None, new: ClusterTopologyBinding | None) -> None:
        # Status changes of a binding affect no set.
        if old is None or new is None or old.spec != new.spec:
            self._update_cluster_context(bindings={one.metadata.name: one for one in self._caches.bindings.values()})

    def _queue_changed(self, kind: str, old: SchedulerObject | None, new: SchedulerObject | None) -> None:
        # Schedulers update the status of queues all the time; sets depend only on existence and state.
        if old is None or new is None or old.status.get("state") != new.status.get("state"):
            queues = {**self._cluster_context.features.queues}
            queues[kind] = {one.metadata.name: one for one in self._caches.queues[kind].values()}
            self._update_cluster_context(
                features=msgspec.structs.replace(self._cluster_context.features, queues=queues)
            )

    def update_features(self, backends: Backends, missing: frozenset[str]) -> None:
        """Set the features of the API server after each discovery."""
        features = msgspec.structs.replace(self._cluster_context.features, missing=missing)
        if (backends, missing) != (self._cluster_context.backends, self._cluster_context.features.missing):
            self._update_cluster_context(backends=backends, features=features)

    def _update_cluster_context(self, **changes: object) -> None:
        self._cluster_context = msgspec.structs.replace(self._cluster_context, **changes)
        self._wake_all()

    def _wake_all(self) -> None:
        for pcs in self._caches.sets.values():
            self._wake(pcs.metadata.uid)

    # Snapshots

    def snapshot(self, set_uid: Uid) -> Snapshot | None:
        """Return the snapshot of the set, or None if it does not exist."""
        pcs = self._caches.sets.get(set_uid)
        if pcs is None:
            return None
        state, owner = self._state_of(pcs), PODCLIQUESETS.owner_key(pcs.metadata)
        # For an invalid set, only existing objects are viewed: its replicas may be arbitrarily large.
        wanted = 0 if state.context.errors else pcs.spec.replicas
        if state.replicas != wanted:
            least = min(state.replicas, wanted)
            state.dirty.update(dict.fromkeys(index for index in state.views if index >= least))
            state.dirty.update(dict.fromkeys(range(least, wanted)))
            state.replicas = wanted
        for index in state.dirty:
            self._refresh(state, owner, index)
        state.dirty.clear()
        return Snapshot(
            pcs=pcs,
            context=state.context,
            replicas=tuple(state.views.values()),
            revisions=self._revisions_of(owner),
            roles=tuple(self._caches.roles.owned_by(owner)),
            role_bindings=tuple(self._caches.role_bindings.owned_by(owner)),
            failures=self._failures.of(set_uid, -1),
            failed_writes=self._failed_writes.of(set_uid) if self._failed_writes else (),
            is_tried=self._failed_writes is None or self._failed_writes.is_tried(set_uid),
            orphaned_gangs=tuple(sorted(self._orphans.get(owner, {}).values(), key=_name_of)),
            rejected_ahead_count=self._count_rejected_ahead(pcs),
            hold_until=self._outage.until,
            outage_until=self._outage.outage_until,
            node_labels=self._node_labels,
        )

    def _revisions_of(self, owner: OwnerKey) -> tuple[ControllerRevision, ...]:
        found = self._revisions.get(owner)
        if found is None:
            found = self._revisions[owner] = tuple(sorted(self._caches.revisions.owned_by(owner), key=_name_of))
        return found

    def _state_of(self, pcs: PodCliqueSet) -> _SetState:
        state = self._sets.get(pcs.metadata.uid)
        if state is None:
            state = self._sets[pcs.metadata.uid] = _SetState(build_context(pcs, self._cluster_context))
            owner = PODCLIQUESETS.owner_key(pcs.metadata)
            for by_replica in self._by_replica.values():
                state.dirty.update(dict.fromkeys(by_replica.get(owner, ())))
            return state
        is_same = _is_same_spec(state.context, pcs)
        if not is_same or state.context.cluster is not self._cluster_context:
            known = state.context.backend.object_kinds
            state.context = build_context(pcs, self._cluster_context, state.context if is_same else None)
            if state.context.backend.object_kinds != known:
                # Views contain the scheduler objects of their gangs.
                state.dirty.update(dict.fromkeys(state.views))
        return state

    def _refresh(self, state: _SetState, owner: OwnerKey, index: int) -> None:
        self.touched_count += 1
        replica_key = (owner, index)
        groups = self._children("groups", replica_key)
        cliques = self._children("cliques", replica_key)
        for group in groups:
            cliques += self._caches.cliques.owned_by(GROUPS.owner_key(group.metadata))
        rolling = frozenset(GROUPS.owner_key(group.metadata) for group in groups if is_group_updating(group))
        gangs = sorted(self._children("gangs", replica_key), key=_name_of)
        kinds = state.context.backend.object_kinds
        view = ReplicaView(
            index=index,
            cliques={
                c.metadata.name: self._view_of(c, rolling, is_finite=state.context.is_training)
                for c in sorted(cliques, key=_name_of)
            },
            groups={g.metadata.name: g for g in sorted(groups, key=_name_of)},
            gangs={g.metadata.name: g for g in gangs},
            services={s.metadata.name: s for s in self._children("services", replica_key)},
            autoscalers={a.metadata.name: a for a in sorted(self._children("autoscalers", replica_key), key=_name_of)},
            scheduler_objects={g.metadata.uid: found for g in gangs if (found := self._scheduler_objects_of(g, kinds))},
            failures=self._failures.of(owner.uid, index),
        )
        if index < state.replicas or view.has_anything:
            state.put(index, view)
        else:
            state.views.pop(index, None)
            self._failures.forget_replica(owner.uid, index)

    def _scheduler_objects_of(
        self, gang: PodGang, kinds: tuple[Resource[SchedulerObject], ...]
    ) -> tuple[tuple[Resource[SchedulerObject], SchedulerObject], ...]:
        return tuple(
            (kind, scheduler_object)
            for kind in kinds
            for scheduler_object in self._caches.scheduler_objects[kind.full_name].owned_by(
                PODGANGS.owner_key(gang.metadata)
            )
        )

    def _children(self, kind: str, replica_key: ReplicaKey) -> list[Any]:
        return list(self._by_replica[kind].get(replica_key[0], {}).get(replica_key[1], {}).values())

    def _view_of(self, clique: PodClique, rolling_groups: frozenset[OwnerKey], *, is_finite: bool) -> CliqueView:
        uid = clique.metadata.uid
        view = self._cliques.get(uid)
        if view is None:
            pods = self._caches.pods.owned_by(PODCLIQUES.owner_key(clique.metadata))
            self.touched_count += len(pods)
            gone = frozenset(self._gone_names.get(uid, {}).values())
            done = frozenset(self._done.get(uid, ()))
            view = self._cliques[uid] = view_clique(clique, pods, gone, is_finite=is_finite, done_before=done)
        if clique.metadata.controller in rolling_groups:
            return msgspec.structs.replace(view, is_group_rolling=True)
        return view

    def _count_rejected_ahead(self, pcs: PodCliqueSet) -> int:
        """Count the older sets of this namespace with rejected pods; 0 unless pods of this set are rejected."""
        if not self._failures.has_rejected_pods(pcs.metadata.uid):
            return 0
        mine = _age_of(pcs)
        return sum(
            other.metadata.namespace == pcs.metadata.namespace
            and _age_of(other) < mine
            and self._failures.has_rejected_pods(other.metadata.uid)
            for other in self._caches.sets.values()
        )


def replica_index_of(obj: HasMetadata) -> int:
    """Return the set replica of an object, by its label; -1 without one."""
    return parse_number(obj.metadata.labels.get(labels.SET_REPLICA_INDEX, ""))


def _is_same_autoscaler(old: HorizontalPodAutoscaler, new: HorizontalPodAutoscaler) -> bool:
    """Return whether only the status differs, which the autoscaler writes every few seconds."""
    before, after = old.metadata, new.metadata
    return (
        old.spec == new.spec
        and before.labels == after.labels
        and before.annotations == after.annotations
        and before.is_terminating == after.is_terminating
    )


def _find_owner(store: Store[T], resource: Resource[T], owner: OwnerKey | None) -> T | None:
    """Return the object that an owner key names; None if there is none, or another one has that uid."""
    found = None if owner is None else store.get(owner.uid)
    return found if found is not None and resource.owner_key(found.metadata) == owner else None


def _replica_key_of(obj: HasMetadata | None) -> ReplicaKey | None:
    if obj is None:
        return None
    owner, index = obj.metadata.controller, replica_index_of(obj)
    return (owner, index) if owner is not None and index >= 0 else None


def _remove_from_index(
    by_replica: dict[OwnerKey, dict[int, dict[Uid, Any]]], replica_key: ReplicaKey, uid: Uid
) -> None:
    replicas = by_replica[replica_key[0]]
    siblings = replicas[replica_key[1]]
    del siblings[uid]
    if not siblings:
        del replicas[replica_key[1]]
    if not replicas:
        del by_replica[replica_key[0]]


def _name_of(obj: HasMetadata) -> str:
    return obj.metadata.name


def _age_of(pcs: PodCliqueSet) -> tuple[float, str]:
    created = pcs.metadata.creation_timestamp
    return (created.timestamp() if created else 0.0, pcs.metadata.uid)


def _is_same_spec(context: SetContext, pcs: PodCliqueSet) -> bool:
    return (
        context.generation == pcs.metadata.generation
        and context.labels == pcs.metadata.labels
        and context.annotations == pcs.metadata.annotations
    )
