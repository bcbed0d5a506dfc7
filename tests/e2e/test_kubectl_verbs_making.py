"""kubectl makes and changes things, on the embedded cluster and on a real one: create, apply, patch and their like."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml

from grove.api.types.meta import JsonObject
from grove.cluster.http.loopback_certificates import make_certificates
from tests.e2e.kubectl_verbs import Both, a_config, a_pod, a_set

pytestmark = pytest.mark.kube


@pytest.fixture
def editor(tmp_path: Path) -> Callable[[str], str]:
    """A program that edits with one command of sed; empty: one that changes nothing."""

    def write(command: str) -> str:
        path = tmp_path / "editor"
        path.write_text(f"#!/bin/sh\nsed -i '{command}' \"$1\"\n")
        path.chmod(0o700)
        return str(path)

    return write


# create

GENERATORS = [
    pytest.param("configmap {name} --from-literal=a=b --from-literal=c=d", "configmap", id="configmap"),
    pytest.param("secret generic {name} --from-literal=a=b", "secret", id="secret-generic"),
    pytest.param(
        "secret docker-registry {name} --docker-username=u --docker-password=p --docker-server=example",
        "secret",
        id="secret-docker-registry",
    ),
    pytest.param("serviceaccount {name}", "serviceaccount", id="serviceaccount"),
    pytest.param("role {name} --verb=get,list --resource=pods,pods/log", "role", id="role"),
    pytest.param("rolebinding {name} --role=x --serviceaccount=default:x --user=u", "rolebinding", id="rolebinding"),
    pytest.param("clusterrole {name} --verb=get --non-resource-url=/x", "clusterrole", id="clusterrole"),
    pytest.param("clusterrolebinding {name} --clusterrole=x --group=g", "clusterrolebinding", id="clusterrolebinding"),
    pytest.param("quota {name} --hard=pods=100,services=3", "quota", id="quota"),
    pytest.param("priorityclass {name} --value=7 --description=d", "priorityclass", id="priorityclass"),
    pytest.param("poddisruptionbudget {name} --selector=app=x --min-available=1", "pdb", id="poddisruptionbudget"),
    pytest.param("service clusterip {name} --tcp=80:8080", "service", id="service-clusterip"),
    pytest.param("service clusterip {name} --clusterip=None", "service", id="service-headless"),
    pytest.param("service nodeport {name} --tcp=80:8080 --tcp=443", "service", id="service-nodeport"),
    pytest.param("service loadbalancer {name} --tcp=80:8080", "service", id="service-loadbalancer"),
    pytest.param("service externalname {name} --external-name=example.com", "service", id="service-externalname"),
    pytest.param("namespace {name}", "namespace", id="namespace"),
]

# What a controller writes into the status of some, a moment later.
COUNTED = {"quota": "{.status.used.services}=0", "pdb": "{.status.observedGeneration}=1"}


@pytest.mark.parametrize(("command", "kind"), GENERATORS)
def test_what_a_generator_makes_is_the_same_object(both: Both, command: str, kind: str) -> None:
    # Those that belong to no namespace need a name that nobody else has.
    name = f"made-in-{both.namespace}"
    words = command.format(name=name).split()
    both("create", *words, "--dry-run=server")
    both("create", *words)
    both("create", *words, code=1)
    # What a quota counts is written by nobody here: the server knows it.
    owners = () if kind == "quota" else ("--show-managed-fields",)
    if counted := COUNTED.get(kind):
        both("wait", f"{kind}/{name}", f"--for=jsonpath={counted}", "--timeout=120s")
    both("get", kind, name, "-o", "yaml", *owners)
    both("get", kind, name, "-o", "wide")


def test_create_makes_a_secret_of_a_certificate(both: Both, tmp_path: Path) -> None:
    made = make_certificates(datetime.now(UTC))
    (tmp_path / "tls.crt").write_bytes(made.certificate)
    (tmp_path / "tls.key").write_bytes(made.key)
    files = (f"--cert={tmp_path / 'tls.crt'}", f"--key={tmp_path / 'tls.key'}")
    both("create", "secret", "tls", "made", *files)
    both("get", "secret", "made", "-o", "yaml")
    both("describe", "secret", "made")


def test_create_makes_a_config_of_files(both: Both, tmp_path: Path) -> None:
    (tmp_path / "one").write_text("1\n")
    (tmp_path / "bytes").write_bytes(b"\xff\xfe")
    (tmp_path / "vars").write_text("A=b\nC=d\n")
    both("create", "configmap", "made", f"--from-file={tmp_path / 'one'}", f"--from-file=b={tmp_path / 'bytes'}")
    both("create", "configmap", "env", f"--from-env-file={tmp_path / 'vars'}")
    both("get", "configmaps", "made", "env", "-o", "yaml")
    both("describe", "configmap", "made")


def test_create_makes_tokens(both: Both) -> None:
    both("create", "serviceaccount", "a")
    both("create", "token", "a", "--duration=20m")
    both("create", "token", "nobody", code=1)
    both("create", "token", "a", "--duration=1s", code=1)


@pytest.mark.parametrize(
    ("command", "differs"),
    [
        ("deployment made --image=x", "create-deployment"),
        ("job made --image=x", "create-job"),
        ("cronjob made --image=x --schedule=@daily", "create-cronjob"),
        ("ingress made --rule=a/b=c:80", "create-ingress"),
    ],
)
def test_create_refuses_politely_what_is_not_served(both: Both, command: str, differs: str) -> None:
    both("create", *command.split(), code=1, differs=differs)


def test_create_takes_manifests(both: Both, tmp_path: Path) -> None:
    path = tmp_path / "all.yaml"
    path.write_text(yaml.safe_dump_all([a_config("a"), a_set("b")]))
    both("create", "-f", str(path), "--dry-run=client")
    both("create", "-f", str(path), "--dry-run=server", "-o", "name")
    both("create", "-f", str(path), "--save-config")
    both("create", "-f", str(path), code=1)
    both("create", "-f", "-", stdin=yaml.safe_dump({**a_config("c"), "dta": {}}), code=1)
    both("create", "-f", "-", stdin="kind: Nonsense\napiVersion: v1\nmetadata: {name: a}", code=1)
    both("create", "configmap", "c", "--from-literal=a=b", "--dry-run=client", "-o", "yaml")
    both("create", "role", "r", "--verb=get", "--resource=nonsense", code=1)


def test_a_set_that_is_wrong_is_refused(both: Both) -> None:
    wrong = a_set("wrong", replicas=-1)
    both("create", "-f", "-", stdin=yaml.safe_dump(wrong), code=1, differs="ours-speak-first")
    misspelt = a_set("misspelt")
    misspelt["spec"]["replica"] = 3
    both("create", "-f", "-", stdin=yaml.safe_dump(misspelt), code=1)
    both("create", "-f", "-", "--validate=warn", stdin=yaml.safe_dump(misspelt))


def test_raw_requests_are_answered(both: Both) -> None:
    home = f"/api/v1/namespaces/{both.namespace}/configmaps"
    both("create", "--raw", home, "-f", "-", stdin='{"metadata":{"name":"raw"}}')
    body = '{"metadata":{"name":"raw"},"data":{"a":"b"}}'
    both("replace", "--raw", f"{home}/raw", "-f", "-", stdin=body)
    both("get", "--raw", f"{home}/raw")
    both("get", "--raw", f"{home}/nobody", code=1)
    both("delete", "--raw", f"{home}/raw")


# expose, run, set


def test_a_pod_is_run_and_exposed(both: Both) -> None:
    both("run", "web", "--image=example/x", "--labels=a=b", "--port=80", "--expose")
    both("get", "service", "web", "-o", "yaml")
    both("run", "web", "--image=example/x", code=1)
    both("expose", "pod", "web", "--port=80", "--name=other", "--type=NodePort")
    both("expose", "pod", "web", "--port=80", "--name=other", code=1)
    both("expose", "service", "web", "--port=443", "--target-port=8443", "--name=third")
    both("get", "services", "-o", "wide")
    ready = "jsonpath={.items[*].endpoints[?(@.conditions.ready==true)].addresses[*]}"
    both.await_real("get", "endpointslices", "-l", "kubernetes.io/service-name=third", "-o", ready)
    both("describe", "service", "third", differs="no-endpoints")


def test_a_set_is_not_exposed(both: Both) -> None:
    both.create(a_set("a"))
    both("expose", "pcs", "a", "--port=80", code=1)


def test_run_shows_what_it_would_make(both: Both) -> None:
    both("run", "web", "--image=example/x", "--dry-run=client", "-o", "yaml")
    both("run", "web", "--image=example/x", "--dry-run=server", "-o", "yaml", differs="no-account")


def test_run_waits_for_a_pod_that_ends(both: Both) -> None:
    words = ("--image=example/x", "--restart=Never", "--annotations=simulation.grove.io/exit-after=1s")
    both("run", "ending", *words)
    both("wait", "pod/ending", "--for=jsonpath={.status.phase}=Succeeded", "--timeout=120s")
    both("get", "pod", "ending")


def test_set_changes_what_may_change(both: Both) -> None:
    both.create(a_pod("web"))
    both("set", "image", "pod/web", "main=example/web:2")
    assert both("get", "pod", "web", "-o", "jsonpath={.spec.containers[0].image}").out == "example/web:2"
    both("set", "image", "pod/web", "other=example/web:2", code=1)
    both("set", "image", "pod/web", "main=example/web:3", "--dry-run=server", "-o", "name")
    both("set", "env", "pod/web", "--list")
    both("create", "service", "clusterip", "svc", "--tcp=80")
    both("set", "selector", "service/svc", "app=other")
    both("create", "rolebinding", "rb", "--role=x", "--user=u")
    both("set", "subject", "rolebinding", "rb", "--user=alice", "--serviceaccount=default:x")
    both("get", "rolebinding", "rb", "-o", "yaml")


@pytest.mark.parametrize(
    "command", ["env pod/web A=b", "resources pod/web --limits=cpu=1", "serviceaccount pod/web other"]
)
def test_set_is_refused_what_a_pod_keeps(both: Both, command: str) -> None:
    both.create(a_pod("web"))
    both("set", *command.split(), code=1, differs="pod-spec-diff")


@pytest.mark.parametrize("command", ["image pcs/a main=x", "env pcs/a A=b", "resources pcs/a --limits=cpu=1"])
def test_set_does_not_know_sets(both: Both, command: str) -> None:
    both.create(a_set("a"))
    both("set", *command.split(), code=1)


def test_set_needs_something_with_pods(both: Both) -> None:
    both.create(a_config("a"))
    both("set", "env", "configmap/a", "A=b", code=1)


# apply, diff, kustomize


def test_apply_creates_changes_and_leaves_alone(both: Both) -> None:
    assert both.apply(a_config("a", x="1", z="2")).out == "configmap/a created\n"
    assert both.apply(a_config("a", x="1", z="2")).out == "configmap/a unchanged\n"
    assert both.apply(a_config("a", x="3")).out == "configmap/a configured\n"
    both("get", "configmap", "a", "-o", "yaml", "--show-managed-fields")
    both.apply(a_config("b"), options=("--dry-run=server",))
    both.apply(a_config("b"), options=("--dry-run=client", "-o", "yaml"))


def test_apply_speaks_of_what_it_did_not_create(both: Both) -> None:
    both.create(a_config("a", x="1"))
    both.apply(a_config("a", x="2"))


def test_a_set_is_applied(both: Both) -> None:
    both.apply(a_set("a", labels={"tier": "gold"}))
    both.apply(a_set("a", replicas=2))
    both("get", "pcs", "a", "-o", "jsonpath={.spec.replicas} {.metadata.labels}")
    wrong = a_set("a")
    wrong["spec"]["template"]["cliques"][0]["spec"]["minAvailable"] = 9
    both.apply(wrong, code=1)


def test_the_last_applied_is_viewed_set_and_edited(both: Both, editor: Callable[[str], str]) -> None:
    both.apply(a_config("a", x="1"))
    both("apply", "view-last-applied", "configmap", "a")
    both("apply", "set-last-applied", "-f", "-", stdin=yaml.safe_dump(a_config("a", x="2")))
    both("apply", "view-last-applied", "configmap/a", "-o", "json")
    both("apply", "edit-last-applied", "configmap/a", editor=editor("s/x: .*/x: three/"))
    both("apply", "view-last-applied", "configmap/a")
    both("apply", "view-last-applied", "configmap/nobody", code=1)


def test_the_server_applies(both: Both) -> None:
    ours, theirs = ("--server-side", "--field-manager=us"), ("--server-side", "--field-manager=them")
    both.apply(a_config("a", x="1", z="1"), options=ours)
    both.apply(a_config("a", x="1"), options=theirs)
    both.apply(a_config("a", x="2"), options=theirs, code=1)
    both.apply(a_config("a", x="2"), options=(*theirs, "--force-conflicts"))
    both.apply(a_config("a", z="1"), options=ours)
    both("get", "configmap", "a", "-o", "yaml", "--show-managed-fields")
    both.apply(a_set("b"), options=("--server-side",))
    both.apply(a_set("b", replicas=2), options=theirs, code=1)
    both.apply(a_set("b", replicas=2), options=(*theirs, "--force-conflicts", "--dry-run=server"))


def test_the_server_goes_on_where_kubectl_applied(both: Both) -> None:
    both.apply(a_config("a", x="1", z="1"))
    both.apply(a_config("a", x="2"), options=("--server-side",))
    both("get", "configmap", "a", "-o", "yaml", "--show-managed-fields")
    both.apply(a_config("a", x="3"))
    both("get", "configmap", "a", "-o", "yaml", "--show-managed-fields")


def test_what_somebody_changed_since_kubectl_applied_is_in_conflict(both: Both) -> None:
    both.apply(a_config("a", x="1"))
    both("patch", "configmap", "a", "-p", '{"data":{"x":"9"}}')
    both.apply(a_config("a", x="2"), options=("--server-side",), code=1)
    both.apply(a_config("a", x="2"), options=("--server-side", "--force-conflicts"))


def test_apply_prunes(both: Both) -> None:
    label = {"part": both.namespace}
    kinds = ("--prune", "-l", f"part={both.namespace}", "--prune-allowlist=core/v1/ConfigMap")
    both.apply(a_config("a", label), a_config("b", label), options=kinds)
    both.apply(a_config("b", label), options=kinds)
    both.apply(a_config("b", label), options=kinds[:3], code=1, differs="prune-kinds")
    assert both("get", "configmaps", "-l", f"part={both.namespace}", "-o", "name").out == "configmap/b\n"


def test_apply_prunes_what_a_set_of_its_own_holds(both: Both) -> None:
    own = ("--prune", "--applyset=mine")
    both.apply(a_config("a"), a_config("b"), options=own)
    both.apply(a_config("b"), options=own)
    both("get", "secret", "mine", "-o", "yaml")
    both("get", "configmap", "a", code=1)


def test_diff_shows_what_apply_would_do(both: Both) -> None:
    for flags in ("", "--server-side"):
        both("diff", "-f", "-", *flags.split(), stdin=yaml.safe_dump(a_config("a", x="1")), code=1)
    both.apply(a_config("a", x="1"))
    both("diff", "-f", "-", stdin=yaml.safe_dump(a_config("a", x="1")))
    for flags in ("", "--server-side --force-conflicts"):
        both("diff", "-f", "-", *flags.split(), stdin=yaml.safe_dump(a_config("a", x="2")), code=1)
    both.apply(a_set("b"))
    # Until nobody changes it any more while it is compared.
    both.await_set("b")
    both("diff", "-f", "-", stdin=yaml.safe_dump(a_set("b")))
    both("diff", "-f", "-", stdin=yaml.safe_dump(a_set("b", replicas=2)), code=1)
    both("diff", "-f", "-", stdin="kind: Nonsense\napiVersion: v1\nmetadata: {name: a}", code=2)


def test_what_kustomize_makes_is_applied(both: Both, tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(yaml.safe_dump(a_config("a", x="1")))
    (tmp_path / "kustomization.yaml").write_text("resources: [a.yaml]\nnamePrefix: pre-\n")
    both("kustomize", str(tmp_path))
    both("apply", "-k", str(tmp_path))
    both("get", "-k", str(tmp_path), "-o", "yaml")
    both("delete", "-k", str(tmp_path))


# patch, replace, edit


@pytest.mark.parametrize(
    ("kind", "patch"),
    [
        ("strategic", '{"data":{"z":"2","x":null}}'),
        ("merge", '{"data":{"z":"2","x":null}}'),
        ("json", '[{"op":"add","path":"/data/z","value":"2"},{"op":"remove","path":"/data/x"}]'),
    ],
)
def test_patches_of_every_type_change_an_object(both: Both, kind: str, patch: str) -> None:
    both.create(a_config("a", x="1"))
    both("patch", "configmap", "a", f"--type={kind}", "-p", patch)
    both("get", "configmap", "a", "-o", "yaml", "--show-managed-fields")


def test_patches_are_refused(both: Both) -> None:
    both.create(a_config("a", x="1"), a_set("b"))
    both("patch", "configmap", "a", "-p", '{"data":{"x":"1"}}')
    both("patch", "configmap", "a", "-p", "{", code=1)
    both("patch", "configmap", "a", "--type=json", "-p", '[{"op":"test","path":"/data/x","value":"2"}]', code=1)
    both("patch", "configmap", "a", "--type=merge", "-p", '{"data":{"x":1}}', code=1, differs="long-values")
    both("patch", "configmap", "nobody", "-p", "{}", code=1)
    both("patch", "pcs", "b", "-p", '{"spec":{"replicas":2}}', code=1)
    both("patch", "pcs", "b", "--type=merge", "-p", '{"spec":{"replicas":"x"}}', code=1, differs="ours-type-first")


def test_subresources_are_patched(both: Both) -> None:
    both.create(a_pod("a", schedulerName="nobody"), a_set("b"))
    both("patch", "pod", "a", "--subresource=status", "--type=merge", "-p", '{"status":{"message":"hello"}}')
    both("get", "pod", "a", "-o", "jsonpath={.status.message}")
    both("patch", "pcs", "b", "--subresource=scale", "--type=merge", "-p", '{"spec":{"replicas":2}}')
    both("get", "pcs", "b", "-o", "jsonpath={.spec.replicas}")
    both("patch", "configmap", "a", "--subresource=nonsense", "--type=merge", "-p", "{}", code=1)
    resize = '{"spec":{"containers":[{"name":"main","resources":{"limits":{"cpu":"1"}}}]}}'
    both("patch", "pod", "a", "--subresource=resize", "-p", resize, code=1, differs="no-resize")


def test_a_pod_keeps_its_spec(both: Both) -> None:
    both.create(a_pod("a", schedulerName="nobody"))
    both("patch", "pod", "a", "-p", '{"spec":{"restartPolicy":"Never"}}', code=1, differs="pod-spec-diff")


def test_replace_needs_what_it_replaces(both: Both) -> None:
    both.create(a_config("a", x="1"), a_pod("p", schedulerName="nobody"))
    both("replace", "-f", "-", stdin=yaml.safe_dump(a_config("a", z="1")))
    both("get", "configmap", "a", "-o", "yaml", "--show-managed-fields")
    both("replace", "-f", "-", stdin=yaml.safe_dump(a_config("nobody")), code=1)
    both("replace", "-f", "-", "--force", stdin=yaml.safe_dump(a_config("a", w="1")))
    both("replace", "-f", "-", "--dry-run=server", stdin=yaml.safe_dump(a_config("a", z="1")))
    status = {**a_pod("p", schedulerName="nobody"), "status": {"phase": "Running"}}
    both("replace", "-f", "-", "--subresource=status", stdin=yaml.safe_dump(status))
    both("get", "pod", "p", "-o", "jsonpath={.status.phase}")
    stale = a_config("a", z="1")
    stale["metadata"]["resourceVersion"] = "1"
    both("replace", "-f", "-", stdin=yaml.safe_dump(stale), code=1)


def test_edit_stores_what_the_editor_leaves(both: Both, editor: Callable[[str], str]) -> None:
    both.create(a_config("a", x="one"), a_set("b", labels={"tier": "gold"}))
    both("edit", "configmap", "a", editor=editor("s/x: one/x: two/"))
    both("get", "configmap", "a", "-o", "jsonpath={.data}")
    both("edit", "configmap", "a", editor=editor("s/x: one/x: one/"))
    both("edit", "configmap", "a", editor=editor("s/name: a/name: b/"), code=1)
    both("edit", "pcs", "b", editor=editor("s/tier: gold/tier: silver/"))
    assert both("get", "pcs", "b", "-o", "jsonpath={.metadata.labels.tier}").out == "silver"
    both("edit", "pcs", "b", "--subresource=status", editor=editor("s/nothing/nothing/"))


# label, annotate


@pytest.mark.parametrize("verb", ["label", "annotate"])
def test_marks_come_and_go(both: Both, verb: str) -> None:
    manifests: list[JsonObject] = [a_config("a"), a_set("b")]
    both.create(*manifests)
    for kind, name in (("configmap", "a"), ("pcs", "b")):
        both(verb, kind, name, "x=y", "v=w")
        both(verb, kind, name, "x=z", code=1)
        both(verb, kind, name, "x=z", "--overwrite")
        both(verb, kind, name, "x=z", "--overwrite")
        both(verb, kind, name, "v-")
        both(verb, kind, name, "v-")
        both(verb, kind, name, "--list")
        both(verb, kind, name, "q=r", "--resource-version=1", code=1)
        both(verb, kind, name, "in valid=r", code=1, differs=f"ours-{verb}-first" if kind == "pcs" else "")
        both(verb, kind, name, "q=r", "--dry-run=server")
    both(verb, "configmaps", "--all", "all=yes")
    both(verb, "configmap", "nobody", "x=y", code=1)
    both(verb, "configmaps", "-l", "nothing=here", "x=y")
