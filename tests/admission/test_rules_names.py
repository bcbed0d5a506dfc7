"""Names, labels and annotations of a set: a manifest in, every error out."""

import pytest

from grove.api.types.meta import JsonObject
from tests.admission.asking import refusals
from tests.api.manifests import clique, group, manifest


@pytest.mark.parametrize(
    ("json", "errors"),
    [
        pytest.param(
            manifest(name=""),
            ["metadata.name: Required value: write a name"],
            id="a set without a name",
        ),
        pytest.param(
            manifest(name="Web"),
            [
                (
                    'metadata.name: Invalid value: "Web": must have at most 63 characters a-z, 0-9 and -, and begin '
                    "and end with a letter or digit"
                )
            ],
            id="a set name with capitals",
        ),
        pytest.param(
            manifest(name="web.one"),
            [
                (
                    'metadata.name: Invalid value: "web.one": must have at most 63 characters a-z, 0-9 and -, and begin'
                    " and end with a letter or digit"
                )
            ],
            id="a set name with a dot cannot be part of a host name",
        ),
        pytest.param(
            manifest(metadata={"labels": {"-x": "ok", "y": "not ok"}}),
            [
                (
                    'metadata.labels: Invalid value: "-x": must have at most 63 letters, digits and -_., after an '
                    "optional prefix such as example.com/"
                ),
                (
                    'metadata.labels[y]: Invalid value: "not ok": must have at most 63 letters, digits and -_., '
                    "and begin and end with a letter or digit"
                ),
            ],
            id="a bad label of the set",
        ),
        pytest.param(
            manifest(metadata={"annotations": {"a/b/c": "x"}}),
            [
                (
                    'metadata.annotations: Invalid value: "a/b/c": must have at most 63 letters, digits and -_., after '
                    "an optional prefix such as example.com/"
                )
            ],
            id="a bad annotation of the set",
        ),
        pytest.param(
            manifest(metadata={"annotations": {"a": "x" * (256 * 1024)}}),
            [
                (
                    "metadata.annotations: Invalid value: 262145: "
                    "all annotations together must have at most 262144 bytes: "
                    "shorten them"
                )
            ],
            id="too many annotations",
        ),
        pytest.param(
            manifest(clique("")),
            ["spec.template.cliques[0].name: Required value: write a name"],
            id="a clique without a name",
        ),
        pytest.param(
            manifest(clique("a-")),
            [
                (
                    'spec.template.cliques[0].name: Invalid value: "a-": '
                    "must have at most 63 characters a-z, 0-9 and -,"
                    " and begin and end with a letter or digit"
                )
            ],
            id="a clique name that ends in a hyphen",
        ),
        pytest.param(
            manifest(clique("a.b")),
            [
                (
                    'spec.template.cliques[0].name: Invalid value: "a.b": must have at most 63 characters a-z, 0-9 and '
                    "-, and begin and end with a letter or digit"
                )
            ],
            id="a clique name with a dot",
        ),
        pytest.param(
            manifest(clique("a"), clique("a", spec={"roleName": "other"})),
            ['spec.template.cliques[1].name: Duplicate value: "a": already used at [0]: choose another'],
            id="two cliques of one name",
        ),
        pytest.param(
            manifest(clique("a"), clique("b", spec={"roleName": "role-a"})),
            [
                (
                    'spec.template.cliques[1].spec.roleName: Duplicate value: "role-a": already used at [0]: '
                    "choose another"
                )
            ],
            id="two cliques of one role",
        ),
        pytest.param(
            manifest(clique("a", spec={"roleName": "b"}), clique("b", spec={"roleName": None})),
            ['spec.template.cliques[1].spec.roleName: Duplicate value: "b": already used at [0]: choose another'],
            id="a clique without a role whose name is another's role",
        ),
        pytest.param(
            manifest(groups=(group("", "a"),)),
            ["spec.template.podCliqueScalingGroups[0].name: Required value: write a name"],
            id="a group without a name",
        ),
        pytest.param(
            manifest(groups=(group("g_1", "a"),)),
            [
                (
                    'spec.template.podCliqueScalingGroups[0].name: Invalid value: "g_1": '
                    "must have at most 63 characters a-z, "
                    "0-9 and -, and begin and end with a letter or digit"
                )
            ],
            id="a group name with an underscore",
        ),
        pytest.param(
            manifest(clique("a"), clique("b"), groups=(group("g", "a"), group("g", "b"))),
            [
                (
                    'spec.template.podCliqueScalingGroups[1].name: Duplicate value: "g": already used at [0]: '
                    "choose another"
                )
            ],
            id="two groups of one name",
        ),
        pytest.param(
            manifest(clique("c" * 23), name="p" * 23),
            [
                (
                    'spec.template.cliques[0].name: Invalid value: "ccccccccccccccccccccccc": the names of set, '
                    "group and clique together must have at most 45 characters, but have 46: shorten them"
                ),
                (
                    'metadata.name: Invalid value: "ppppppppppppppppppppppp": the names of set, '
                    "group and clique together"
                    " must have at most 45 characters, but have 46: shorten them"
                ),
            ],
            id="a standalone clique one character over the budget",
        ),
        pytest.param(
            manifest(clique("c" * 16), name="p" * 15, groups=(group("g" * 15, "c" * 16),)),
            [
                (
                    'spec.template.podCliqueScalingGroups[0].name: Invalid value: "ggggggggggggggg": the names of '
                    "set, group and clique together must have at most 45 characters, but have 46: shorten them"
                ),
                (
                    'spec.template.cliques[0].name: Invalid value: "cccccccccccccccc": the names of set, group and '
                    "clique together must have at most 45 characters, but have 46: shorten them"
                ),
                (
                    'metadata.name: Invalid value: "ppppppppppppppp": the names of set, '
                    "group and clique together must have"
                    " at most 45 characters, but have 46: shorten them"
                ),
            ],
            id="a member clique one character over the budget",
        ),
        pytest.param(
            manifest(clique("c" * 23), name="", metadata={"generateName": "p" * 18}),
            [
                (
                    'spec.template.cliques[0].name: Invalid value: "ccccccccccccccccccccccc": the names of set, '
                    "group and clique together must have at most 45 characters, but have 46: shorten them"
                ),
                (
                    'metadata.name: Invalid value: "ppppppppppppppppppxxxxx": the names of set, '
                    "group and clique together"
                    " must have at most 45 characters, but have 46: shorten them"
                ),
            ],
            id="a generated name counts with its suffix",
        ),
    ],
)
def test_a_set_with_bad_names_is_refused(json: JsonObject, errors: list[str]) -> None:
    assert refusals(json) == errors


