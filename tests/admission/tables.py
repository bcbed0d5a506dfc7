"""The tables of the rule tests, for whoever wants to hold something else to them too: a real API server."""

from collections.abc import Callable
from typing import Any

import msgspec

from grove.api.resources import PODCLIQUESETS, TOPOLOGY_BINDINGS, Resource
from grove.api.types.meta import JsonObject
from tests.admission import (
    test_rules_children,
    test_rules_cliques,
    test_rules_lifecycle,
    test_rules_names,
    test_rules_object_budget,
    test_rules_resource_claims,
    test_rules_schedulers,
    test_rules_schema,
    test_rules_topology,
    test_rules_updates,
)
from tests.api.manifests import clique, manifest

_POD = "spec.template.cliques[0].spec.podSpec"


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """One write, and how everything that is wrong with it is told; the end of a text may be missing."""

    id: str
    resource: Resource[Any] = PODCLIQUESETS
    old: JsonObject | None = None
    new: JsonObject
    errors: tuple[str, ...] = ()


def creations() -> list[Case]:
    """Objects that are created."""
    refused = (
        test_rules_names.test_a_set_with_bad_names_is_refused,
        test_rules_names.test_a_set_with_bad_nvlink_groups_is_refused,
        test_rules_cliques.test_a_set_with_bad_cliques_is_refused,
        test_rules_cliques.test_a_set_with_bad_autoscaling_is_refused,
        test_rules_cliques.test_a_set_with_bad_groups_is_refused,
        test_rules_cliques.test_a_set_with_bad_startup_order_is_refused,
        test_rules_cliques.test_a_clique_that_starts_after_others_leaves_the_names_of_the_init_container_free,
        test_rules_lifecycle.test_a_set_with_bad_termination_delay_is_refused,
        test_rules_lifecycle.test_a_set_with_bad_training_is_refused,
        test_rules_lifecycle.test_a_set_with_bad_update_strategy_is_refused,
        test_rules_schedulers.test_a_set_that_its_scheduler_cannot_take_is_refused,
        test_rules_schema.test_a_set_with_bad_shape_is_refused,
        test_rules_resource_claims.test_a_set_with_bad_resource_sharing_is_refused,
        test_rules_topology.test_a_constraint_that_cannot_hold_is_refused,
    )
    cases = [
        Case(id=id_, new=json, errors=tuple(errors)) for function in refused for id_, json, errors in rows(function)
    ]
    accepted = (
        test_rules_schema.test_a_good_set_is_accepted,
        test_rules_topology.test_a_constraint_that_can_hold_is_accepted,
    )
    cases += [Case(id=id_, new=json) for function in accepted for id_, json in rows(function)]
    cases += [
        Case(id=id_, new=json, errors=() if error is None else (error,))
        for id_, json, error in rows(test_rules_object_budget.test_a_set_has_a_size_that_can_be_carried_out)
    ]
    cases += [
        Case(id=id_, new=manifest(clique(pod=pod)), errors=(f"{_POD}.{at}: Invalid value: {value}",))
        for id_, pod, at, value, _ in rows(test_rules_object_budget.test_what_we_change_in_a_pod_needs_its_shape)
    ]
    cases += [
        Case(id=id_, resource=TOPOLOGY_BINDINGS, new=json, errors=tuple(errors))
        for id_, json, errors in rows(test_rules_children.test_a_topology_binding_names_everything_once)
    ]
    return cases


def updates() -> list[Case]:
    """Objects that stand already, and are replaced."""
    judged = (
        test_rules_updates.test_what_never_changes_is_refused,
        test_rules_updates.test_what_was_already_wrong_may_stay_and_nothing_is_added,
    )
    cases = [
        Case(id=id_, old=old, new=new, errors=tuple(errors))
        for function in judged
        for id_, old, new, errors in rows(function)
    ]
    cases += [
        Case(id=id_, old=old, new=new)
        for id_, old, new in rows(test_rules_updates.test_what_may_change_is_accepted)
    ]  # fmt: skip
    constraints = rows(test_rules_topology.test_constraints_never_change_but_to_leave_the_deprecated_field)
    cases += [
        Case(id=id_, old=old, new=new, errors=tuple(f"{path}: Forbidden" for path in paths))
        for id_, old, new, paths in constraints
    ]
    children = rows(test_rules_children.test_a_child_is_scaled_to_zero_or_to_at_least_its_minimum)
    cases += [
        Case(id=id_, resource=resource, old=old, new=new, errors=tuple(errors))
        for id_, resource, new, old, errors in children
        # On a server an owner would have to exist, or the garbage collector takes the object away.
        if not any("for a member of group" in error for error in errors)
    ]
    return cases


def rows(function: Callable[..., Any]) -> list[tuple[Any, ...]]:
    """The rows of the larger table of a test, each after its name."""
    marks = [mark for mark in getattr(function, "pytestmark", ()) if mark.name == "parametrize"]
    table = max((mark.args[1] for mark in marks), key=len)
    theme = function.__name__.removeprefix("test_").replace("_", " ")
    return [(f"{theme}: {row.id or i}", *row.values) for i, row in enumerate(table)]
