"""One set replica: what is made, repaired and kept apart, in which order."""

import msgspec
import pytest

from grove.api import labels
from grove.api.resources import GROUPS, PODCLIQUES, PODCLIQUESETS, PODGANGS, PODS, SERVICES
from grove.api.types.service import ServiceSpec
from grove.planner.actions import LiveRead
from grove.planner.plan import FEW_BUILDS, plan
from grove.planner.views import CliqueView
from tests.dsl import (
    NOW,
    SECOND,
    World,
    appendix_a,
    at,
    clique,
    failure,
    gang,
    gated,
    group,
    pcs,
    pod,
    problems,
    replica,
    role,
    run_to_rest,
    scaling,
    service,
    snapshot,
    told,
    touched,
)


def settled(world: World) -> World:
    run_to_rest(world)
    return world


def lines_of(world: World) -> list[str]:
    return told(plan(world.snapshot(), world.now))


class TestFromNothing:
    def test_things_are_made_in_the_order_in_which_they_need_each_other(self) -> None:
        world = World(appendix_a())
        kinds = [
            [line.split(" ")[3].partition("/")[0] for line in told(decided) if " create " in line]
            for decided in run_to_rest(world)
        ]
        assert [kind for kind in kinds if kind] == [
            ["controllerrevisions"],
            ["podcliquescalinggroups", "podcliques", "services"],
            ["podcliques"] * 4,
            ["podgangs"] * 2 + ["pods"] * 6,
        ]

    def test_every_gang_creates_its_minima_before_its_extras(self) -> None:
        a = clique(name="p-0-a", replicas=3, needs=1)
        b = clique(name="p-0-b", replicas=2, needs=2)
        seen = replica(a, b, gangs=(gang(a, b),), services=(service(),))
        observed = pcs(role("a", 3, needs=1), role("b", 2))
        created = [line for line in told(plan(snapshot(observed, seen), NOW)) if "create pods" in line]
        assert [(line[4], line.partition("(")[2]) for line in created] == [
            ("1", "index 0 of clique p-0-a)"),
            ("1", "index 0 of clique p-0-b)"),
            ("1", "index 1 of clique p-0-b)"),
            ("2", "index 1 of clique p-0-a)"),
            ("2", "index 2 of clique p-0-a)"),
        ]

    def test_members_wait_for_their_group_and_pods_for_all_cliques_of_their_gang(self) -> None:
        first = plan(snapshot(appendix_a()), NOW)
        assert touched(first) == ["p-0-g", "p-0-a", "p-0"]
        a = clique(name="p-0-a", replicas=2)
        seen = replica(a, groups=(group("p-0-g", "b", "c", replicas=2),), services=(service(),))
        assert touched(plan(snapshot(appendix_a(), seen), NOW)) == ["p-0-g-0-b", "p-0-g-0-c", "p-0-g-1-b", "p-0-g-1-c"]

    def test_replicas_have_chains_of_their_own(self) -> None:
        chains = plan(snapshot(appendix_a(replicas=3)), NOW).chains
        assert [(chain.key, chain.replica_index) for chain in chains] == [
            *((f"p-{i}", i) for i in range(3)),
            *((f"p-{i}/gates", i) for i in range(3)),
        ]

    def test_a_set_of_no_replicas_gets_nothing(self) -> None:
        world = settled(World(pcs(replicas=0)))
        assert [world.names(resource) for resource in (PODCLIQUES, PODGANGS, SERVICES, PODS)] == [[], [], [], []]


