"""Do Kubernetes' own groups say of every gang what they should? Counted anew from the objects, without the backend.

For a namespace at rest; each entry of the answer is not right.
"""

from collections.abc import Iterator

from grove.api import labels
from grove.api.resources import NATIVE_COMPOSITES, PODGANGS, PODS
from grove.api.types.meta import JsonObject, ObjectMeta, WireStruct
from grove.api.types.podgang import PodGang
from grove.api.types.scheduler_object import SchedulerObject
from tests.e2e.harness import POLL_SECONDS
from tests.e2e.native import NativeStage


class _Named(WireStruct):
    pod_group_name: str = ""


class _GroupedSpec(WireStruct):
    node_name: str = ""
    priority: int = 0
    scheduling_group: _Named | None = None


class GroupedPod(WireStruct):
    """A pod, and the group that it names."""

    metadata: ObjectMeta
    spec: _GroupedSpec = _GroupedSpec()

    @property
    def group(self) -> str:
        return self.spec.scheduling_group.pod_group_name if self.spec.scheduling_group else ""

    @property
    def clique(self) -> str:
        return self.metadata.labels[labels.PODCLIQUE]

    @property
    def index(self) -> int:
        return int(self.metadata.labels[labels.POD_INDEX])


def grouped_pods(stage: NativeStage, gang: str = "") -> tuple[GroupedPod, ...]:
    """Pods that stay, of one gang or of all."""
    selector = f"{labels.PODGANG}={gang}" if gang else ""
    found = stage.objects(PODS.viewed_as(GroupedPod), label_selector=selector)
    return tuple(pod for pod in found if not pod.metadata.is_terminating)


def owned(mirrors: tuple[SchedulerObject, ...], gang: PodGang) -> dict[str, SchedulerObject]:
    """The groups of a gang that stay, by name; one in use lingers for as long as its last pod does."""
    return {
        mirror.metadata.name: mirror
        for mirror in mirrors
        if mirror.metadata.controller == PODGANGS.owner_key(gang.metadata) and not mirror.metadata.is_terminating
    }


def policy(mirror: SchedulerObject) -> JsonObject:
    found: JsonObject = mirror.spec["schedulingPolicy"]
    return found


def parent(mirror: SchedulerObject) -> str:
    return str(mirror.spec.get("parentCompositePodGroupName") or "")


def mirror_problems(stage: NativeStage) -> list[str]:
    gangs = stage.objects(PODGANGS)
    return [
        *(f"{gang.metadata.name}: {line}" for gang in gangs for line in _Look(stage, gang).problems()),
        *_ownerless(stage, gangs),
    ]


async def await_right_groups(stage: NativeStage) -> None:
    """They follow what the operator saw last: it may be a moment behind."""
    deadline = stage.cluster.clock.monotonic() + stage.patience
    while problems := mirror_problems(stage) if await stage.look() else ["nobody answers"]:
        assert stage.cluster.clock.monotonic() < deadline, problems
        await stage.cluster.clock.sleep(POLL_SECONDS)


def _ownerless(stage: NativeStage, gangs: tuple[PodGang, ...]) -> Iterator[str]:
    owners = {PODGANGS.owner_key(gang.metadata) for gang in gangs}
    for mirror in (*stage.groups(), *stage.roots()):
        if mirror.metadata.controller not in owners:
            yield f"{mirror.metadata.name} is left, and its gang is gone"


