"""The machine's kubectl, in daily use, against `grove up`."""

import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
import yaml

from grove.api.schema.crd_generator import crd_text, custom_resource_definitions
from grove.api.types.meta import JsonObject
from tests.e2e.served import Kubectl, Ran, grove_up

pytestmark = pytest.mark.kubectl


@pytest.fixture(scope="module")
def kubectl(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubectl]:
    with grove_up(tmp_path_factory.mktemp("up"), "--nodes", "3") as kubectl:
        yield kubectl


def _set(name: str, *, replicas: int = 1, image: str = "example/web:1", **labels: str) -> JsonObject:
    """A set of one clique of two pods, and a group of one."""
    pod = {"containers": [{"name": "main", "image": image, "resources": {"requests": {"cpu": "1"}}}]}
    cliques = [
        {"name": role, "spec": {"roleName": role, "replicas": count, "podSpec": pod}}
        for role, count in (("web", 2), ("work", 1))
    ]
    return {
        "apiVersion": "grove.io/v1alpha1",
        "kind": "PodCliqueSet",
        "metadata": {"name": name, "labels": labels},
        "spec": {
            "replicas": replicas,
            "template": {
                "cliques": cliques,
                "podCliqueScalingGroups": [{"name": "sg", "cliqueNames": ["work"]}],
            },
        },
    }


def _apply(kubectl: Kubectl, manifest: JsonObject, *options: str) -> Ran:
    return kubectl("apply", "-f", "-", *options, stdin=yaml.safe_dump(manifest))


def _running(kubectl: Kubectl, name: str) -> None:
    """Put a set there and wait until it is available, and every status says so: each is written by itself."""
    _apply(kubectl, _set(name))
    for part, status in (
        (f"pcs/{name}", "{.status.availableReplicas}=1"),
        (f"pcsg/{name}-0-sg", "{.status.availableReplicas}=1"),
        (f"pclq/{name}-0-web", "{.status.readyReplicas}=2"),
        (f"pg/{name}-0", "{.status.phase}=Running"),
    ):
        kubectl("wait", part, f"--for=jsonpath={status}", "--timeout=120s")


def _columns(ran: Ran) -> list[list[str]]:
    return [line.split() for line in ran.lines]


def test_only_its_owner_may_read_the_kubeconfig(kubectl: Kubectl) -> None:
    assert stat.S_IMODE(kubectl.kubeconfig.stat().st_mode) == 0o600


def test_api_resources_are_discovered(kubectl: Kubectl) -> None:
    rows = {row[0]: row[1:] for row in _columns(kubectl("api-resources", "--no-headers", "--categories=grove"))}
    assert rows == {
        "podcliquesets": ["pcs", "grove.io/v1alpha1", "true", "PodCliqueSet"],
        "podcliques": ["pclq", "grove.io/v1alpha1", "true", "PodClique"],
        "podcliquescalinggroups": ["pcsg", "grove.io/v1alpha1", "true", "PodCliqueScalingGroup"],
        "podgangs": ["pg", "scheduler.grove.io/v1alpha1", "true", "PodGang"],
        "clustertopologybindings": ["ct", "grove.io/v1alpha1", "false", "ClusterTopologyBinding"],
    }


def test_version_and_readiness_are_told(kubectl: Kubectl) -> None:
    assert kubectl.json("version")["serverVersion"]["gitVersion"] == "v1.37.1+grove"
    assert kubectl("get", "--raw", "/readyz").out == "ok"


def test_get_shows_the_columns_of_each_kind(kubectl: Kubectl) -> None:
    _running(kubectl, "shown")
    header, *rows = _columns(kubectl("get", "pods", "-l", "app.kubernetes.io/part-of=shown"))
    assert header == ["NAME", "READY", "STATUS", "RESTARTS", "AGE"]
    assert [row[1:4] for row in rows] == [["1/1", "Running", "0"]] * 3
    header, row = _columns(kubectl("get", "pcs", "shown"))
    assert header == ["NAME", "READY", "REPLICAS", "AVAILABLE", "PHASE", "AGE"]
    assert row[:5] == ["shown", "True", "1", "1", "Running"]
    header, row = _columns(kubectl("get", "pg", "shown-0"))
    assert (header, row[:2]) == (["NAME", "PHASE", "AGE"], ["shown-0", "Running"])


