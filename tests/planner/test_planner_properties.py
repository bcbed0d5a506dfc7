"""Safety and liveness of plans from any state: each rule is one sentence."""

from collections import Counter

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from grove.api import labels
from grove.api.labels import GATE
from grove.api.resources import GROUPS, PODCLIQUES, PODCLIQUESETS, PODGANGS, PODS, SERVICES
from grove.api.types.meta import Uid
from grove.api.types.pod import Pod
from grove.api.types.podcliqueset import PodCliqueSet
from grove.api.types.podgang import PodGang
from grove.planner.actions import Create, Delete, Patch, Plan
from grove.planner.gangs.podgang import referenced_names
from grove.planner.plan import plan
from grove.planner.plan_cache import PlanCache
from grove.planner.pods.pod_sync import plan_pods
from grove.planner.views import CliqueView, pod_index
from tests.dsl import NOW, World, actions, at, clique, pcs, pod, role, run_to_rest, scaling
from tests.seeds import examples

KINDS = (PODCLIQUES, GROUPS, PODGANGS, SERVICES, PODS)
STORIES = settings(max_examples=examples(60), deadline=None, suppress_health_check=list(HealthCheck))


# One clique


@st.composite
def any_pod(draw: st.DrawFn, index: int, name: str) -> Pod:
    phase = draw(st.sampled_from(["Pending", "Running", "Failed", "Succeeded", "Unknown"]))
    return pod(
        index,
        name=name,
        phase=phase,
        gates=draw(st.sampled_from([(), (GATE,), ("theirs",), (GATE, "theirs")])),
        terminating=draw(st.booleans()),
        failures=draw(st.integers(0, 3)),
        ended=NOW if phase in ("Failed", "Succeeded") else None,
        template_hash=draw(st.sampled_from(["new", "old"])),
        created=draw(st.sampled_from([NOW, at(-30), at(-900)])),
    )


@st.composite
def any_clique(draw: st.DrawFn) -> tuple[CliqueView, tuple[str, ...]]:
    """A clique in any state, two pods of one index included, and what its gang references."""
    indices = draw(st.lists(st.integers(0, 6), max_size=8))
    pods = [draw(any_pod(index, f"p-0-a-{index}-{position:05}")) for position, index in enumerate(indices)]
    view = clique(*pods, replicas=draw(st.integers(0, 6)))
    names = sorted({one.metadata.name for one in pods})
    referenced = draw(st.lists(st.sampled_from(names), unique=True)) if names else []
    return view, tuple(referenced)


@given(any_clique())
def test_never_more_creates_than_missing_and_never_two_pods_with_one_index(
    given: tuple[CliqueView, tuple[str, ...]],
) -> None:
    view, referenced = given
    decided = plan_pods(view, referenced, NOW)
    failed_indices = {entry.pod.metadata.uid for entry in decided.delete}
    kept = [one for one in view.active if one.metadata.uid not in failed_indices]
    indices = [*(pod_index(one) for one in kept), *(new.index for new in decided.create)]
    assert len(indices) == len(set(indices))
    assert len(indices) <= view.replicas
    waiting = len({pod_index(one) for one in (*view.failed, *view.succeeded)} - set(indices))
    assert len(indices) >= min(view.replicas, view.replicas - waiting)


@given(any_clique())
def test_a_new_pod_never_gets_a_name_that_was_used(given: tuple[CliqueView, tuple[str, ...]]) -> None:
    view, referenced = given
    decided = plan_pods(view, referenced, NOW)
    used = {one.metadata.name for one in (*view.active, *view.terminating, *view.failed, *view.succeeded)}
    assert used.isdisjoint(new.name for new in decided.create)
    assert len(decided.names) == len(set(decided.names))
    assert {new.name for new in decided.create} <= set(decided.names)


