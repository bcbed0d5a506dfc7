"""An operator outside of its cluster that serves admission: `grove operator --webhook-url` on a real API server."""

from pathlib import Path

import pytest

from tests.cli.console import ROOT, grove
from tests.cli.operators import Operator, write_config
from tests.e2e.ports import free_port
from tests.kube.controlplane.plane import running_plane

pytestmark = pytest.mark.kube

TOO_DEMANDING = """\
apiVersion: grove.io/v1alpha1
kind: PodCliqueSet
metadata: {name: broken}
spec:
  replicas: 1
  template:
    cliques:
      - name: a
        spec: {roleName: r, replicas: 1, minAvailable: 2, podSpec: {containers: [{name: m, image: i}]}}
"""


def test_sets_are_judged_while_it_runs_and_nobody_is_asked_when_it_has_stopped(tmp_path: Path) -> None:
    with running_plane(tmp_path) as plane:
        plane.kubectl("apply", "--server-side", "-f", "-", stdin=grove(tmp_path, "crds").out)
        flags = ("--config", str(write_config(tmp_path)), "--kubeconfig", str(plane.kubeconfig))
        with Operator(tmp_path, *flags, "--webhook-url", f"https://127.0.0.1:{free_port()}") as operator:
            operator.wait_for_output("ok\n", "readyz")
            refused = plane.user("admin").attempt("apply", "-f", "-", stdin=TOO_DEMANDING)
            assert (refused.code, "must not be greater than replicas (1)" in refused.err) == (1, True)
            plane.kubectl("apply", "-f", str(ROOT / "examples" / "quickstart.yaml"))
            operator.wait_for_output('resource="pods",verb="create"} 10.0', "metrics")
            assert operator.end() == 0
        left = plane.kubectl("get", "validatingwebhookconfigurations,mutatingwebhookconfigurations", "-o", "name")
        assert left == ""
