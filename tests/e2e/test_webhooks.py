"""Our webhooks, asked by a real API server: every rule, defaults, warnings, scale, rotations, and life without them."""

import asyncio
import base64
import re
import ssl
from collections.abc import Iterator
from functools import partial
from random import Random
from typing import Any

import msgspec
import pytest
import yaml

from grove.admission.authorizer import GARBAGE_COLLECTORS
from grove.admission.tls import LiveContext
from grove.admission.webhook_app import WebhookOptions, build_cert_rotator
from grove.admission.webhook_certificates import read_certificates
from grove.api.resources import (
    GROUPS,
    MUTATING_WEBHOOKS,
    PODCLIQUES,
    PODCLIQUESETS,
    SECRETS,
    TOPOLOGY_BINDINGS,
    VALIDATING_WEBHOOKS,
    Resource,
)
from grove.api.types.meta import JsonObject
from grove.api.types.webhookconfiguration import WebhookConfiguration
from grove.api.validation.field_errors import ErrorKind
from grove.installation.webhook_configurations import ServiceTarget, UrlTarget, webhook_configurations
from grove.kube.transport import JSON_PATCH, Response
from tests.admission.asking import created, updated
from tests.admission.tables import Case, creations, updates
from tests.admission.test_rules_children import binding, podclique, scaling_group
from tests.api.manifests import clique, manifest, training
from tests.e2e.audit import read_audit
from tests.e2e.served import Kubectl, Ran
from tests.e2e.webhook_plane import (
    OPERATOR,
    OPERATOR_NAMESPACE,
    Api,
    Webhooks,
    home_of,
    in_namespace,
    inherited_plane,
    webhooks_of,
    with_api,
)
from tests.kube.controlplane.plane import Plane
from tests.markdown import ROOT, tables

pytestmark = pytest.mark.kube

CREATIONS = creations()
UPDATES = updates()
SECRET_NAME = "grove-webhook-server-cert"


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plane]:
    with inherited_plane(tmp_path_factory.mktemp("webhooks")) as plane:
        yield plane


@pytest.fixture(scope="module")
def webhooks(plane: Plane) -> Iterator[Webhooks]:
    with webhooks_of(plane) as webhooks:
        dc = binding("zone", "block", "rack", keys=("topology/zone", "topology/block", "topology/rack"))
        plane.kubectl("create", "-f", "-", stdin=yaml.safe_dump(dc))
        yield webhooks


@pytest.fixture
def kubectl(plane: Plane, webhooks: Webhooks) -> Kubectl:
    assert webhooks.port
    return plane.user("admin")


# --- every rule ------------------------------------------------------------------------------------------------------


class Told(msgspec.Struct, frozen=True):
    """What the API server said to a write."""

    status: int
    body: JsonObject

    @property
    def is_ours(self) -> bool:
        return "denied the request" in self.body.get("message", "")

    @property
    def blamed(self) -> list[str]:
        """The fields, spelled as ours are."""
        causes = self.body.get("details", {}).get("causes", [])
        return [_spelled(cause.get("field", "")) for cause in causes]


def _spelled(path: str) -> str:
    return re.sub(r"\[([^\]\d][^\]]*)\]", r".\1", path.removeprefix("."))


def _told(response: Response) -> Told:
    return Told(response.status, msgspec.json.decode(response.body))


@pytest.fixture(scope="module")
def answers(plane: Plane, webhooks: Webhooks) -> dict[str, Told]:
    """To every write of the tables, none of which is stored."""
    assert webhooks.port

    async def ask(api: Api) -> dict[str, Told]:
        asked = [(case, _try_creation(api, case)) for case in CREATIONS]
        asked += [(case, _try_update(api, number, case)) for number, case in enumerate(UPDATES)]
        told = await asyncio.gather(*(answer for _, answer in asked))
        return {case.id: one for (case, _), one in zip(asked, told, strict=True)}

    return with_api(plane, ask)


async def _try_creation(api: Api, case: Case) -> Told:
    body = {"apiVersion": case.resource.api_version, "kind": case.resource.kind, **case.new}
    if case.resource is TOPOLOGY_BINDINGS:
        body["metadata"] = {"name": "other"}
    path = case.resource.path("default" if case.resource.namespaced else "")
    return _told(await api.send("POST", path, body, dryRun="All"))


