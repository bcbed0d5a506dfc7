"""What is written for kube-scheduler, rule by rule: roots, leaves, pods above the minimum, and after a placement."""

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from grove.api import labels
from grove.api.resources import NATIVE_COMPOSITES, NATIVE_PODGROUPS
from grove.api.types.meta import JsonObject, Uid
from grove.api.types.podgang import PodGroup
from grove.api.types.scheduler_object import SchedulerObject
from grove.backends.base import CliqueInput, GangInput, PodInput, SchedulerObjectPlan
from grove.backends.native import NativeBackend
from grove.backends.native_podgroups import NativeFeatures
from tests.backends.asking import a_set, around, gang_ask, packed, podgroup
from tests.backends.native_world import COMPOSITES, GROUPS_ONLY
from tests.dsl import NOW

A, B, C = "p-0-a", "p-0-g-0-b", "p-0-g-0-c"
REPLICA = "p-0-g-0"
BASIC: JsonObject = {"basic": {}}


def gang(count: int) -> JsonObject:
    return {"gang": {"minCount": count}}


def roots(count: int) -> JsonObject:
    return {"gang": {"minGroupCount": count}}


def ask(*podgroups: PodGroup, changes: dict[str, dict[str, Any]] | None = None, **fields: Any) -> GangInput:
    """A gang; `changes` by the name of a clique."""
    whole = gang_ask(*(podgroups or (podgroup(A, 2), podgroup(B), podgroup(C))), pcs=a_set(), **fields)
    return with_cliques(whole, changes or {})


def with_cliques(whole: GangInput, changes: dict[str, dict[str, Any]]) -> GangInput:
    return msgspec.structs.replace(
        whole,
        cliques=tuple(msgspec.structs.replace(one, **changes.get(one.name, {})) for one in whole.cliques),
    )


def at_minimum(one: CliqueInput) -> dict[str, Any]:
    return {"placed_count": one.minimum, "newest_placed_at": NOW}


def placed(whole: GangInput) -> GangInput:
    return with_cliques(whole, {one.name: at_minimum(one) for one in whole.cliques})


class Server:
    """Holds what was written, as the API server would; `done` is what the last answer asked for, in words."""

    def __init__(self, features: NativeFeatures = COMPOSITES) -> None:
        self.backend = NativeBackend(features)
        self.objects: dict[str, tuple[Any, SchedulerObject]] = {}
        self.version = 0

    def answer(self, whole: GangInput) -> SchedulerObjectPlan:
        return self.backend.plan_objects(whole, tuple(self.objects.values()))

    def obey(self, whole: GangInput, *, writes: int | None = None) -> list[str]:
        """Carry an answer out, or its first writes; what was done."""
        plan = self.answer(whole)
        acts: list[tuple[str, Any]] = [
            *((f"delete {one.existing.metadata.name}", one) for one in plan.delete),
            *((f"create {one.name}", one) for one in plan.create),
            *((f"patch {one.existing.metadata.name}", one) for one in plan.patch),
        ]
        for words, one in acts[:writes]:
            self._carry_out(words.split()[0], one)
        return [_stem(words) for words, _ in acts[:writes]]

    def _carry_out(self, verb: str, one: Any) -> None:
        self.version += 1
        match verb:
            case "delete":
                del self.objects[one.existing.metadata.name]
            case "create":
                assert one.name not in self.objects
                body = {**one.body, "metadata": {**one.body["metadata"], "uid": f"uid-{self.version}"}}
                mirror = msgspec.convert(body, SchedulerObject)
                self.objects[one.name] = (one.resource, self._stamped(mirror))
            case _:
                minimum = one.patch["spec"]["schedulingPolicy"]
                mirror = msgspec.structs.replace(one.existing, spec={**one.existing.spec, "schedulingPolicy": minimum})
                self.objects[one.existing.metadata.name] = (one.resource, mirror)

    def _stamped(self, mirror: SchedulerObject) -> SchedulerObject:
        metadata = msgspec.structs.replace(mirror.metadata, creation_timestamp=NOW)
        return msgspec.structs.replace(mirror, metadata=metadata)

    def settle(self, whole: GangInput) -> None:
        """Until nothing is left to do."""
        for _ in range(5):
            if not self.obey(whole):
                return
        raise AssertionError("never at rest")

    def say(self, status: str, *stems: str, reason: str = "Scheduled", message: str = "") -> None:
        """kube-scheduler writes its condition on these leaves, or on all."""
        condition = {"type": "PodGroupInitiallyScheduled", "status": status, "reason": reason, "message": message}
        for name, (resource, mirror) in self.objects.items():
            if resource is NATIVE_PODGROUPS and (not stems or _stem(name) in stems):
                self.objects[name] = (resource, msgspec.structs.replace(mirror, status={"conditions": [condition]}))

    def lose(self, stem: str) -> None:
        (name,) = (name for name in self.objects if _stem(name) == stem)
        del self.objects[name]

    def leave(self, stem: str) -> None:
        """Somebody deletes it, and a finalizer holds it."""
        for name, (resource, mirror) in self.objects.items():
            if _stem(name) == stem:
                metadata = msgspec.structs.replace(mirror.metadata, deletion_timestamp=NOW)
                self.objects[name] = (resource, msgspec.structs.replace(mirror, metadata=metadata))

    @property
    def policies(self) -> dict[str, JsonObject]:
        return {_stem(name): one.spec["schedulingPolicy"] for name, (_, one) in self.objects.items()}

    @property
    def parents(self) -> dict[str, str]:
        return {
            _stem(name): _stem(one.spec["parentCompositePodGroupName"])
            for name, (_, one) in self.objects.items()
            if "parentCompositePodGroupName" in one.spec
        }

    @property
    def keys(self) -> dict[str, str]:
        return {
            _stem(name): one.spec["schedulingConstraints"]["topology"][0]["key"]
            for name, (_, one) in self.objects.items()
            if "schedulingConstraints" in one.spec
        }

    def spec(self, stem: str) -> JsonObject:
        (found,) = (one.spec for name, (_, one) in self.objects.items() if _stem(name) == stem)
        return found

    def names(self) -> set[str]:
        return set(self.objects)