def test_wide_output_adds_columns(kubectl: Kubectl) -> None:
    _running(kubectl, "wide")
    first_line = kubectl("get", "pods", "-o", "wide").lines[0]
    assert first_line.split("  ")[0] == "NAME"
    assert all(column in first_line for column in ("IP", "NODE", "NOMINATED NODE", "READINESS GATES"))
    header, row = _columns(kubectl("get", "pclq", "wide-0-web", "-o", "wide"))
    assert dict(zip(header, row, strict=True)) | {"AGE": ""} == {
        "NAME": "wide-0-web", "MINAVAIL": "2", "REPLICAS": "2", "READY": "2", "SCHEDULED": "2", "UPDATED": "2",
        "GATED": "0", "MINBREACHED": "False", "AGE": "",
    }  # fmt: skip
    (node, *_) = _columns(kubectl("get", "nodes", "--no-headers"))
    assert (node[:3], node[4]) == (["node-0", "Ready", "<none>"], _server_version(kubectl))


def _server_version(kubectl: Kubectl) -> str:
    version: str = msgspec.json.decode(kubectl("version", "-o", "json").out)["serverVersion"]["gitVersion"]
    return version


def test_yaml_output_is_the_object(kubectl: Kubectl) -> None:
    _apply(kubectl, _set("written"))
    found = yaml.safe_load(kubectl("get", "pcs", "written", "-o", "yaml").out)
    assert (found["apiVersion"], found["kind"], found["metadata"]["name"]) == (
        "grove.io/v1alpha1",
        "PodCliqueSet",
        "written",
    )


def test_get_follows_changes(kubectl: Kubectl) -> None:
    _running(kubectl, "followed")
    watched = kubectl("get", "pcs", "followed", "--watch", "--request-timeout=5s")
    header, *rows = _columns(watched)
    assert (header[0], {row[0] for row in rows}) == ("NAME", {"followed"})


def test_describe_shows_an_object_with_its_events(kubectl: Kubectl) -> None:
    _running(kubectl, "described")
    text = kubectl("describe", "pcs", "described").out
    assert "Kind:         PodCliqueSet" in text
    assert "PodGangCreateOrUpdateSuccessful" in text
    pod = kubectl("get", "pods", "-l", "app.kubernetes.io/part-of=described", "-o", "name").lines[0]
    assert ["Status:", "Running"] in _columns(kubectl("describe", pod))
    assert "nvidia.com/gpu" in kubectl("describe", "node", "node-0").out


def test_events_are_listed_by_both_commands(kubectl: Kubectl) -> None:
    _running(kubectl, "eventful")
    expected = "PodCliqueSet/eventful"
    assert any(expected in line for line in kubectl("events", "--for", "pcs/eventful").lines)
    selector = "--field-selector=involvedObject.name=eventful,type=Normal"
    assert {row[3] for row in _columns(kubectl("get", "events", "--no-headers", selector))} == {"podcliqueset/eventful"}
    newer = kubectl.json("get", "events.events.k8s.io")["items"]
    assert {event["apiVersion"] for event in newer} == {"events.k8s.io/v1"}
    assert "eventful" in {event["regarding"]["name"] for event in newer}


def test_apply_creates_changes_and_leaves_alone(kubectl: Kubectl) -> None:
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "applied"}, "data": {"a": "1", "b": "2"}}
    assert _apply(kubectl, config).out == "configmap/applied created\n"
    assert _apply(kubectl, config).out == "configmap/applied unchanged\n"
    assert _apply(kubectl, {**config, "data": {"a": "3"}}).out == "configmap/applied configured\n"
    assert kubectl.json("get", "cm", "applied")["data"] == {"a": "3"}


def test_apply_changes_a_set_and_removes_what_is_no_longer_there(kubectl: Kubectl) -> None:
    assert _apply(kubectl, _set("changed", tier="gold")).out == "podcliqueset.grove.io/changed created\n"
    assert _apply(kubectl, _set("changed", replicas=2)).out == "podcliqueset.grove.io/changed configured\n"
    found = kubectl.json("get", "pcs", "changed")
    assert (found["spec"]["replicas"], found["metadata"].get("labels")) == (2, None)


