"""The patch that brings defaults to an API server: applied there, it gives the defaulted object; and it is small."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grove.admission.json_patch import json_patch
from grove.cluster.patches.json_patch import apply_json_patch

_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(0, 3) | st.sampled_from(["", "a", "~", "/", "~1"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["", "a", "a/b", "~1"]), inner),
    max_leaves=8,
)
_OBJECTS = st.dictionaries(st.sampled_from(["a", "b", "a/b", "~"]), _JSON)


@given(_OBJECTS, _OBJECTS)
def test_a_patch_turns_the_one_into_the_other(old: dict[str, Any], new: dict[str, Any]) -> None:
    patched = apply_json_patch(old, json_patch(old, new))
    # 1 and True are equal in Python, and different in JSON.
    assert repr(_sorted(patched)) == repr(_sorted(new))


def _sorted(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _sorted(value[key]) for key in sorted(value)}
    return [_sorted(one) for one in value] if isinstance(value, list) else value


@given(_OBJECTS)
def test_nothing_is_patched_when_nothing_changed(value: dict[str, Any]) -> None:
    assert json_patch(value, value) == []


@pytest.mark.parametrize(
    ("old", "new", "patch"),
    [
        pytest.param({"a": {}}, {"a": {"b/c": 1}}, [{"op": "add", "path": "/a/b~1c", "value": 1}], id="added"),
        pytest.param(
            {"a": [{}, 1]}, {"a": [{"b": 2}, 1]}, [{"op": "add", "path": "/a/0/b", "value": 2}], id="in a list"
        ),
        pytest.param({"a": None}, {}, [{"op": "remove", "path": "/a"}], id="removed"),
        pytest.param({"a": 1}, {"a": True}, [{"op": "replace", "path": "/a", "value": True}], id="another type"),
        pytest.param({"a": [1]}, {"a": [1, 2]}, [{"op": "replace", "path": "/a", "value": [1, 2]}], id="a longer list"),
    ],
)
def test_a_patch_names_only_what_differs(old: Any, new: Any, patch: list[dict[str, Any]]) -> None:
    assert json_patch(old, new) == patch
