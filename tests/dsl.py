"""Planner tests in one line: builders with healthy defaults, plans in words, and a world small enough for a planner.

`World` carries plans out in memory, as an obedient API server, scheduler and kubelet would, so that a story runs in
milliseconds. It is not the embedded cluster: it knows no watches, no conflicts and no HTTP.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar, assert_never

import msgspec

from grove.api import labels, names
from grove.api.reasons import STATE_CONDITIONS
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
from grove.api.template_revision import build_revision, revision_data
from grove.api.types.controllerrevision import ControllerRevision
from grove.api.types.meta import (
    Condition,
    HasMetadata,
    JsonObject,
    NamespacedName,
    ObjectMeta,
    OwnerKey,
    OwnerReference,
    Uid,
    to_wire,
)
from grove.api.types.pod import (
    ContainerState,
    ContainerStatus,
    Pod,
    PodSpec,
    PodStatus,
    SchedulingGate,
    TerminatedState,
)
from grove.api.types.podclique import PodClique, PodCliqueSpec, PodCliqueStatus
from grove.api.types.podcliquescalinggroup import PodCliqueScalingGroup, ScalingGroupSpec, ScalingGroupStatus
from grove.api.types.podcliqueset import (
    CliqueTemplate,
    GroupConfig,
    PodCliqueSet,
    PodCliqueSetSpec,
    PodCliqueSetStatus,
    SetTemplate,
)
from grove.api.types.podgang import PodGang, PodGangSpec, PodGangStatus, PodGroup
from grove.api.types.service import Service, ServiceSpec
from grove.cluster.apiserver.codec.selectors import parse_labels
from grove.cluster.patches.merge_patch import apply_merge_patch
from grove.controller.rejected_creates import RejectedCreates
from grove.planner.actions import (
    Action,
    Chain,
    Create,
    CreateRejection,
    Delete,
    DeleteMany,
    EventRecord,
    Patch,
    Plan,
    StatusPriority,
    StatusWrite,
)
from grove.planner.plan import plan
from grove.planner.plan_cache import PlanCache
from grove.planner.snapshot import SetContext, Snapshot, build_context
from grove.planner.status.availability import is_group_updating
from grove.planner.views import CliqueView, ReplicaView, view_clique

T = TypeVar("T", bound=HasMetadata)

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)
NAMESPACE = "default"
SET_NAME = "p"
SET_UID = Uid(f"uid-of-{SET_NAME}")


def at(seconds: float) -> datetime:
    """So many seconds after NOW."""
    return NOW + timedelta(seconds=seconds)


# What a user writes


def role(
    name: str, replicas: int = 1, *, needs: int | None = None, after: tuple[str, ...] = (), **fields: Any
) -> CliqueTemplate:
    """A clique of the template; `pod` overrides parts of its podSpec."""
    pod_spec: JsonObject = {"containers": [{"name": "main", "image": "pause"}], **fields.pop("pod", {})}
    spec = PodCliqueSpec(
        role_name=f"role-{name}", replicas=replicas, min_available=needs, starts_after=after, pod_spec=pod_spec
    )
    return CliqueTemplate(name=name, spec=spec, **fields)


def scaling(name: str, *members: str, replicas: int = 1, needs: int = 1, **fields: Any) -> GroupConfig:
    """A scaling group of the template."""
    return GroupConfig(name=name, clique_names=members, replicas=replicas, min_available=needs, **fields)


def pcs(
    *cliques: CliqueTemplate,
    groups: tuple[GroupConfig, ...] = (),
    name: str = "p",
    replicas: int = 1,
    generation: int = 1,
    template: Mapping[str, Any] | None = None,
    status: PodCliqueSetStatus | None = None,
    spec: Mapping[str, Any] | None = None,
    **metadata: Any,
) -> PodCliqueSet:
    """A set that carries our finalizer; without cliques it has one of two pods, `a`."""
    return PodCliqueSet(
        metadata=_stored(
            name,
            {
                "uid": SET_UID,
                "generation": generation,
                "creation_timestamp": NOW,
                "finalizers": (labels.SET_FINALIZER,),
                **metadata,
            },
        ),
        spec=PodCliqueSetSpec(
            replicas=replicas,
            template=SetTemplate(
                cliques=cliques or (role("a", 2),), pod_clique_scaling_groups=groups, **(template or {})
            ),
            **(spec or {}),
        ),
        status=status or PodCliqueSetStatus(),
    )


def appendix_a(**fields: Any) -> PodCliqueSet:
    """A clique `a` of two pods, and a group `g` (two replicas, one needed) of `b` and `c`."""
    return pcs(role("a", 2), role("b"), role("c"), groups=(scaling("g", "b", "c", replicas=2, needs=1),), **fields)


# What was observed


def pod(
    index: int = 0,
    *,
    clique: str = "p-0-a",
    name: str = "",
    node: str = "node-1",
    ready: bool | None = None,
    phase: str = "",
    gates: tuple[str, ...] = (),
    terminating: bool = False,
    created: datetime | None = NOW,
    ended: datetime | None = None,
    failures: int = 0,
    template_hash: str = "new",
    life: str = "1",
) -> Pod:
    """A ready pod on a node; one behind a gate has none, and one that ended is not ready."""
    node = "" if gates else node
    phase = phase or ("Running" if node else "Pending")
    is_ready = phase == "Running" if ready is None else ready
    name = name or names.pod(clique, f"uid-of-{clique}", index, "")
    terminated = TerminatedState(exit_code=0 if phase == "Succeeded" else 1, finished_at=ended)
    return Pod(
        metadata=ObjectMeta(
            name=name,
            namespace=NAMESPACE,
            uid=Uid(f"uid-of-{name}"),
            resource_version="1",
            creation_timestamp=created,
            deletion_timestamp=NOW if terminating else None,
            labels={
                **labels.default_labels("p"),
                labels.SET_REPLICA_INDEX: "0",
                labels.INCARNATION: life,
                labels.POD_INDEX: str(index),
                labels.TEMPLATE_HASH: template_hash,
                labels.PODCLIQUE: clique,
            },
            annotations={labels.FAILURES: str(failures)} if failures else {},
            owner_references=owned_by(PODCLIQUES, clique),
        ),
        spec=PodSpec(node_name=node, scheduling_gates=tuple(SchedulingGate(name=gate) for gate in gates)),
        status=PodStatus(
            phase=phase,
            conditions=(Condition(type="Ready", status="True" if is_ready else "False"),),
            container_statuses=(ContainerStatus(state=ContainerState(terminated=terminated)),) if ended else (),
        ),
    )


def gated(index: int = 0, **fields: Any) -> Pod:
    return pod(index, gates=(labels.GATE,), **fields)


def starting(index: int = 0, **fields: Any) -> Pod:
    return pod(index, ready=False, **fields)


def failed(index: int = 0, **fields: Any) -> Pod:
    return pod(index, phase="Failed", **{"ended": NOW, **fields})


def clique(
    *pods: Pod,
    name: str = "p-0-a",
    replicas: int | None = None,
    needs: int | None = None,
    ready: int | None = None,
    was_available: bool = False,
    terminating: bool = False,
    gone: Iterable[str] = (),
    status: PodCliqueStatus | None = None,
    **metadata: Any,
) -> CliqueView:
    """A clique and its pods: those given, or `ready` ready ones; it asks for as many as it has."""
    if ready is not None:
        pods = tuple(pod(index, clique=name) for index in range(ready))
    count = len(pods) if replicas is None else replicas
    observed = PodClique(
        metadata=_stored(
            name,
            {
                "generation": 1,
                "owner_references": owned_by(PODCLIQUESETS, SET_NAME),
                "deletion_timestamp": NOW if terminating else None,
                "labels": {
                    labels.TEMPLATE_HASH: "new",
                    labels.PART_OF: "p",
                    labels.SET_REPLICA_INDEX: "0",
                    labels.PODGANG: "p-0",
                    labels.INCARNATION: "1",
                },
                **metadata,
            },
        ),
        spec=PodCliqueSpec(replicas=count, min_available=needs),
        status=status or PodCliqueStatus(was_available=was_available),
    )
    return view_clique(observed, pods, frozenset(gone))


def group(
    name: str = "p-0-g",
    *members: str,
    replicas: int = 1,
    needs: int = 1,
    status: ScalingGroupStatus | None = None,
    **metadata: Any,
) -> PodCliqueScalingGroup:
    return PodCliqueScalingGroup(
        metadata=_stored(name, {"generation": 1, "owner_references": owned_by(PODCLIQUESETS, SET_NAME), **metadata}),
        spec=ScalingGroupSpec(replicas=replicas, min_available=needs, clique_names=members),
        status=status or ScalingGroupStatus(),
    )


def gang(
    *cliques: CliqueView, name: str = "p-0", marked: bool = False, status: PodGangStatus | None = None, **metadata: Any
) -> PodGang:
    """A gang that references the active pods of these cliques."""
    return PodGang(
        metadata=_stored(
            name,
            {
                "uid": Uid(f"uid-of-gang-{name}"),
                "owner_references": owned_by(PODCLIQUESETS, SET_NAME),
                "labels": {labels.INCARNATION: "1"},
                "annotations": {labels.TEARDOWN: "1"} if marked else {},
                **metadata,
            },
        ),
        spec=PodGangSpec(
            podgroups=tuple(
                PodGroup(
                    name=view.name,
                    pod_references=tuple(
                        NamespacedName(namespace=NAMESPACE, name=one.metadata.name) for one in view.active
                    ),
                    min_replicas=view.min_available,
                )
                for view in cliques
            )
        ),
        status=status or PodGangStatus(),
    )


def service(index: int = 0) -> Service:
    """The headless Service of a replica, as it should be."""
    name = names.replica_name("p", index)
    selector = {**labels.default_labels("p"), labels.SET_REPLICA_INDEX: str(index)}
    return Service(
        metadata=_stored(
            name,
            {"uid": Uid(f"uid-of-service-{name}"), "owner_references": owned_by(PODCLIQUESETS, SET_NAME)},
        ),
        spec=ServiceSpec(publish_not_ready_addresses=True, selector=selector),
    )


def owned_by(resource: Resource[Any], name: str) -> tuple[OwnerReference, ...]:
    """The reference to the one controller that an object has."""
    version, kind, uid = resource.api_version, resource.kind, Uid(f"uid-of-{name}")
    return (OwnerReference(api_version=version, kind=kind, name=name, uid=uid, controller=True),)


def _stored(name: str, metadata: Mapping[str, Any]) -> ObjectMeta:
    """The metadata of an object that a server has; what is given wins."""
    usual = {"name": name, "namespace": NAMESPACE, "uid": Uid(f"uid-of-{name}"), "resource_version": "1"}
    return ObjectMeta(**{**usual, **metadata})


def failure(
    key: str = "pods/p-0-a",
    *,
    count: int = 1,
    first: datetime = NOW,
    last: datetime = NOW,
    code: str = "CreateRejected",
) -> CreateRejection:
    return CreateRejection(key=key, code=code, message="exceeded quota", count=count, first_at=first, last_at=last)


def replica(
    *cliques: CliqueView,
    index: int = 0,
    groups: Iterable[PodCliqueScalingGroup] = (),
    gangs: Iterable[PodGang] = (),
    services: Iterable[Service] = (),
    failures: tuple[CreateRejection, ...] = (),
) -> ReplicaView:
    return ReplicaView(
        index=index,
        cliques={view.name: view for view in cliques},
        groups={one.metadata.name: one for one in groups},
        gangs={one.metadata.name: one for one in gangs},
        services={one.metadata.name: one for one in services},
        failures=failures,
    )


def revision(observed: PodCliqueSet, number: int = 1) -> ControllerRevision:
    """The templates of a set, stored."""
    asked = build_context(observed)
    template = build_revision(asked.spec.template, asked.template_hashes, asked.generation_hash)
    name = names.revision(asked.name, asked.generation_hash)
    return ControllerRevision(
        metadata=_stored(name, {"owner_references": owned_by(PODCLIQUESETS, observed.metadata.name)}),
        data=revision_data(template),
        revision=number,
    )


def snapshot(observed: PodCliqueSet, *replicas: ReplicaView, rejected_ahead_count: int = 0) -> Snapshot:
    """The set and what was seen of it; replicas that are wanted and not given have nothing."""
    seen = {view.index: view for view in replicas}
    for index in range(observed.spec.replicas):
        seen.setdefault(index, ReplicaView(index=index))
    return Snapshot(
        pcs=observed,
        context=build_context(observed),
        replicas=tuple(seen[index] for index in sorted(seen)),
        revisions=(revision(observed),),
        rejected_ahead_count=rejected_ahead_count,
    )


def context(observed: PodCliqueSet | None = None) -> SetContext:
    return build_context(observed or pcs())


# Plans in words


def told(decided: Plan | Sequence[Chain]) -> list[str]:
    """Every action of a plan in one line: chain, stage, what, and why."""
    chains = decided.chains if isinstance(decided, Plan) else decided
    return [
        f"{chain.key} {number}: {in_words(action)}"
        for chain in chains
        for number, stage in enumerate(chain.stages)
        for action in stage
    ]


def in_words(action: Action) -> str:
    match action:
        case Create():
            return f"create {action.resource.plural}/{action.name} ({action.reason})"
        case Patch():
            return f"patch {action.resource.plural}/{action.name} ({action.reason})"
        case Delete():
            return f"delete {action.resource.plural}/{action.name} ({action.reason})"
        case DeleteMany():
            return f"delete all {action.resource.plural} {action.selector} ({action.reason})"
        case _:
            assert_never(action)


def actions(decided: Plan) -> list[Action]:
    return [action for chain in decided.chains for stage in chain.stages for action in stage]


def touched(decided: Plan) -> list[str]:
    """The names of the objects that a plan writes, in order; a bulk delete by its selector."""
    return [one.selector if isinstance(one, DeleteMany) else one.name for one in actions(decided)]


def problems(status: JsonObject) -> list[JsonObject]:
    """The conditions of a set's status, or of a patch of it, that report problems."""
    return [one for one in status.get("conditions") or () if one["type"] not in STATE_CONDITIONS]