@given(any_clique())
def test_naming_the_new_pods_first_changes_nothing_about_them(given: tuple[CliqueView, tuple[str, ...]]) -> None:
    """The gang is written between the two plans: the second must create what the first promised."""
    view, referenced = given
    first = plan_pods(view, referenced, NOW)
    second = plan_pods(view, first.names, NOW)
    assert (second.names, second.create) == (first.names, first.create)
    assert {entry.pod.metadata.uid for entry in second.delete} == {entry.pod.metadata.uid for entry in first.delete}


# A whole set


@st.composite
def any_set(draw: st.DrawFn) -> PodCliqueSet:
    def size(name: str) -> tuple[int, int]:
        replicas = draw(st.integers(1, 3), label=name)
        return replicas, draw(st.integers(1, replicas), label=f"{name} needs")

    roles = [role(name, count, needs=needs) for name in ("a", "b", "c") for count, needs in [size(name)]]
    group_replicas, group_needs = size("group")
    groups = (scaling("g", "b", "c", replicas=group_replicas, needs=group_needs),) if draw(st.booleans()) else ()
    return pcs(*roles, groups=groups, replicas=draw(st.integers(1, 2)))


def hurt(data: st.DataObject, world: World) -> None:
    """Something happens to any object: lost, leaving, failed, ended, scaled."""
    objects = [(resource, name) for resource in KINDS for name in world.names(resource)]
    for resource, name in data.draw(st.lists(st.sampled_from(objects), max_size=6, unique=True)) if objects else []:
        if name not in world.names(resource):
            continue
        what = data.draw(st.sampled_from(["lose", "delete", "end", "scale"]))
        if what == "lose":
            world.lose(resource, name)
        elif what == "delete":
            world.delete(resource, name)
        elif what == "end" and resource is PODS:
            world.end(name, data.draw(st.sampled_from(["Failed", "Succeeded"])))
        elif what == "scale" and resource is PODCLIQUES:
            least = world.json(PODCLIQUES, name)["spec"]["minAvailable"]
            world.edit(PODCLIQUES, name, {"spec": {"replicas": data.draw(st.integers(least, 4))}})
        elif what == "scale" and resource is GROUPS:
            least = world.json(GROUPS, name)["spec"]["minAvailable"]
            world.edit(GROUPS, name, {"spec": {"replicas": data.draw(st.integers(least, 4))}})


def somewhere(data: st.DataObject, world: World) -> None:
    """A state in the middle of the story: some plans carried out, some only in part, damage in between."""
    for _ in range(data.draw(st.integers(0, 8), label="steps")):
        decided = plan(world.snapshot(), world.now)
        never_wrong(world, decided)
        stages = data.draw(st.integers(0, 5), label="stages")
        cut = tuple(
            type(chain)(key=chain.key, replica_index=chain.replica_index, stages=chain.stages[:stages])
            for chain in decided.chains
        )
        statuses = decided.statuses if data.draw(st.booleans(), label="statuses") else ()
        world.carry_out(Plan(chains=cut, statuses=statuses))
        if data.draw(st.booleans(), label="others act"):
            world.live()
    if data.draw(st.booleans(), label="scale the set"):
        world.edit(PODCLIQUESETS, "p", {"spec": {"replicas": data.draw(st.integers(0, 3))}})
    hurt(data, world)


def never_wrong(world: World, decided: Plan) -> None:
    """The safety rules of one plan, held against the world it was made for."""
    views = {view.uid: view for replica in world.snapshot().replicas for view in replica.cliques.values()}
    gangs = {gang.metadata.name: gang for gang in world.all(PODGANGS)}
    created: dict[Uid, list[int]] = {}
    deleted = {action.uid for action in actions(decided) if isinstance(action, Delete)}
    for action in actions(decided):
        if isinstance(action, Create) and action.resource is PODS:
            owner = Uid(action.body["metadata"]["ownerReferences"][0]["uid"])
            created.setdefault(owner, []).append(int(action.body["metadata"]["labels"][labels.POD_INDEX]))
        if isinstance(action, Patch) and action.resource is PODS:
            gate_may_open(views, gangs, next(p for p in world.all(PODS) if p.metadata.uid == action.uid))
    for uid, indices in created.items():
        view = views[uid]
        held = [pod_index(one) for one in view.active if one.metadata.uid not in deleted]
        assert max(Counter([*held, *indices]).values()) == 1, "two pods with one index"
        assert len(held) + len(indices) <= view.replicas, "more pods than asked for"