async def _try_update(api: Api, number: int, case: Case) -> Told:
    if case.old is None:
        return await _try_creation(api, case)
    name, namespace = case.old["metadata"]["name"], home_of(number)
    path = case.resource.path(namespace, name)
    stored = await api.must("GET", path)
    version = stored["metadata"]["resourceVersion"]
    return _told(
        await api.send(
            "PUT", path, in_namespace(case.resource, case.new, namespace, resourceVersion=version), dryRun="All"
        )
    )


# A real API server refuses every write of an object whose replicas are not a number: /scale could not read them.
BEYOND_REPAIR = "a body that was never readable may lose its finalizer"


@pytest.mark.parametrize("case", [*CREATIONS, *UPDATES], ids=lambda case: case.id)
def test_a_real_api_server_refuses_what_the_rules_refuse_and_nothing_else(case: Case, answers: dict[str, Told]) -> None:
    told = answers[case.id]
    if case.id.endswith(BEYOND_REPAIR):
        assert (told.status, told.is_ours, told.blamed) == (422, False, ["spec.replicas"])
        return
    if not case.errors:
        assert told.status in (200, 201), told.body
        return
    assert told.status in (400, 422), told.body
    message = told.body["message"]
    if told.is_ours:
        assert [error for error in case.errors if _nameless(error) not in _nameless(message)] == []
    elif told.status == 422:
        # The schema was asked first. It may blame the field, what is around it, or what is in it.
        paths = [_spelled(error.partition(": ")[0]) for error in case.errors]
        assert any(_is_inside(path, blamed) or _is_inside(blamed, path) for path in paths for blamed in told.blamed)


def _nameless(text: str) -> str:
    """A generated name ends in five characters that nobody knows before."""
    return re.sub(r'"p{18}\w{5}"', '"a generated name"', text)


def _is_inside(path: str, other: str) -> bool:
    return path == other or path.startswith((f"{other}.", f"{other}["))


# The webhook fills these in before it judges; or they need another configuration of the operator.
NOT_REACHED = (
    ("spec.template.cliques[].spec.minAvailable", "Required"),
    ("spec.template.cliques[].spec.autoScalingConfig.minReplicas", "Required"),
    ("spec.template.topologyConstraint", "Invalid"),
    ("metadata.annotations[grove.io/mnnvl-group]", "Invalid"),
    ("spec.replicas", "Forbidden"),
    ("spec.podSpec", "Forbidden"),
    ("spec.autoScalingConfig", "Forbidden"),
)


def test_every_documented_rule_has_been_met(answers: dict[str, Told]) -> None:
    """Those about the children of training sets are told below, with kubectl."""
    met = [
        (re.sub(r"\[\d+\]", "[]", error.partition(": ")[0]), error.partition(": ")[2])
        for case in (*CREATIONS, *UPDATES)
        for error in case.errors
        if answers[case.id].status in (400, 422)
    ]
    page = (ROOT / "docs" / "reference" / "validation.md").read_text()
    documented = [row for table in tables(page) for row in table if len(row) == 3]
    unmet = [
        (row[0].strip("`"), kind)
        for row in documented
        for kind in row[2].split(", ")
        if not any(_is_inside(path, row[0].strip("`")) and text.startswith(_phrase(kind)) for path, text in met)
    ]
    assert [rule for rule in unmet if rule not in NOT_REACHED] == []


def _phrase(kind: str) -> str:
    phrases = {
        ErrorKind.REQUIRED: "Required",
        ErrorKind.DUPLICATE: "Duplicate",
        ErrorKind.FORBIDDEN: "Forbidden",
        ErrorKind.NOT_SUPPORTED: "Unsupported",
        ErrorKind.NOT_FOUND: "Not found",
        ErrorKind.TOO_LONG: "Too long",
    }
    return phrases.get(ErrorKind(f"FieldValue{kind}"), "Invalid")


def test_a_deletion_timestamp_in_a_new_set_switches_no_rule_off(plane: Plane, webhooks: Webhooks) -> None:
    assert webhooks.port

    async def story(api: Api) -> Told:
        bad = manifest(clique("c" * 23), name="p" * 23, metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})
        return _told(await api.send("POST", PODCLIQUESETS.path("default"), bad, dryRun="All"))

    told = with_api(plane, story)
    assert (told.status, told.is_ours) == (422, True)


# --- with kubectl ----------------------------------------------------------------------------------------------------


