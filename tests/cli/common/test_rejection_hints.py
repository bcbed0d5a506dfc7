"""A rejected manifest: the message names what the user wrote, and what is allowed there."""

import pytest

from grove.operations.apply.rejection_hints import suggest_field, with_hints


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("spec.template.cliques[0].spec.replicaz", "spec.template.cliques[0].spec.replicas"),
        ("spec.template.cliques[1].spec.minavailable", "spec.template.cliques[1].spec.minAvailable"),
        ("spec.template.cliques[0].spec.podSpec.container", "spec.template.cliques[0].spec.podSpec.containers"),
        pytest.param("spec.template.workloadType", "spec.workloadType", id="at the wrong level"),
        pytest.param("spec.cliques", "spec.template.cliques", id="one level too high"),
        pytest.param("spec.template.cliques[0].spec.zzz", "", id="like no field"),
    ],
)
def test_an_unknown_field_is_answered_with_the_field_that_was_meant(written: str, meant: str) -> None:
    assert suggest_field(written) == meant
    told = with_hints("PodCliqueSet", {}, f'strict decoding error: unknown field "{written}"')
    assert told == f'strict decoding error: unknown field "{written}"' + (f" (did you mean {meant}?)" if meant else "")


def test_fields_of_other_kinds_are_not_guessed() -> None:
    assert with_hints("ConfigMap", {}, 'unknown field "dat"') == 'unknown field "dat"'


def test_a_number_with_a_fraction_is_answered_with_the_ways_to_write_it() -> None:
    path = "spec.template.cliques[0].spec.podSpec.containers[0].resources.requests.cpu"
    requests = {"resources": {"requests": {"cpu": 0.5}}}
    body = {"spec": {"template": {"cliques": [{"spec": {"podSpec": {"containers": [requests]}}}]}}}
    said = f'{path}: Invalid value: "number": {path} in body must be of type integer,string: "number"'
    assert with_hints("PodCliqueSet", body, said) == (
        f'{path}: 0.5 is a number with a fraction: write it as text, "0.5", or as 500m'
    )
