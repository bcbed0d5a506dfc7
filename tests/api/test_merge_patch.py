"""Merge patches: as small as possible, and they arrive where they should."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grove.api.merge_patch import merge_patch, patch_towards
from grove.api.types.meta import JsonObject

KEYS = st.sampled_from(["a", "b", "c"])
LEAVES = st.one_of(st.booleans(), st.integers(0, 2), st.sampled_from(["", "x"]))


def trees(leaves: st.SearchStrategy[Any]) -> st.SearchStrategy[JsonObject]:
    values = st.recursive(
        leaves, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(KEYS, inner, max_size=3), max_leaves=6
    )
    return st.dictionaries(KEYS, values, max_size=3)


OBJECTS = trees(LEAVES)
OBJECTS_WITH_NULLS = trees(LEAVES | st.none())


def apply(target: Any, patch: Any) -> Any:
    """RFC 7386, section 2, word by word."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = apply(result.get(key), value)
    return result


def as_typed(value: Any) -> Any:
    """Python thinks True == 1; JSON does not."""
    if isinstance(value, dict):
        return {key: as_typed(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [as_typed(inner) for inner in value]
    return type(value).__name__, value


@given(OBJECTS, OBJECTS)
def test_a_patch_turns_the_old_object_into_the_new_one(old: JsonObject, new: JsonObject) -> None:
    assert as_typed(apply(old, merge_patch(old, new) or {})) == as_typed(new)


@given(OBJECTS)
def test_equal_objects_need_no_patch(value: JsonObject) -> None:
    assert merge_patch(value, value) is None
    assert patch_towards(value, value) is None


@given(OBJECTS_WITH_NULLS, OBJECTS_WITH_NULLS)
def test_once_applied_there_is_nothing_left_to_patch(current: JsonObject, desired: JsonObject) -> None:
    wire = apply({}, current)
    assert merge_patch(apply(wire, merge_patch(wire, desired) or {}), desired) is None
    assert patch_towards(apply(wire, patch_towards(wire, desired) or {}), desired) is None


@given(OBJECTS, OBJECTS_WITH_NULLS)
def test_a_patch_towards_our_fields_never_names_a_key_of_others(current: JsonObject, desired: JsonObject) -> None:
    patch = patch_towards(current, desired) or {}
    assert set(patch) <= set(desired)
    after = apply(current, patch)
    assert {key: after[key] for key in current if key not in desired} == {
        key: value for key, value in current.items() if key not in desired
    }


@pytest.mark.parametrize(
    ("old", "new", "patch"),
    [
        pytest.param({"a": 1, "b": 2}, {"a": 1, "b": 3}, {"b": 3}, id="only what changed"),
        pytest.param({"a": 1, "b": 2}, {"a": 1}, {"b": None}, id="what is removed becomes null"),
        pytest.param({"a": {"x": 1, "y": 2}}, {"a": {"x": 1}}, {"a": {"y": None}}, id="deep inside"),
        pytest.param({"a": {"x": 1}}, {"a": {}}, {"a": {"x": None}}, id="an object that becomes empty"),
        pytest.param({"a": [1, 2]}, {"a": [1, 3]}, {"a": [1, 3]}, id="a list as a whole"),
        pytest.param({"a": 1}, {"a": True}, {"a": True}, id="a number is not a truth"),
        pytest.param({"a": {"x": 1}}, {"a": 5}, {"a": 5}, id="an object that becomes a value"),
        pytest.param({}, {"a": {}}, {"a": {}}, id="an empty object appears"),
        pytest.param({}, {"a": None}, None, id="null is absence"),
        pytest.param({"a": {"x": 1}}, {"a": None}, {"a": None}, id="null removes"),
    ],
)
def test_a_merge_patch_is_small(old: JsonObject, new: JsonObject, patch: JsonObject | None) -> None:
    assert merge_patch(old, new) == patch


@pytest.mark.parametrize(
    ("current", "desired", "patch"),
    [
        pytest.param({"a": 1, "theirs": 2}, {"a": 1}, None, id="others' keys survive"),
        pytest.param({"a": {"x": 1, "theirs": 2}}, {"a": {"x": 3}}, {"a": {"x": 3}}, id="others' keys deep inside"),
        pytest.param({"a": 1}, {"a": None}, {"a": None}, id="null takes our key away"),
        pytest.param({"b": 1}, {"a": None}, None, id="what is away stays away"),
        pytest.param({"a": {"theirs": 2}}, {"a": {}}, None, id="an empty object asks for nothing"),
    ],
)
def test_a_patch_towards_our_fields_leaves_others_alone(
    current: JsonObject, desired: JsonObject, patch: JsonObject | None
) -> None:
    assert patch_towards(current, desired) == patch