def _create(kubectl: Kubectl, *objects: JsonObject) -> Ran:
    return kubectl("create", "-f", "-", stdin=yaml.safe_dump_all(objects))


def _attempt(kubectl: Kubectl, json: JsonObject) -> Ran:
    return kubectl.attempt("apply", "-f", "-", stdin=yaml.safe_dump(json))


def test_a_stored_set_has_its_defaults(kubectl: Kubectl) -> None:
    wanted = manifest(name="defaults")
    _create(kubectl, wanted)
    spec = kubectl.json("get", "pcs/defaults")["spec"]
    expected = created(wanted).object
    assert expected is not None
    assert spec == expected["spec"]


def test_kubectl_shows_the_warnings(kubectl: Kubectl) -> None:
    before, after = (manifest(clique(spec={"replicas": count, "minAvailable": 1}), name="warned") for count in (2, 4))
    _create(kubectl, before)
    ran = kubectl("replace", "-f", "-", stdin=yaml.safe_dump(after))
    expected = updated(before, after).warnings
    assert expected
    assert [f"Warning: {warning}" for warning in expected] == ran.err.splitlines()


def test_kubectl_shows_every_error_at_once(kubectl: Kubectl) -> None:
    ran = _attempt(kubectl, manifest(clique(pod={"nodeName": "node-7"}, labels={"a": "not ok"}), name="bad"))
    assert ran.code != 0
    assert "spec.template.cliques[0].spec.podSpec.nodeName: Invalid value" in ran.err
    assert "spec.template.cliques[0].labels[a]: Invalid value" in ran.err


def test_a_minimum_left_out_of_an_update_stays(kubectl: Kubectl) -> None:
    _create(kubectl, manifest(clique(spec={"replicas": 2}), name="minima"))
    kubectl("replace", "-f", "-", stdin=yaml.safe_dump(manifest(clique(spec={"replicas": 5}), name="minima")))
    (found,) = kubectl.json("get", "pcs/minima")["spec"]["template"]["cliques"]
    assert (found["spec"]["replicas"], found["spec"]["minAvailable"]) == (5, 2)


@pytest.mark.parametrize(
    ("kind", "json"),
    [
        ("podclique", in_namespace(PODCLIQUES, podclique(), "default", name="small-clique")),
        ("podcliquescalinggroup", in_namespace(GROUPS, scaling_group(), "default", name="small-group")),
    ],
    ids=["clique", "group"],
)
def test_a_scale_below_the_minimum_is_rejected_and_zero_is_accepted(
    kubectl: Kubectl, kind: str, json: JsonObject
) -> None:
    _create(kubectl, json)
    name = f"{kind}/{json['metadata']['name']}"
    below = kubectl.attempt("scale", name, "--replicas=1")
    assert below.code == 1
    assert "spec.replicas: Invalid value: 1: must be 0, or at least minAvailable (2)" in below.err
    for replicas in (0, 2):
        kubectl("scale", name, f"--replicas={replicas}")
        assert kubectl.json("get", name)["spec"]["replicas"] == replicas


def test_a_set_is_scaled_to_nothing_and_back(kubectl: Kubectl) -> None:
    _create(kubectl, manifest(name="breathing"))
    for replicas in (0, 3):
        kubectl("scale", "pcs/breathing", f"--replicas={replicas}")
        assert kubectl.json("get", "pcs/breathing")["spec"]["replicas"] == replicas


def _child_of(kubectl: Kubectl, owner: str, resource: Resource[Any], json: JsonObject, name: str) -> JsonObject:
    """An object whose controller is `Kind/name`, which exists."""
    kind, _, owner_name = owner.partition("/")
    uid = kubectl.json("get", owner)["metadata"]["uid"]
    reference = {"apiVersion": "grove.io/v1alpha1", "kind": kind, "name": owner_name, "uid": uid, "controller": True}
    return in_namespace(resource, json, "default", name=name, ownerReferences=[reference])