def _stem(name: str) -> str:
    """A name without what is new in every life."""
    return name.rsplit("-", 1)[0]


def made(whole: GangInput, features: NativeFeatures = COMPOSITES) -> Server:
    server = Server(features)
    server.settle(whole)
    return server


def ran(whole: GangInput, features: NativeFeatures = COMPOSITES) -> Server:
    """Made, placed by kube-scheduler, and relaxed."""
    server = made(whole, features)
    server.say("True")
    server.settle(placed(whole))
    return server


# --- first placement -------------------------------------------------------------------------------------------------


def test_a_gang_of_several_cliques_is_a_root_that_needs_every_leaf() -> None:
    server = made(ask())
    assert server.policies == {"p-0": roots(3), A: gang(2), B: gang(1), C: gang(1)}
    assert server.parents == {A: "p-0", B: "p-0", C: "p-0"}


def test_a_gang_of_one_clique_needs_no_root() -> None:
    server = made(ask(podgroup(A, 3)))
    assert server.policies == {A: gang(3)}
    assert server.parents == {}


def test_without_composites_a_gang_is_one_group_of_all_minima() -> None:
    server = made(ask(), GROUPS_ONLY)
    assert server.policies == {"p-0": gang(4)}


def test_pods_above_the_minimum_have_a_group_that_nothing_waits_for() -> None:
    server = made(ask(changes={A: {"has_surplus": True}}))
    assert server.policies[f"{A}-extras"] == gang(1)
    assert f"{A}-extras" not in server.parents
    assert "disruptionMode" not in server.spec(f"{A}-extras")


@pytest.mark.parametrize("features", [COMPOSITES, GROUPS_ONLY])
def test_a_pod_names_the_group_of_its_place(features: NativeFeatures) -> None:
    whole = ask(changes={A: {"has_surplus": True}})
    server = made(whole, features)
    backend = NativeBackend(features)
    groups = [backend.group_of(pod_ask(whole, A, index)) for index in range(4)]
    assert groups[0] == groups[1] != groups[2] == groups[3]
    assert set(groups) <= server.names()
    assert [_stem(group) for group in groups[1:3]] == [A if features.composites else "p-0", f"{A}-extras"]
    pod: JsonObject = {"metadata": {"labels": {}}, "spec": {"containers": []}}
    backend.prepare_pod(pod, pod_ask(whole, A, 0))
    assert pod["spec"]["schedulingGroup"] == {"podGroupName": groups[0]}


