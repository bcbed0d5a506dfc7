"""kubectl applies: by the server, by itself, and from one to the other. The same binary on both servers."""

import asyncio
import base64
from pathlib import Path

import msgspec
import pytest
import yaml

from grove.api.types.meta import JsonObject
from grove.kube.kubeconfig import Access
from tests.conformance.talk import POD_SPEC, Talk, config
from tests.e2e.served import Kubectl, Ran

pytestmark = pytest.mark.kubectl

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


class Applier:
    """kubectl in the namespace of a test, beside the server that answers it."""

    def __init__(self, kubectl: Kubectl, api: Talk) -> None:
        self._kubectl = kubectl
        self._api = api

    async def __call__(self, *arguments: str, stdin: str = "") -> Ran:
        command = ("--namespace", self._api.namespace, *arguments)
        return await asyncio.to_thread(self._kubectl.attempt, *command, stdin=stdin)

    async def apply(self, body: JsonObject, *options: str) -> Ran:
        return await self("apply", "-f", "-", *options, stdin=msgspec.json.encode(body).decode())

    async def owners(self, kind: str, name: str) -> dict[str, JsonObject]:
        ran = await self("get", kind, name, "-o", "json", "--show-managed-fields")
        entries = msgspec.json.decode(ran.out)["metadata"]["managedFields"]
        return {f"{entry['manager']} {entry['operation']}": entry["fieldsV1"] for entry in entries}


@pytest.fixture
def kubectl(access: Access, api: Talk, tmp_path: Path) -> Applier:
    path = tmp_path / "kubeconfig"
    path.write_text(_kubeconfig(access))
    return Applier(Kubectl(path, tmp_path), api)


def _kubeconfig(access: Access) -> str:
    authority = {"certificate-authority-data": base64.b64encode(access.certificate_authority or b"").decode()}
    return yaml.safe_dump(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "one", "cluster": {"server": access.server, **authority}}],
            "users": [{"name": "one", "user": {"token": access.token}}],
            "contexts": [{"name": "one", "context": {"cluster": "one", "user": "one"}}],
            "current-context": "one",
        }
    )


async def test_the_server_applies_and_kubectl_says_so(kubectl: Applier) -> None:
    ran = await kubectl.apply(config("a", {"x": "1"}), "--server-side")
    assert (ran.code, ran.out, ran.err) == (0, "configmap/a serverside-applied\n", "")
    assert await kubectl.owners("configmap", "a") == {"kubectl Apply": {"f:data": {"f:x": {}}}}
    again = await kubectl.apply(config("a", {"x": "1"}), "--server-side")
    assert (again.code, again.out) == (0, "configmap/a serverside-applied\n")


async def test_managed_fields_are_shown_to_those_who_ask(kubectl: Applier) -> None:
    await kubectl.apply(config("a", {"x": "1"}), "--server-side")
    ran = await kubectl("get", "configmap", "a", "-o", "json")
    assert "managedFields" not in msgspec.json.decode(ran.out)["metadata"]


async def test_a_conflict_is_told_with_what_to_do(kubectl: Applier) -> None:
    await kubectl.apply(config("a", {"x": "1"}), "--server-side", "--field-manager=alice")
    ran = await kubectl.apply(config("a", {"x": "2"}), "--server-side")
    assert ran.code == 1
    assert ran.err.startswith('error: Apply failed with 1 conflict: conflict with "alice": .data.x\n')
    assert "--force-conflicts" in ran.err
    forced = await kubectl.apply(config("a", {"x": "2"}), "--server-side", "--force-conflicts")
    assert (forced.code, forced.out) == (0, "configmap/a serverside-applied\n")
    assert await kubectl.owners("configmap", "a") == {"kubectl Apply": {"f:data": {"f:x": {}}}}


async def test_what_kubectl_applied_itself_becomes_the_servers(kubectl: Applier) -> None:
    await kubectl.apply(config("a", {"x": "1", "y": "1"}))
    assert list(await kubectl.owners("configmap", "a")) == ["kubectl-client-side-apply Update"]
    ran = await kubectl.apply(config("a", {"x": "2"}), "--server-side")
    assert (ran.code, ran.out) == (0, "configmap/a serverside-applied\n"), ran.err
    found = await kubectl("get", "configmap", "a", "-o", "json")
    obj = msgspec.json.decode(found.out)
    assert obj["data"] == {"x": "2"}
    last = msgspec.json.decode(obj["metadata"]["annotations"][LAST_APPLIED])
    assert last["data"] == {"x": "2"}
    owners = await kubectl.owners("configmap", "a")
    assert owners["kubectl Apply"]["f:data"] == {"f:x": {}}
    assert "kubectl-client-side-apply Update" not in owners