@pytest.fixture
def trained(kubectl: Kubectl) -> Iterator[Kubectl]:
    """A training set `trained` with a clique, a group, and a member of it."""
    # A person makes its children here, as nobody may whose set is protected.
    unprotected = {"annotations": {"grove.io/disable-managed-resource-protection": "true"}}
    _create(kubectl, training(name="trained", trainingSpec={"maxRestarts": 1}, metadata=unprotected))
    for owner, resource, json, name in (
        ("PodCliqueSet/trained", PODCLIQUES, podclique(), "trained-0-a"),
        ("PodCliqueSet/trained", GROUPS, scaling_group(), "trained-0-g"),
        ("PodCliqueScalingGroup/trained-0-g", PODCLIQUES, podclique(), "trained-0-g-0-b"),
    ):
        _create(kubectl, _child_of(kubectl, owner, resource, json, name))
    yield kubectl
    for name in ("pclq/trained-0-g-0-b", "pcsg/trained-0-g", "pclq/trained-0-a", "pcs/trained"):
        kubectl("delete", name, "--ignore-not-found")


OF_TRAINING = 'Forbidden: it belongs to training set "trained", which cannot be'


def test_a_training_set_and_its_children_are_never_scaled(trained: Kubectl) -> None:
    of_child = f"spec.replicas: {OF_TRAINING} scaled: delete the set and create one with the size you need"
    expected = {
        "pcs/trained": "spec.replicas: Forbidden: a training set cannot be scaled: delete it and create one with",
        "pclq/trained-0-a": of_child,
        "pcsg/trained-0-g": of_child,
        "pclq/trained-0-g-0-b": of_child,
    }
    for name, words in expected.items():
        before = trained.json("get", name)["spec"]["replicas"]
        scaled = trained.attempt("scale", name, "--replicas=4")
        edited = trained.attempt("patch", name, "--type=merge", "-p", '{"spec":{"replicas":4}}')
        assert (scaled.code, edited.code) == (1, 1)
        assert (words in scaled.err, words in edited.err) == (True, True), (scaled.err, edited.err)
        assert trained.json("get", name)["spec"]["replicas"] == before


def test_the_pods_of_a_training_clique_are_not_changed_directly(trained: Kubectl) -> None:
    for patch, words in (
        ({"podSpec": {"hostNetwork": True}}, f"spec.podSpec: {OF_TRAINING} updated"),
        ({"autoScalingConfig": {"maxReplicas": 4}}, f"spec.autoScalingConfig: {OF_TRAINING} scaled: remove this field"),
    ):
        body = msgspec.json.encode({"spec": patch}).decode()
        assert words in trained.attempt("patch", "pclq/trained-0-a", "--type=merge", "-p", body).err


def test_a_training_child_does_not_slip_away_by_losing_its_owner(trained: Kubectl) -> None:
    patch = '{"metadata":{"ownerReferences":null},"spec":{"replicas":4}}'
    ran = trained.attempt("patch", "pclq/trained-0-a", "--type=merge", "-p", patch)
    assert f"spec.replicas: {OF_TRAINING} scaled" in ran.err


def test_the_limits_of_a_training_set_change_until_it_has_ended(trained: Kubectl) -> None:
    def limited(restarts: int) -> Ran:
        body = f'{{"spec":{{"trainingSpec":{{"maxRestarts":{restarts}}}}}}}'
        return trained.attempt("patch", "pcs/trained", "--type=merge", "-p", body)

    raised, lowered = limited(3), limited(2)
    trained(
        "patch", "pcs/trained", "--subresource=status", "--type=merge", "-p",
        '{"status":{"phase":"Succeeded","updatedReplicas":0,"availableReplicas":0}}',
    )  # fmt: skip
    late = limited(4)
    assert (raised.code, lowered.code, late.code) == (0, 0, 1)
    assert "spec.trainingSpec: Forbidden: the set has ended (Succeeded): create a new PodCliqueSet" in late.err


def test_a_training_set_is_deleted_and_so_are_its_children(trained: Kubectl) -> None:
    for name in ("pclq/trained-0-a", "pcsg/trained-0-g", "pcs/trained"):
        trained("delete", name)
        assert "NotFound" in trained.attempt("get", name).err


def test_a_stored_training_set_has_its_defaults(kubectl: Kubectl) -> None:
    wanted = training(name="training-defaults", trainingSpec={"maxRuntime": "1h"})
    ran = _create(kubectl, wanted)
    spec = kubectl.json("get", "pcs/training-defaults")["spec"]
    expected = created(wanted)
    assert expected.object is not None
    assert spec == expected.object["spec"]
    assert (spec["template"]["terminationDelay"], spec["trainingSpec"]) == ("0s", {"maxRuntime": "1h"})
    assert spec["template"]["cliques"][0]["spec"]["podSpec"]["restartPolicy"] == "Never"
    assert [f"Warning: {warning}" for warning in expected.warnings] == ran.err.splitlines()


