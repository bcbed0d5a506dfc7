"""The installation on a real API server: accepted, applied twice, explained, and nothing more allowed than needed."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import suppress
from random import Random

import msgspec
import pytest

from grove.admission.webhook_app import WebhookApp, WebhookOptions
from grove.api.schema.crd_generator import custom_resource_definitions
from grove.api.types.meta import JsonObject
from grove.clock import LoopClock
from grove.installation.install_options import plan_installation
from grove.installation.manifests import installation_objects
from grove.kube.client import Client
from grove.kube.http_transport import HttpTransport
from tests.cli.console import SECONDS, attempts
from tests.e2e.served import Kubectl, Ran
from tests.kube.controlplane.build import DEFAULT_VERSION
from tests.kube.controlplane.plane import Plane, running_plane
from tests.kube.controlplane.schemas import TARGET, schemas_of, text_of

pytestmark = pytest.mark.kube

SECRET = "grove-webhook-server-cert"
ACCOUNT = "system:serviceaccount:grove-system:grove-operator"
CONTAINERS = "spec.podSpec.containers"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plane]:
    """A plane of our own: its webhooks lead to an operator that does not run."""
    with running_plane(tmp_path_factory.mktemp("installed")) as plane:
        plane.kubectl("apply", "--server-side", "-f", "-", stdin=manifests())
        yield plane


@pytest.fixture(scope="module")
def kubectl(installed: Plane) -> Kubectl:
    """Once the server also describes our kinds, a moment after it took them."""
    user = installed.user("admin")
    until(lambda: _is_explained(user, "pcs") and _is_explained(user, "pclq"))
    return user


def _is_explained(user: Kubectl, kind: str) -> bool:
    # kubectl remembers which kinds there are; only this makes it ask again.
    user.attempt("api-resources")
    return user.attempt("explain", kind).code == 0


def manifests() -> str:
    installation, _ = plan_installation(image="example/grove-operator:1")
    objects = installation_objects(installation)
    return msgspec.json.encode({"apiVersion": "v1", "kind": "List", "items": objects}).decode()


def until(holds: Callable[[], bool]) -> None:
    assert any(holds() for _ in attempts())


def clique(pod_spec: JsonObject) -> str:
    return msgspec.json.encode(
        {
            "apiVersion": "grove.io/v1alpha1",
            "kind": "PodClique",
            "metadata": {"name": "a", "namespace": "default"},
            "spec": {"roleName": "r", "replicas": 1, "podSpec": pod_spec},
        }
    ).decode()


# --- the definitions -------------------------------------------------------------------------------------------------


def test_the_definitions_are_established_and_structural(installed: Plane) -> None:
    user = installed.user("admin")
    names = [crd["metadata"]["name"] for crd in custom_resource_definitions()]

    def conditions() -> list[dict[str, str]]:
        found = [user.json("get", "crd", name).get("status", {}).get("conditions", []) for name in names]
        return [{one["type"]: one["status"] for one in each} for each in found]

    until(lambda: all(each.get("Established") == "True" for each in conditions()))
    # NonStructuralSchema, Terminating and the like would stand here too.
    assert conditions() == [{"NamesAccepted": "True", "Established": "True"}] * len(names)


def test_the_embedded_schemas_are_those_of_this_server(installed: Plane) -> None:
    """`python -m tests.kube.controlplane.schemas` takes them again. Other versions may have other fields."""
    if installed.version == DEFAULT_VERSION:
        assert TARGET.read_text() == text_of(schemas_of(installed))
    assert list(schemas_of(installed)["PodSpec"]["properties"])


def test_kubectl_explains_a_pod_spec(kubectl: Kubectl) -> None:
    said = kubectl("explain", "pcs.spec.template.cliques.spec.podSpec.containers").out
    assert "readinessProbe\t<Object>\n    Decides whether the pod is ready; minAvailable counts ready pods." in said
    assert "name\t<string> -required-" in said
    policy = kubectl("explain", f"pclq.{CONTAINERS}.imagePullPolicy").out
    assert "IfNotPresent" in policy


def test_a_misspelt_field_of_a_pod_spec_is_named(kubectl: Kubectl) -> None:
    pod_spec = {"containers": [{"name": "a", "imag": "i"}], "nodeSelectr": {}}
    said = create(kubectl, pod_spec)
    assert f'unknown field "{CONTAINERS}[0].imag", unknown field "spec.podSpec.nodeSelectr"' in said.err


@pytest.mark.parametrize(
    ("container", "words"),
    [
        ({"imagePullPolicy": "Sometimes"}, 'Unsupported value: "Sometimes"'),
        ({"resources": {"limits": {"cpu": 0.5}}}, 'must be of type integer,string: "number"'),
        ({"resources": {"limits": {"cpu": "much"}}}, "should match"),
        ({"env": [{"name": "A"}, {"name": "A"}]}, 'env[1]: Duplicate value: {"name":"A"}'),
        ({"ports": [{"containerPort": 1}, {"containerPort": 1}]}, "ports[1]: Duplicate value"),
        ({"name": None}, f"{CONTAINERS}[0].name: Required value"),
    ],
)
def test_a_pod_spec_is_held_to_its_schema(kubectl: Kubectl, container: JsonObject, words: str) -> None:
    said = create(kubectl, {"containers": [{"name": "a", **container}]})
    assert (said.code, words in said.err) == (1, True), said.err


def create(kubectl: Kubectl, pod_spec: JsonObject) -> Ran:
    return kubectl.attempt("create", "--validate=strict", "--dry-run=server", "-f", "-", stdin=clique(pod_spec))


# --- the objects -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", [("--server-side",), ()], ids=["server-side", "client-side"])
def test_applying_again_changes_nothing(installed: Plane, way: tuple[str, ...]) -> None:
    """The first of the other kind of apply may write its own bookkeeping, so it is done before."""
    user = installed.user("admin")
    user("apply", *way, "-f", "-", stdin=manifests())
    before = _versions(user)
    user("apply", *way, "-f", "-", stdin=manifests())
    assert _versions(user) == before


def _versions(user: Kubectl) -> list[tuple[str, int]]:
    """Generations: controllers write statuses meanwhile."""
    found = msgspec.json.decode(user("get", "-f", "-", "-o", "json", stdin=manifests()).out)["items"]
    return [(one["metadata"]["uid"], one["metadata"].get("generation", 0)) for one in found]


def test_the_operators_pods_pass_the_pod_security_of_their_namespace(installed: Plane) -> None:
    """Pods that do not would be refused to their ReplicaSet."""
    user = installed.user("admin")

    def pods() -> list[JsonObject]:
        found: list[JsonObject] = user.json("get", "pods", "-n", "grove-system")["items"]
        return found

    until(lambda: len(pods()) >= 2)
    assert {pod["spec"]["priorityClassName"] for pod in pods()} == {"system-cluster-critical"}
    containers = [{"name": "a", "image": "i"}]
    bad = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "bad"}, "spec": {"containers": containers}}
    said = user.attempt("create", "-n", "grove-system", "-f", "-", stdin=msgspec.json.encode(bad).decode())
    assert 'violates PodSecurity "restricted:latest"' in said.err


@pytest.mark.parametrize(
    ("verb", "what", "answer"),
    [
        ("patch", "podcliquesets.grove.io/status", "yes"),
        ("update", "podcliques.grove.io/finalizers", "yes"),
        ("deletecollection", "pods", "yes"),
        ("get", "secrets/grove-webhook-server-cert", "yes"),
        ("get", "secrets/another", "no"),
        ("list", "secrets", "no"),
        ("delete", "podcliquesets.grove.io", "no"),
        ("create", "podcliquesets.grove.io", "no"),
        # For sets with a start-up order. The API server rejects roles that grant more than their author may do.
        ("create", "roles.rbac.authorization.k8s.io", "yes"),
        ("escalate", "roles.rbac.authorization.k8s.io", "no"),
        ("bind", "roles.rbac.authorization.k8s.io", "no"),
        ("create", "clusterroles.rbac.authorization.k8s.io", "no"),
        ("get", "nodes", "no"),
        ("patch", "validatingwebhookconfigurations.admissionregistration.k8s.io/podclique-validating-webhook", "yes"),
        ("patch", "validatingwebhookconfigurations.admissionregistration.k8s.io/another", "no"),
    ],
)
def test_the_operator_may_do_what_it_does_and_no_more(installed: Plane, verb: str, what: str, answer: str) -> None:
    resource, _, sub = what.partition("/")
    subresource = ("--subresource", sub) if sub in ("status", "finalizers") else ()
    target = resource if subresource else what
    said = installed.user("admin").attempt(
        "auth", "can-i", verb, target, *subresource, "-n", "grove-system", "--as", ACCOUNT
    )
    assert said.out.strip() == answer


def test_the_webhooks_come_up_with_these_rights_and_stay_trusted_when_everything_is_applied_again(
    installed: Plane,
) -> None:
    user = installed.user("admin")
    token = user("create", "token", "grove-operator", "-n", "grove-system").out.strip()
    asyncio.run(_run_webhooks(installed, token))
    before = _bundles(user)
    user("apply", "--server-side", "-f", "-", stdin=manifests())
    assert (len(before) > 5, all(before), _bundles(user) == before) == (True, True, True)


async def _run_webhooks(plane: Plane, token: str) -> None:
    """As a pod of the installation would, until the API server trusts them."""
    clock = LoopClock.starting_now()
    options = WebhookOptions(host="127.0.0.1", port=0, namespace="grove-system", secret_name=SECRET)
    async with HttpTransport(plane.access(token=token), clock) as transport:
        webhooks = WebhookApp(Client(transport, clock), clock, Random(1), options)
        running = asyncio.create_task(webhooks.run())
        deadline = clock.monotonic() + SECONDS
        while not (webhooks.is_ready or running.done()) and clock.monotonic() < deadline:
            await clock.sleep(0.1)
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running
        assert webhooks.is_ready


def _bundles(user: Kubectl) -> list[str]:
    kinds = "mutatingwebhookconfigurations,validatingwebhookconfigurations"
    found = user.json("get", kinds, "-l", "app.kubernetes.io/part-of=grove")["items"]
    return [webhook["clientConfig"].get("caBundle", "") for one in found for webhook in one["webhooks"]]


# --- the end ---------------------------------------------------------------------------------------------------------


def test_an_installation_goes_as_it_came(installed: Plane) -> None:
    """Last in this file: nothing is left of what the other tests look at."""
    user = installed.user("admin")
    user("delete", "--wait=false", "-f", "-", stdin=manifests())

    def left() -> list[JsonObject]:
        found = user("get", "--ignore-not-found", "-o", "json", "-f", "-", stdin=manifests()).out
        answer: JsonObject = msgspec.json.decode(found) if found else {}
        items: list[JsonObject] = answer.get("items", [answer] if answer else [])
        return items

    # The server takes its time with definitions that were changed a moment ago, and is not waited for.
    until(lambda: all(one["kind"] == "CustomResourceDefinition" for one in left()))
    assert [one["metadata"]["name"] for one in left() if "deletionTimestamp" not in one["metadata"]] == []
