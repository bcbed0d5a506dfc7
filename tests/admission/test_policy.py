"""Admission as a whole: defaults, warnings, and no body that breaks it."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as run_settings
from hypothesis import strategies as st

from grove.admission.policy import review
from grove.api.defaulting import default_podcliqueset
from grove.api.types.admission import AdmissionRequest, AdmissionResult, Operation
from grove.api.types.meta import JsonObject
from grove.api.validation.validation_options import ValidationOptions
from tests.admission.asking import created, texts, updated
from tests.api.manifests import clique, container, manifest, training
from tests.seeds import examples

RANKED = "grove.io/ranked-clique"
AT = f"metadata.annotations[{RANKED}]"
_NVLINKED = clique(annotations={"grove.io/mnnvl-group": "x"})
_MANIFEST = manifest(_NVLINKED)
_WARNING = (
    "spec.template.cliques[0].annotations[grove.io/mnnvl-group]: multi-node NVLink is not supported yet: "
    "no compute domain is created"
)


def test_a_good_set_comes_back_with_its_defaults() -> None:
    assert created(manifest()) == AdmissionResult(object=default_podcliqueset(manifest()))


def test_a_refused_set_does_not_come_back() -> None:
    assert created(manifest(replicas=-1)).object is None


def test_a_field_that_is_not_carried_out_yet_is_a_warning() -> None:
    assert created(_MANIFEST).warnings == (_WARNING,)


def test_a_write_that_changes_nothing_of_it_does_not_repeat_the_warning() -> None:
    relabelled = manifest(_NVLINKED, metadata={"labels": {"a": "b"}})
    assert updated(_MANIFEST, relabelled) == AdmissionResult(object=default_podcliqueset(relabelled))


def test_a_scale_request_is_judged_but_not_lectured() -> None:
    def scaled(replicas: int) -> AdmissionResult:
        new = {**_MANIFEST, "spec": {**_MANIFEST["spec"], "replicas": replicas}}
        return review(
            AdmissionRequest(
                operation=Operation.UPDATE,
                group="grove.io",
                plural="podcliquesets",
                subresource="scale",
                object=new,
                old=_MANIFEST,
            )
        )

    assert (scaled(4).warnings, texts(scaled(4)), texts(scaled(-1))) == (
        (),
        [],
        ["spec.replicas: Invalid value: -1: must be at least 0"],
    )


def test_a_changed_template_is_rolled_out_and_needs_no_warning() -> None:
    assert updated(manifest(), manifest(clique(labels={"a": "b"}))).warnings == ()


def test_what_means_nothing_to_a_training_set_is_a_warning() -> None:
    strategy = {"type": "OnDelete"}
    answers = [created(training(updateStrategy=strategy, replicas=0)), created(manifest(updateStrategy=strategy))]
    said = [list(answer.warnings) for answer in answers]
    assert said == [
        [
            (
                "spec.replicas: no pod runs with 0 replicas, and a training set cannot be scaled: "
                "delete it and create one with the size you need"
            ),
            "spec.updateStrategy: has no effect, because a training set cannot be updated",
        ],
        [],
    ]


@pytest.mark.parametrize(
    ("json", "warnings"),
    [
        (training(clique("a"), clique("b")), []),
        (
            training(clique("a"), clique("b"), metadata={"annotations": {RANKED: "c"}}),
            [f"{AT}: the template has no clique 'c', so no pod has a rank; name one of: a, b"],
        ),
        (training(clique("a"), clique("b"), metadata={"annotations": {RANKED: "b"}}), []),
        (
            manifest(metadata={"annotations": {RANKED: "a"}}),
            [f"{AT}: has no effect, because only pods of training sets have ranks"],
        ),
    ],
)
def test_a_ranked_clique_that_does_not_exist_is_a_warning(json: JsonObject, warnings: list[str]) -> None:
    assert list(created(json).warnings) == warnings


def test_an_installation_says_which_schedulers_and_features_it_has() -> None:
    json = manifest(clique(pod={"schedulerName": "mine"}), metadata={"annotations": {"grove.io/mnnvl-group": "one"}})
    equipped = ValidationOptions(schedulers=("mine",), default_scheduler="mine")
    bare = ValidationOptions(schedulers=("mine",), default_scheduler="mine", is_mnnvl_enabled=False)
    assert (texts(created(json, settings=equipped)), texts(created(json, settings=bare))) == (
        [],
        [
            (
                'metadata.annotations[grove.io/mnnvl-group]: Invalid value: "one": '
                'multi-node NVLink is disabled: remove the annotation, or write "none"'
            )
        ],
    )


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 2**40) | st.floats(allow_nan=False) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)
_PARTS: JsonObject = {
    "template": {
        "topologyConstraint": {"pack": {"required": "rack"}},
        "resourceSharing": [{"name": "x", "scope": "y"}],
    },
    "groups": ({"name": "g", "cliqueNames": ["a"], "scaleConfig": {"maxReplicas": 2}},),
    "metadata": {"annotations": {"a": "b"}},
    "trainingSpec": {"maxRuntime": "1h", "maxRestarts": 1},
}
_CLIQUE = clique(
    labels={"x": "y"},
    pod={"restartPolicy": "Never", "containers": [container(restartPolicy="Never")]},
    spec={"autoScalingConfig": {"maxReplicas": 3}},
)
_BODIES = (
    manifest(_CLIQUE, **_PARTS),
    {
        **training(_CLIQUE, **_PARTS),
        "status": {"phase": "Running", "conditions": [{"type": "Failed", "status": "True"}]},
    },
)


def _places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place inside a JSON value."""
    steps = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for step, inner in steps for place in _places(inner, (*path, step)))]


def _with(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    if not path:
        return new
    copied = dict(value) if isinstance(value, dict) else list(value)
    copied[path[0]] = _with(value[path[0]], path[1:], new)
    return copied


@run_settings(max_examples=examples(600), deadline=None)
@given(st.sampled_from([(body, place) for body in _BODIES for place in _places(body) if place]), _JSON)
def test_no_body_breaks_admission(target: tuple[JsonObject, tuple[Any, ...]], junk: Any) -> None:
    good, place = target
    broken: JsonObject = _with(good, place, junk)
    for answer in (created(broken), updated(good, broken), updated(broken, good), updated(broken, broken)):
        assert answer.is_allowed == (answer.object is not None)