class TestScale:
    def test_a_group_that_grows_gets_a_gang_for_each_further_replica(self) -> None:
        world = settled(World(appendix_a()))
        world.edit(GROUPS, "p-0-g", {"spec": {"replicas": 3}})
        run_to_rest(world)
        assert world.names(PODGANGS) == ["p-0", "p-0-g-0", "p-0-g-1"]
        assert world.names(PODCLIQUES)[-2:] == ["p-0-g-2-b", "p-0-g-2-c"]
        assert world.json(PODCLIQUES, "p-0-g-2-b")["metadata"]["labels"][labels.INCARNATION] == "1-2"

    def test_a_clique_that_grows_and_shrinks_keeps_its_lowest_indices(self) -> None:
        world = settled(World(pcs(role("a", 2, needs=1))))
        for count in (4, 1):
            world.edit(PODCLIQUES, "p-0-a", {"spec": {"replicas": count}})
            run_to_rest(world)
            assert [one.metadata.labels[labels.POD_INDEX] for one in world.all(PODS)] == [str(i) for i in range(count)]

    def test_the_gang_lets_a_pod_go_before_it_is_deleted(self) -> None:
        world = settled(World(pcs(role("a", 2, needs=1))))
        world.edit(PODCLIQUES, "p-0-a", {"spec": {"replicas": 1}})
        decided = plan(world.snapshot(), NOW)
        victim = world.names(PODS)[1]
        assert told(decided) == [
            "p-0 0: patch podgangs/p-0 (gang p-0 is updated to match its cliques)",
            f"p-0 1: delete pods/{victim} (the clique has 2 pods and requests 1)",
        ]
        assert decided.live_reads == (
            LiveRead(
                namespace="default",
                selector="grove.io/podclique=p-0-a",
                owners=(PODCLIQUES.owner_key(world.all(PODCLIQUES)[0].metadata),),
            ),
        )

    def test_a_look_is_asked_for_only_when_running_pods_go(self) -> None:
        world = settled(World(pcs(role("a", 2))))
        world.end(world.names(PODS)[0])
        assert plan(world.snapshot(), NOW).live_reads == ()

    def test_a_set_that_grows_gets_new_replicas_and_keeps_the_old(self) -> None:
        world = settled(World(appendix_a()))
        before = {one.metadata.uid for one in world.all(PODS)}
        world.edit(PODCLIQUESETS, "p", {"spec": {"replicas": 2}})
        run_to_rest(world)
        after = {one.metadata.uid for one in world.all(PODS)}
        assert before < after
        assert len(after) == 12

    def test_a_changed_count_in_the_template_does_not_touch_existing_children(self) -> None:
        world = settled(World(pcs(role("a", 2))))
        template = world.json(PODCLIQUESETS, "p")["spec"]["template"]
        (a,) = template["cliques"]
        changed = {**a, "spec": {**a["spec"], "replicas": 5}}
        world.edit(PODCLIQUESETS, "p", {"spec": {"template": {"cliques": [changed]}}})
        run_to_rest(world)
        assert len(world.names(PODS)) == 2


class TestRepair:
    @pytest.mark.parametrize("phase", ["Failed", "Succeeded"])
    def test_a_pod_that_ended_is_replaced_under_its_index_and_then_removed(self, phase: str) -> None:
        world = settled(World(pcs(role("a", 2))))
        ended = world.names(PODS)[0]
        world.end(ended, phase)
        lines = lines_of(world)
        assert lines[0] == "p-0 0: patch podgangs/p-0 (gang p-0 is updated to match its cliques)"
        assert [line.partition(": ")[2].split(" ")[0] for line in lines[1:]] == ["create", "delete"]
        assert lines[2] == f"p-0 2: delete pods/{ended} (pod {ended} ended ({phase}) and is no longer needed)"
        run_to_rest(world)
        assert [one.metadata.labels[labels.POD_INDEX] for one in world.all(PODS)] == ["0", "1"]
        assert all(one.is_ready for one in world.all(PODS))
        assert ended not in world.names(PODS)

    def test_a_deleted_pod_comes_back_with_its_index_and_hostname_and_a_new_name(self) -> None:
        world = settled(World(pcs(role("a", 2))))
        before = world.names(PODS)[1]
        hostname = world.json(PODS, before)["spec"]["hostname"]
        world.delete(PODS, before)
        run_to_rest(world)
        after = world.names(PODS)
        assert before not in after
        assert [world.json(PODS, name)["spec"]["hostname"] for name in after] == ["p-0-a-0", hostname]

    def test_a_replacement_in_a_running_gang_does_not_wait_for_the_others(self) -> None:
        world = settled(World(pcs(role("a", 3))))
        names = world.names(PODS)
        world.edit(PODS, names[0], {"metadata": {"annotations": {labels.FAILURES: "5"}}})
        world.end(names[0])
        world.delete(PODS, names[1])
        for _ in range(4):
            world.carry_out(plan(world.snapshot(), world.now))
            world.live()
        # Index 0 is still in its back-off; index 1 runs again.
        assert [one.metadata.labels[labels.POD_INDEX] for one in world.all(PODS) if one.is_ready] == ["1", "2"]

    @pytest.mark.parametrize("kind", [SERVICES, PODGANGS, GROUPS, PODCLIQUES])
    def test_a_deleted_child_comes_back(self, kind: object) -> None:
        world = settled(World(appendix_a()))
        resource = next(one for one in (SERVICES, PODGANGS, GROUPS, PODCLIQUES) if one is kind)
        names = world.names(resource)
        world.lose(resource, names[0])
        run_to_rest(world)
        assert world.names(resource) == names
        assert len([one for one in world.all(PODS) if one.is_ready]) == 6

    def test_a_gang_made_anew_keeps_the_incarnation_of_its_cliques(self) -> None:
        world = settled(World(appendix_a()))
        world.edit(PODCLIQUESETS, "p", {"spec": {"replicas": 2}})
        world.lose(PODGANGS, "p-0")
        run_to_rest(world)
        assert world.json(PODGANGS, "p-0")["metadata"]["labels"][labels.INCARNATION] == "1"

    def test_a_leaving_clique_keeps_its_name_and_nothing_is_made_under_it(self) -> None:
        view = clique(pod(0), terminating=True, replicas=1)
        seen = replica(view, gangs=(gang(view),), services=(service(),))
        assert plan(snapshot(pcs(role("a")), seen), NOW).chains == ()

    def test_a_service_somebody_changed_is_set_right(self) -> None:
        world = settled(World(pcs()))
        world.edit(SERVICES, "p-0", {"spec": {"publishNotReadyAddresses": False, "selector": {"extra": "x"}}})
        assert lines_of(world) == [
            "p-0/service 0: patch services/p-0 (the service differs from the set's headlessServiceConfig)"
        ]
        run_to_rest(world)
        assert world.json(SERVICES, "p-0")["spec"] == {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": {**labels.default_labels("p"), labels.SET_REPLICA_INDEX: "0"},
        }

    def test_a_clique_no_template_explains_is_removed(self) -> None:
        a, old = clique(pod(0)), clique(name="p-0-old", ready=1)
        seen = replica(a, old, gangs=(gang(a),), services=(service(),))
        assert told(plan(snapshot(pcs(role("a")), seen), NOW)) == [
            "p-0 0: delete podcliques/p-0-old (no clique of the template has this name)"
        ]


