"""The topology of a set: resolved to node label keys, said of it in a condition, and drawn into its gangs."""

from typing import Any

import msgspec
import pytest

from grove.api.types.clustertopologybinding import ClusterTopologyBinding
from grove.api.types.meta import JsonObject, find_condition, to_wire
from grove.api.types.podcliqueset import PackConstraint, PodCliqueSet, TopologyConstraint
from grove.api.types.podgang import (
    GangPackConstraint,
    GangTopologyConstraint,
    PodGang,
    PodGangSpec,
    TopologyGroupConfig,
)
from grove.planner.actions import Create, Patch
from grove.planner.desired_state import DesiredGang, build_desired_replica
from grove.planner.gangs.podgang import GangContent, build_gang_spec, plan_gang_object
from grove.planner.plan import plan
from grove.planner.pods.pod_sync import CliquePods
from grove.planner.snapshot import ClusterContext, SetContext, build_context
from grove.planner.topology.node_label_keys import PLACED_WITHOUT, WAITING, resolve_topology
from grove.planner.topology.topology_scopes import RequiredScope, required_scopes, stored_scopes
from tests.dsl import NOW, clique, gang, pcs, problems, role, scaling, snapshot

LEVELS = [{"domain": domain, "key": f"topology/{domain}"} for domain in ("zone", "block", "rack")]
ANNOTATION = "grove.io/topology-name"


def binding(name: str = "dc", levels: list[dict[str, str]] = LEVELS) -> ClusterTopologyBinding:
    return msgspec.convert({"metadata": {"name": name}, "spec": {"levels": levels}}, ClusterTopologyBinding)


def packed(name: str = "", *, required: str = "", preferred: str = "") -> TopologyConstraint:
    return TopologyConstraint(topology_name=name, pack=PackConstraint(required=required, preferred=preferred))


def keys(required: str | None = None, preferred: str | None = None) -> GangTopologyConstraint:
    return GangTopologyConstraint(pack_constraint=GangPackConstraint(required=required, preferred=preferred))


def all_levels(**fields: Any) -> PodCliqueSet:
    """A constraint at every level, and beside them a group and a clique without one."""
    return pcs(
        role("a", 2, topology_constraint=packed(required="rack")),
        role("b", topology_constraint=packed(preferred="rack")),
        role("c"),
        role("d"),
        groups=(
            scaling("g", "b", "c", replicas=3, needs=2, topology_constraint=packed(required="block")),
            scaling("h", "d", replicas=2),
        ),
        template={"topology_constraint": packed("dc", required="zone", preferred="block")},
        **fields,
    )


def seen(
    observed: PodCliqueSet,
    *bindings: ClusterTopologyBinding,
    is_topology_aware: bool = True,
    waits_for_topology: bool = False,
) -> SetContext:
    known = {one.metadata.name: one for one in bindings}
    cluster = ClusterContext(bindings=known, is_topology_aware=is_topology_aware, waits_for_topology=waits_for_topology)
    return build_context(observed, cluster)


def drawn(context: SetContext, desired: DesiredGang) -> PodGangSpec:
    cliques = {one.name: clique(name=one.name, replicas=1) for one in desired.cliques}
    return build_gang_spec(context, desired, cliques, {name: CliquePods() for name in cliques})


# Which condition a set has, row by row of the table


@pytest.mark.parametrize(
    ("observed", "is_enabled", "said", "missing"),
    [
        pytest.param(
            pcs(template={"topology_constraint": packed("dc", required="rack")}),
            False,
            (
                "Unknown",
                "TopologyAwareSchedulingDisabled",
                "topology-aware scheduling is disabled: the constraints of the set have no effect",
            ),
            "",
            id="switched off, and the set names a domain",
        ),
        pytest.param(pcs(), False, None, "", id="switched off, and nothing asked for"),
        pytest.param(
            pcs(),
            True,
            ("False", "AllClusterTopologyLevelsAvailable", "the set has no topology constraints"),
            "",
            id="no constraints",
        ),
        pytest.param(
            pcs(template={"topology_constraint": TopologyConstraint(pack_domain="rack")}),
            True,
            (
                "Unknown",
                "TopologyNameMissing",
                "no constraint of the set names the ClusterTopologyBinding that defines its domains: add topologyName",
            ),
            "no constraint of the set names the ClusterTopologyBinding that defines its domains: add topologyName",
            id="no name",
        ),
        pytest.param(
            pcs(role("a", topology_constraint=packed("other", required="rack"))),
            True,
            ("Unknown", "ClusterTopologyNotFound", 'there is no ClusterTopologyBinding "other": create it'),
            'there is no ClusterTopologyBinding "other": create it',
            id="no binding",
        ),
        pytest.param(
            pcs(
                role("a", topology_constraint=packed(required="shelf", preferred="slot")),
                template={"topology_constraint": packed("dc", required="zone")},
            ),
            True,
            (
                "True",
                "ClusterTopologyLevelsUnavailable",
                'ClusterTopologyBinding "dc" has no level shelf, slot: add it',
            ),
            'ClusterTopologyBinding "dc" has no level shelf, slot: add it',
            id="levels missing",
        ),
        pytest.param(
            all_levels(),
            True,
            (
                "False",
                "AllClusterTopologyLevelsAvailable",
                'ClusterTopologyBinding "dc" has every level that the set names',
            ),
            "",
            id="all there",
        ),
    ],
)
def test_a_set_says_whether_its_topology_is_there(
    observed: PodCliqueSet, is_enabled: bool, said: tuple[str, str, str] | None, missing: str
) -> None:
    for waits in (False, True):
        context = seen(observed, binding(), is_topology_aware=is_enabled, waits_for_topology=waits)
        decided = plan(msgspec.structs.replace(snapshot(observed), context=context), NOW)
        (write,) = [status for status in decided.statuses if status.name == "p"]
        # A topology that is missing is no matter of the scheduler: no other condition speaks of it.
        found = problems(write.patch)
        effect = f"; {WAITING if waits else PLACED_WITHOUT}" if missing else ""
        expected = [] if said is None else [("TopologyLevelsUnavailable", *said[:2], f"{said[2]}{effect}")]
        assert [(c["type"], c["status"], c["reason"], c["message"]) for c in found] == expected
        assert [c["observedGeneration"] for c in found] == [1] * len(found)
        assert (context.hold, context.scheduler_hold) == (missing if waits else "", "")


