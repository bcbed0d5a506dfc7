"""The data on how built-in kinds merge are those of the newest Kubernetes that we know, and cover what is served."""

import pytest

from grove.cluster.built_in_resources import SERVED, ResourceInfo
from grove.cluster.patches.merge_types import Items, Members, built_in_type
from tests.kube.controlplane.build import DEFAULT_VERSION
from tests.kube.controlplane.merge_types import TARGET, text_of, types_of
from tests.kube.controlplane.plane import Plane

_BUILT_IN = [resource_info for resource_info in SERVED if not resource_info.is_custom]


@pytest.mark.parametrize("resource_info", _BUILT_IN, ids=[resource_info.qualified for resource_info in _BUILT_IN])
def test_every_built_in_kind_has_a_type(resource_info: ResourceInfo) -> None:
    found = built_in_type(resource_info.api_version, resource_info.kind)
    assert isinstance(found, Members)
    assert {"apiVersion", "kind", "metadata"} <= set(found.fields)


def test_a_definition_may_contain_itself() -> None:
    definition = built_in_type("apiextensions.k8s.io/v1", "CustomResourceDefinition")
    assert isinstance(definition, Members)
    spec = definition.fields["spec"]
    assert isinstance(spec, Members)
    versions = spec.fields["versions"]
    assert isinstance(versions, Items)
    assert isinstance(versions.items, Members)
    validation = versions.items.fields["schema"]
    assert isinstance(validation, Members)
    schema = validation.fields["openAPIV3Schema"]
    assert isinstance(schema, Members)
    assert schema.fields["not"] is schema


@pytest.mark.kube
def test_the_data_are_those_of_this_server(plane: Plane) -> None:
    """`python -m tests.kube.controlplane.merge_types` takes them again. Other versions may have other fields."""
    if plane.version == DEFAULT_VERSION:
        assert TARGET.read_text() == text_of(types_of(plane))
    assert types_of(plane)["definitions"]["Container"]["fields"]["env"]["keys"] == {"name": ""}
