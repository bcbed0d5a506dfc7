"""kubectl deals with what runs, on the embedded cluster and on a real one: delete, scale, drain, exec and more."""

import re
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from grove.api.types.meta import JsonObject
from tests.e2e.kubectl_verbs import Both, Clusters, a_config, a_pod, a_set
from tests.e2e.served import Kubectl, Ran

pytestmark = pytest.mark.kube

PARTS = "podcliques,podcliquescalinggroups,podgangs,pods,services"


# delete


def test_delete_takes_what_it_is_told(both: Both) -> None:
    both.create(a_config("a"), a_config("b", {"gone": "soon"}), a_config("c", {"gone": "soon"}), a_config("d"))
    both("delete", "configmap", "a", "--dry-run=server")
    both("delete", "configmap", "a", "--dry-run=client")
    both("delete", "configmap", "a")
    both("delete", "configmap", "a", code=1)
    both("delete", "configmap", "a", "--ignore-not-found")
    both("delete", "configmaps", "-l", "gone=soon")
    both("delete", "configmaps", "-l", "gone=soon")
    both("delete", "-f", "-", stdin=yaml.safe_dump(a_config("d")))
    both("delete", "-f", "-", stdin=yaml.safe_dump(a_config("d")), code=1)
    both("delete", "nonsense", "a", code=1)
    both("delete", "configmap", code=1)
    both("delete", "configmaps", "--field-selector=metadata.name=nobody")


def test_delete_takes_all(both: Both) -> None:
    both("create", "secret", "generic", "a")
    both("create", "secret", "generic", "b")
    both("delete", "secrets", "--all", "--wait=false")
    both("get", "secrets")


@pytest.mark.parametrize(
    "options", ["--now", "--grace-period=1", "--force", "--force --grace-period=0", "--wait=false"]
)
def test_delete_ends_a_pod(both: Both, options: str) -> None:
    both.running_pod("web")
    both("delete", "pod", "web", *options.split())
    # Of one that is already gone it says nothing.
    both.each("wait", "pod/web", "--for=delete", "--timeout=120s")


def test_delete_gives_up_waiting(both: Both) -> None:
    held = a_config("held")
    held["metadata"]["finalizers"] = ["example.com/hold"]
    both.create(held)
    both("delete", "configmap", "held", "--timeout=3s", code=1)
    both("patch", "configmap", "held", "--type=merge", "-p", '{"metadata":{"finalizers":null}}')
    both("wait", "configmap/held", "--for=delete", "--timeout=120s")


@pytest.mark.parametrize("cascade", ["background", "foreground", "orphan"])
def test_a_set_is_deleted_with_or_without_its_parts(both: Both, cascade: str) -> None:
    both.running_set("demo")
    both("delete", "pcs", "demo", f"--cascade={cascade}", "--timeout=120s")
    if cascade != "orphan":
        both.each("wait", "pods", "-l", "app.kubernetes.io/part-of=demo", "--for=delete", "--timeout=120s")
    both("get", PARTS, "-o", "name", in_any_order=True)


@pytest.mark.parametrize("cascade", ["background", "foreground", "orphan"])
def test_dependents_go_or_stay(both: Both, cascade: str) -> None:
    both.create(a_config("owner"))
    uid = both.named("get", "configmap", "owner", "-o", "jsonpath={.metadata.uid}")
    both.create(a_config("dependent"))
    for side, kubectl, value in (
        ("embedded", both.clusters.embedded, uid.embedded),
        ("real", both.clusters.real, uid.real),
    ):
        reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": value, "blockOwnerDeletion": True}
        patch = yaml.safe_dump({"metadata": {"ownerReferences": [reference]}})
        owned = kubectl.attempt("-n", both.namespace, "patch", "configmap", "dependent", "--type=merge", "-p", patch)
        assert owned.code == 0, side + owned.err
    both("delete", "configmap", "owner", f"--cascade={cascade}")
    if cascade == "orphan":
        both("wait", "configmap/dependent", "--for=jsonpath={.metadata.uid}", "--timeout=120s")
        both("get", "configmap", "dependent", "-o", "jsonpath={.metadata.ownerReferences}")
    else:
        both.each("wait", "configmap/dependent", "--for=delete", "--timeout=120s")


