"""Topology constraints of a set: names, domains, nesting, and what may change."""

from typing import Any

import msgspec
import pytest

from grove.admission.policy import AdmissionLookups
from grove.api.types.clustertopologybinding import ClusterTopologyBinding
from grove.api.types.meta import JsonObject
from grove.api.validation.podcliqueset import validate_stored_podcliqueset
from grove.api.validation.validation_options import ValidationOptions
from tests.admission.asking import created, texts, updated
from tests.api.manifests import clique, decoded, group, manifest

LEVELS = [{"domain": domain, "key": f"topology/{domain}"} for domain in ("zone", "block", "rack")]
BINDING = msgspec.convert({"metadata": {"name": "dc"}, "spec": {"levels": LEVELS}}, type=ClusterTopologyBinding)
CLUSTER = AdmissionLookups(topology_binding={"dc": BINDING}.get)
_AT = "spec.template.topologyConstraint"


def pack(name: str = "", **domains: str) -> JsonObject:
    constraint: JsonObject = {"pack": domains}
    return {"topologyName": name, **constraint} if name else constraint


def constrained(
    whole: JsonObject | None = None, one: JsonObject | None = None, member: JsonObject | None = None, **fields: Any
) -> JsonObject:
    """A set whose set, group and clique levels have these constraints."""
    template = {"topologyConstraint": whole} if whole is not None else {}
    cliques = (clique("a", topologyConstraint=member), clique("b"))
    return manifest(*cliques, groups=(group("g", "a", topologyConstraint=one),), template=template, **fields)


@pytest.mark.parametrize(
    ("json", "errors"),
    [
        pytest.param(
            constrained({"topologyName": "dc"}),
            [f"{_AT}.pack: Required value: write pack.required or pack.preferred"],
            id="nothing to pack",
        ),
        pytest.param(
            constrained(pack("dc")),
            [f"{_AT}.pack: Invalid value: {{}}: write required, preferred, or both"],
            id="no domain",
        ),
        pytest.param(
            constrained({"topologyName": "dc", "packDomain": "rack"}),
            [f"{_AT}.packDomain: Forbidden: deprecated and rejected in new sets: write pack.required"],
            id="the deprecated field",
        ),
        pytest.param(
            constrained({"topologyName": "dc", "packDomain": "rack", "pack": {"required": "rack"}}),
            [
                f"{_AT}.packDomain: Forbidden: deprecated and rejected in new sets: write pack.required",
                (
                    f'{_AT}.packDomain: Invalid value: "rack": is a deprecated alias of pack.required: '
                    "write only pack.required"
                ),
            ],
            id="the deprecated field beside the new one",
        ),
        pytest.param(
            constrained(pack("dc", required="Rack")),
            [f'{_AT}.pack.required: Invalid value: "Rack": must match ^[a-z][a-z0-9-]*$'],
            id="a domain with capitals",
        ),
        pytest.param(
            constrained(pack("dc", required="r" * 64)),
            [f"{_AT}.pack.required: Too long: may not be more than 63 bytes"],
            id="a domain one character too long",
        ),
        pytest.param(
            constrained(pack(required="rack")),
            [
                (
                    f"{_AT}.topologyName: Required value: write the name of a ClusterTopologyBinding, "
                    "here or on a parent level"
                )
            ],
            id="no topology name anywhere",
        ),
        pytest.param(
            constrained(pack("dc", required="zone"), member=pack("other", required="rack")),
            [
                (
                    f'{_AT}.topologyName: Invalid value: "dc": '
                    "all constraints of a set must use one topology, but name dc, other: choose one"
                ),
                (
                    'spec.template.cliques[0].topologyConstraint.topologyName: Invalid value: "other": '
                    "all constraints of a set must use one topology, but name dc, other: choose one"
                ),
            ],
            id="two topologies",
        ),
        pytest.param(
            constrained(pack("other", required="zone")),
            [
                (
                    f'{_AT}.topologyName: Invalid value: "other": '
                    "ClusterTopologyBinding not found: create it, or correct the name"
                )
            ],
            id="an unknown topology",
        ),
        pytest.param(
            constrained(pack("dc", required="row", preferred="shelf")),
            [
                (
                    f'{_AT}.pack.required: Invalid value: "row": '
                    'is not a level of topology "dc": choose one of zone, block, rack'
                ),
                (
                    f'{_AT}.pack.preferred: Invalid value: "shelf": '
                    'is not a level of topology "dc": choose one of zone, block, rack'
                ),
            ],
            id="unknown domains",
        ),
        pytest.param(
            constrained(pack("dc", required="rack"), one=pack(required="block"), member=pack(required="zone")),
            [
                (
                    f'{_AT}.pack.required: Invalid value: "rack": is narrower than "block" of '
                    "spec.template.podCliqueScalingGroups[0].topologyConstraint, which is inside "
                    "this level: choose a broader domain"
                ),
                (
                    'spec.template.podCliqueScalingGroups[0].topologyConstraint.pack.required: Invalid value: "block": '
                    'is narrower than "zone" of spec.template.cliques[0].topologyConstraint, which is inside '
                    "this level: choose a broader domain"
                ),
                (
                    f'{_AT}.pack.required: Invalid value: "rack": is narrower than "zone" of '
                    "spec.template.cliques[0].topologyConstraint, which is inside this level: choose a broader domain"
                ),
            ],
            id="narrow around broad",
        ),
        pytest.param(
            constrained(pack("dc", required="block"), member=pack(required="zone")),
            [
                (
                    f'{_AT}.pack.required: Invalid value: "block": is narrower than "zone" of '
                    "spec.template.cliques[0].topologyConstraint, which is inside this level: choose a broader domain"
                )
            ],
            id="a narrow set around a broad clique, with nothing said in between",
        ),
        pytest.param(
            constrained(pack("dc", preferred="rack"), one=pack(preferred="block")),
            [
                (
                    f'{_AT}.pack.preferred: Invalid value: "rack": is narrower than "block" of '
                    "spec.template.podCliqueScalingGroups[0].topologyConstraint, which is inside "
                    "this level: choose a broader domain"
                )
            ],
            id="preferred domains nest too",
        ),
    ],
)
def test_a_constraint_that_cannot_hold_is_refused(json: JsonObject, errors: list[str]) -> None:
    assert texts(created(json, CLUSTER)) == errors