def test_a_clique_is_judged_when_it_is_edited(kubectl: Kubectl) -> None:
    _create(kubectl, in_namespace(PODCLIQUES, podclique(), "default", name="edited"))
    ran = kubectl.attempt("patch", "pclq/edited", "--type=merge", "-p", '{"spec":{"replicas":1}}')
    kubectl("label", "pclq/edited", "a=b")
    assert "must be 0, or at least minAvailable (2)" in ran.err


# --- the authorizer --------------------------------------------------------------------------------------------------

MANAGED = {"app.kubernetes.io/managed-by": "grove-operator", "app.kubernetes.io/part-of": "protected"}


@pytest.fixture(scope="module")
def operator(plane: Plane, webhooks: Webhooks) -> Kubectl:
    """kubectl with the operator's service account."""
    assert webhooks.port
    plane.kubectl("create", "serviceaccount", "grove-operator", "-n", OPERATOR_NAMESPACE)
    account = f"--serviceaccount={OPERATOR_NAMESPACE}:grove-operator"
    plane.kubectl("create", "clusterrolebinding", "operator", "--clusterrole=cluster-admin", account)
    token = plane.kubectl("create", "token", "grove-operator", "-n", OPERATOR_NAMESPACE).strip()
    plane.kubeconfig_for(token, "operator")
    return plane.user("operator")


def test_only_the_operator_writes_what_it_manages(kubectl: Kubectl, operator: Kubectl) -> None:
    child = in_namespace(PODCLIQUES, podclique(), "default", name="protected-0-a", labels=MANAGED)
    _create(kubectl, manifest(name="protected"))
    assert "it is managed by the operator" in _attempt(kubectl, child).err
    _create(operator, child)
    for command in (("label", "pclq/protected-0-a", "a=b"), ("delete", "pclq/protected-0-a")):
        assert "it is managed by the operator" in kubectl.attempt(*command).err
        operator(*command)