def test_a_namespace_goes_with_all_that_is_in_it(both: Both) -> None:
    both.create(a_config("a"))
    both.running_pod("web")
    both("delete", "namespace", both.namespace, "--timeout=120s")
    both("get", "namespace", both.namespace, code=1)
    both("get", "pods")


# rollout, scale, autoscale


@pytest.mark.parametrize("command", ["status", "history", "restart", "undo", "pause", "resume"])
def test_rollout_does_not_know_sets(both: Both, command: str) -> None:
    both.create(a_set("a"))
    both("rollout", command, "pcs/a", code=1)
    both("rollout", command, "pcs/nobody", code=1)
    both("rollout", command, "deployment/nobody", code=1, differs="no-deployment")


def test_rollout_does_not_restart_pods(both: Both) -> None:
    both.create(a_pod("p", schedulerName="nobody"))
    both("rollout", "restart", "pod/p", code=1)


def test_scale_changes_replicas_within_the_rules(both: Both) -> None:
    both.running_set("demo")
    both("scale", "pcs", "demo", "--replicas=2")
    both("scale", "pcs", "demo", "--replicas=1", "--current-replicas=5", code=1)
    both("scale", "pcs", "demo", "--replicas=1", "--current-replicas=2")
    both("scale", "pcs", "demo", "--replicas=3", "--dry-run=server")
    both("get", "pcs", "demo", "-o", "jsonpath={.spec.replicas}")
    both("scale", "pcsg", "demo-0-sg", "--replicas=2")
    both("wait", "pcsg/demo-0-sg", "--for=jsonpath={.status.availableReplicas}=2", "--timeout=120s")
    both("scale", "pclq", "demo-0-web", "--replicas=1", code=1)
    both("scale", "pcs", "demo", "--replicas=-1", code=1)
    both("scale", "pcs", "nobody", "--replicas=2", code=1)
    both("scale", "--replicas=2", "-f", "-", stdin=yaml.safe_dump(a_set("demo")))
    both("scale", "deployment", "nobody", "--replicas=1", code=1, differs="no-deployment")


def test_what_has_no_scale_is_not_scaled(both: Both) -> None:
    both.create(a_pod("p", schedulerName="nobody"))
    both("scale", "pod", "p", "--replicas=2", code=1)
    both("autoscale", "pod", "p", "--max=2", code=1)


def test_autoscale_makes_an_autoscaler(both: Both) -> None:
    both.create(a_set("a"))
    both("wait", "pclq/a-0-web", "--for=create", "--timeout=120s")
    both("autoscale", "pclq", "a-0-web", "--min=2", "--max=2", "--cpu=80%", "--dry-run=server", "-o", "yaml")
    both("autoscale", "pclq", "a-0-web", "--min=2", "--max=2")
    both("autoscale", "pclq", "a-0-web", "--min=2", "--max=2", code=1)
    both("autoscale", "pclq", "a-0-web", "--max=0", code=1)
    both("get", "hpa", "a-0-web", "-o", "jsonpath={.spec}")


# Nodes


@pytest.fixture
def node(both: Both) -> Iterator[str]:
    """One of its own for the test, with a name that means this machine: nobody is asked about it elsewhere.

    A real server looks for the kubelet there, and finds that nobody listens."""
    name = "localhost"
    status: JsonObject = {
        "capacity": {"cpu": "4", "memory": "8Gi", "pods": "20"},
        "allocatable": {"cpu": "4", "memory": "8Gi", "pods": "20"},
        "addresses": [{"type": "Hostname", "address": name}],
        "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "it is"}],
    }
    labels = {"kubernetes.io/hostname": name}
    manifest = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}, "status": status}
    both.each("create", "-f", "-", stdin=yaml.safe_dump(manifest))
    yield name
    both.each("delete", "node", name)