@pytest.mark.parametrize(
    "json",
    [
        pytest.param(constrained(), id="no constraint"),
        pytest.param(constrained(pack("dc", required="zone", preferred="rack")), id="required and preferred"),
        pytest.param(constrained(pack("dc", required="zone"), one=pack(required="zone")), id="equal levels"),
        pytest.param(
            constrained(pack("dc", required="zone"), one=pack(required="block"), member=pack(required="rack")),
            id="broad around narrow",
        ),
        pytest.param(constrained(one=pack("dc", required="rack"), member=pack(required="rack")), id="a name inherited"),
        pytest.param(
            constrained(pack("dc", required="rack"), one=pack(preferred="zone")), id="required beside preferred"
        ),
    ],
)
def test_a_constraint_that_can_hold_is_accepted(json: JsonObject) -> None:
    assert texts(created(json, CLUSTER)) == []


def test_a_constraint_is_refused_where_topology_is_switched_off() -> None:
    answer = created(constrained(pack("dc", required="zone")), CLUSTER, ValidationOptions(is_topology_aware=False))
    assert texts(answer) == [
        (
            f"{_AT}: Invalid value: null: topology-aware scheduling is disabled: remove the constraint, "
            "or enable it in the operator configuration"
        )
    ]


def test_without_knowledge_of_the_cluster_only_the_set_itself_is_judged() -> None:
    assert texts(created(constrained(pack("unheard-of", required="zone")))) == []


def test_a_preferred_domain_broader_than_the_required_one_is_a_warning() -> None:
    answer = created(constrained(pack("dc", required="rack", preferred="zone")), CLUSTER)
    assert answer.warnings[-1] == (f"{_AT}.pack.preferred: has no effect: zone is broader than the required rack")


OLD = {"topologyName": "dc", "packDomain": "rack"}
NAMELESS = {"packDomain": "rack"}


@pytest.mark.parametrize(
    ("old", "new", "errors"),
    [
        pytest.param(constrained(), constrained(pack("dc", required="zone")), [_AT], id="added"),
        pytest.param(constrained(pack("dc", required="zone")), constrained(), [_AT], id="removed"),
        pytest.param(
            constrained(pack("dc", required="zone")), constrained(pack("dc", required="rack")), [_AT], id="changed"
        ),
        pytest.param(
            constrained(pack("dc", required="zone"), member=pack(required="rack")),
            constrained(pack("dc", required="zone"), member=pack(required="block")),
            ["spec.template.cliques[0].topologyConstraint"],
            id="changed on a clique",
        ),
        pytest.param(constrained(OLD), constrained(OLD, replicas=2), [], id="the deprecated field may stay"),
        pytest.param(constrained(OLD), constrained(pack("dc", required="rack")), [], id="and be migrated"),
        pytest.param(constrained(OLD), constrained(pack("dc", required="zone")), [_AT], id="but not to another domain"),
        pytest.param(
            constrained(OLD), constrained({**OLD, "packDomain": "zone"}), [f"{_AT}.packDomain"], id="nor change itself"
        ),
        pytest.param(constrained(NAMELESS), constrained(OLD), [], id="a missing name may be added"),
        pytest.param(
            constrained(NAMELESS), constrained(pack("dc", required="rack")), [_AT], id="but nothing else with it"
        ),
    ],
)
def test_constraints_never_change_but_to_leave_the_deprecated_field(
    old: JsonObject, new: JsonObject, errors: list[str]
) -> None:
    expected = [
        f"{path}: Forbidden: field is immutable: restore the old value, or create a new PodCliqueSet" for path in errors
    ]
    assert texts(updated(old, new, CLUSTER)) == expected