def test_a_dry_run_of_the_server_stores_nothing(kubectl: Kubectl) -> None:
    assert _apply(kubectl, _set("dry"), "--dry-run=server").out == (
        "podcliqueset.grove.io/dry created (server dry run)\n"
    )
    assert kubectl.attempt("get", "pcs", "dry").err == (
        'Error from server (NotFound): podcliquesets.grove.io "dry" not found\n'
    )


def test_create_refuses_what_exists(kubectl: Kubectl) -> None:
    manifest = yaml.safe_dump(_set("once"))
    assert kubectl("create", "-f", "-", stdin=manifest).out == "podcliqueset.grove.io/once created\n"
    refused = kubectl.attempt("create", "-f", "-", stdin=manifest)
    assert (refused.code, "(AlreadyExists)" in refused.err) == (1, True)


def test_an_invalid_set_is_refused_with_every_error(kubectl: Kubectl) -> None:
    manifest = _set("invalid", replicas=-1)
    manifest["spec"]["template"]["cliques"][0]["spec"]["minAvailable"] = 3
    refused = kubectl.attempt("create", "-f", "-", stdin=yaml.safe_dump(manifest))
    assert refused.code == 1
    assert "spec.replicas" in refused.err
    assert "minAvailable" in refused.err


def test_a_misspelt_field_is_named(kubectl: Kubectl) -> None:
    manifest = _set("misspelt")
    manifest["spec"]["templat"] = manifest["spec"].pop("template")
    manifest["spec"]["templat"]["cliques"] = []
    refused = kubectl.attempt("apply", "-f", "-", stdin=yaml.safe_dump(manifest))
    assert refused.code == 1
    assert 'strict decoding error: unknown field "spec.templat"' in refused.err
    warned = kubectl.attempt("apply", "-f", "-", "--validate=warn", stdin=yaml.safe_dump(manifest))
    assert 'Warning: unknown field "spec.templat"' in warned.err


def test_a_misspelt_field_in_a_change_is_named(kubectl: Kubectl) -> None:
    _apply(kubectl, _set("misspelt-later"))
    manifest = _set("misspelt-later")
    manifest["spec"]["template"]["cliques"][0]["spec"]["replica"] = 3
    refused = kubectl.attempt("apply", "-f", "-", stdin=yaml.safe_dump(manifest))
    assert 'unknown field "spec.template.cliques[0].spec.replica"' in refused.err


def test_edit_stores_what_the_editor_leaves(kubectl: Kubectl, tmp_path: Path) -> None:
    _apply(kubectl, _set("edited", tier="gold"))
    editor = tmp_path / "editor"
    editor.write_text('#!/bin/sh\nsed -i "s/tier: gold/tier: silver/" "$1"\n')
    editor.chmod(0o700)
    assert kubectl("edit", "pcs", "edited", editor=str(editor)).out == "podcliqueset.grove.io/edited edited\n"
    assert kubectl.json("get", "pcs", "edited")["metadata"]["labels"] == {"tier": "silver"}


@pytest.mark.parametrize(
    ("kind", "patch"),
    [
        ("json", [{"op": "add", "path": "/metadata/annotations", "value": {"note": "x"}}]),
        ("merge", {"metadata": {"annotations": {"note": "x"}}}),
        ("strategic", {"metadata": {"annotations": {"note": "x"}}}),
    ],
)
def test_patches_of_every_type_change_an_object(kubectl: Kubectl, kind: str, patch: object) -> None:
    name = f"patched-{kind}"
    kubectl(
        "apply", "-f", "-", stdin=yaml.safe_dump({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}})
    )
    kubectl("patch", "secret", name, "--type", kind, "-p", msgspec.json.encode(patch).decode())
    assert kubectl.json("get", "secret", name)["metadata"]["annotations"]["note"] == "x"


def test_custom_kinds_know_no_strategic_patch(kubectl: Kubectl) -> None:
    _apply(kubectl, _set("strategic"))
    refused = kubectl.attempt("patch", "pcs", "strategic", "--type=strategic", "-p", '{"spec":{"replicas":2}}')
    assert (refused.code, "application/strategic-merge-patch+json is not supported by" in refused.err) == (1, True)