def pod_ask(whole: GangInput, name: str, index: int) -> PodInput:
    (one,) = (one for one in whole.cliques if one.name == name)
    return PodInput(
        gang=whole.gang,
        clique_name=name,
        clique_uid=one.uid,
        incarnation=one.incarnation,
        index=index,
        minimum=one.minimum,
        priority_class_name=one.priority_class_name,
    )


def test_gates_wait_until_every_group_is_written() -> None:
    server, whole = Server(), ask(changes={A: {"has_surplus": True}})
    while server.obey(whole, writes=1):
        assert (server.answer(whole).waits == "") == (len(server.objects) == 5)
    assert len(server.objects) == 5


def test_every_group_is_labelled_as_ours_and_names_its_gang_and_set() -> None:
    server = made(ask())
    for resource, one in server.objects.values():
        assert one.metadata.labels[labels.MANAGED_BY] == labels.MANAGED_BY_VALUE
        assert one.metadata.labels[labels.PODGANG] == "p-0"
        assert one.spec["workloadRef"]["workloadName"] == "p"
        assert resource in (NATIVE_PODGROUPS, NATIVE_COMPOSITES)


def test_a_gang_is_preempted_as_one() -> None:
    server = made(ask())
    assert {str(server.spec(stem)["disruptionMode"]) for stem in ("p-0", A, B, C)} == {"{'all': {}}"}


def test_root_leaves_and_extras_have_the_priority_of_the_pods() -> None:
    server = made(ask(priorities=("high", "high", "high"), changes={A: {"has_surplus": True}}))
    assert {one.spec["priorityClassName"] for _, one in server.objects.values()} == {"high"}


def test_mixed_priorities_are_said_to_be_never_placed() -> None:
    (words,) = Server().answer(ask(priorities=("high", "", "high"))).gangless
    assert "high, none" in words


def test_nothing_is_written_again() -> None:
    whole = ask(changes={A: {"has_surplus": True}})
    for features in (COMPOSITES, GROUPS_ONLY):
        for server, seen in ((made(whole, features), whole), (ran(whole, features), placed(whole))):
            plan = server.answer(seen)
            assert (plan.create, plan.patch, plan.delete, plan.waits) == ((), (), (), "")


def test_names_differ_between_gangs_cliques_and_lives() -> None:
    base = made(ask()).names()
    later = made(ask(changes={name: {"uid": Uid(f"{name}-2"), "incarnation": "2"} for name in (A, B, C)})).names()
    other = ask()
    metadata = msgspec.structs.replace(other.gang.metadata, uid=Uid("another"))
    other = msgspec.structs.replace(other, gang=msgspec.structs.replace(other.gang, metadata=metadata))
    assert len(base | later | made(other).names()) == 12


# --- after placement -------------------------------------------------------------------------------------------------


def test_a_placed_gang_is_relaxed() -> None:
    whole = ask()
    server = made(whole)
    assert server.obey(placed(whole)) == ["delete p-0", "create p-0"]
    assert server.policies == {"p-0": BASIC, A: gang(2), B: gang(1), C: gang(1)}


def test_a_gang_that_is_placed_in_part_is_not_relaxed() -> None:
    whole = ask()
    server = made(whole)
    assert server.obey(with_cliques(whole, {A: {"placed_count": 2}, B: {"placed_count": 1}})) == []


def test_one_clique_and_one_group_are_relaxed_by_their_minimum() -> None:
    whole = ask(podgroup(A, 3))
    server = made(whole)
    assert server.obey(placed(whole)) == [f"patch {A}"]
    assert server.policies == {A: gang(1)}
    many = ask()
    server = made(many, GROUPS_ONLY)
    assert server.obey(placed(many)) == ["patch p-0"]
    assert server.policies == {"p-0": gang(1)}


def test_a_crash_between_the_two_writes_of_a_swap_does_not_undo_it() -> None:
    whole = ask()
    server = made(whole)
    server.say("True")
    assert server.obey(placed(whole), writes=1) == ["delete p-0"]
    # Meanwhile a pod was lost: what was placed is told by the leaves.
    assert server.obey(with_cliques(placed(whole), {A: {"placed_count": 1}})) == ["create p-0"]
    assert server.policies["p-0"] == BASIC


def test_a_root_that_is_lost_before_the_placement_comes_back_as_it_was() -> None:
    whole = ask()
    server = made(whole)
    server.say("False", reason="Unschedulable")
    server.lose("p-0")
    assert server.answer(whole).waits
    assert server.obey(whole) == ["create p-0"]
    assert server.policies["p-0"] == roots(3)