async def test_what_the_server_applied_can_be_applied_by_kubectl_again(kubectl: Applier) -> None:
    await kubectl.apply(config("a", {"x": "1", "y": "1"}))
    await kubectl.apply(config("a", {"x": "1", "y": "1"}), "--server-side")
    ran = await kubectl.apply(config("a", {"x": "3"}))
    assert (ran.code, ran.out) == (0, "configmap/a configured\n"), ran.err
    found = await kubectl("get", "configmap", "a", "-o", "json")
    assert msgspec.json.decode(found.out)["data"] == {"x": "3"}
    conflict = await kubectl.apply(config("a", {"x": "4"}), "--server-side")
    assert conflict.code == 0, conflict.err


@pytest.mark.parametrize("is_server_side", [False, True])
async def test_what_would_change_is_shown_before(kubectl: Applier, is_server_side: bool) -> None:
    options = ("--server-side",) if is_server_side else ()
    await kubectl.apply(config("a", {"x": "1"}), *options)
    body = msgspec.json.encode(config("a", {"x": "2"})).decode()
    ran = await kubectl("diff", "-f", "-", *options, stdin=body)
    assert ran.code == 1, ran.err
    assert [line for line in ran.lines if line[1:].startswith("  x:")] == ['-  x: "1"', '+  x: "2"']
    body = msgspec.json.encode(config("a", {"x": "1"})).decode()
    same = await kubectl("diff", "-f", "-", *options, stdin=body)
    assert (same.code, same.out) == (0, "")


async def test_a_conflict_is_found_before_it_happens(kubectl: Applier) -> None:
    await kubectl.apply(config("a", {"x": "1"}), "--server-side", "--field-manager=alice")
    body = msgspec.json.encode(config("a", {"x": "2"})).decode()
    ran = await kubectl("diff", "-f", "-", "--server-side", stdin=body)
    assert ran.code > 1
    assert 'conflict with "alice": .data.x' in ran.err
    dry = await kubectl.apply(config("a", {"x": "2"}), "--server-side", "--dry-run=server")
    assert (dry.code, 'conflict with "alice": .data.x' in dry.err) == (1, True)


async def test_a_dry_run_changes_nothing(kubectl: Applier) -> None:
    ran = await kubectl.apply(config("a", {"x": "1"}), "--server-side", "--dry-run=server")
    assert (ran.code, ran.out) == (0, "configmap/a serverside-applied (server dry run)\n")
    assert (await kubectl("get", "configmap", "a")).code == 1


@pytest.mark.parametrize(
    ("arguments", "manager"),
    [
        (("label", "configmap", "a", "l=1"), "kubectl-label"),
        (("annotate", "configmap", "a", "b=1"), "kubectl-annotate"),
        (("patch", "configmap", "a", "--type=merge", "-p", '{"data":{"z":"1"}}'), "kubectl-patch"),
    ],
)
async def test_every_command_writes_under_its_own_name(
    kubectl: Applier, arguments: tuple[str, ...], manager: str
) -> None:
    await kubectl.apply(config("a", {"x": "1"}), "--server-side")
    ran = await kubectl(*arguments)
    assert ran.code == 0, ran.err
    assert list(await kubectl.owners("configmap", "a")) == ["kubectl Apply", f"{manager} Update"]


async def test_a_misspelt_field_is_named(kubectl: Applier) -> None:
    ran = await kubectl.apply({**config("a"), "colour": "red"}, "--server-side")
    assert ran.code == 1
    assert ".colour: field not declared in schema" in ran.err


async def test_our_kinds_can_be_applied_by_the_server(kubectl: Applier) -> None:
    def clique(replicas: int) -> JsonObject:
        spec = {"roleName": "worker", "replicas": replicas, "podSpec": POD_SPEC}
        return {"apiVersion": "grove.io/v1alpha1", "kind": "PodClique", "metadata": {"name": "a"}, "spec": spec}

    ran = await kubectl.apply(clique(1), "--server-side")
    assert (ran.code, ran.out) == (0, "podclique.grove.io/a serverside-applied\n"), ran.err
    assert (await kubectl("scale", "podclique", "a", "--replicas=3")).code == 0
    conflict = await kubectl.apply(clique(1), "--server-side")
    assert conflict.code == 1
    assert 'with subresource "scale" using grove.io/v1alpha1: .spec.replicas' in conflict.err