def test_scale_changes_replicas_within_the_rules(kubectl: Kubectl) -> None:
    _running(kubectl, "scaled")
    scaled = kubectl("scale", "pcsg", "scaled-0-sg", "--replicas=2")
    assert scaled.out == "podcliquescalinggroup.grove.io/scaled-0-sg scaled\n"
    kubectl("wait", "pcsg/scaled-0-sg", "--for=jsonpath={.status.availableReplicas}=2", "--timeout=120s")
    refused = kubectl.attempt("scale", "pclq", "scaled-0-web", "--replicas=1")
    assert (refused.code, "minAvailable" in refused.err) == (1, True)


def test_labels_and_annotations_come_and_go(kubectl: Kubectl) -> None:
    _apply(kubectl, _set("marked"))
    kubectl("label", "pcs", "marked", "team=a", "tier=gold")
    kubectl("annotate", "pcs", "marked", "note=by hand")
    kubectl("label", "pcs", "marked", "tier-")
    metadata = kubectl.json("get", "pcs", "marked")["metadata"]
    assert (metadata["labels"], metadata["annotations"]["note"]) == ({"team": "a"}, "by hand")
    assert kubectl("get", "pcs", "-l", "team=a", "-o", "name").out == "podcliqueset.grove.io/marked\n"


def test_wait_sees_conditions_and_fields(kubectl: Kubectl) -> None:
    _apply(kubectl, _set("awaited"))
    kubectl("wait", "pg/awaited-0", "--for=create", "--timeout=120s")
    kubectl("wait", "pg/awaited-0", "--for=condition=Scheduled", "--timeout=120s")
    kubectl("wait", "pg/awaited-0", "--for=jsonpath={.status.phase}=Running", "--timeout=120s")
    pods = kubectl("wait", "pods", "-l", "app.kubernetes.io/part-of=awaited", "--for=condition=Ready", "--timeout=120s")
    assert len(pods.lines) == 3


def test_logs_tell_the_life_of_a_simulated_container(kubectl: Kubectl) -> None:
    _running(kubectl, "logged")
    pod = kubectl("get", "pods", "-l", "app.kubernetes.io/part-of=logged", "-o", "name").lines[0]
    assert kubectl("logs", pod).lines == [
        "container main started (simulated: no process runs)",
        "container main is ready",
    ]
    assert kubectl("logs", pod, "--tail=1").lines == ["container main is ready"]
    assert kubectl.attempt("logs", pod, "-c", "other").code == 1


def test_a_followed_log_ends_with_its_container(kubectl: Kubectl) -> None:
    kubectl("run", "ending", "--image=x", "--restart=Never", "--annotations=simulation.grove.io/exit-after=10s")
    kubectl("wait", "pod/ending", "--for=condition=Ready", "--timeout=120s")
    lines = kubectl("logs", "-f", "pod/ending").lines
    assert lines[0] == "container ending started (simulated: no process runs)"
    assert lines[-1] == "container ending ended with exit code 0"


def test_the_log_of_the_run_before_is_kept(kubectl: Kubectl) -> None:
    kubectl(
        "run", "again", "--image=x",
        "--annotations=simulation.grove.io/exit-after=1s", "--annotations=simulation.grove.io/exit-code=3",
    )  # fmt: skip
    kubectl("wait", "pod/again", "--for=jsonpath={.status.containerStatuses[0].restartCount}=1", "--timeout=120s")
    assert kubectl("logs", "-p", "again").lines[-1] == "container again ended with exit code 3"


def test_a_part_of_a_log_is_chosen_by_time_and_size(kubectl: Kubectl) -> None:
    _running(kubectl, "timed")
    pod = kubectl("get", "pods", "-l", "app.kubernetes.io/part-of=timed", "-o", "name").lines[0]
    assert "previous terminated container" in kubectl.attempt("logs", "-p", pod).err
    assert len(kubectl("logs", pod, "--since=1h").lines) == 2
    assert kubectl("logs", pod, "--since-time=2100-01-01T00:00:00Z").out == ""
    (line,) = kubectl("logs", pod, "--timestamps", "--tail=1").lines
    assert line[:2] == "20"
    assert line.endswith("Z container main is ready")
    assert kubectl("logs", pod, "--limit-bytes=9").out == "container"


