"""No rule is more work than the object is large, whatever stands in it."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from grove.admission.json_patch import json_patch
from grove.admission.policy import MOST_ERRORS, AdmissionLookups, review
from grove.admission.schedulers import scheduler_errors, scheduler_warnings
from grove.api.defaulting import default_podcliqueset
from grove.api.resources import GROUPS, PODCLIQUES, PODCLIQUESETS, TOPOLOGY_BINDINGS
from grove.api.types.admission import AdmissionRequest, Operation
from grove.api.types.meta import JsonObject
from grove.api.types.podcliqueset import PodCliqueSet
from grove.api.unsupported_fields import find_unsupported_changes, find_unsupported_fields
from grove.api.validation.cliques import clique_errors
from grove.api.validation.clustertopologybinding import topology_binding_errors
from grove.api.validation.devices.mnnvl import mnnvl_errors
from grove.api.validation.devices.resource_claims import sharing_errors
from grove.api.validation.field_errors import invalid
from grove.api.validation.groups import group_errors
from grove.api.validation.immutable_fields import change_errors
from grove.api.validation.object_budget import size_errors
from grove.api.validation.object_names import metadata_errors, name_errors
from grove.api.validation.podclique import podclique_errors
from grove.api.validation.podcliquescalinggroup import scaling_group_errors
from grove.api.validation.podcliqueset import validate_podcliqueset_update, validate_stored_podcliqueset
from grove.api.validation.ratcheting import new_errors
from grove.api.validation.schema import decode_object
from grove.api.validation.startup_order import dependency_count_errors, reserved_name_errors, startup_errors
from grove.api.validation.termination_delay import termination_errors
from grove.api.validation.topology_constraints import topology_errors, topology_warnings
from grove.api.validation.training import training_errors, training_warnings
from grove.api.validation.validation_options import ValidationOptions
from grove.backends.registry import Backends
from tests.admission.asking import created, refusals, texts, updated
from tests.admission.shapes import SHAPES, Shape
from tests.admission.test_rules_topology import BINDING
from tests.api.manifests import clique, decoded, explicit, manifest
from tests.api.work import counted, work_of

SMALL = 40
# Twice as much is twice the work. What is sorted needs a little more than that, what is quadratic four times.
MOST = 2.6

SETTINGS = ValidationOptions(is_mnnvl_enabled=False)
BACKENDS = Backends(enabled=("default-scheduler", "kai-scheduler", "volcano", "lpx-scheduler"))

Rule = Callable[[PodCliqueSet], object]


def _known_binding(name: str) -> Any:
    return BINDING if name == "dc" else None


def _turned_round(pcs: PodCliqueSet) -> PodCliqueSet:
    """The same set with its lists in the other order and another start-up type: much has changed."""

    template = pcs.spec.template
    turned = msgspec.structs.replace(
        template,
        cliques=template.cliques[::-1],
        pod_clique_scaling_groups=template.pod_clique_scaling_groups[::-1],
        clique_startup_type="CliqueStartupTypeInOrder",
    )
    return msgspec.structs.replace(pcs, spec=msgspec.structs.replace(pcs.spec, template=turned))


RULES: dict[str, Rule] = {
    "metadata": metadata_errors,
    "size": size_errors,
    "names": name_errors,
    "cliques": lambda pcs: clique_errors(pcs.spec.template, SETTINGS),
    "groups": lambda pcs: group_errors(pcs.spec.template),
    "start-up": lambda pcs: startup_errors(pcs.spec.template),
    "numbers of dependencies": lambda pcs: dependency_count_errors(pcs.spec.template),
    "reserved names": lambda pcs: reserved_name_errors(pcs.spec.template),
    "sharing": lambda pcs: sharing_errors(pcs.spec.template),
    "topology": lambda pcs: topology_errors(pcs.spec.template, SETTINGS, _known_binding),
    "topology warnings": lambda pcs: topology_warnings(pcs.spec.template, _known_binding),
    "termination": lambda pcs: termination_errors(pcs.spec),
    "training": lambda pcs: training_errors(pcs.spec),
    "training warnings": training_warnings,
    "nvlink": lambda pcs: mnnvl_errors(pcs, SETTINGS),
    "what is not built": find_unsupported_fields,
    "KAI": lambda pcs: BACKENDS.get("kai-scheduler").errors(pcs),
    "Volcano": lambda pcs: BACKENDS.get("volcano").errors(pcs),
    "LPX": lambda pcs: BACKENDS.get("lpx-scheduler").errors(pcs),
    "schedulers": lambda pcs: scheduler_errors(_turned_round(pcs), pcs, SETTINGS, None),
    "scheduler warnings": lambda pcs: scheduler_warnings(_turned_round(pcs), pcs, SETTINGS, None),
    "changes": lambda pcs: change_errors(_turned_round(pcs), pcs),
    "changes that are not built": lambda pcs: find_unsupported_changes(_turned_round(pcs), pcs),
    "the planner's check": lambda pcs: validate_stored_podcliqueset(pcs, SETTINGS),
    "an update": lambda pcs: validate_podcliqueset_update(_turned_round(pcs), pcs, SETTINGS, _known_binding),
}


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_a_rule_is_at_most_twice_the_work_for_a_set_twice_as_large(rule: Rule) -> None:
    def work(shape: Shape, n: int) -> int:
        pcs = counted(decoded(shape(n)), pods=rule is RULES["cliques"])
        return work_of(lambda: _everything(rule(pcs)))

    assert [name for name, shape in SHAPES.items() if _grows_too_fast(shape, work)] == []


# Parts that see JSON, not structs.
STEPS: dict[str, Callable[[JsonObject], object]] = {
    "defaulting": default_podcliqueset,
    "the patch of a default": lambda json: json_patch(json, default_podcliqueset(json)),
    "the shape": lambda json: decode_object(PODCLIQUESETS, json).errors,
    "a creation": lambda json: texts(created(json)),
    "an update": lambda json: texts(updated(_of_before(json), json, AdmissionLookups(topology_binding=_known_binding))),
}


def _of_before(json: JsonObject) -> JsonObject:
    """A stored set from which the other differs in most places."""
    template = json["spec"]["template"]
    cliques = [{**one, "spec": {**one["spec"], "roleName": "other"}} for one in reversed(template["cliques"])]
    return {**json, "spec": {**json["spec"], "template": {**template, "cliques": cliques}}}


@pytest.mark.parametrize("step", STEPS.values(), ids=STEPS)
def test_a_step_of_admission_is_at_most_twice_the_work_for_a_set_twice_as_large(
    step: Callable[[JsonObject], object],
) -> None:
    def work(shape: Shape, n: int) -> int:
        json = shape(n)
        return work_of(lambda: _everything(step(json)))

    assert [name for name, shape in SHAPES.items() if _grows_too_fast(shape, work)] == []


def _child(kind: Any, spec: JsonObject) -> JsonObject:
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": "x"}, "spec": spec}


def _clique_of(n: int) -> JsonObject:
    env = [{"name": "V"}] * n
    return _child(PODCLIQUES, {"roleName": "a", "replicas": 1, "podSpec": {"containers": [{"env": env}, *["x"] * n]}})


def _group_of(n: int) -> JsonObject:
    return _child(GROUPS, {"replicas": 1, "minAvailable": 2, "cliqueNames": ["a"] * n})


def _binding_of(n: int) -> JsonObject:
    levels = [{"domain": f"d{i}", "key": f"k{i}"} for i in range(n)]
    schedulers = [{"schedulerName": f"s{i}", "topologyReference": "t"} for i in range(n)]
    return _child(TOPOLOGY_BINDINGS, {"levels": levels, "schedulerTopologyBindings": schedulers})


@pytest.mark.parametrize(
    ("kind", "shape", "rule"),
    [
        pytest.param(PODCLIQUES, _clique_of, podclique_errors, id="clique"),
        pytest.param(GROUPS, _group_of, scaling_group_errors, id="group"),
        pytest.param(TOPOLOGY_BINDINGS, _binding_of, lambda b: topology_binding_errors(b, SETTINGS), id="binding"),
    ],
)
def test_neither_is_a_child_or_a_binding_more_work_than_it_is_large(kind: Any, shape: Shape, rule: Any) -> None:
    def rule_work(shape: Shape, n: int) -> int:
        reading = decode_object(kind, shape(n))
        judged = counted(reading.object)
        return work_of(lambda: _everything(rule(judged)))

    def review_work(shape: Shape, n: int) -> int:
        json = shape(n)
        request = AdmissionRequest(
            operation=Operation.UPDATE,
            group=kind.group,
            plural=kind.plural,
            object=json,
            old=_child(kind, {**json["spec"], "replicas": 7}),
        )
        return work_of(lambda: texts(review(request)))

    # At most as many as the limits allow: beyond them no rule is asked.
    assert not _grows_too_fast(shape, rule_work)
    assert not _grows_too_fast(shape, review_work)


def _everything(result: Any) -> Any:
    """All that a generator yields; texts of errors as they are told."""
    return result if isinstance(result, str | dict) else list(result)


def _grows_too_fast(shape: Shape, work: Callable[[Shape, int], int]) -> bool:
    small, large = work(shape, SMALL), work(shape, 2 * SMALL)
    return large > MOST * small


def test_errors_of_before_and_after_are_compared_at_most_twice_as_often_for_twice_as_many() -> None:
    def work(n: int) -> int:
        before, after = ([counted(invalid(f"{when}[{i}]", i, "is wrong")) for i in range(n)] for when in ("a", "b"))
        return work_of(lambda: new_errors(after, before))

    assert work(2 * SMALL) <= MOST * work(SMALL)


def test_work_that_is_quadratic_is_found() -> None:
    def search_in_a_list(pcs: PodCliqueSet) -> object:
        names = [clique.name for clique in pcs.spec.template.cliques]
        return [name for i, name in enumerate(names) if name in names[:i]]

    def write_all_names_for_each(pcs: PodCliqueSet) -> object:
        names = [clique.name for clique in pcs.spec.template.cliques]
        return [f"{name} of {', '.join(names)}" for name in names]

    for rule in (search_in_a_list, write_all_names_for_each):

        def work(shape: Shape, n: int, rule: Rule = rule) -> int:
            pcs = counted(decoded(shape(n)))
            return work_of(lambda: rule(pcs))

        assert _grows_too_fast(SHAPES["one ring"], work)


# --- hostile sets ----------------------------------------------------------------------------------------------------


def test_a_set_of_8000_cliques_is_refused_by_its_number() -> None:
    ring = SHAPES["one ring"](8_000)
    assert refusals(ring)[0] == "spec.template.cliques: Too many: 8000: must have at most 1000 items"


def test_a_ring_of_as_many_cliques_as_a_set_may_have_is_told_in_one_error() -> None:
    (error,) = refusals(SHAPES["one ring"](1_000))
    assert error.startswith('spec.template.cliques[0].spec.startsAfter: Invalid value: "c0 -> c1 -> c2')
    assert error.endswith("...: these cliques wait for each other: remove one of the entries")


def test_every_circle_is_named_once_in_the_order_of_the_set() -> None:
    def after(*names: str) -> JsonObject:
        return {"startsAfter": list(names)}

    json = explicit(
        clique("before", spec=after("x", "a")),
        clique("b", spec=after("a")),
        clique("x", spec=after("y")),
        clique("a", spec=after("c")),
        clique("y", spec=after("x", "b")),
        clique("c", spec=after("b", "end")),
        clique("end"),
    )
    told = "these cliques wait for each other: remove one of the entries"
    assert refusals(json) == [
        f'spec.template.cliques[1].spec.startsAfter: Invalid value: "b -> a -> c -> b": {told}',
        f'spec.template.cliques[2].spec.startsAfter: Invalid value: "x -> y -> x": {told}',
    ]


def test_an_answer_names_the_first_hundred_errors_and_says_that_there_are_more() -> None:
    errors = refusals(SHAPES["bad labels"](1_000))
    assert len(errors) == MOST_ERRORS + 1
    assert errors[-1] == "spec: Invalid value: too many errors to list: correct these first"


def test_a_stored_set_with_more_cliques_than_are_legal_now_may_still_be_changed() -> None:
    old = manifest(*(clique(f"c{i}") for i in range(1_001)))
    new = manifest(*(clique(f"c{i}") for i in range(1_001)), replicas=2)
    more = manifest(*(clique(f"c{i}") for i in range(1_002)))
    assert texts(updated(old, new)) == []
    assert texts(updated(old, more)) == ["spec.template.cliques: Too many: 1002: must have at most 1000 items"]


def test_a_duration_of_a_million_digits_is_refused_without_reading_it() -> None:
    (error,) = refusals(manifest(template={"terminationDelay": f"{'9' * 1_000_000}s"}))
    assert error == "spec.template.terminationDelay: Too long: may not be more than 64 bytes"