def test_the_minimum_of_a_leaf_is_lowered_when_there_is_something_to_repair() -> None:
    whole = ask()
    server = ran(whole)
    lost = with_cliques(placed(whole), {A: {"placed_count": 1, "has_waiting_member": True}})
    assert server.obey(lost) == [f"patch {A}"]
    assert server.policies == {"p-0": BASIC, A: gang(1), B: gang(1), C: gang(1)}
    assert server.obey(placed(whole)) == []


@pytest.mark.parametrize("features", [COMPOSITES, GROUPS_ONLY])
@pytest.mark.parametrize("one", [True, False])
def test_a_gang_that_lost_everything_stays_relaxed(features: NativeFeatures, one: bool) -> None:
    whole = ask(podgroup(A, 3)) if one else ask()
    server = ran(whole, features)
    assert server.obey(whole) == []


def test_a_gang_that_was_placed_before_there_were_groups_comes_back_pod_by_pod() -> None:
    whole = with_cliques(ask(podgroup(A, 5)), {A: {"placed_count": 3, "has_waiting_member": True}})
    outside = with_cliques(whole, {A: {"has_outsiders": True}})
    for features in (COMPOSITES, GROUPS_ONLY):
        server = made(outside, features)
        assert list(server.policies.values()) == [gang(1)]
        assert server.obey(whole) == []


def test_pods_that_were_placed_outside_their_group_are_not_waited_for() -> None:
    whole = ask()
    server = made(whole)
    outside = with_cliques(whole, {A: {"placed_count": 1, "has_outsiders": True}})
    assert server.obey(outside) == ["delete p-0", "create p-0"]
    assert server.policies["p-0"] == BASIC


def test_a_leaf_that_somebody_deletes_is_left_alone_while_it_is_held_and_comes_back_relaxed() -> None:
    whole = ask()
    server = ran(whole)
    server.leave(A)
    assert server.obey(placed(whole)) == []
    server.lose(A)
    assert server.obey(placed(whole)) == [f"create {A}"]
    assert server.policies[A] == gang(1)


def test_a_root_on_its_way_out_is_waited_for() -> None:
    whole = ask()
    server = made(whole)
    server.leave("p-0")
    plan = server.answer(whole)
    assert (plan.create, plan.delete) == ((), ())
    assert plan.waits


def test_an_edited_minimum_is_followed_before_the_placement() -> None:
    server = made(ask(podgroup(A, 2), podgroup(B)))
    assert server.obey(ask(podgroup(A, 3), podgroup(B))) == [f"patch {A}"]
    assert server.policies[A] == gang(3)


def test_the_group_of_extras_goes_with_the_last_of_them() -> None:
    whole = ask(changes={A: {"has_surplus": True}})
    server = ran(whole)
    assert server.obey(placed(ask())) == [f"delete {A}-extras"]


# --- parts that were made anew ---------------------------------------------------------------------------------------

RENEWED = {name: {"uid": Uid(f"{name}-2"), "incarnation": "2", "placed_count": 0} for name in (B, C)}


def test_a_part_that_was_made_anew_in_a_running_gang_has_a_root_of_its_own() -> None:
    whole = ask()
    server = ran(whole)
    renewed = with_cliques(placed(whole), RENEWED)
    old = {name for name in server.names() if _stem(name) in (B, C)}
    server.settle(renewed)
    assert not old & server.names()
    assert [policy for stem, policy in _pairs(server) if stem == "p-0"] == [BASIC, roots(2)]
    assert _root_of(server, A) != _root_of(server, B) == _root_of(server, C)


def test_a_lone_clique_that_was_made_anew_needs_no_root_and_the_others_keep_theirs() -> None:
    """A leaf names its root for good: with the root gone its pods would wait for ever."""
    whole = ask(podgroup(A, 2), podgroup(B, 2))
    server = ran(whole)
    root = _root_of(server, A)
    server.settle(with_cliques(placed(whole), {B: RENEWED[B]}))
    assert _root_of(server, A) == root
    assert root in server.names()
    assert (_root_of(server, B), server.policies[B]) == ("", gang(2))


def test_a_part_that_was_made_anew_before_anything_was_placed_stays_in_the_gang() -> None:
    whole = ask()
    server = made(whole)
    server.settle(with_cliques(whole, RENEWED))
    assert server.policies == {"p-0": roots(3), A: gang(2), B: gang(1), C: gang(1)}
    assert _root_of(server, A) == _root_of(server, B) == _root_of(server, C)