@pytest.mark.parametrize(
    ("json", "errors"),
    [
        pytest.param(
            manifest(metadata={"annotations": {"grove.io/mnnvl-group": "A"}}),
            [
                (
                    'metadata.annotations[grove.io/mnnvl-group]: Invalid value: "A": '
                    "must have at most 63 characters a-z, 0-9 "
                    'and -, and begin and end with a letter or digit, or be "none"'
                )
            ],
            id="a bad group on the set",
        ),
        pytest.param(
            manifest(clique(annotations={"grove.io/mnnvl-group": "a.b"})),
            [
                (
                    'spec.template.cliques[0].annotations[grove.io/mnnvl-group]: Invalid value: "a.b": must have at '
                    'most 63 characters a-z, 0-9 and -, and begin and end with a letter or digit, or be "none"'
                )
            ],
            id="a bad group on a clique",
        ),
        pytest.param(
            manifest(groups=(group("g", "a", annotations={"grove.io/mnnvl-group": ""}),)),
            [
                (
                    'spec.template.podCliqueScalingGroups[0].annotations[grove.io/mnnvl-group]: Invalid value: "": '
                    "must have at most 63 characters a-z, 0-9 and -, "
                    'and begin and end with a letter or digit, or be "none"'
                )
            ],
            id="a bad group on a scaling group",
        ),
    ],
)
def test_a_set_with_bad_nvlink_groups_is_refused(json: JsonObject, errors: list[str]) -> None:
    assert refusals(json) == errors