def test_nodes_are_cordoned(both: Both, node: str) -> None:
    both("cordon", node, "--dry-run=server")
    both("cordon", node)
    both("cordon", node)
    both("get", "node", node, "-o", "jsonpath={.spec.unschedulable}")
    both("uncordon", node)
    both("uncordon", node)
    both("cordon", "nobody", code=1)
    both("cordon", "-l", "kubernetes.io/hostname=localhost")


def test_nodes_are_tainted(both: Both, node: str) -> None:
    both("taint", "node", node, "a=b:NoSchedule")
    both("taint", "node", node, "a=b:NoSchedule", code=1)
    both("taint", "node", node, "a=c:NoSchedule", "--overwrite")
    both("get", "node", node, "-o", 'jsonpath={.spec.taints[?(@.key=="a")].value}')
    both("taint", "node", node, "a=c:Nonsense", code=1)
    both("taint", "node", node, "a=d:NoExecute", "--dry-run=server")
    both("taint", "node", node, "a-")
    both("taint", "node", node, "a-", code=1)
    both("taint", "node", "nobody", "a=b:NoSchedule", code=1)


def test_describe_shows_a_node(both: Both, node: str) -> None:
    # A new node is tainted until its controller has seen that it is ready; another one annotates it.
    both.await_real("get", "node", node, "-o", "jsonpath=taints:{.spec.taints}.", says="taints:.")
    both.await_real("get", "node", node, "-o", "jsonpath={.metadata.annotations}", says="node.alpha.kubernetes.io/ttl")
    both("describe", "node", node, "--show-events=false", differs="no-node-controller-words")


def _on(node: str, name: str, **spec: object) -> JsonObject:
    return a_pod(name, nodeName=node, tolerations=[{"operator": "Exists"}], **spec)


def test_a_node_is_drained(both: Both, node: str) -> None:
    both.create(_on(node, "a"), _on(node, "b"))
    both("wait", "pods", "--all", "--for=condition=Ready", "--timeout=120s")
    both("drain", node, "--force", "--dry-run=server", in_any_order=True)
    both("drain", node, "--timeout=5s", code=1, in_any_order=True)
    both("drain", node, "--force", "--timeout=120s", in_any_order=True)
    both("get", "pods")
    both("get", "node", node, "-o", "jsonpath={.spec.unschedulable}")
    both("drain", node, "--force", "--timeout=120s")
    both("drain", "nobody", code=1)


def test_a_drain_heeds_what_a_pod_would_lose(both: Both, node: str) -> None:
    both.create(_on(node, "a", volumes=[{"name": "scratch", "emptyDir": {}}]))
    both("wait", "pods", "--all", "--for=condition=Ready", "--timeout=120s")
    both("drain", node, "--force", "--timeout=5s", code=1)
    both("drain", node, "--force", "--delete-emptydir-data", "--ignore-daemonsets", "--timeout=120s")


def test_a_drain_heeds_budgets(both: Both, node: str) -> None:
    both.create(_on(node, "a"))
    both("wait", "pod/a", "--for=condition=Ready", "--timeout=120s")
    both("create", "poddisruptionbudget", "pdb", "--selector=app=a", "--min-available=1")
    both("wait", "pdb/pdb", "--for=jsonpath={.status.currentHealthy}=1", "--timeout=120s")
    both("get", "pdb")
    # Less than the 5 s after which it would try again.
    both("drain", node, "--force", "--timeout=4s", code=1)
    both("drain", node, "--force", "--disable-eviction", "--timeout=120s")
    both("get", "pods")


