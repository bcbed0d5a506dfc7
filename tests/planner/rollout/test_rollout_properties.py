"""Updates of any set, whatever happens meanwhile: each rule of them is one sentence, asked of every plan."""

from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import msgspec
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

from grove.api import labels
from grove.api.resources import CONTROLLER_REVISIONS, GROUPS, PODCLIQUES, PODCLIQUESETS, PODGANGS, PODS, Resource
from grove.api.types.meta import Uid, find_condition
from grove.api.types.podcliqueset import PodCliqueSet
from grove.planner.actions import Delete, Patch, Plan
from grove.planner.plan import plan
from grove.planner.plan_cache import PlanCache
from grove.planner.rollout.replica_order import current_replica_index
from grove.planner.rollout.revision_history import Targets, clique_template_name
from grove.planner.snapshot import Snapshot
from grove.planner.teardown.recreation import Record, Recreation, read_record
from grove.planner.views import CliqueView, ReplicaView, template_hash_of
from tests.dsl import World, actions, pcs, role, scaling, visit
from tests.seeds import examples

STORIES = settings(max_examples=examples(80), deadline=None, suppress_health_check=list(HealthCheck))
IMAGES = ("v1", "v2", "v3")
ROLES = ("a", "b", "c")


@st.composite
def any_set(draw: st.DrawFn) -> PodCliqueSet:
    def size(largest: int) -> tuple[int, int]:
        replicas = draw(st.integers(1, largest))
        return replicas, draw(st.integers(1, replicas))

    roles = [role(name, count, needs=needs) for name in ROLES for count, needs in [size(3)]]
    group_replicas, group_needs = size(3)
    groups = (scaling("g", "b", "c", replicas=group_replicas, needs=group_needs),) if draw(st.booleans()) else ()
    strategy = draw(st.sampled_from(["RollingRecreate", "RollingRecreate", "OnDelete"]))
    delay = draw(st.sampled_from([None, "30s"]))
    return pcs(
        *roles,
        groups=groups,
        replicas=draw(st.integers(1, 3)),
        spec={"update_strategy": {"type": strategy}},
        template={"termination_delay": delay},
    )


# What may happen


def something_happens(data: st.DataObject, world: World) -> None:
    what = data.draw(st.sampled_from(["change", "change", "scale", "strategy", "pod", "pod", "lose", "room", "time"]))
    match what:
        case "change":
            world.change(data.draw(st.sampled_from(ROLES)), data.draw(st.sampled_from(IMAGES)))
        case "scale":
            scale_something(data, world)
        case "strategy":
            kind = data.draw(st.sampled_from(["RollingRecreate", "OnDelete"]))
            world.edit(PODCLIQUESETS, "p", {"spec": {"updateStrategy": {"type": kind}}})
        case "pod":
            hurt_a_pod(data, world)
        case "lose":
            lose_something(data, world)
        case "room":
            world.capacity = data.draw(st.sampled_from([None, 0, 2, 5]))
        case _:
            world.now += timedelta(seconds=data.draw(st.sampled_from([1, 20, 70])))


def any_of(*kinds: Resource[Any]) -> st.SearchStrategy[Resource[Any]]:
    return st.sampled_from(kinds)


def scale_something(data: st.DataObject, world: World) -> None:
    kind = data.draw(any_of(PODCLIQUESETS, GROUPS, PODCLIQUES))
    names = world.names(kind)
    if not names:
        return
    name = data.draw(st.sampled_from(names))
    spec = world.json(kind, name)["spec"]
    least = 0 if kind is PODCLIQUESETS else spec["minAvailable"]
    world.scale(kind, name, data.draw(st.integers(least, 4)))


def hurt_a_pod(data: st.DataObject, world: World) -> None:
    running = [one for one in world.all(PODS) if one.is_active and one.spec.node_name]
    if not running:
        return
    name = data.draw(st.sampled_from(running)).metadata.name
    match data.draw(st.sampled_from(["flip", "flip", "fail", "delete", "vanish"])):
        case "flip":
            world.make_ready(name, is_ready=False)
        case "fail":
            world.end(name)
        case "delete":
            world.delete(PODS, name)
        case _:
            world.lose(PODS, name)


