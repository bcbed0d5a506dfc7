"""The three kinds of patches, as pure functions."""

import contextlib
import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grove.api.types.meta import JsonObject
from grove.cluster.patches import PatchConflictError, PatchInvalidError, PatchTooLongError
from grove.cluster.patches.json_patch import apply_json_patch
from grove.cluster.patches.merge_patch import apply_merge_patch
from grove.cluster.patches.strategic_merge_patch import apply_strategic_patch

_LEAVES = st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["", "a", "b/c", "~"])
_JSON = st.recursive(
    _LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b", "x/y", "~", ""]), inner),
    max_leaves=10,
)
_OBJECTS = st.dictionaries(st.sampled_from("abc"), _JSON)


# Merge


@pytest.mark.parametrize(
    ("obj", "patch", "result"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ],
)
def test_the_examples_of_the_merge_patch_standard(obj: JsonObject, patch: JsonObject, result: JsonObject) -> None:
    assert apply_merge_patch(obj, patch) == result


@given(_OBJECTS, _OBJECTS)
def test_a_merge_patch_applied_twice_is_the_same_as_once_and_changes_no_input(
    obj: JsonObject, patch: JsonObject
) -> None:
    before = copy.deepcopy((obj, patch))
    once = apply_merge_patch(obj, patch)
    assert apply_merge_patch(once, patch) == once
    assert (obj, patch) == before


@given(_OBJECTS, _OBJECTS)
def test_a_merge_patch_keeps_what_it_does_not_name(obj: JsonObject, patch: JsonObject) -> None:
    result = apply_merge_patch(obj, patch)
    for key, value in obj.items():
        if key not in patch:
            assert result[key] is value


@pytest.mark.parametrize("patch", [None, [], "x", 1])
def test_a_merge_patch_is_an_object(patch: object) -> None:
    with pytest.raises(PatchInvalidError):
        apply_merge_patch({}, patch)


# JSON patch


@pytest.mark.parametrize(
    ("operation", "result"),
    [
        ({"op": "add", "path": "/n", "value": 1}, {"l": [1, 2], "o": {"k": "v"}, "n": 1}),
        ({"op": "add", "path": "/l/0", "value": 0}, {"l": [0, 1, 2], "o": {"k": "v"}}),
        ({"op": "add", "path": "/l/2", "value": 3}, {"l": [1, 2, 3], "o": {"k": "v"}}),
        ({"op": "add", "path": "/l/-", "value": 3}, {"l": [1, 2, 3], "o": {"k": "v"}}),
        ({"op": "add", "path": "/o/a~1b~0", "value": 3}, {"l": [1, 2], "o": {"k": "v", "a/b~": 3}}),
        ({"op": "add", "path": "", "value": {"x": 1}}, {"x": 1}),
        ({"op": "remove", "path": "/l/0"}, {"l": [2], "o": {"k": "v"}}),
        ({"op": "remove", "path": "/o"}, {"l": [1, 2]}),
        ({"op": "replace", "path": "/l/1", "value": None}, {"l": [1, None], "o": {"k": "v"}}),
        ({"op": "replace", "path": "/o/k", "value": "w"}, {"l": [1, 2], "o": {"k": "w"}}),
        ({"op": "add", "path": "/n"}, {"l": [1, 2], "o": {"k": "v"}, "n": None}),
        ({"op": "replace", "path": "/n", "value": 1}, {"l": [1, 2], "o": {"k": "v"}, "n": 1}),
        ({"op": "copy", "from": "/x", "path": "/n"}, {"l": [1, 2], "o": {"k": "v"}, "n": None}),
        ({"op": "copy", "from": "/o", "path": "/l/0"}, {"l": [{"k": "v"}, 1, 2], "o": {"k": "v"}}),
        ({"op": "move", "from": "/o/k", "path": "/k"}, {"l": [1, 2], "o": {}, "k": "v"}),
        ({"op": "move", "from": "/l/0", "path": "/l/1"}, {"l": [2, 1], "o": {"k": "v"}}),
        ({"op": "move", "from": "/o", "path": "/o"}, {"l": [1, 2], "o": {"k": "v"}}),
        ({"op": "test", "path": "/o", "value": {"k": "v"}}, {"l": [1, 2], "o": {"k": "v"}}),
    ],
)
def test_each_operation_of_a_json_patch(operation: JsonObject, result: JsonObject) -> None:
    document = {"l": [1, 2], "o": {"k": "v"}}
    assert apply_json_patch(document, [operation]) == result
    assert document == {"l": [1, 2], "o": {"k": "v"}}


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "add", "path": "/x/y", "value": 1},
        {"op": "add", "path": "/l/3", "value": 1},
        {"op": "add", "path": "/l/01", "value": 1},
        {"op": "add", "path": "/l/x", "value": 1},
        {"op": "add", "path": "/o/k/z", "value": 1},
        {"op": "remove", "path": "/x"},
        {"op": "remove", "path": "/l/2"},
        {"op": "remove", "path": "/l/-"},
        {"op": "replace", "path": "/x/y", "value": 1},
        {"op": "replace", "path": "/l/2", "value": 1},
        {"op": "test", "path": "/l/0", "value": True},
        {"op": "test", "path": "/l", "value": [1]},
        {"op": "copy", "from": "/x/y", "path": "/y"},
        {"op": "copy", "path": "/x"},
        {"op": "fly", "path": "/x"},
        {"op": "add", "path": "x", "value": 1},
        {"op": "move", "from": "/o", "path": "/o/k"},
    ],
)
def test_an_operation_that_does_not_fit_is_a_conflict(operation: JsonObject) -> None:
    with pytest.raises(PatchConflictError):
        apply_json_patch({"l": [1, 2], "o": {"k": "v"}}, [operation])