def test_nobody_else_makes_what_the_operator_would_take_for_its_own(kubectl: Kubectl, operator: Kubectl) -> None:
    """Without a label, by its owner alone; and what claims nothing of ours is not asked about."""
    _create(kubectl, manifest(name="claimed"))
    owner = _reference(kubectl.json("get", "pcs/claimed"))
    child = in_namespace(PODCLIQUES, podclique(), "default", name="claimed-0-a", ownerReferences=[owner])
    _create(operator, child)
    member = _reference(kubectl.json("get", "pclq/claimed-0-a"))
    forged: list[JsonObject] = [
        {"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [{"name": "main", "image": "i"}]}},
        {"apiVersion": "v1", "kind": "Service", "spec": {"clusterIP": "None"}},
        {"apiVersion": "apps/v1", "kind": "ControllerRevision", "revision": 7, "data": {}},
    ]
    for body in forged:
        for reference in (owner, member):
            claiming = {**body, "metadata": {"name": "forged", "ownerReferences": [reference]}}
            assert "it is managed by the operator" in _attempt(kubectl, claiming).err
            stolen = {**body, "metadata": {"name": "stolen", "ownerReferences": [{**reference, "uid": "x"}]}}
            assert kubectl.attempt("create", "--dry-run=server", "-f", "-", stdin=yaml.safe_dump(stolen)).code == 0
        unclaimed = {**body, "metadata": {"name": "unclaimed"}}
        assert kubectl("create", "--dry-run=server", "-f", "-", stdin=yaml.safe_dump(unclaimed)).err == ""
        # Nor is something of others made to look like it later.
        _create(kubectl, {**body, "metadata": {"name": "later"}})
        adopted = kubectl.attempt(
            "patch", body["kind"], "later", "--type=merge", "-p",
            msgspec.json.encode({"metadata": {"ownerReferences": [owner]}}).decode(),
        )  # fmt: skip
        assert "it is managed by the operator" in adopted.err
        # Nor while it is being deleted, held by a finalizer of its own: the operator would count it until it is gone.
        kubectl(
            "patch", body["kind"], "later", "--type=merge", "-p", '{"metadata":{"finalizers":["example.com/hold"]}}'
        )
        kubectl("delete", body["kind"], "later", "--wait=false")
        leaving = kubectl.attempt(
            "patch", body["kind"], "later", "--type=merge", "-p",
            msgspec.json.encode({"metadata": {"ownerReferences": [owner]}}).decode(),
        )  # fmt: skip
        assert "it is managed by the operator" in leaving.err
        kubectl("patch", body["kind"], "later", "--type=merge", "-p", '{"metadata":{"finalizers":null}}')
    told = (
        "patch",
        "pclq/claimed-0-a",
        "--type=merge",
        "--subresource=status",
        "-p",
        '{"status":{"wasAvailable":true}}',
    )
    assert "it is managed by the operator" in kubectl.attempt(*told).err
    operator(*told)


def _reference(obj: JsonObject) -> JsonObject:
    """As the controller of something."""
    metadata = obj["metadata"]
    named = {"apiVersion": obj["apiVersion"], "kind": obj["kind"], "name": metadata["name"], "uid": metadata["uid"]}
    return {**named, "controller": True}


def test_the_operators_own_cliques_are_not_judged_again(kubectl: Kubectl, operator: Kubectl) -> None:
    """It makes them of a set that was judged; below the minimum is what only it could want."""
    below = in_namespace(PODCLIQUES, podclique(replicas=1), "default", name="unasked")
    assert "at least minAvailable" in _attempt(kubectl, below).err
    _create(operator, below)


def test_orphans_are_let_go_by_the_garbage_collector_and_by_nobody_else(
    kubectl: Kubectl, operator: Kubectl, plane: Plane
) -> None:
    """With `--cascade=orphan` a set leaves its cliques behind: the garbage collector takes their owner away."""
    _create(kubectl, manifest(name="orphaning"))
    owner = _reference(kubectl.json("get", "pcs/orphaning"))
    _create(
        operator, in_namespace(PODCLIQUES, podclique(), "default", name="orphaning-0-a", ownerReferences=[owner])
    )  # fmt: skip
    no_owner = ("--type=merge", "-p", '{"metadata":{"ownerReferences":null}}')
    assert "it is managed by the operator" in kubectl.attempt("patch", "pclq/orphaning-0-a", *no_owner).err
    kubectl("delete", "pcs/orphaning", "--cascade=orphan", "--timeout=120s")
    left = kubectl.json("get", "pclq/orphaning-0-a")["metadata"]
    assert (left.get("ownerReferences"), left.get("deletionTimestamp")) == (None, None)
    kubectl("delete", "pclq/orphaning-0-a")
    assert ("patch", "podcliques") in [(one.verb, one.resource) for one in read_audit(plane, GARBAGE_COLLECTORS[0])]


def test_protection_can_be_switched_off_for_a_set(kubectl: Kubectl, operator: Kubectl) -> None:
    _create(
        kubectl,
        manifest(name="open", metadata={"annotations": {"grove.io/disable-managed-resource-protection": "true"}}),
    )
    marks = {**MANAGED, "app.kubernetes.io/part-of": "open"}
    _create(operator, in_namespace(PODCLIQUES, podclique(), "default", name="open-0-a", labels=marks))
    kubectl("label", "pclq/open-0-a", "a=b")


# --- rotations -------------------------------------------------------------------------------------------------------


class Load:
    """Writes that need the webhooks, one after the other without a pause, through the API server and past it."""

    def __init__(self, api: Api, webhooks: Webhooks) -> None:
        self._api = api
        self._webhooks = webhooks
        self.count = 0
        self.failures: list[str] = []
        self.shown: list[bytes] = []
        self.is_over = False

    async def write(self) -> None:
        path = PODCLIQUESETS.path("default")
        while not self.is_over:
            response = await self._api.send("POST", path, manifest(name="under-load"), dryRun="All")
            self.count += 1
            if response.status != 201:
                self.failures.append(response.body.decode())

    async def shake_hands(self) -> None:
        """As an API server does that has just read the configuration: a new connection each time."""
        while not self.is_over:
            held = await self._api.client.get(MUTATING_WEBHOOKS, "", "podcliqueset-defaulting-webhook")
            bundle = held.webhooks[0]["clientConfig"]["caBundle"]
            try:
                self._note(await _shown(self._webhooks.port, bundle))
            except (OSError, ssl.SSLError) as error:
                self.failures.append(str(error))

    async def has_shown(self, count: int) -> bool:
        """Another certificate for each rotation."""
        return len(self.shown) >= count

    def _note(self, shown: bytes) -> None:
        self.count += 1
        if shown not in self.shown:
            self.shown.append(shown)


async def _shown(port: int, bundle: str) -> bytes:
    context = ssl.create_default_context(cadata=base64.b64decode(bundle).decode())
    _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
    try:
        shown: bytes = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        return shown
    finally:
        writer.close()
        await writer.wait_closed()


def test_certificates_and_authorities_rotate_under_load_without_a_failed_request(
    plane: Plane, webhooks: Webhooks
) -> None:
    async def story(api: Api) -> None:
        load = Load(api, webhooks)
        async with asyncio.TaskGroup() as tasks:
            for _ in range(4):
                tasks.create_task(load.write())
            tasks.create_task(load.shake_hands())
            try:
                await api.until(partial(load.has_shown, 1))
                for number, key in enumerate(("tls.crt", "ca.key", "ca.key", "tls.crt", "ca.key")):
                    await _spoil(api, key, "" if key == "tls.crt" else None)
                    await api.until(partial(load.has_shown, number + 2))
                    assert load.failures == [], f"rotation {number}"
            finally:
                load.is_over = True
        assert load.failures == []
        assert load.count > 100
        assert len(load.shown) == 6
        secret = await api.client.get(SECRETS, OPERATOR_NAMESPACE, SECRET_NAME)
        bundle = base64.b64decode(secret.data["ca.crt"])
        assert len(read_certificates(bundle)) == 4

    with_api(plane, story)


async def _spoil(api: Api, key: str, value: str | None) -> None:
    """How a user asks for a rotation."""
    await api.client.patch(SECRETS, OPERATOR_NAMESPACE, SECRET_NAME, {"data": {key: value}})


def test_an_overwritten_bundle_is_put_right(plane: Plane, webhooks: Webhooks) -> None:
    assert webhooks.port

    async def story(api: Api) -> None:
        name = "scale-validating-webhook"

        async def bundle() -> str:
            held = await api.client.get(VALIDATING_WEBHOOKS, "", name)
            found: str = held.webhooks[0]["clientConfig"].get("caBundle", "")
            return found

        before = await bundle()
        patch: list[JsonObject] = [{"op": "remove", "path": "/webhooks/0/clientConfig/caBundle"}]
        await api.client.patch(VALIDATING_WEBHOOKS, "", name, patch, content_type=JSON_PATCH)

        async def is_right() -> bool:
            return await bundle() == before

        await api.until(is_right)

    with_api(plane, story)


# --- without them ----------------------------------------------------------------------------------------------------


def test_deletions_need_no_webhook(plane: Plane, webhooks: Webhooks, operator: Kubectl) -> None:
    """The process is killed; what it registered stays. Last of all, because the others need it."""
    kubectl = plane.user("admin")
    held = {"finalizers": ["grove.io/podcliqueset.grove.io"]}
    _create(kubectl, manifest(name="doomed", metadata=held), manifest(name="kept", metadata=held))
    _create(operator, in_namespace(PODCLIQUES, podclique(), "default", name="doomed-0-a", labels=MANAGED))
    webhooks.kill()
    assert "failed calling webhook" in _attempt(kubectl, manifest(name="new")).err
    changed = kubectl.attempt("patch", "pcs/kept", "--type=merge", "-p", '{"spec":{"replicas":2}}')
    assert "failed calling webhook" in changed.err
    no_finalizer = ("--type=json", "-p", '[{"op":"remove","path":"/metadata/finalizers"}]')
    # What is leaving loses its finalizer, and goes; even with a change of its spec on the way.
    kubectl("delete", "pcs/doomed", "--wait=false")
    kubectl("patch", "pcs/doomed", "--type=merge", "-p", '{"spec":{"replicas":7}}')
    kubectl("patch", "pcs/doomed", *no_finalizer)
    assert "NotFound" in kubectl.attempt("get", "pcs/doomed").err
    # So does what merely has one, and what the authorizer protects.
    kubectl("label", "pcs/kept", "a=b")
    kubectl("annotate", "pcs/kept", "c=d")
    kubectl("patch", "pcs/kept", *no_finalizer)
    kubectl("delete", "pcs/kept", "clustertopologybinding/dc", "pclq/doomed-0-a")
    kubectl("delete", "namespace", home_of(0), "--wait=false")


def test_whoever_comes_after_takes_over_and_takes_away(plane: Plane, webhooks: Webhooks) -> None:
    """The killed one's configurations lead to the next, which removes them when it ends well."""
    webhooks.kill()
    kubectl = plane.user("admin")
    with webhooks_of(plane):
        assert "is invalid" in _attempt(kubectl, manifest(clique("c" * 23), name="p" * 23)).err
    found = kubectl("get", "validatingwebhookconfigurations,mutatingwebhookconfigurations", "-o", "name")
    assert found.out == ""

    async def forgets(api: Api) -> None:
        # A moment after they are gone, and then nobody is asked.
        await api.until(partial(_is_taken, api, manifest(name="unjudged")))

    with_api(plane, forgets)
    _create(kubectl, manifest(name="unjudged"))


async def _is_taken(api: Api, body: JsonObject) -> bool:
    return (await api.send("POST", PODCLIQUESETS.path("default"), body, dryRun="All")).status == 201


# --- behind a Service ------------------------------------------------------------------------------------------------


def test_behind_a_service_replicas_agree_on_whom_the_api_server_shall_trust(plane: Plane, webhooks: Webhooks) -> None:
    """Nobody can reach a Service here; but what is written to a real API server, and by whom first, can be seen."""
    webhooks.stop()

    async def story(api: Api) -> None:
        installed = webhook_configurations(
            ServiceTarget(namespace=OPERATOR_NAMESPACE), ca_bundle="", has_authorizer=True, operator_user=OPERATOR
        )
        for body in installed:
            # A process that was killed leaves its own behind.
            await api.client.delete(_resource(body), "", body["metadata"]["name"])
            await api.must("POST", _resource(body).path(""), body)
        await api.client.delete(SECRETS, OPERATOR_NAMESPACE, SECRET_NAME)
        options = WebhookOptions(host="", port=0, namespace=OPERATOR_NAMESPACE, secret_name=SECRET_NAME)
        contexts = [LiveContext() for _ in range(3)]
        upkeeps = [build_cert_rotator(api.client, api.clock, Random(i), options, tls) for i, tls in enumerate(contexts)]
        tasks = [asyncio.create_task(upkeep.run()) for upkeep in upkeeps]

        async def all_agree() -> bool:
            bundles = await _bundles(api, installed)
            certificates = {context.certificate for context in contexts}
            return all(upkeep.is_ready for upkeep in upkeeps) and len(bundles) == len(certificates) == 1

        await api.until(all_agree)
        secret = await api.client.get(SECRETS, OPERATOR_NAMESPACE, SECRET_NAME)
        assert await _bundles(api, installed) == {secret.data["ca.crt"]}
        assert contexts[0].certificate == base64.b64decode(secret.data["tls.crt"])
        assert len(read_certificates(base64.b64decode(secret.data["ca.crt"]))) == 1
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        kept = {
            (await api.must("GET", _resource(body).path("", body["metadata"]["name"])))["kind"] for body in installed
        }
        assert len(kept) == 2, "they are not ours to remove"
        for body in installed:
            await api.must("DELETE", _resource(body).path("", body["metadata"]["name"]))

    with_api(plane, story)


def _resource(body: JsonObject) -> Resource[WebhookConfiguration]:
    return MUTATING_WEBHOOKS if body["kind"] == MUTATING_WEBHOOKS.kind else VALIDATING_WEBHOOKS


async def _bundles(api: Api, installed: tuple[JsonObject, ...]) -> set[str]:
    held = [await api.client.get(_resource(body), "", body["metadata"]["name"]) for body in installed]
    return {webhook["clientConfig"].get("caBundle", "") for one in held for webhook in one.webhooks}


def test_what_the_server_stores_is_what_we_wrote(plane: Plane, webhooks: Webhooks) -> None:
    """Else an operator at a URL would correct its configurations for ever."""
    webhooks.stop()

    async def story(api: Api) -> None:
        target = UrlTarget(url="https://127.0.0.1:1")
        for body in webhook_configurations(target, ca_bundle="", has_authorizer=True, operator_user=OPERATOR):
            await api.client.delete(_resource(body), "", body["metadata"]["name"])
            stored = await api.must("POST", _resource(body).path(""), body, dryRun="All")
            assert stored["webhooks"] == body["webhooks"]

    with_api(plane, story)