def lose_something(data: st.DataObject, world: World) -> None:
    kind = data.draw(any_of(PODCLIQUES, PODGANGS, CONTROLLER_REVISIONS))
    names = world.names(kind)
    if names:
        world.lose(kind, data.draw(st.sampled_from(names)))


# What must hold


def rules(world: World, decided: Plan) -> Iterator[str]:
    """Each broken rule of a plan, in words."""
    seen = world.snapshot()
    views = {view.uid: view for replica in seen.replicas for view in replica.cliques.values()}
    deleted = Counter((one.resource.plural, one.name) for one in actions(decided) if isinstance(one, Delete))
    yield from (f"{name} is deleted twice in one plan" for (_, name), count in deleted.items() if count > 1)
    yield from taken_pods(seen, views, decided)
    yield from taken_replicas(seen, decided)
    yield from ended_too_early(seen)


def taken_pods(seen: Snapshot, views: dict[Uid, CliqueView], decided: Plan) -> Iterator[str]:
    taken: Counter[Uid] = Counter()
    by_uid = {one.metadata.uid: (view, one) for view in views.values() for one in view.active}
    for action in actions(decided):
        if not isinstance(action, Delete) or "its turn has come" not in action.reason:
            continue
        view, one = by_uid[action.uid]
        taken[view.uid] += 1
        if index_of(view) != current_replica_index(seen.pcs):
            yield f"{action.name} is taken out of turn"
        if view.ready_count < view.min_available:
            yield f"{action.name} is taken below the minimum"
        progress = view.clique.status.rolling_update_progress
        selected = progress.ready_pods_selected_to_update if progress else None
        if selected is None or selected.current != one.metadata.name:
            yield f"{action.name} is taken before its choice is stored"
    yield from (f"{views[uid].name}: {count} ready pods at once" for uid, count in taken.items() if count > 1)


def taken_replicas(seen: Snapshot, decided: Plan) -> Iterator[str]:
    for action in actions(decided):
        if not isinstance(action, Patch) or action.resource is not PODGANGS:
            continue
        text = action.patch.get("metadata", {}).get("annotations", {}).get(labels.RECREATION)
        if text is None:
            continue
        replica = next(r for r in seen.replicas if action.name in r.gangs)
        before = read_record(replica.gangs[action.name]).open
        new = [one for one in msgspec.json.decode(text, type=Record).open if one not in before]
        updates = [one for one in new if "newer template" in one.reason]
        if updates and replica.index != current_replica_index(seen.pcs):
            yield f"{action.name}: a group replica is taken out of turn"
        ready = [one for one in updates if is_ready(replica, one)]
        if len(ready) > 1:
            yield f"{action.name}: {len(ready)} ready group replicas at once"
        for one in ready:
            group = replica.groups[one.group]
            found = {index_in_group(v) for v in replica.cliques.values() if group_of(v) == one.group}
            available = sum(is_ready(replica, Recreation(group=one.group, index=j, incarnation="")) for j in found)
            if available < group.spec.min_available:
                yield f"{one.group}: a ready replica is taken with {available} available"


def ended_too_early(seen: Snapshot) -> Iterator[str]:
    """Asked of what is stored, when the operator has seen the last change of the set."""
    progress = seen.pcs.status.rolling_update_progress
    targets = Targets(seen.context, seen.revisions)
    is_seen = seen.pcs.status.observed_generation == seen.pcs.metadata.generation
    if not is_seen or progress is None or progress.update_ended_at is None or targets.is_on_delete:
        return
    if targets.newest is None or targets.newest.generation_hash != seen.pcs.status.current_generation_hash:
        return
    for replica in seen.replicas[: seen.pcs.spec.replicas]:
        for view in replica.cliques.values():
            target = targets.newest.newest_hashes.get(clique_template_name(seen.context, view))
            for one in view.active:
                if template_hash_of(one.metadata) != target and is_wanted(replica, view):
                    yield f"ended, and {one.metadata.name} runs an older template"


