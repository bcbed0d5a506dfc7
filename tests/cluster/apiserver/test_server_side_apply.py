"""Server-side apply as pure functions: what every sequence of writes must leave true, whatever was written."""

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grove.api.types.meta import JsonObject
from grove.cluster.patches.field_managers import (
    APPLY,
    UPDATE,
    ApplyConflictError,
    ManagedWrite,
    Manager,
    Managers,
    NotManagedFieldsError,
    ServerSideApplyResult,
    after_apply,
    after_update,
    managed_fields,
    manager_name,
    read_managed_fields,
)
from grove.cluster.patches.field_sets import (
    FieldSet,
    NotAFieldSetError,
    difference,
    from_wire,
    intersection,
    members,
    path_text,
    set_of,
    to_wire,
    union,
    without_parts,
)
from grove.cluster.patches.merge_types import Type, custom_type
from grove.cluster.patches.server_side_apply import merge, prune, remove_fields
from grove.cluster.patches.typed_compare import Comparison, compare, field_set, find_type_error

_TEXT: JsonObject = {"type": "string"}
_ITEM: JsonObject = {
    "type": "object",
    "properties": {"name": _TEXT, "image": _TEXT, "args": {"type": "array", "items": _TEXT}},
    "required": ["name"],
}
TYPE: Type = custom_type(
    {
        "type": "object",
        "properties": {
            "spec": {
                "type": "object",
                "properties": {
                    "size": {"type": "integer"},
                    "labels": {"type": "object", "additionalProperties": _TEXT},
                    "whole": {
                        "type": "object",
                        "x-kubernetes-map-type": "atomic",
                        "properties": {"a": _TEXT, "b": _TEXT},
                    },
                    "words": {"type": "array", "items": _TEXT, "x-kubernetes-list-type": "set"},
                    "lines": {"type": "array", "items": _TEXT},
                    "parts": {
                        "type": "array",
                        "items": _ITEM,
                        "x-kubernetes-list-type": "map",
                        "x-kubernetes-list-map-keys": ["name"],
                    },
                    "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                },
            }
        },
    }
)

_letters = st.sampled_from("abc")
_texts = st.sampled_from(("x", "y", ""))


def _distinct(items: list[JsonObject]) -> list[JsonObject]:
    return list({item["name"]: item for item in items}.values())


_parts = st.lists(
    st.fixed_dictionaries({"name": _letters}, optional={"image": _texts, "args": st.lists(_texts, max_size=2)}),
    max_size=3,
).map(_distinct)
_free = st.recursive(_texts | st.lists(_texts, max_size=2), lambda inner: st.dictionaries(_letters, inner, max_size=2))
specs = st.fixed_dictionaries(
    {},
    optional={
        "size": st.integers(0, 2),
        "labels": st.dictionaries(_letters, _texts, max_size=3),
        "whole": st.dictionaries(st.sampled_from("ab"), _texts, max_size=2),
        "words": st.lists(_letters, max_size=3, unique=True),
        "lines": st.lists(_texts, max_size=2),
        "parts": _parts,
        "free": st.dictionaries(_letters, _free, max_size=2),
    },
)
objects = specs.map(lambda spec: {"spec": spec})


def write_by(name: str, operation: str = APPLY, time: str = "2026-01-01T00:00:00Z") -> ManagedWrite:
    version = "v1" if operation == UPDATE else ""
    return ManagedWrite(manager=Manager(operation, name, "", version), api_version="v1", time=time)


def applied(
    name: str, config: JsonObject, before: ServerSideApplyResult | None = None, *, is_forced: bool = True
) -> ServerSideApplyResult:
    """Forced unless said otherwise."""
    live, managers = ({}, {}) if before is None else (before.obj, before.managers)
    return after_apply(managers, TYPE, live, config, write_by(name), is_forced=is_forced)


def updated(name: str, new: JsonObject, before: ServerSideApplyResult | None = None) -> ServerSideApplyResult:
    live, managers = ({}, {}) if before is None else (before.obj, before.managers)
    return ServerSideApplyResult(new, after_update(managers, TYPE, live, new, write_by(name, UPDATE)))


def owned_by(name: str, state: ServerSideApplyResult) -> FieldSet:
    found: FieldSet = {}
    for manager, owned in state.managers.items():
        if manager.name == name:
            found = union(found, owned.fields)
    return found


def owned_by_others(name: str, managers: Managers) -> FieldSet:
    found: FieldSet = {}
    for manager, owned in managers.items():
        if manager.name != name:
            found = union(found, owned.fields)
    return found


# Properties


@given(objects, objects, objects)
def test_applying_twice_is_applying_once(first: JsonObject, other: JsonObject, config: JsonObject) -> None:
    state = applied("bob", other, updated("tool", first))
    once = applied("alice", config, state)
    assert applied("alice", config, once) == once


@given(objects, objects, objects)
def test_what_was_just_applied_can_be_applied_again_without_force(
    first: JsonObject, other: JsonObject, config: JsonObject
) -> None:
    state = applied("alice", config, applied("bob", other, updated("tool", first)))
    assert applied("alice", config, state, is_forced=False) == state


@given(objects, objects)
def test_wanting_what_is_there_is_never_a_conflict(first: JsonObject, other: JsonObject) -> None:
    state = applied("bob", other, updated("tool", first))
    again = applied("alice", state.obj, state, is_forced=False)
    assert again.obj == state.obj


@given(objects, objects, objects)
def test_what_is_applied_is_there_afterwards(first: JsonObject, other: JsonObject, config: JsonObject) -> None:
    state = applied("alice", config, applied("bob", other, updated("tool", first)))
    assert merge(TYPE, state.obj, config) == state.obj


@given(objects, objects, objects)
def test_no_longer_applied_is_gone_unless_somebody_else_owns_it(
    first: JsonObject, other: JsonObject, config: JsonObject
) -> None:
    state = applied("alice", config, applied("bob", other, updated("tool", first)))
    mine, theirs = owned_by("alice", state), owned_by_others("alice", state.managers)
    left = applied("alice", {}, state)
    before, after = field_set(TYPE, state.obj), field_set(TYPE, left.obj)
    leaves = [path for path in members(before) if path[-1] != "." and not _has_inner(before, path)]
    for path in leaves:
        one = set_of(path)
        is_there = bool(intersection(after, one))
        is_wanted = not intersection(mine, one) or bool(intersection(theirs, one))
        assert is_there == is_wanted, path_text(path)
    assert owned_by("alice", left) == {}


def _has_inner(fields: FieldSet, path: tuple[str, ...]) -> bool:
    for step in path:
        fields = fields[step]
    return len(fields) > 1


@given(objects, objects, objects)
def test_without_force_nobody_loses_what_he_owns(first: JsonObject, other: JsonObject, config: JsonObject) -> None:
    state = applied("bob", other, updated("tool", first))
    forced = applied("alice", config, state)
    lost = [m for m in state.managers if difference(state.managers[m].fields, _fields_of(m, forced))]
    taken = compare(TYPE, state.obj, forced.obj).written
    if any(intersection(state.managers[m].fields, taken) for m in lost):
        with pytest.raises(ApplyConflictError):
            applied("alice", config, state, is_forced=False)
    else:
        assert applied("alice", config, state, is_forced=False) == forced


def _fields_of(manager: Manager, state: ServerSideApplyResult) -> FieldSet:
    return state.managers[manager].fields if manager in state.managers else {}


@given(objects, objects)
def test_every_field_that_an_update_changes_has_its_writer_as_only_owner(old: JsonObject, new: JsonObject) -> None:
    state = updated("second", new, updated("first", old))
    change = compare(TYPE, old, new)
    assert difference(change.written, owned_by("second", state)) == {}
    assert intersection(owned_by("first", state), union(change.written, change.removed)) == {}


@given(objects, objects)
def test_nothing_changed_between_equals_and_only_between_equals(old: JsonObject, new: JsonObject) -> None:
    nothing = Comparison({}, {}, {})
    assert compare(TYPE, old, copy.deepcopy(old)) == nothing
    assert (compare(TYPE, old, new) == nothing) == (_in_order(old) == _in_order(new))


def _in_order(obj: JsonObject) -> JsonObject:
    """Lists that merge are compared by their items, not by their order."""
    spec = dict(obj["spec"])
    if "words" in spec:
        spec["words"] = sorted(spec["words"])
    if "parts" in spec:
        spec["parts"] = sorted(spec["parts"], key=lambda part: str(part["name"]))
    return {"spec": spec}


@given(objects, objects)
def test_ownership_survives_the_wire(first: JsonObject, config: JsonObject) -> None:
    state = applied("alice", config, updated("tool", first))
    assert read_managed_fields(managed_fields(state.managers)) == state.managers


@given(objects, objects)
def test_sets_of_fields_obey_the_laws_of_sets(one: JsonObject, other: JsonObject) -> None:
    a, b = field_set(TYPE, one), field_set(TYPE, other)
    assert union(a, b) == union(b, a) == union(union(a, b), a)
    assert intersection(a, b) == intersection(b, a)
    assert union(difference(a, b), intersection(a, b)) == a
    assert difference(difference(a, b), b) == difference(a, b)
    assert from_wire(to_wire(a)) == a


# Examples


@pytest.mark.parametrize(
    ("live", "config", "result"),
    [
        ("abc", "dcb", "adcb"),
        ("abc", "ca", "bca"),
        ("abcd", "dxb", "acdxb"),
        ("abc", "xyz", "abcxyz"),
        ("abcde", "excya", "bdexcya"),
        ("abcde", "bxd", "abcxde"),
        ("abcd", "xby", "axbcdy"),
        ("abc", "", "abc"),
        ("", "ba", "ba"),
    ],
)
def test_applied_items_come_in_their_order_and_others_stay_behind_their_neighbours(
    live: str, config: str, result: str
) -> None:
    def of(words: str) -> JsonObject:
        return {"spec": {"words": list(words)}}

    assert merge(TYPE, of(live), of(config)) == of(result)


def test_the_whole_part_goes_when_all_of_it_was_mine() -> None:
    state = applied("alice", {"spec": {"labels": {"a": "x"}, "parts": [{"name": "a", "image": "x"}]}})
    assert applied("alice", {"spec": {"size": 1}}, state).obj == {"spec": {"size": 1}}


def test_an_item_stays_for_what_another_has_put_into_it() -> None:
    state = applied("alice", {"spec": {"parts": [{"name": "a", "image": "x"}]}})
    state = applied("bob", {"spec": {"parts": [{"name": "a", "args": ["1"]}]}}, state)
    assert applied("alice", {}, state).obj == {"spec": {"parts": [{"name": "a", "args": ["1"]}]}}


def test_what_nobody_owns_stays_as_long_as_somebody_owns_something_beside_it() -> None:
    value = {"spec": {"labels": {"a": "x", "b": "y", "c": "z"}}}
    last = set_of(("f:spec", "f:labels", "f:a"))
    beside = set_of(("f:spec", "f:labels", "f:c"))
    assert prune(TYPE, value, last, beside) == {"spec": {"labels": {"b": "y", "c": "z"}}}
    assert prune(TYPE, value, last, {}) is None


def test_items_of_what_is_taken_as_a_whole_cannot_be_removed() -> None:
    value = {"spec": {"whole": {"a": "x"}, "lines": ["x"]}}
    gone = set_of(("f:spec", "f:whole", "f:a"), ("f:spec", "f:lines", "i:0"))
    assert remove_fields(TYPE, value, gone) == value


def test_conflicts_are_told_by_manager_and_path() -> None:
    state = updated("tool", {"spec": {"size": 1, "parts": [{"name": "a", "image": "x"}]}})
    state = applied("bob", {"spec": {"labels": {"a": "x"}}}, state)
    config = {"spec": {"size": 2, "labels": {"a": "y"}, "parts": [{"name": "a", "image": "y"}]}}
    with pytest.raises(ApplyConflictError) as refused:
        applied("alice", config, state, is_forced=False)
    assert refused.value.message() == (
        'Apply failed with 3 conflicts: conflicts with "bob":\n- .spec.labels.a\n'
        'conflicts with "tool" using v1:\n- .spec.size\n- .spec.parts[name="a"].image'
    )
    assert refused.value.causes()[0] == {
        "reason": "FieldManagerConflict",
        "message": 'conflict with "bob"',
        "field": ".spec.labels.a",
    }


@pytest.mark.parametrize(
    ("config", "problem"),
    [
        ({"spec": {"colour": "x"}}, ".spec.colour: field not declared in schema"),
        ({"spec": {"colour": "x", "size": "x"}}, ".spec.colour: field not declared in schema"),
        (
            {"spec": {"lines": 1, "words": ["a", "a"]}},
            'errors:\n  .spec.lines: expected list, got 1\n  .spec.words: duplicate entries for key [="a"]',
        ),
        ({"spec": {"size": "x"}}, '.spec.size: expected numeric (int or float), got "x"'),
        ({"spec": {"labels": ["x"]}}, '.spec.labels: expected map, got ["x"]'),
        ({"spec": {"words": "x"}}, '.spec.words: expected list, got "x"'),
        ({"spec": {"words": ["a", "a"]}}, '.spec.words: duplicate entries for key [="a"]'),
        ({"spec": {"parts": [{"name": "a"}, {"name": "a"}]}}, '.spec.parts: duplicate entries for key [name="a"]'),
        (
            {"spec": {"parts": [{"image": "a"}]}},
            (
                '.spec.parts: element 0: associative list with keys has an element that omits all key fields ["name"] '
                "(and doesn't have default values for any key fields)"
            ),
        ),
    ],
)
def test_what_does_not_fit_its_type_is_named(config: JsonObject, problem: str) -> None:
    assert find_type_error(TYPE, config) == problem


def test_of_many_who_updated_the_oldest_are_remembered_as_one() -> None:
    state = ServerSideApplyResult({}, {})
    for number in range(13):
        new = {"spec": {"labels": {f"k{at}": "x" for at in range(number + 1)}}}
        write = write_by(f"m{number:02}", UPDATE, time=f"2026-01-01T00:00:{number:02}Z")
        state = ServerSideApplyResult(new, after_update(state.managers, TYPE, state.obj, new, write))
    names = sorted(manager.name for manager in state.managers)
    assert names == ["ancient-changes", *(f"m{number:02}" for number in range(4, 13))]
    assert list(members(owned_by("ancient-changes", state)))[-1] == ("f:spec", "f:labels", "f:k3")


def test_parts_can_be_taken_out_of_a_set_with_all_that_is_inside() -> None:
    fields = set_of(("f:spec", "f:size"), ("f:status", "f:phase"), ("f:status",))
    assert without_parts(fields, set_of(("f:status",))) == set_of(("f:spec", "f:size"))


@pytest.mark.parametrize("wire", ["text", {"f:a": "text"}, {"k:nothing": {}}, {"k:[]": {}}, {"i:x": {}}])
def test_what_is_no_set_of_fields_is_refused(wire: Any) -> None:
    with pytest.raises(NotAFieldSetError):
        from_wire(wire)


def test_steps_of_a_kind_that_nobody_knows_are_left_out() -> None:
    assert from_wire({"z:new": {}, "f:a": {}}) == set_of(("f:a",))


@pytest.mark.parametrize(
    "entry",
    [
        {"manager": "x", "operation": "Guess", "fieldsType": "FieldsV1", "fieldsV1": {}},
        {"manager": "x", "operation": "Update", "fieldsType": "FieldsV2", "fieldsV1": {}},
        {"manager": 1, "operation": "Update"},
        "text",
    ],
)
def test_what_says_nothing_about_owners_is_refused(entry: Any) -> None:
    with pytest.raises(NotManagedFieldsError):
        read_managed_fields([entry])


@pytest.mark.parametrize(
    ("program", "name"),
    [("kubectl/v1.37 (linux)", "kubectl"), ("", "unknown"), ("a\tb/1", "ab"), ("x" * 200, "x" * 128)],
)
def test_a_manager_is_called_as_its_program_up_to_its_version(program: str, name: str) -> None:
    assert manager_name(program) == name