def test_a_crash_between_the_leaves_of_a_renewed_part_keeps_them_together() -> None:
    whole = ask()
    server = ran(whole)
    renewed = with_cliques(placed(whole), RENEWED)
    while server.obey(renewed, writes=1):
        pass
    assert _root_of(server, B) == _root_of(server, C) != _root_of(server, A)


def test_a_second_part_is_renewed_while_the_first_still_waits() -> None:
    whole = ask(podgroup(A), podgroup(B), podgroup(C))
    server = ran(whole)
    server.settle(with_cliques(placed(whole), {B: RENEWED[B]}))
    server.settle(with_cliques(placed(whole), {B: RENEWED[B], C: {**RENEWED[C], "incarnation": "3"}}))
    assert _root_of(server, A) in server.names()
    assert (_root_of(server, B), _root_of(server, C)) == ("", "")


def test_a_clique_that_was_deleted_by_hand_comes_back_whole_beside_the_others() -> None:
    whole = ask(podgroup(A, 2), podgroup(B, 2))
    server = ran(whole)
    again = with_cliques(placed(whole), {B: {"uid": Uid("b-2"), "placed_count": 0}})
    server.settle(again)
    assert (_root_of(server, B), server.policies[B]) == ("", gang(2))
    assert server.obey(placed(again)) == [f"patch {B}"]


def test_another_priority_class_makes_new_groups_beside_those_of_running_pods() -> None:
    whole = ask(podgroup(A, 2), podgroup(B, 2), priorities=("low", "low"))
    server = ran(whole)
    root = _root_of(server, A)
    changed = with_cliques(placed(whole), {A: {"priority_class_name": "high", "has_outsiders": True}})
    server.settle(changed)
    assert root == _root_of(server, B)
    assert server.spec(A)["priorityClassName"] == "high"
    assert server.policies[A] == gang(1)
    both = {"priority_class_name": "high", "has_outsiders": True}
    server.settle(with_cliques(placed(whole), {A: both, B: both}))
    assert root not in server.names()
    assert {one.spec["priorityClassName"] for _, one in server.objects.values()} == {"high"}


def test_a_waiting_gang_follows_another_priority_class_as_a_whole() -> None:
    whole = ask(podgroup(A, 2), podgroup(B, 2), priorities=("low", "low"))
    server = made(whole)
    server.settle(with_cliques(whole, {A: {"priority_class_name": "high"}}))
    server.settle(with_cliques(whole, {name: {"priority_class_name": "high"} for name in (A, B)}))
    assert server.policies == {"p-0": roots(2), A: gang(2), B: gang(2)}
    assert {one.spec["priorityClassName"] for _, one in server.objects.values()} == {"high"}
    assert _root_of(server, A) == _root_of(server, B)


def _pairs(server: Server) -> list[tuple[str, JsonObject]]:
    return [(_stem(name), one.spec["schedulingPolicy"]) for name, (_, one) in server.objects.items()]


def _root_of(server: Server, stem: str) -> str:
    return str(server.spec(stem).get("parentCompositePodGroupName", ""))


# --- topology --------------------------------------------------------------------------------------------------------

ON_ALL_LEVELS = {
    "topology_constraint": packed("zone"),
    "topology_constraint_group_configs": (around(REPLICA, B, C, packed_in=packed("block")),),
}
MEMBERS = {name: {"group_replica": REPLICA} for name in (B, C)}


def on_all_levels() -> GangInput:
    return ask(
        podgroup(A, 2, packed("rack")), podgroup(B), podgroup(C, 1, packed("rack")), spec=ON_ALL_LEVELS, changes=MEMBERS
    )


def test_three_levels_of_topology_are_three_levels_of_groups() -> None:
    server = made(on_all_levels())
    assert server.keys == {"p-0": "zone", REPLICA: "block", A: "rack", C: "rack"}
    assert server.parents == {A: "p-0", REPLICA: "p-0", B: REPLICA, C: REPLICA}
    assert server.policies == {"p-0": roots(2), REPLICA: roots(2), A: gang(2), B: gang(1), C: gang(1)}


