"""What our CRDs take over from Kubernetes is structure, and only what a structural schema may say."""

import re
from collections.abc import Iterator
from typing import Any

import pytest

from grove.api.schema.kubernetes_descriptions import DESCRIPTIONS
from grove.api.schema.kubernetes_schemas import SPECIAL, kubernetes_schema
from grove.api.types.meta import JsonObject

ROOTS = ("PodSpec", "MetricSpec", "HorizontalPodAutoscalerBehavior", "ResourceClaimTemplateSpec")
# All that a schema of ours says; everything else in OpenAPI is for others, or not for CRDs.
VOCABULARY = frozenset(
    {
        "type", "format", "enum", "required", "properties", "items", "additionalProperties", "description", "default",
        "pattern", "x-kubernetes-int-or-string", "x-kubernetes-preserve-unknown-fields",
        "x-kubernetes-list-type", "x-kubernetes-list-map-keys", "x-kubernetes-map-type",
    }
)  # fmt: skip
_INNER = ("items", "additionalProperties")


def walk(schema: JsonObject, path: str) -> Iterator[tuple[str, JsonObject]]:
    yield path, schema
    for name, inner in schema.get("properties", {}).items():
        yield from walk(inner, f"{path}.{name}")
    for part in _INNER:
        if part in schema:
            yield from walk(schema[part], f"{path}[]")


EVERYTHING = [found for root in ROOTS for found in walk(kubernetes_schema(root), root)]


def at(path: str) -> JsonObject:
    """The schema at a path, such as `PodSpec.containers[]`."""
    return next(schema for place, schema in EVERYTHING if place == path)


def test_the_spec_of_a_pod_is_complete() -> None:
    assert len(kubernetes_schema("PodSpec")["properties"]) > 40
    assert at("PodSpec.containers[].readinessProbe.httpGet.port") == SPECIAL["IntOrString"]
    assert at("PodSpec.volumes[].ephemeral.volumeClaimTemplate.spec.resources.requests[]") == SPECIAL["Quantity"]


def test_only_words_of_a_structural_schema_are_used() -> None:
    assert [(path, word) for path, schema in EVERYTHING for word in schema if word not in VOCABULARY] == []


def test_everything_has_a_type_or_is_a_number_or_a_string() -> None:
    untyped = [
        path for path, schema in EVERYTHING if "type" not in schema and "x-kubernetes-int-or-string" not in schema
    ]
    assert untyped == []


def test_the_keys_of_a_list_are_always_there() -> None:
    """A structural schema demands it: each key is required, or has a default."""
    keyed = [(path, schema) for path, schema in EVERYTHING if "x-kubernetes-list-map-keys" in schema]
    loose = [
        f"{path}.{key}"
        for path, schema in keyed
        for key in schema["x-kubernetes-list-map-keys"]
        if key not in schema["items"].get("required", ()) and "default" not in schema["items"]["properties"][key]
    ]
    assert (len(keyed) > 20, loose) == (True, [])


def test_the_only_default_is_the_protocol_of_a_port() -> None:
    """A default would change what a user wrote; this one is the key of a list, and the template hash knows about it."""
    defaults = {path.rpartition(".")[2]: schema["default"] for path, schema in EVERYTHING if "default" in schema}
    assert defaults == {"protocol": "TCP"}
    assert {path.split(".")[-2] for path, schema in EVERYTHING if "default" in schema} == {"ports[]"}


def test_an_optional_word_may_be_empty_and_a_required_one_may_not() -> None:
    assert at("PodSpec.containers[].imagePullPolicy")["enum"] == ["Always", "IfNotPresent", "Never", ""]
    assert at("PodSpec.tolerations[].effect")["enum"][-1] == ""
    assert "" not in at("PodSpec.securityContext.seccompProfile.type")["enum"]


def test_the_name_of_a_pull_secret_must_be_there_because_its_list_is_keyed_by_it() -> None:
    assert at("PodSpec.imagePullSecrets[]")["required"] == ["name"]
    assert "required" not in at("PodSpec.volumes[].csi.nodePublishSecretRef")


def test_no_sentence_of_kubernetes_is_in_the_data() -> None:
    """Descriptions are ours; whatever else has a blank in it would be one of theirs."""
    words = [text for _, schema in EVERYTHING for text in _texts({**schema, "description": ""})]
    assert [text for text in words if re.search(r"\s", text)] == []
    ours = {text for fields in DESCRIPTIONS.values() for text in fields.values()}
    assert {schema["description"] for _, schema in EVERYTHING if "description" in schema} == ours


def _texts(schema: JsonObject) -> Iterator[str]:
    for key, value in schema.items():
        if key not in ("properties", *_INNER):
            yield from _strings(value)


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for item in value:
            yield from _strings(item)


@pytest.mark.parametrize("name", DESCRIPTIONS)
def test_every_field_of_a_level_that_has_words_has_its_own(name: str) -> None:
    assert list(DESCRIPTIONS[name]) == list(kubernetes_schema(name)["properties"])


@pytest.mark.parametrize("text", ["1", "500m", "80Mi", "1.5Gi", ".5", "2.", "1e3", "1E-3", "+2", "-1k"])
def test_a_quantity_is_one(text: str) -> None:
    assert re.search(SPECIAL["Quantity"]["pattern"], text)


@pytest.mark.parametrize("text", ["", "m", "1 Gi", "1gi", "1e", "1e1.5", "--1", "1.2.3", "."])
def test_what_is_no_quantity_is_refused(text: str) -> None:
    assert not re.search(SPECIAL["Quantity"]["pattern"], text)