def test_a_node_with_a_gang_is_drained(both: Both) -> None:
    both.running_set("demo")
    pods = ("-l", "app.kubernetes.io/part-of=demo")
    name = both.named("get", "pods", *pods, "-o", "jsonpath={.items[0].spec.nodeName}")
    count = "jsonpath={.status.availableReplicas}"
    both.each("drain", name, "--timeout=120s", "--pod-selector=app.kubernetes.io/part-of=demo")
    both("wait", "pcs/demo", f"--for={count}=1", "--timeout=120s")
    left = both.each("get", "pods", *pods, "-o", "jsonpath={.items[*].spec.nodeName}")
    both.each("uncordon", name)
    assert name.embedded not in left.embedded.out.split()
    assert name.real not in left.real.out.split()


# Into containers


@pytest.mark.parametrize("command", ["exec web -- ls", "attach web", "cp {file} web:/etc", "cp web:/etc/x {file}"])
def test_who_wants_into_a_pod_is_told_that_nothing_is_there(
    both: Both, node: str, tmp_path: Path, command: str
) -> None:
    (tmp_path / "file").touch()
    both.create(_on(node, "web"))
    both("wait", "pod/web", "--for=condition=Ready", "--timeout=120s")
    words = [word.format(file=tmp_path / "file") for word in command.split()]
    both(*words, code=1, differs=f"no-{words[0]}")


def test_nobody_forwards_to_a_pod_in_which_nothing_runs(both: Both, node: str) -> None:
    both.create(_on(node, "web"))
    both("wait", "pod/web", "--for=condition=Ready", "--timeout=120s")
    both("port-forward", "pod/web", ":80", code=1, differs="no-port-forward")


def test_a_pod_that_is_nowhere_has_no_way_in(both: Both, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    both.create(a_pod("web", schedulerName="nobody"), a_set("a"))
    both("exec", "web", "--", "ls", code=1)
    both("attach", "web", "--pod-running-timeout=3s", code=1)
    both("cp", str(tmp_path / "file"), "web:/etc", code=1)
    both("port-forward", "web", ":80", "--pod-running-timeout=3s", code=1)
    for verb in ("exec", "attach", "port-forward", "debug"):
        rest = {"exec": ("--", "ls"), "port-forward": (":80",), "debug": ("--image=x",)}.get(verb, ())
        both(verb, "nobody", *rest, code=1)
        both(verb, "pcs/a", *rest, code=1)
    both("exec", "web", "-c", "other", "--", "ls", code=1)
    both("exec", "web", code=1)


def test_the_log_of_a_simulated_container_is_its_life(both: Both, node: str) -> None:
    both.create(_on(node, "web"))
    both("wait", "pod/web", "--for=condition=Ready", "--timeout=120s")
    both("logs", "web", differs="simulated-logs")


def test_debug_adds_no_container_to_a_pod(both: Both) -> None:
    both.create(a_pod("web", schedulerName="nobody"))
    both("debug", "web", "--image=example/x", "--attach=false", code=1, differs="no-debug")


def test_debug_copies_a_pod_or_looks_at_a_node(both: Both, node: str) -> None:
    both.create(a_pod("web", schedulerName="nobody"))
    both("debug", "web", "--image=example/x", "--copy-to=copy", "--attach=false")
    both("get", "pod", "copy", "-o", "jsonpath={.spec.containers[*].image}")
    both("debug", f"node/{node}", "--image=example/x", "--attach=false", "--profile=general")
    both("get", "pods", "-o", "jsonpath={.items[*].spec.nodeName}")


# proxy


def test_proxy_passes_requests_on(clusters: Clusters, both: Both) -> None:
    both.create(a_config("a", x="1"))

    def read(kubectl: Kubectl, side: str) -> Ran:
        with kubectl.running("proxy", "--port=0") as process:
            assert process.stdout is not None
            address = re.search(r"127\.0\.0\.1:\d+", process.stdout.readline())
            assert address is not None
            url = f"http://{address[0]}/api/v1/namespaces/{both.namespace}/configmaps/a"
            with urllib.request.urlopen(url, timeout=60) as answer:
                return Ran(answer.status, answer.read().decode(), "")

    ran = clusters.on_each(read)
    for each in (ran.embedded, ran.real):
        assert (each.code, yaml.safe_load(each.out)["data"]) == (200, {"x": "1"})