class TestARefusedObject:
    @pytest.mark.parametrize(("count", "pause"), [(1, 5), (2, 10), (3, 20), (6, 160), (7, 300), (50, 300)])
    def test_is_tried_again_later_and_later(self, count: int, pause: int) -> None:
        seen = replica(services=(service(),), failures=(failure("podcliques/p-0-b", count=count, code="NameTaken"),))
        facts = snapshot(pcs(role("a"), role("b")), seen)

        def created(seconds: float) -> list[str]:
            return touched(plan(facts, at(seconds)))

        assert created(0) == ["p-0-a"]
        assert created(pause - 1) == ["p-0-a"]
        assert created(pause) == ["p-0-a", "p-0-b"]
        waiting = plan(facts, at(pause) - SECOND)
        assert waiting.requeue_at == at(pause)
        assert [(one.about, one.reason, one.message, one.until) for one in waiting.findings] == [
            ("podcliques/p-0-b", "NameTaken", "exceeded quota", at(pause))
        ]

    def test_holds_up_no_other_replica(self) -> None:
        seen = replica(services=(service(),), failures=(failure("podcliques/p-0-a"),))
        decided = plan(snapshot(pcs(role("a"), replicas=2), seen), NOW)
        assert {chain.key for chain in decided.chains} == {"p-1", "p-1/gates"}

    def test_that_exists_by_now_is_forgotten(self) -> None:
        a = clique(pod(0))
        seen = replica(a, gangs=(gang(a),), services=(service(),), failures=(failure("podcliques/p-0-a"),))
        decided = plan(snapshot(pcs(role("a")), seen), NOW)
        assert (decided.chains, decided.findings, decided.requeue_at) == ((), (), None)
        (set_status,) = [status for status in decided.statuses if status.resource is PODCLIQUESETS]
        assert (problems(set_status.patch), "lastErrors" in set_status.patch) == ([], False)