@pytest.mark.parametrize(
    "patch",
    [
        {},
        None,
        [1],
        [{"op": "add"}],
    ],
)
def test_what_is_no_json_patch_is_invalid(patch: object) -> None:
    with pytest.raises(PatchInvalidError):
        apply_json_patch({}, patch)


def test_a_json_patch_has_an_end() -> None:
    with pytest.raises(PatchTooLongError):
        apply_json_patch({}, [{"op": "test", "path": "", "value": {}}] * 10_001)


def _pointer(step: str) -> str:
    return "/" + step.replace("~", "~0").replace("/", "~1")


@given(
    st.dictionaries(st.sampled_from(["a", "b", "x/y", "~", ""]), _JSON), st.sampled_from(["a", "x/y", "~", ""]), _JSON
)
def test_what_was_added_is_there_and_can_be_taken_away_again(document: JsonObject, key: str, value: Any) -> None:
    before = copy.deepcopy(document)
    path = _pointer(key)
    added = apply_json_patch(document, [{"op": "add", "path": path, "value": value}])
    assert added[key] == value
    assert apply_json_patch(added, [{"op": "test", "path": path, "value": value}]) == added
    removed = apply_json_patch(added, [{"op": "remove", "path": path}])
    assert removed == {other: kept for other, kept in document.items() if other != key}
    assert document == before


@given(
    _JSON,
    st.lists(
        st.fixed_dictionaries(
            {
                "op": st.sampled_from(["add", "remove", "replace", "move", "copy", "test"]),
                "path": st.sampled_from(["", "/a", "/a/0", "/b/-", "/a/b"]),
                "from": st.sampled_from(["", "/a", "/a/0"]),
                "value": _JSON,
            }
        )
    ),
)
def test_a_json_patch_never_changes_its_input(document: Any, patch: list[JsonObject]) -> None:
    before = copy.deepcopy((document, patch))
    with contextlib.suppress(PatchConflictError):
        apply_json_patch(document, patch)
    assert (document, patch) == before


# Strategic


_POD: JsonObject = {
    "kind": "Pod",
    "metadata": {"finalizers": ["x.io/a", "x.io/b"], "ownerReferences": [{"uid": "1", "name": "o"}]},
    "spec": {
        "containers": [
            {"name": "a", "image": "i1", "env": [{"name": "X", "value": "1"}, {"name": "Y", "value": "2"}]},
            {"name": "b", "image": "i2"},
        ],
        "tolerations": [{"key": "k"}],
    },
    "status": {"conditions": [{"type": "Ready", "status": "False", "reason": "r"}]},
}


