"""kubectl with kinds that nobody knew before: defined, used, changed and deleted, against `grove up`."""

from collections.abc import Iterator

import pytest
import yaml

from grove.api.types.meta import JsonObject
from tests.e2e.served import Kubectl, grove_up

pytestmark = pytest.mark.kubectl

RULE = {"rule": "self.size <= self.most", "message": "size is above most"}
SPEC: JsonObject = {
    "type": "object",
    "description": "What is wanted of a widget.",
    "required": ["size"],
    "properties": {
        "size": {"type": "integer", "minimum": 1, "description": "How large it is."},
        "most": {"type": "integer", "default": 10},
    },
    "x-kubernetes-validations": [RULE],
}
DEFINITION: JsonObject = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "widgets.example.com"},
    "spec": {
        "group": "example.com",
        "names": {"plural": "widgets", "kind": "Widget", "shortNames": ["wdg"], "categories": ["gear"]},
        "scope": "Namespaced",
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": SPEC}}},
                "additionalPrinterColumns": [
                    {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
                    {"name": "Most", "type": "integer", "jsonPath": ".spec.most", "priority": 1},
                ],
            }
        ],
    },
}


@pytest.fixture(scope="module")
def kubectl(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubectl]:
    with grove_up(tmp_path_factory.mktemp("up"), "--no-operator") as kubectl:
        kubectl("apply", "-f", "-", stdin=yaml.safe_dump(DEFINITION))
        kubectl("wait", "crd/widgets.example.com", "--for=condition=Established", "--timeout=120s")
        yield kubectl


def _widget(name: str, **spec: int) -> str:
    head = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": name}}
    return yaml.safe_dump({**head, "spec": spec})


def test_a_widget_is_applied_listed_and_deleted(kubectl: Kubectl) -> None:
    assert kubectl("apply", "-f", "-", stdin=_widget("a", size=3)).out == "widget.example.com/a created\n"
    assert kubectl("apply", "-f", "-", stdin=_widget("a", size=4)).out == "widget.example.com/a configured\n"
    assert [line.split() for line in kubectl("get", "wdg").lines] == [["NAME", "SIZE"], ["a", "4"]]
    assert [line.split() for line in kubectl("get", "wdg", "-o", "wide").lines] == [["NAME", "SIZE", "MOST"],
                                                                                     ["a", "4", "10"]]  # fmt: skip
    assert "widget.example.com/a" in kubectl("get", "gear", "-o", "name").out
    assert "widgets" in kubectl("api-resources", "--api-group=example.com").out
    assert kubectl("delete", "widget", "a").out.startswith('widget.example.com "a" deleted')


def test_a_widget_that_breaks_the_rules_is_refused(kubectl: Kubectl) -> None:
    assert "size is above most" in kubectl.attempt("apply", "-f", "-", stdin=_widget("b", size=11)).err
    assert "greater than or equal to 1" in kubectl.attempt("create", "-f", "-", stdin=_widget("b", size=0)).err
    assert 'unknown field "spec.siz"' in kubectl.attempt("create", "-f", "-", stdin=_widget("b", siz=1, size=1)).err


def test_explain_knows_a_widget(kubectl: Kubectl) -> None:
    text = kubectl("explain", "widgets.spec").out
    assert ("What is wanted of a widget." in text, "size\t<integer> -required-" in text) == (True, True)
    assert "most\t<integer>" in kubectl("explain", "wdg", "--recursive").out


def test_a_definition_goes_with_its_objects(kubectl: Kubectl) -> None:
    other = {**DEFINITION, "metadata": {"name": "gadgets.example.com"}}
    names = {"plural": "gadgets", "kind": "Gadget"}
    other["spec"] = {**DEFINITION["spec"], "names": names}
    kubectl("apply", "-f", "-", stdin=yaml.safe_dump(other))
    kubectl("apply", "-f", "-", stdin=_widget("g", size=1).replace("Widget", "Gadget"))
    assert kubectl("get", "gadgets", "-o", "name").out == "gadget.example.com/g\n"
    kubectl("delete", "crd", "gadgets.example.com", "--timeout=120s")
    assert kubectl.attempt("get", "gadgets").code == 1
    assert "gadgets.example.com" not in kubectl("get", "crd", "-o", "name").out