def test_our_definitions_are_there_and_established(kubectl: Kubectl) -> None:
    header, *rows = _columns(kubectl("get", "crd"))
    assert header == ["NAME", "CREATED", "AT"]
    assert [row[0] for row in rows] == [
        "clustertopologybindings.grove.io",
        "podcliques.grove.io",
        "podcliquescalinggroups.grove.io",
        "podcliquesets.grove.io",
        "podgangs.scheduler.grove.io",
    ]
    kubectl("wait", "crd", "--all", "--for=condition=Established", "--timeout=120s")


def test_definitions_that_are_there_already_may_be_applied(kubectl: Kubectl) -> None:
    manifest = "---\n".join(crd_text(definition) for definition in custom_resource_definitions())
    kubectl("apply", "-f", "-", stdin=manifest)
    again = kubectl("apply", "-f", "-", stdin=manifest).lines
    assert [line.split()[1] for line in again] == ["unchanged"] * 5


@pytest.mark.parametrize(
    ("manifest", "words"),
    [
        ("{kind: Pod, spec: {containers: [{name: c, image: i, comand: [x]}]}}", 'field "spec.containers[0].comand"'),
        ("{kind: Service, spec: {selecter: {a: b}}}", 'unknown field "spec.selecter"'),
        ("{kind: ConfigMap, dta: {a: b}}", 'unknown field "dta"'),
    ],
)
def test_a_misspelt_field_of_a_built_in_kind_is_named(kubectl: Kubectl, manifest: str, words: str) -> None:
    obj = {"apiVersion": "v1", "metadata": {"name": "misspelt"}, **yaml.safe_load(manifest)}
    refused = kubectl.attempt("apply", "-f", "-", stdin=yaml.safe_dump(obj))
    assert (refused.code, "strict decoding error" in refused.err, words in refused.err) == (1, True, True), refused.err


def test_delete_takes_everything_along(kubectl: Kubectl) -> None:
    _running(kubectl, "doomed")
    assert kubectl("delete", "pcs", "doomed").out == 'podcliqueset.grove.io "doomed" deleted\n'
    left = kubectl("get", "pods,pclq,pcsg,pg,svc", "-l", "app.kubernetes.io/part-of=doomed", "-o", "name")
    assert left.out == ""


def test_delete_may_leave_dependents_or_wait_for_them(kubectl: Kubectl) -> None:
    for policy in ("background", "foreground", "orphan"):
        kubectl("run", f"leaving-{policy}", "--image=example/x")
        kubectl("delete", "pod", f"leaving-{policy}", f"--cascade={policy}", "--now")
        assert kubectl.attempt("get", "pod", f"leaving-{policy}").code == 1


def test_explain_knows_the_fields_of_our_kinds(kubectl: Kubectl) -> None:
    text = kubectl("explain", "pcs.spec.template").out
    assert "KIND:       PodCliqueSet" in text
    assert "cliqueStartupType\t<string>" in text
    assert "enum: CliqueStartupTypeAnyOrder, CliqueStartupTypeInOrder" in text
    assert "terminationDelay\t<string>" in kubectl("explain", "pcs", "--recursive").out
    assert "image\t<string>" in kubectl("explain", "pcs.spec.template.cliques.spec.podSpec.containers").out


def test_explain_knows_the_fields_of_built_in_kinds(kubectl: Kubectl) -> None:
    text = kubectl("explain", "pods.spec.containers.ports").out
    assert ("containerPort\t<integer> -required-" in text, "FIELD: ports <[]ContainerPort>" in text) == (True, True)
    for kind in ("pods", "services", "nodes", "configmaps", "crd", "hpa", "leases"):
        assert "apiVersion\t<string>\n" in kubectl("explain", kind, "--recursive").out
    assert "matchExpressions\t<[]NodeSelectorRequirement>" in kubectl("explain", "pods", "--recursive").out


def test_whoever_has_the_token_may_do_everything(kubectl: Kubectl) -> None:
    assert kubectl("auth", "can-i", "delete", "pcs").out == "yes\n"
    assert "*.*" in kubectl("auth", "can-i", "--list").out
    assert "grove-admin" in kubectl("auth", "whoami").out