@pytest.mark.parametrize(
    ("patch", "where", "result"),
    [
        pytest.param(
            {"status": {"conditions": [{"type": "Ready", "status": "True"}, {"type": "New", "status": "True"}]}},
            ("status", "conditions"),
            [{"type": "Ready", "status": "True", "reason": "r"}, {"type": "New", "status": "True"}],
            id="conditions are merged by type",
        ),
        pytest.param(
            {"status": {"conditions": [{"type": "Ready", "reason": None}]}},
            ("status", "conditions"),
            [{"type": "Ready", "status": "False"}],
            id="null removes inside an item",
        ),
        pytest.param(
            {"status": {"conditions": [{"$patch": "delete", "type": "Ready"}]}},
            ("status", "conditions"),
            [],
            id="an item is deleted",
        ),
        pytest.param(
            {"status": {"conditions": [{"$patch": "replace"}, {"type": "Only"}]}},
            ("status", "conditions"),
            [{"type": "Only"}],
            id="a list is replaced",
        ),
        pytest.param(
            {
                "spec": {
                    "containers": [{"name": "a", "env": [{"name": "Y", "value": "3"}, {"name": "Z", "value": "4"}]}]
                }
            },
            ("spec", "containers", 0, "env"),
            [{"name": "X", "value": "1"}, {"name": "Y", "value": "3"}, {"name": "Z", "value": "4"}],
            id="lists inside items are merged too",
        ),
        pytest.param(
            {"spec": {"tolerations": [{"key": "other"}]}},
            ("spec", "tolerations"),
            [{"key": "other"}],
            id="a list without a key is replaced",
        ),
        pytest.param(
            {"metadata": {"finalizers": ["x.io/b", "x.io/c"]}},
            ("metadata", "finalizers"),
            ["x.io/a", "x.io/b", "x.io/c"],
            id="finalizers are a set",
        ),
        pytest.param(
            {"metadata": {"$deleteFromPrimitiveList/finalizers": ["x.io/a"]}},
            ("metadata", "finalizers"),
            ["x.io/b"],
            id="a finalizer is taken away",
        ),
        pytest.param(
            {"metadata": {"ownerReferences": [{"$patch": "delete", "uid": "1"}]}},
            ("metadata", "ownerReferences"),
            [],
            id="an owner is taken away",
        ),
        pytest.param(
            {
                "spec": {
                    "$setElementOrder/containers": [{"name": "b"}, {"name": "a"}],
                    "containers": [{"name": "b", "image": "i3"}],
                }
            },
            ("spec", "containers", 0),
            {"name": "b", "image": "i3"},
            id="items are put in order",
        ),
        pytest.param({"spec": {"$patch": "replace", "x": 1}}, ("spec",), {"x": 1}, id="an object is replaced"),
        pytest.param(
            {"spec": {"$retainKeys": ["tolerations"]}},
            ("spec",),
            {"tolerations": [{"key": "k"}]},
            id="only some keys are retained",
        ),
    ],
)
def test_strategic_patches(patch: JsonObject, where: tuple[str | int, ...], result: object) -> None:
    before = copy.deepcopy(_POD)
    found: Any = apply_strategic_patch("Pod", _POD, patch)
    for step in where:
        found = found[step]
    assert found == result
    assert before == _POD


@pytest.mark.parametrize(
    "patch",
    [
        [],
        {"$patch": "fly"},
        {"status": {"conditions": [{"status": "True"}]}},
        {"status": {"conditions": ["Ready"]}},
        {"spec": {"$retainKeys": "x"}},
        {"metadata": {"$deleteFromPrimitiveList/finalizers": "x"}},
        {"spec": {"$setElementOrder/containers": 5, "containers": [{"name": "a"}]}},
    ],
)
def test_what_is_no_strategic_patch_is_invalid(patch: object) -> None:
    with pytest.raises(PatchInvalidError):
        apply_strategic_patch("Pod", _POD, patch)
