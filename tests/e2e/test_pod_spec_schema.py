"""kubectl knows the pod specs inside our kinds on the embedded cluster as it does on a real one."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.served import Kubectl, grove_up

pytestmark = pytest.mark.kubectl

MISSPELT = """\
apiVersion: grove.io/v1alpha1
kind: PodCliqueSet
metadata: {name: misspelt}
spec:
  replicas: 1
  template:
    cliques:
    - name: a
      spec:
        roleName: a
        replicas: 1
        podSpec:
          containers:
          - {name: main, image: none, imagPullPolicy: Always}
"""


@pytest.fixture(scope="module")
def kubectl(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubectl]:
    folder: Path = tmp_path_factory.mktemp("up")
    with grove_up(folder, "--nodes", "1") as kubectl:
        yield kubectl


def test_kubectl_explains_a_pod_spec(kubectl: Kubectl) -> None:
    said = kubectl("explain", "pcs.spec.template.cliques.spec.podSpec.containers").out
    assert "readinessProbe\t<Object>\n    Decides whether the pod is ready; minAvailable counts ready pods." in said
    assert "IfNotPresent" in kubectl("explain", "pclq.spec.podSpec.containers.imagePullPolicy").out


def test_a_misspelt_field_of_a_pod_spec_is_named(kubectl: Kubectl) -> None:
    said = kubectl.attempt("apply", "-f", "-", stdin=MISSPELT)
    assert said.code == 1
    assert 'unknown field "spec.template.cliques[0].spec.podSpec.containers[0].imagPullPolicy"' in said.err