def gate_may_open(views: dict[Uid, CliqueView], gangs: dict[str, PodGang], one: Pod) -> None:
    gang = gangs[one.metadata.labels[labels.PODGANG]]
    assert one.metadata.name in referenced_names(gang, one.metadata.labels[labels.PODCLIQUE]), "unreferenced"
    base_name = one.metadata.labels.get(labels.BASE_PODGANG)
    # Only the first placement of an incarnation waits for the base gang.
    if base_name is None or gang.status.placed_incarnation == one.metadata.labels[labels.INCARNATION]:
        return
    base = [view for view in views.values() if view.clique.metadata.labels[labels.PODGANG] == base_name]
    assert base, "before its base gang existed"
    for view in base:
        assert view.placed_count >= view.min_available, "before its base gang was scheduled"


@STORIES
@given(any_set(), st.data())
def test_from_any_state_the_world_comes_to_rest_with_everything_running(
    observed: PodCliqueSet, data: st.DataObject
) -> None:
    world = World(observed)
    somewhere(data, world)
    run_to_rest(world, check=never_wrong)
    assert all(one.is_ready for one in world.all(PODS))
    asked = {one.metadata.name: one.spec.replicas for one in world.all(PODCLIQUES)}
    found = Counter(one.metadata.labels[labels.PODCLIQUE] for one in world.all(PODS))
    assert found == Counter(asked)
    reached = world.pcs
    assert reached is not None
    assert reached.status.available_replicas == reached.spec.replicas
    assert reached.status.pod_gang_statuses == ()


@STORIES
@given(any_set(), st.data())
def test_remembering_plans_changes_no_plan(observed: PodCliqueSet, data: st.DataObject) -> None:
    world = World(observed)
    somewhere(data, world)
    cache = PlanCache()
    for _ in range(30):
        decided = plan(world.snapshot(), world.now, cache)
        assert decided == plan(world.snapshot(), world.now)
        world.carry_out(decided)
        if not world.live() and decided.is_empty:
            if decided.requeue_at is None:
                return
            world.now = decided.requeue_at
    raise AssertionError("not at rest")


@STORIES
@given(any_set(), st.data(), st.integers(0, 12))
def test_whatever_is_refused_no_rule_is_broken_and_it_heals(
    observed: PodCliqueSet, data: st.DataObject, quota: int
) -> None:
    world = World(observed, quota=quota)
    for _ in range(12):
        decided = plan(world.snapshot(), world.now)
        never_wrong(world, decided)
        world.carry_out(decided)
        if not world.live() and decided.is_empty:
            if decided.requeue_at is None:
                break
            world.now = decided.requeue_at
    hurt(data, world)
    world.quota = None
    run_to_rest(world, check=never_wrong)
    assert all(one.is_ready for one in world.all(PODS))
    reached = world.pcs
    assert reached is not None
    assert reached.status.available_replicas == reached.spec.replicas
    assert [(one.type, one.status) for one in reached.status.conditions] == [
        ("Available", "True"),
        ("Progressing", "True"),
    ]


@STORIES
@given(any_set(), st.data())
def test_a_deleted_set_leaves_nothing_from_any_state(observed: PodCliqueSet, data: st.DataObject) -> None:
    world = World(observed)
    somewhere(data, world)
    world.delete(PODCLIQUESETS, "p")
    run_to_rest(world)
    assert [world.names(resource) for resource in (PODCLIQUESETS, *KINDS)] == [[]] * 6