class _Look:
    """One gang, its groups and its pods."""

    def __init__(self, stage: NativeStage, gang: PodGang) -> None:
        self.has_roots = NATIVE_COMPOSITES in stage.cluster.mirror_kinds
        self.groups = owned(stage.groups(), gang)
        self.roots = owned(stage.roots(), gang)
        self.pods = grouped_pods(stage, gang.metadata.name)
        self.minima = {group.name: group.min_replicas for group in gang.spec.podgroups}
        # Having been whole, it may lack some and is repaired pod by pod; nothing of a gang is on a node before that.
        self.is_started = any(pod.spec.node_name for pod in self.pods)

    def problems(self) -> Iterator[str]:
        named = {pod.group for pod in self.pods}
        yield from (f"{pod.metadata.name} is of no podgroup" for pod in self.pods if pod.clique not in self.minima)
        yield from (f"{pod.metadata.name} names {pod.group!r}" for pod in self.pods if pod.group not in self.groups)
        yield from (f"{name} is there, and no pod names it" for name in self.groups if name not in named)
        priorities = {mirror.spec.get("priority", 0) for mirror in (*self.groups.values(), *self.roots.values())}
        if len(priorities | {pod.spec.priority for pod in self.pods}) > 1:
            yield f"priorities differ: groups {priorities}, pods {[pod.spec.priority for pod in self.pods]}"
        yield from self._extras_problems()
        if self.has_roots:
            yield from self._leaf_problems()
            yield from self._root_problems()
        else:
            yield from self._single_problems()

    def _members(self, clique: str = "") -> set[str]:
        """The groups of pods within the minimum."""
        mine = [pod for pod in self.pods if pod.clique == clique or (not clique and pod.clique in self.minima)]
        return {pod.group for pod in mine if pod.index < self.minima[pod.clique]}

    def _extras_problems(self) -> Iterator[str]:
        """Pods above the minimum are in a group of their clique's own, which is nobody's child and waits for nobody."""
        for clique, minimum in self.minima.items():
            extras = {pod.group for pod in self.pods if pod.clique == clique and pod.index >= minimum}
            others = {pod.group for pod in self.pods if pod.clique != clique or pod.index < minimum}
            if len(extras) > 1 or extras & others:
                yield f"extras of {clique} are in {extras}, others in {others}"
            for group in (self.groups[name] for name in extras if name in self.groups):
                if parent(group) or policy(group) != {"gang": {"minCount": 1}}:
                    yield f"{group.metadata.name} holds extras, and its parent is {parent(group)!r}, {policy(group)}"

    def _leaf_problems(self) -> Iterator[str]:
        for clique, minimum in self.minima.items():
            members = self._members(clique)
            if len(members) != 1:
                yield f"the minimum of {clique} is in the groups {members}"
            for leaf in (self.groups[name] for name in members if name in self.groups):
                allowed = (1, minimum) if self.is_started else (minimum,)
                if policy(leaf) not in [{"gang": {"minCount": count}} for count in allowed]:
                    yield f"leaf of {clique}: {policy(leaf)}, its minimum is {minimum}, begun: {self.is_started}"
                if parent(leaf) not in self.roots and (len(self.minima) > 1 or parent(leaf)):
                    yield f"leaf of {clique}: its parent {parent(leaf)!r} is not there"

    def _root_problems(self) -> Iterator[str]:
        children = [parent(mirror) for mirror in (*self.groups.values(), *self.roots.values())]
        for name, root in self.roots.items():
            wanted = {"basic": {}} if self.is_started else {"gang": {"minGroupCount": children.count(name)}}
            if policy(root) != wanted:
                yield f"root {name}: {policy(root)}, it should be {wanted}"
            if not children.count(name):
                yield f"root {name} is nobody's parent"
        tops = [name for name, root in self.roots.items() if not parent(root)]
        if len(self.minima) > 1 and not self.is_started and len(tops) != 1:
            yield f"all of it should wait together, and its roots are {tops}"

    def _single_problems(self) -> Iterator[str]:
        members = self._members()
        if not self.is_started and len(members) != 1:
            yield f"all of it should wait in one group, and is in {members}"
        for group in (self.groups[name] for name in members if name in self.groups):
            wanted = 1 if self.is_started else sum(self.minima.values())
            if policy(group) != {"gang": {"minCount": wanted}}:
                yield f"{group.metadata.name}: {policy(group)}, it should be {wanted}"