def test_a_condition_of_a_topology_that_was_switched_off_and_is_not_asked_for_goes() -> None:
    observed = pcs(generation=2)
    aware = plan(msgspec.structs.replace(snapshot(observed), context=seen(observed)), NOW)
    (write,) = [status for status in aware.statuses if status.name == "p"]
    old = msgspec.convert({"conditions": write.patch["conditions"]}, type(pcs().status))
    assert find_condition(old.conditions, "TopologyLevelsUnavailable") is not None
    observed = pcs(generation=2, status=old)
    off = msgspec.structs.replace(snapshot(observed), context=seen(observed, is_topology_aware=False))
    assert problems(plan(off, NOW).statuses[0].patch) == []


# What the gangs of a set say


def test_a_base_gang_has_the_set_s_constraint_an_entry_per_group_replica_and_those_of_its_cliques() -> None:
    context = seen(all_levels(), binding())
    spec = drawn(context, build_desired_replica(context, 0, {}).base)
    assert spec.topology_constraint == keys("topology/zone", "topology/block")
    assert spec.topology_constraint_group_configs == tuple(
        TopologyGroupConfig(
            name=f"p-0-g-{j}",
            pod_group_names=(f"p-0-g-{j}-b", f"p-0-g-{j}-c"),
            topology_constraint=keys("topology/block"),
        )
        for j in (0, 1)
    )
    assert {group.name: group.topology_constraint for group in spec.podgroups} == {
        "p-0-a": keys("topology/rack"),
        "p-0-g-0-b": keys(preferred="topology/rack"),
        "p-0-g-0-c": None,
        "p-0-g-1-b": keys(preferred="topology/rack"),
        "p-0-g-1-c": None,
        "p-0-h-0-d": None,
    }


def test_a_scaled_gang_has_its_group_s_constraint_else_the_set_s() -> None:
    context = seen(all_levels(), binding())
    of_g, of_h = build_desired_replica(context, 0, {}).scaled
    first, second = drawn(context, of_g), drawn(context, of_h)
    assert (of_g.name, first.topology_constraint) == ("p-0-g-0", keys("topology/block"))
    assert (of_h.name, second.topology_constraint) == ("p-0-h-0", keys("topology/zone", "topology/block"))
    assert first.topology_constraint_group_configs == second.topology_constraint_group_configs == ()
    assert [group.topology_constraint for group in first.podgroups] == [keys(preferred="topology/rack"), None]


def test_the_deprecated_domain_is_translated_as_required() -> None:
    old = TopologyConstraint(topology_name="dc", pack_domain="rack")
    found = resolve_topology(pcs(role("a", topology_constraint=old)).spec.template, {"dc": binding()}, is_enabled=True)
    assert found.cliques == {"a": keys("topology/rack")}


def test_a_new_gang_says_which_binding_its_keys_come_from() -> None:
    context = seen(all_levels(), binding())
    created = decide(context, None)
    assert isinstance(created, Create)
    assert created.body["metadata"]["annotations"] == {ANNOTATION: "dc"}
    assert created.body["spec"]["topologyConstraint"] == {
        "packConstraint": {"required": "topology/zone", "preferred": "topology/block"}
    }


def decide(context: SetContext, current: PodGang | None, of: DesiredGang | None = None) -> Create | Patch | None:
    desired = of or build_desired_replica(context, 0, {}).base
    content = GangContent(spec=drawn(context, desired), incarnation="1")
    return plan_gang_object(context, 0, desired, current, content)


def stored(context: SetContext, of: DesiredGang | None = None) -> PodGang:
    """The gang as this context makes it; the base gang if none is given."""
    created = decide(context, None, of)
    assert isinstance(created, Create)
    spec = msgspec.convert(created.body["spec"], PodGangSpec)
    annotations = created.body["metadata"]["annotations"]
    return msgspec.structs.replace(gang(annotations=annotations), spec=spec)