# The world


class World:
    """One set and everything made for it, as JSON; plans are carried out at once and to the letter."""

    def __init__(self, observed: PodCliqueSet, *, quota: int | None = None) -> None:
        self.now = NOW
        self.quota = quota
        # Pods that no node has room for stay pending.
        self.capacity: int | None = None
        # Pods of these images get a node and are never ready.
        self.broken_images: frozenset[str] = frozenset()
        self.events: list[EventRecord] = []
        self.failures = RejectedCreates()
        self._objects: dict[tuple[str, str], JsonObject] = {}
        self._gone_names: dict[Uid, frozenset[str]] = {}
        self._count = 0
        self._context = build_context(observed)
        self._put(PODCLIQUESETS, {**to_wire(observed), "status": {}})

    # What is there

    def all(self, resource: Resource[T]) -> list[T]:
        return [
            msgspec.convert(obj, resource.view)
            for (plural, _), obj in sorted(self._objects.items())
            if plural == resource.plural
        ]

    def names(self, resource: Resource[Any]) -> list[str]:
        return sorted(name for plural, name in self._objects if plural == resource.plural)

    def json(self, resource: Resource[Any], name: str) -> JsonObject:
        return self._objects[(resource.plural, name)]

    @property
    def pcs(self) -> PodCliqueSet | None:
        return next(iter(self.all(PODCLIQUESETS)), None)

    def snapshot(self) -> Snapshot:
        pcs_ = self.pcs
        assert pcs_ is not None
        if self._context.generation != pcs_.metadata.generation:
            self._context = build_context(pcs_)
        indices = {_replica_index(one) for resource in _CHILDREN for one in self.all(resource)}
        wanted = sorted(indices.union(range(pcs_.spec.replicas)))
        return Snapshot(
            pcs=pcs_,
            context=self._context,
            replicas=tuple(self._view(pcs_.metadata.uid, index) for index in wanted),
            revisions=tuple(self.all(CONTROLLER_REVISIONS)),
            failures=self.failures.of(pcs_.metadata.uid, -1),
        )

    def _view(self, set_uid: Uid, index: int) -> ReplicaView:
        pods: dict[OwnerKey | None, list[Pod]] = {}
        for one in self.all(PODS):
            pods.setdefault(one.metadata.controller, []).append(one)
        groups = _of_replica(self.all(GROUPS), index)
        rolling = {GROUPS.owner_key(one.metadata) for one in groups if is_group_updating(one)}
        return ReplicaView(
            index=index,
            cliques={
                one.metadata.name: msgspec.structs.replace(
                    view_clique(
                        one,
                        tuple(pods.get(PODCLIQUES.owner_key(one.metadata), ())),
                        self._gone_names.get(one.metadata.uid, frozenset()),
                    ),
                    is_group_rolling=one.metadata.controller in rolling,
                )
                for one in _of_replica(self.all(PODCLIQUES), index)
            },
            groups={one.metadata.name: one for one in groups},
            gangs={one.metadata.name: one for one in _of_replica(self.all(PODGANGS), index)},
            services={one.metadata.name: one for one in _of_replica(self.all(SERVICES), index)},
            failures=self.failures.of(set_uid, index),
        )

    # What is done to it

    def carry_out(self, decided: Plan) -> None:
        for status in decided.statuses:
            self._write_status(status)
        created: dict[tuple[int, str], None] = {}
        refused: dict[tuple[int, str], str] = {}
        for chain in decided.chains:
            self._run(chain, created, refused)
        for part, key in created:
            if (part, key) not in refused:
                self.failures.clear(SET_UID, part, [key])
        for (part, key), message in refused.items():
            self.failures.record(SET_UID, part, key=key, code="CreateRejected", message=message, now=self.now)

    def edit(self, resource: Resource[Any], name: str, patch: JsonObject) -> None:
        """Somebody changes an object: a changed spec is a new generation."""
        old = self._objects[(resource.plural, name)]
        new = apply_merge_patch(old, patch)
        metadata = dict(new["metadata"])
        if new.get("spec") != old.get("spec") and resource is not PODS:
            metadata["generation"] = metadata.get("generation", 1) + 1
        metadata["resourceVersion"] = self._tick()
        self._objects[(resource.plural, name)] = {**new, "metadata": metadata}

    def change(self, clique_name: str, image: str, **fields: Any) -> None:
        """The user gives a clique's pods another image; `fields` replace other parts of its template."""
        cliques = [
            {**one, **fields, "spec": {**one["spec"], "podSpec": {**one["spec"]["podSpec"], **_only(image)}}}
            if one["name"] == clique_name
            else one
            for one in self.json(PODCLIQUESETS, "p")["spec"]["template"]["cliques"]
        ]
        self.edit(PODCLIQUESETS, "p", {"spec": {"template": {"cliques": cliques}}})

    def scale(self, resource: Resource[Any], name: str, replicas: int) -> None:
        self.edit(resource, name, {"spec": {"replicas": replicas}})

    def delete(self, resource: Resource[Any], name: str) -> None:
        """Somebody deletes an object: pods on nodes and what has finalizers stay a while, leaving."""
        obj = self._objects.get((resource.plural, name))
        if obj is None:
            return
        if obj["metadata"].get("finalizers") or (resource is PODS and obj["spec"].get("nodeName")):
            self.edit(resource, name, {"metadata": {"deletionTimestamp": _stamp(self.now)}})
        else:
            self._vanish(resource, name)

    def lose(self, resource: Resource[Any], name: str) -> None:
        """An object is gone at once, whatever it was."""
        if (resource.plural, name) in self._objects:
            self._vanish(resource, name)

    def end(self, name: str, phase: str = "Failed") -> None:
        """A pod's container ends for good."""
        terminated = {"exitCode": int(phase == "Failed"), "finishedAt": _stamp(self.now)}
        status = {
            "phase": phase,
            "conditions": [{"type": "Ready", "status": "False"}],
            "containerStatuses": [{"name": "main", "state": {"terminated": terminated}}],
        }
        self.edit(PODS, name, {"status": status})

    def live(self) -> bool:
        """Let the rest of the world act once: leaving pods go, ungated ones get a node and become ready."""
        before = self._count
        self._collect_garbage()
        room = self._room()
        for one in self.all(PODS):
            if one.metadata.is_terminating:
                self._vanish(PODS, one.metadata.name)
            elif one.is_active and not one.spec.scheduling_gates and not one.is_ready:
                if not one.spec.node_name and room > 0:
                    room -= 1
                    self.edit(PODS, one.metadata.name, {"spec": {"nodeName": "node-1"}})
                elif not one.spec.node_name and not one.status.conditions:
                    self._say_full(one.metadata.name)
                if self._has_started(one.metadata.name):
                    self.make_ready(one.metadata.name)
        return self._count != before

    def _has_started(self, name: str) -> bool:
        spec = self.json(PODS, name)["spec"]
        return bool(spec.get("nodeName")) and spec["containers"][0]["image"] not in self.broken_images

    def make_ready(self, name: str, *, is_ready: bool = True) -> None:
        """A pod that runs becomes ready, or stops being so."""
        ready = {"type": "Ready", "status": "True" if is_ready else "False"}
        self.edit(PODS, name, {"status": {"phase": "Running", "conditions": [ready]}})

    def _say_full(self, name: str) -> None:
        full = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no room"}
        told = {**full, "lastTransitionTime": _stamp(self.now)}
        self.edit(PODS, name, {"status": {"conditions": [told]}})

    def _room(self) -> int:
        if self.capacity is None:
            return 1_000_000
        return self.capacity - sum(bool(one.spec.node_name) and one.is_active for one in self.all(PODS))

    def _collect_garbage(self) -> None:
        for _ in range(3):
            uids = {obj["metadata"]["uid"] for obj in self._objects.values()}
            orphans = [
                (resource, one.metadata.name)
                for resource in (*_CHILDREN, PODS)
                for one in self.all(resource)
                if one.metadata.controller is not None
                and one.metadata.controller.uid not in uids
                and not one.metadata.is_terminating
            ]
            for resource, name in orphans:
                self.delete(resource, name)

    # How

    def _run(self, chain: Chain, created: dict[tuple[int, str], None], refused: dict[tuple[int, str], str]) -> None:
        for stage in chain.stages:
            is_done = True
            for action in stage:
                refusal = self._refusal(action)
                if refusal and isinstance(action, Create):
                    refused[(chain.replica_index, action.failure_key)] = refusal
                if refusal or not self._perform(action):
                    is_done = False
                elif isinstance(action, Create):
                    created[(chain.replica_index, action.failure_key)] = None
            if not is_done:
                return

    def _refusal(self, action: Action) -> str:
        is_pod = isinstance(action, Create) and action.resource is PODS
        if not is_pod or self.quota is None or self._counted_pods() < self.quota:
            return ""
        return f"exceeded quota: {self.quota} pods"

    def _perform(self, action: Action) -> bool:
        """False: the object is not the version that was decided on any more."""
        match action:
            case Create():
                assert (action.resource.plural, action.name) not in self._objects, f"{action.name} exists already"
                self._put(action.resource, action.body)
            case Patch():
                if not self._patch(action):
                    return False
            case Delete():
                assert self._objects[(action.resource.plural, action.name)]["metadata"]["uid"] == action.uid
                self.delete(action.resource, action.name)
            case DeleteMany():
                self._delete_many(action)
            case _:
                assert_never(action)
        if action.on_success is not None:
            self.events.append(action.on_success)
        return True

    def _counted_pods(self) -> int:
        return sum(not (one.is_failed or one.is_succeeded) for one in self.all(PODS))

    def _patch(self, action: Patch) -> bool:
        current = self._objects.get((action.resource.plural, action.name))
        if current is None:
            # Given up in another chain of the same plan.
            return False
        metadata = current["metadata"]
        assert metadata["uid"] == action.uid
        if action.resource_version and metadata["resourceVersion"] != action.resource_version:
            return False
        self.edit(action.resource, action.name, action.patch)
        obj = self._objects[(action.resource.plural, action.name)]
        if obj["metadata"].get("deletionTimestamp") and not obj["metadata"].get("finalizers"):
            self._vanish(action.resource, action.name)
        return True

    def _delete_many(self, action: DeleteMany) -> None:
        wanted = parse_labels(action.selector)
        for one in self.all(action.resource):
            is_found = all(term.matches(one.metadata.labels) for term in wanted)
            if is_found and one.metadata.controller in action.owners and not one.metadata.is_terminating:
                self.delete(action.resource, one.metadata.name)

    def _write_status(self, status: StatusWrite) -> None:
        metadata = self._objects[(status.resource.plural, status.name)]["metadata"]
        assert (metadata["uid"], metadata["resourceVersion"]) == (status.uid, status.resource_version)
        self.edit(status.resource, status.name, {"status": status.patch})
        self.events += status.on_success

    def _put(self, resource: Resource[Any], body: JsonObject) -> None:
        version = self._tick()
        metadata = {
            "uid": f"uid-{version}",
            "generation": 1,
            "creationTimestamp": _stamp(self.now),
            **body["metadata"],
            "resourceVersion": version,
        }
        self._objects[(resource.plural, metadata["name"])] = {**body, "metadata": metadata}

    def _vanish(self, resource: Resource[Any], name: str) -> None:
        self._tick()
        gone = msgspec.convert(self._objects.pop((resource.plural, name)), resource.view)
        owner = gone.metadata.controller
        if resource is PODS and owner is not None:
            self._gone_names[owner.uid] = self._gone_names.get(owner.uid, frozenset()) | {name}

    def _tick(self) -> str:
        self._count += 1
        return str(self._count)