class TestGatesInAPlan:
    def test_a_scaled_gang_waits_until_its_base_is_scheduled_then_opens(self) -> None:
        observed = pcs(role("b", 1), groups=(scaling("g", "b", replicas=2),))

        def gates(base: object) -> list[str]:
            assert isinstance(base, type(pod()))
            first, second = clique(base, name="p-0-g-0-b"), clique(gated(0, clique="p-0-g-1-b"), name="p-0-g-1-b")
            seen = replica(
                first,
                second,
                groups=(group("p-0-g", "b", replicas=2),),
                gangs=(gang(first), gang(second, name="p-0-g-0")),
                services=(service(),),
            )
            decided = touched(plan(snapshot(observed, seen), NOW))
            return [name.rpartition("-")[0] for name in decided if name not in seen.cliques]

        assert gates(gated(0, clique="p-0-g-0-b")) == ["p-0-g-0-b-0"]
        assert gates(pod(0, clique="p-0-g-0-b", node="", ready=False)) == []
        assert gates(pod(0, clique="p-0-g-0-b", ready=False)) == ["p-0-g-1-b-0"]

    def test_what_waits_is_said(self) -> None:
        a = clique(gated(0), replicas=2)
        seen = replica(a, gangs=(gang(a),), services=(service(),))
        decided = plan(snapshot(pcs(), seen), NOW)
        assert [(finding.about, finding.message) for finding in decided.findings] == [
            ("podgang/p-0", "1 pods wait behind the gate: 1 of 2 pods of p-0-a exist")
        ]

    @pytest.mark.parametrize(
        ("seconds", "keys"),
        [
            (0, ["p-1", "p-0/gates", "p-1/gates"]),
            (9.9, ["p-1", "p-0/gates", "p-1/gates"]),
            (10, ["p-0/gates", "p-1", "p-1/gates"]),
        ],
    )
    def test_what_is_not_built_yet_comes_first_but_nobody_waits_long_for_it(
        self, seconds: float, keys: list[str]
    ) -> None:
        a = clique(gated(0))
        seen = snapshot(pcs(replicas=2), replica(a, gangs=(gang(a),), services=(service(),)), replica(index=1))
        decided = plan(seen, at(seconds))
        assert [chain.key for chain in decided.chains] == keys
        assert decided.requeue_at == (at(10) if seconds < 10 else None)

    @pytest.mark.parametrize(("missing", "is_open"), [(FEW_BUILDS, True), (FEW_BUILDS + 1, False)])
    def test_while_much_is_to_be_built_no_gate_opens_and_no_service_is_made(self, missing: int, is_open: bool) -> None:
        a = clique(gated(0))
        first = replica(a, gangs=(gang(a),), services=(service(),))
        others = (replica(index=i) for i in range(1, missing + 1))
        decided = plan(snapshot(pcs(replicas=missing + 1), first, *others), NOW)
        keys = [chain.key for chain in decided.chains]
        assert keys[:missing] == [f"p-{i}" for i in range(1, missing + 1)]
        assert keys[missing:] == ([f"p-{i}/gates" for i in range(missing + 1)] if is_open else [])
        assert decided.requeue_at == at(10)

    def test_pods_can_find_each_other_before_they_start(self) -> None:
        a = clique(gated(0))
        decided = plan(snapshot(pcs(), replica(a, gangs=(gang(a),))), NOW)
        lines = [line.partition(" (")[0] for line in told(decided)]
        (name,) = (one.metadata.name for one in a.active)
        assert lines == ["p-0/gates 0: create services/p-0", f"p-0/gates 1: patch pods/{name}"]

    def test_without_a_service_nothing_starts(self) -> None:
        a = clique(gated(0))
        refused = replica(a, gangs=(gang(a),), failures=(failure("services/p-0"),))
        decided = plan(snapshot(pcs(), refused), NOW)
        assert (decided.chains, decided.requeue_at) == ((), at(5))
        assert [(finding.about, finding.message) for finding in decided.findings] == [
            ("podgang/p-0", "service p-0, by which its pods find each other, does not exist yet"),
            ("services/p-0", "exceeded quota"),
        ]

    @pytest.mark.parametrize(
        "a", [clique(pod(0), gated(1)), clique(gated(0), was_available=True)], ids=["one-is-left", "nothing-is-left"]
    )
    def test_what_ran_before_is_repaired_also_without_its_service(self, a: CliqueView) -> None:
        observed = pcs(role("a", a.replicas))
        decided = plan(snapshot(observed, replica(a, gangs=(gang(a),))), NOW)
        assert [chain.key for chain in decided.chains] == ["p-0/service", "p-0/gates"]
        refused = replica(a, gangs=(gang(a),), failures=(failure("services/p-0"),))
        assert [chain.key for chain in plan(snapshot(observed, refused), NOW).chains] == ["p-0/gates"]

    def test_a_service_that_is_there_holds_nothing_up_when_it_is_set_right(self) -> None:
        a = clique(gated(0))
        other = msgspec.structs.replace(service(), spec=ServiceSpec(selector={"some": "others"}))
        decided = plan(snapshot(pcs(), replica(a, gangs=(gang(a),), services=(other,))), NOW)
        assert [(chain.key, len(chain.stages)) for chain in decided.chains] == [("p-0/service", 1), ("p-0/gates", 1)]

    def test_facts_about_a_replica_come_before_its_acts_whatever_a_label_says(self) -> None:
        a = clique(pod(0), labels={labels.PODGANG: "p-0", labels.SET_REPLICA_INDEX: "7", labels.INCARNATION: "1"})
        decided = plan(snapshot(pcs(), replica(a, gangs=(gang(a),), services=(service(),))), NOW)
        assert {status.replica_index for status in decided.statuses if status.resource is PODCLIQUES} == {0}