def patched(context: SetContext, current: PodGang) -> JsonObject:
    decided = decide(context, current)
    if decided is None:
        return {}
    assert isinstance(decided, Patch)
    return decided.patch


def test_a_gang_that_says_it_all_is_left_alone() -> None:
    context = seen(all_levels(), binding())
    assert patched(context, stored(context)) == {}


@pytest.mark.parametrize(
    "bindings",
    [pytest.param((), id="the binding is gone"), pytest.param((binding(levels=LEVELS[:1]),), id="a level is gone")],
)
def test_what_a_stored_gang_says_stays_while_its_binding_is_not_there(bindings: tuple[Any, ...]) -> None:
    complete = stored(seen(all_levels(), binding()))
    assert patched(seen(all_levels(), *bindings), complete) == {}


def test_a_gang_that_was_made_while_its_binding_was_missing_gets_its_constraints_later() -> None:
    bare = stored(seen(all_levels()))
    assert bare.spec.topology_constraint is None
    assert ANNOTATION not in bare.metadata.annotations
    patch = patched(seen(all_levels(), binding()), bare)
    assert patch["metadata"] == {"annotations": {ANNOTATION: "dc"}}
    complete = stored(seen(all_levels(), binding())).spec
    assert patch["spec"] == {
        "podgroups": [to_wire(group) for group in complete.podgroups],
        "topologyConstraint": msgspec.to_builtins(complete.topology_constraint),
        "topologyConstraintGroupConfigs": [to_wire(one) for one in complete.topology_constraint_group_configs],
    }


def test_a_new_gang_says_the_levels_that_are_still_defined() -> None:
    bare = stored(seen(all_levels(), binding(levels=LEVELS[:1])))
    assert bare.metadata.annotations == {ANNOTATION: "dc"}
    assert bare.spec.topology_constraint == keys("topology/zone")
    assert bare.spec.topology_constraint_group_configs == ()
    assert {group.topology_constraint for group in bare.spec.podgroups} == {None}


def test_switched_off_everything_is_cleared() -> None:
    complete = stored(seen(all_levels(), binding()))
    off = seen(all_levels(), binding(), is_topology_aware=False)
    patch = patched(off, complete)
    assert patch["metadata"] == {"annotations": {ANNOTATION: None}}
    assert patch["spec"]["topologyConstraint"] is None
    assert patch["spec"]["topologyConstraintGroupConfigs"] == []
    assert not any("topologyConstraint" in group for group in patch["spec"]["podgroups"])


def test_a_gang_follows_the_keys_of_its_binding() -> None:
    observed = pcs(template={"topology_constraint": packed("dc", required="rack")})
    before = stored(seen(observed, binding()))
    renamed = binding(levels=[{"domain": "rack", "key": "example.com/rack"}])
    assert patched(seen(observed, renamed), before) == {
        "spec": {"topologyConstraint": {"packConstraint": {"required": "example.com/rack", "preferred": None}}}
    }


# Who has to be together


def test_required_scopes_are_the_replica_each_group_replica_and_each_clique_whatever_gang_they_are_in() -> None:
    context = seen(all_levels(), binding())
    replica = build_desired_replica(context, 0, {})
    assert required_scopes(context.topology, replica) == (
        RequiredScope(name="p-0", key="topology/zone", cliques=tuple(one.name for one in replica.cliques)),
        *(
            RequiredScope(name=f"p-0-g-{j}", key="topology/block", cliques=(f"p-0-g-{j}-b", f"p-0-g-{j}-c"))
            for j in range(3)
        ),
        RequiredScope(name="p-0-a", key="topology/rack", cliques=("p-0-a",)),
    )


def test_what_is_only_preferred_binds_nobody() -> None:
    context = seen(pcs(template={"topology_constraint": packed("dc", preferred="rack")}), binding())
    assert required_scopes(context.topology, build_desired_replica(context, 0, {})) == ()


def test_while_the_binding_is_gone_the_scopes_are_those_that_stored_gangs_say() -> None:
    context = seen(all_levels(), binding())
    replica = build_desired_replica(context, 0, {})
    gangs = {one.name: stored(context, one) for one in replica.gangs}
    # The same but for the names of scaled gangs, which say the constraint of their group or of the set themselves.
    by_name = {scope.name: scope for scope in stored_scopes(gangs, replica)}
    assert by_name == {
        **{scope.name: scope for scope in required_scopes(context.topology, replica) if scope.name != "p-0-g-2"},
        "p-0-g-0": by_name["p-0-g-0"],
        "p-0-h-0": RequiredScope(name="p-0-h-0", key="topology/zone", cliques=("p-0-h-1-d",)),
    }


def test_a_gang_that_was_made_while_the_binding_was_gone_is_in_no_scope() -> None:
    context = seen(all_levels(), binding())
    replica = build_desired_replica(context, 0, {})
    gone = seen(all_levels())
    gangs = {one.name: stored(context if one.is_base else gone, one) for one in replica.gangs}
    base = tuple(clique.name for clique in replica.base.cliques)
    assert {name for scope in stored_scopes(gangs, replica) for name in scope.cliques} == set(base)