def test_nodes_are_cordoned_and_labelled(kubectl: Kubectl) -> None:
    kubectl("cordon", "node-2")
    assert _columns(kubectl("get", "node", "node-2"))[1][1] == "Ready,SchedulingDisabled"
    kubectl("uncordon", "node-2")
    assert _columns(kubectl("get", "node", "node-2"))[1][1] == "Ready"


def test_what_is_not_served_is_said(kubectl: Kubectl) -> None:
    assert "the server doesn't have a resource type" in kubectl.attempt("get", "deployments").err


def test_a_set_is_applied_on_the_server_side(kubectl: Kubectl) -> None:
    applied = kubectl("apply", "--server-side", "-f", "-", stdin=yaml.safe_dump(_set("server-side")))
    assert applied.out == "podcliqueset.grove.io/server-side serverside-applied\n"


@pytest.mark.parametrize(
    ("command", "made"),
    [
        ("namespace by-protobuf", "namespace/by-protobuf"),
        ("configmap made --from-literal=a=b", "configmap/made"),
        ("secret generic made --from-literal=a=b", "secret/made"),
        ("serviceaccount made", "serviceaccount/made"),
        ("quota made --hard=pods=100", "resourcequota/made"),
        ("priorityclass made --value=7", "priorityclass.scheduling.k8s.io/made"),
        ("service clusterip made --tcp=80:8080", "service/made"),
        ("role made --verb=get --resource=pods", "role.rbac.authorization.k8s.io/made"),
        ("rolebinding made --role=made --serviceaccount=default:made", "rolebinding.rbac.authorization.k8s.io/made"),
        ("clusterrole made --verb=get --resource=nodes", "clusterrole.rbac.authorization.k8s.io/made"),
        ("clusterrolebinding made --clusterrole=made --user=bob", "clusterrolebinding.rbac.authorization.k8s.io/made"),
    ],
)
def test_what_is_created_by_protobuf_is_made(kubectl: Kubectl, command: str, made: str) -> None:
    assert kubectl("create", *command.split()).out == f"{made} created\n"
    assert kubectl("get", made, "-o", "name").out == f"{made}\n"


def test_an_account_does_what_its_roles_say(kubectl: Kubectl, tmp_path: Path) -> None:
    kubectl("create", "serviceaccount", "reader")
    kubectl("create", "role", "reader", "--verb=get,list", "--resource=configmaps")
    kubectl("create", "rolebinding", "reader", "--role=reader", "--serviceaccount=default:reader")
    config = yaml.safe_load(kubectl.kubeconfig.read_text())
    config["users"][0]["user"]["token"] = kubectl("create", "token", "reader").out.strip()
    other = tmp_path / "kubeconfig"
    other.write_text(yaml.safe_dump(config))
    reader = Kubectl(other, tmp_path)
    assert reader("auth", "can-i", "list", "configmaps").out == "yes\n"
    assert reader.attempt("auth", "can-i", "list", "secrets").out == "no\n"
    assert "system:serviceaccount:default:reader" in reader("auth", "whoami").out
    assert "configmaps" in reader("auth", "can-i", "--list").out
    reader("get", "configmaps")
    refused = reader.attempt("get", "secrets").err
    assert refused == (
        'Error from server (Forbidden): secrets is forbidden: User "system:serviceaccount:default:reader" cannot list '
        'resource "secrets" in API group "" in the namespace "default"\n'
    )
    assert kubectl("auth", "can-i", "list", "configmaps", "--as=system:serviceaccount:default:reader").out == "yes\n"


def test_a_request_without_the_token_is_refused(kubectl: Kubectl, tmp_path: Path) -> None:
    config = yaml.safe_load(kubectl.kubeconfig.read_text())
    config["users"][0]["user"]["token"] = "guessed"
    other = tmp_path / "kubeconfig"
    other.write_text(yaml.safe_dump(config))
    refused = Kubectl(other, tmp_path).attempt("get", "pods")
    assert (refused.code, "You must be logged in to the server" in refused.err) == (1, True)


def test_nothing_is_left_behind(tmp_path: Path) -> None:
    with grove_up(tmp_path / "deep", "--nodes", "1") as kubectl:
        kubectl("get", "nodes")
        # kubectl's own cache of discovery.
        shutil.rmtree(tmp_path / "deep" / ".kube")
    assert list(tmp_path.iterdir()) == []