def test_a_repaired_constraint_is_judged_as_a_new_one() -> None:
    answer = updated(constrained(NAMELESS), constrained({**NAMELESS, "topologyName": "other"}), CLUSTER)
    assert texts(answer) == [
        (
            f'{_AT}.topologyName: Invalid value: "other": '
            "ClusterTopologyBinding not found: create it, or correct the name"
        )
    ]


def test_a_repair_names_the_topology_of_every_constraint() -> None:
    before = constrained(one=NAMELESS, member=None, whole=None)
    before["spec"]["template"]["cliques"][1]["topologyConstraint"] = NAMELESS
    after = constrained(one=OLD)
    after["spec"]["template"]["cliques"][1]["topologyConstraint"] = NAMELESS
    assert texts(updated(before, after, CLUSTER)) == [
        (
            "spec.template.cliques[1].topologyConstraint.topologyName: Required value: "
            "write the name of a ClusterTopologyBinding, here or on a parent level"
        )
    ]
    after["spec"]["template"]["cliques"][1]["topologyConstraint"] = OLD
    assert texts(updated(before, after, CLUSTER)) == []


def test_a_repair_is_refused_where_topology_is_switched_off() -> None:
    off = ValidationOptions(is_topology_aware=False)
    assert texts(updated(constrained(NAMELESS), constrained(OLD), CLUSTER, off)) == [
        (
            f"{_AT}: Invalid value: null: topology-aware scheduling is disabled: remove the constraint, "
            "or enable it in the operator configuration"
        )
    ]


def test_a_stored_constraint_freezes_nothing_where_topology_was_switched_off_since() -> None:
    off = ValidationOptions(is_topology_aware=False)
    stored = constrained(pack("dc", required="zone"))
    assert texts(updated(stored, constrained(pack("dc", required="zone"), replicas=3), CLUSTER, off)) == []
    assert texts(updated(constrained(OLD), constrained(pack("dc", required="rack")), CLUSTER, off)) == []


def test_a_migration_keeps_what_was_preferred() -> None:
    old = {**OLD, "pack": {"preferred": "rack"}}
    assert texts(updated(constrained(old), constrained(pack("dc", required="rack", preferred="rack")), CLUSTER)) == []
    assert texts(updated(constrained(old), constrained(pack("dc", required="rack")), CLUSTER)) == [
        f"{_AT}: Forbidden: field is immutable: restore the old value, or create a new PodCliqueSet"
    ]


def test_the_name_of_the_topology_never_changes() -> None:
    named = constrained(pack("dc", required="zone"), member=pack("dc", required="rack"))
    inherited = constrained(pack("dc", required="zone"), member=pack(required="rack"))
    assert texts(updated(named, inherited, CLUSTER)) == [
        (
            "spec.template.cliques[0].topologyConstraint: Forbidden: field is immutable: "
            "restore the old value, or create a new PodCliqueSet"
        )
    ]


def test_every_deprecated_field_of_an_update_is_warned_about() -> None:
    stored = constrained(OLD, one=NAMELESS, member=NAMELESS)
    answer = updated(stored, {**stored, "spec": {**stored["spec"], "replicas": 2}}, CLUSTER)
    assert [warning for warning in answer.warnings if "packDomain" in warning] == [
        f"{_AT}.packDomain: deprecated, write pack.required instead",
        (
            "spec.template.podCliqueScalingGroups[0].topologyConstraint.packDomain: "
            "deprecated, write pack.required instead"
        ),
        "spec.template.cliques[0].topologyConstraint.packDomain: deprecated, write pack.required instead",
    ]


def test_a_stored_set_with_the_deprecated_field_or_without_a_name_is_carried_out() -> None:
    for old in (OLD, NAMELESS):
        assert validate_stored_podcliqueset(decoded(constrained(old)), ValidationOptions()) == ()
    both = validate_stored_podcliqueset(
        decoded(constrained(pack("dc", required="zone"), one=pack("x"))), ValidationOptions()
    )
    assert [error.path for error in both] == [
        "spec.template.podCliqueScalingGroups[0].topologyConstraint.pack",
        f"{_AT}.topologyName",
        "spec.template.podCliqueScalingGroups[0].topologyConstraint.topologyName",
    ]


def test_a_topology_that_went_away_does_not_freeze_the_sets_that_name_it() -> None:
    stored = constrained(pack("gone", required="zone"))
    assert texts(updated(stored, constrained(pack("gone", required="zone"), replicas=3), CLUSTER)) == []


def test_an_update_that_keeps_the_deprecated_field_is_told_so() -> None:
    answer = updated(constrained(OLD), constrained(OLD, replicas=2), CLUSTER)
    assert answer.warnings[-1] == f"{_AT}.packDomain: deprecated, write pack.required instead"