def test_all_composites_are_relaxed_and_keep_their_topology() -> None:
    server = ran(on_all_levels())
    assert (server.policies["p-0"], server.policies[REPLICA]) == (BASIC, BASIC)
    assert server.keys == {"p-0": "zone", REPLICA: "block", A: "rack", C: "rack"}


def test_a_renewed_group_replica_finds_its_own_root_through_the_composite_between() -> None:
    whole = on_all_levels()
    server = ran(whole)
    renewed = with_cliques(placed(whole), RENEWED)
    while server.obey(renewed, writes=1):
        pass
    assert _root_of(server, B) == _root_of(server, C) != _root_of(server, A)
    assert [policy for stem, policy in _pairs(server) if stem == REPLICA] == [roots(2)]


def test_one_clique_under_two_keys_needs_a_root_for_the_wider() -> None:
    whole = ask(podgroup(A, 2, packed("rack")), spec={"topology_constraint": packed("zone")})
    server = made(whole)
    assert server.keys == {"p-0": "zone", A: "rack"}
    assert server.policies == {"p-0": roots(1), A: gang(2)}


def test_one_clique_under_one_key_has_it_itself() -> None:
    assert made(ask(podgroup(A, 2), spec={"topology_constraint": packed("zone")})).keys == {A: "zone"}


def test_the_group_of_extras_has_no_topology() -> None:
    whole = ask(podgroup(A, 2, packed("rack")), podgroup(B), changes={A: {"has_surplus": True}})
    assert made(whole).keys == {A: "rack"}


def test_without_composites_the_gangs_own_topology_is_kept_and_the_rest_is_said() -> None:
    server = made(on_all_levels(), GROUPS_ONLY)
    assert server.keys == {"p-0": "zone"}
    (words,) = server.answer(on_all_levels()).unmet
    assert "CompositePodGroup" in words


def test_without_the_topology_gate_none_is_written_and_that_is_said() -> None:
    server = made(on_all_levels(), NativeFeatures(groups=True, composites=True))
    assert server.keys == {}
    (words,) = server.answer(on_all_levels()).unmet
    assert "TopologyAwareWorkloadScheduling" in words


@pytest.mark.parametrize("features", [COMPOSITES, GROUPS_ONLY])
def test_preferred_topology_becomes_a_wish_of_the_pods(features: NativeFeatures) -> None:
    whole = ask(podgroup(A, 2, packed(preferred="rack")))
    assert made(whole, features).keys == {}
    pod: JsonObject = {"metadata": {"labels": {labels.PODCLIQUE: A}}, "spec": {"affinity": {"nodeAffinity": {}}}}
    NativeBackend(features).prepare_pod(pod, pod_ask(whole, A, 0))
    (term,) = pod["spec"]["affinity"]["podAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
    assert term["podAffinityTerm"]["topologyKey"] == "rack"
    assert term["podAffinityTerm"]["labelSelector"] == {"matchLabels": {labels.PODCLIQUE: A}}
    assert "nodeAffinity" in pod["spec"]["affinity"]


# --- what kube-scheduler says ----------------------------------------------------------------------------------------


def test_what_a_leaf_says_is_said_of_its_clique() -> None:
    whole = ask()
    server = made(whole)
    server.say("False", B, reason="Unschedulable", message="minCount (1) cannot be satisfied")
    (said,) = server.answer(whole).messages
    assert (said.clique, said.reason, said.message) == (B, "Unschedulable", "minCount (1) cannot be satisfied")


def test_what_the_one_group_says_is_said_of_every_clique() -> None:
    whole = ask()
    server = made(whole, GROUPS_ONLY)
    server.say("False", message="no")
    assert [said.clique for said in server.answer(whole).messages] == [A, B, C]


def test_a_leaf_that_was_placed_says_nothing() -> None:
    assert ran(ask()).answer(placed(ask())).messages == ()


def test_a_scheduler_that_passes_over_groups_is_told_of() -> None:
    whole = ask()
    server = made(whole)
    server.settle(placed(whole))
    (words,) = server.answer(placed(whole)).gangless
    assert "GenericWorkload" in words
    server.say("True")
    assert server.answer(placed(whole)).gangless == ()


def test_groups_that_were_made_after_their_pods_were_placed_prove_nothing() -> None:
    whole = placed(ask())
    earlier = {one.name: {"newest_placed_at": NOW - timedelta(seconds=1)} for one in whole.cliques}
    server = made(with_cliques(whole, earlier))
    assert server.answer(with_cliques(whole, earlier)).gangless == ()