_CHILDREN: tuple[Resource[Any], ...] = (PODCLIQUES, GROUPS, PODGANGS, SERVICES)

Check = Callable[[World, Plan], None]


def run_to_rest(
    world: World, *, check: Check | None = None, cache: PlanCache | None = None, limit: int = 60
) -> list[Plan]:
    """Plan and carry out until the plan is empty and nothing moves by itself; time jumps from wake-up to wake-up."""
    plans: list[Plan] = []
    for _ in range(limit):
        if world.pcs is None:
            while world.live():
                pass
            return plans
        decided = plan(world.snapshot(), world.now, cache)
        if check is not None:
            check(world, decided)
        plans.append(decided)
        world.carry_out(decided)
        moved = world.live()
        if decided.is_empty and not moved:
            if decided.requeue_at is None:
                return plans
            world.now = decided.requeue_at
    raise AssertionError(f"not at rest after {limit} plans; the last one:\n" + "\n".join(told(plans[-1])))


def visit(world: World, cache: PlanCache | None = None) -> Plan:
    """One pass as the loop makes it: facts first, one after the other, then the acts, then what tells about them."""
    decided = plan(world.snapshot(), world.now, cache)
    while facts := tuple(status for status in decided.statuses if status.priority is StatusPriority.DURABLE):
        world.carry_out(Plan(statuses=facts))
        decided = plan(world.snapshot(), world.now, cache)
    world.carry_out(Plan(chains=decided.chains))
    world.carry_out(Plan(statuses=plan(world.snapshot(), world.now, cache).statuses))
    return decided


def run_a_while(world: World, seconds: float, *, limit: int = 200) -> list[Plan]:
    """The same for so long; a world that is refused something never rests."""
    until = world.now + timedelta(seconds=seconds)
    plans: list[Plan] = []
    for _ in range(limit):
        decided = plan(world.snapshot(), world.now)
        plans.append(decided)
        world.carry_out(decided)
        if world.live() or not decided.is_empty:
            continue
        if decided.requeue_at is None or decided.requeue_at > until:
            world.now = until
            return plans
        world.now = decided.requeue_at
    raise AssertionError("too many plans; the last one:\n" + "\n".join(told(plans[-1])))


def _only(image: str) -> JsonObject:
    return {"containers": [{"name": "main", "image": image}]}


def _replica_index(one: HasMetadata) -> int:
    return int(one.metadata.labels[labels.SET_REPLICA_INDEX])


def _of_replica(objects: list[T], index: int) -> list[T]:
    return [one for one in objects if _replica_index(one) == index]


def _stamp(instant: datetime) -> str:
    return instant.strftime("%Y-%m-%dT%H:%M:%SZ")