def is_wanted(replica: ReplicaView, view: CliqueView) -> bool:
    """Not what a scale-in of its group, or a removal that was begun, takes away anyway."""
    gang = replica.gangs.get(view.clique.metadata.labels[labels.PODGANG])
    if gang is not None and labels.TEARDOWN in gang.metadata.annotations:
        return False
    group = replica.groups.get(group_of(view))
    return group is None or index_in_group(view) < group.spec.replicas


def index_of(view: CliqueView) -> int:
    return int(view.clique.metadata.labels[labels.SET_REPLICA_INDEX])


def group_of(view: CliqueView) -> str:
    return view.clique.metadata.labels.get(labels.GROUP, "")


def index_in_group(view: CliqueView) -> int:
    return int(view.clique.metadata.labels[labels.GROUP_REPLICA_INDEX])


def is_ready(replica: ReplicaView, unit: Recreation) -> bool:
    views = [v for v in replica.cliques.values() if group_of(v) == unit.group and index_in_group(v) == unit.index]
    return len(views) == 2 and all(
        not v.is_terminating and v.ready_count >= v.min_available and v.placed_count >= v.min_available for v in views
    )


def settle(world: World) -> None:
    """Nothing happens any more: the world must come to rest."""
    cache = PlanCache()
    for _ in range(400):
        check(world)
        decided = visit(world, cache)
        moved = world.live()
        if moved or not decided.is_empty:
            continue
        if decided.requeue_at is None:
            assert plan(world.snapshot(), world.now).is_empty
            return
        world.now = max(world.now, decided.requeue_at)
    raise AssertionError("never at rest")


def check(world: World) -> None:
    broken = list(rules(world, plan(world.snapshot(), world.now)))
    assert not broken, broken


@STORIES
@given(any_set(), st.data())
def test_whatever_happens_an_update_keeps_its_rules_and_ends_with_everything_newest(
    observed: PodCliqueSet, data: st.DataObject
) -> None:
    world = World(observed)
    settle(world)
    for _ in range(data.draw(st.integers(1, 14), label="moments")):
        for _ in range(data.draw(st.integers(0, 3), label="at once")):
            something_happens(data, world)
        check(world)
        if data.draw(st.booleans(), label="crash"):
            crash(data, world)
        else:
            visit(world)
        if data.draw(st.booleans(), label="others act"):
            world.live()
    world.capacity = None
    settle(world)
    everything_newest(world)


def crash(data: st.DataObject, world: World) -> None:
    """The operator ends somewhere in its pass: only some of what it wrote came through."""
    decided = plan(world.snapshot(), world.now)
    statuses = decided.statuses[: data.draw(st.integers(0, len(decided.statuses)), label="statuses")]
    world.carry_out(Plan(statuses=statuses))
    stages = data.draw(st.integers(0, 3), label="stages")
    if len(statuses) < len(decided.statuses) or not stages:
        return
    again = plan(world.snapshot(), world.now)
    cut = tuple(
        type(c)(key=c.key, replica_index=c.replica_index, stages=c.stages[:stages], rank=c.rank) for c in again.chains
    )
    world.carry_out(Plan(chains=cut))


def everything_newest(world: World) -> None:
    seen = world.snapshot()
    targets = Targets(seen.context, seen.revisions)
    assert targets.newest is not None
    assert targets.wanted is not None
    note(str(seen.pcs.status.rolling_update_progress))
    found = Counter(one.metadata.labels[labels.PODCLIQUE] for one in world.all(PODS))
    assert found == Counter({one.metadata.name: one.spec.replicas for one in world.all(PODCLIQUES)})
    assert all(one.is_ready for one in world.all(PODS))
    assert seen.pcs.status.available_replicas == seen.pcs.spec.replicas
    assert find_condition(seen.pcs.status.conditions, "UpdateStalled") is None
    progress = seen.pcs.status.rolling_update_progress
    assert progress is None or progress.update_ended_at is not None
    if targets.is_on_delete:
        return
    for replica in seen.replicas:
        for view in replica.cliques.values():
            target = targets.newest.template_hashes[clique_template_name(seen.context, view)]
            assert {view.template_hash, *view.active_hashes} == {target}
    assert seen.pcs.status.updated_replicas == seen.pcs.spec.replicas
