"""The webhook server as an API server meets it: TLS, bodies, patches, refusals, and what it looks up."""

import asyncio
import base64
import ssl
from typing import Any

import aiohttp
import msgspec
import pytest

from grove.admission.webhook_certificates import RotationStep
from grove.admission.webhook_server import LARGEST_BODY
from grove.api.resources import GROUPS, PODCLIQUES, PODCLIQUESETS, TOPOLOGY_BINDINGS, Resource
from grove.api.types.meta import HasMetadata, JsonObject, Uid
from grove.cluster.patches.json_patch import apply_json_patch
from grove.installation.webhook_configurations import (
    AUTHORIZER_PATH,
    DEFAULT_SET_PATH,
    VALIDATE_CLIQUE_PATH,
    VALIDATE_SCALE_PATH,
    VALIDATE_SET_PATH,
    VALIDATE_TOPOLOGY_PATH,
)
from grove.kube.api_errors import ApiError
from tests.admission.asking import created, updated
from tests.admission.test_rules_children import binding, disowned, podclique, scaling_group
from tests.admission.webhook_server import Asked, asking, question
from tests.api.manifests import clique, manifest, training

PCS = "podcliquesets"


def patch_of(response: JsonObject) -> list[JsonObject]:
    assert response["patchType"] == "JSONPatch"
    found: list[JsonObject] = msgspec.json.decode(base64.b64decode(response["patch"]))
    return found


# --- defaults --------------------------------------------------------------------------------------------------------


def test_a_new_set_is_patched_with_its_defaults_and_nothing_else() -> None:
    async def story(asked: Asked) -> None:
        response = (await asked.ask(DEFAULT_SET_PATH, question(PCS, manifest()))).response
        operations = patch_of(response)
        assert (response["uid"], response["allowed"]) == ("q1", True)
        assert apply_json_patch(manifest(), operations) == created(manifest()).object
        assert {one["op"] for one in operations} == {"add"}
        assert sorted(one["path"] for one in operations if "/cliques/" in one["path"]) == [
            "/spec/template/cliques/0/spec/minAvailable",
            "/spec/template/cliques/0/spec/podSpec/restartPolicy",
            "/spec/template/cliques/0/spec/podSpec/terminationGracePeriodSeconds",
        ]

    asking(story)


def test_a_set_that_has_its_defaults_is_not_patched() -> None:
    async def story(asked: Asked) -> None:
        response = (await asked.ask(DEFAULT_SET_PATH, question(PCS, created(manifest()).object))).response
        assert response == {"uid": "q1", "allowed": True}

    asking(story)


def test_an_update_that_leaves_a_minimum_out_keeps_the_stored_one() -> None:
    async def story(asked: Asked) -> None:
        old = created(manifest(clique(spec={"replicas": 2}))).object
        new = created(manifest(clique(spec={"replicas": 5, "minAvailable": 5}))).object
        assert new is not None
        del new["spec"]["template"]["cliques"][0]["spec"]["minAvailable"]
        response = (await asked.ask(DEFAULT_SET_PATH, question(PCS, new, old))).response
        assert patch_of(response) == [
            {"op": "add", "path": "/spec/template/cliques/0/spec/minAvailable", "value": 2}
        ]  # fmt: skip

    asking(story)


@pytest.mark.parametrize("spec", [None, 1, [], {"template": "x"}, {"template": {"cliques": [1, {"spec": 2}]}}])
def test_defaulting_leaves_rubbish_to_validation(spec: Any) -> None:
    async def story(asked: Asked) -> None:
        answer = await asked.ask(DEFAULT_SET_PATH, question(PCS, {**manifest(), "spec": spec}))
        assert (answer.status, answer.response["allowed"]) == (200, True)

    asking(story)


# --- validation ------------------------------------------------------------------------------------------------------


def test_a_bad_set_is_refused_in_the_words_of_an_api_server() -> None:
    async def story(asked: Asked) -> None:
        bad = created(manifest()).object
        assert bad is not None
        bad = {**bad, "spec": {**bad["spec"], "replicas": -1}}
        response = (await asked.ask(VALIDATE_SET_PATH, question(PCS, bad))).response
        assert response == {
            "uid": "q1",
            "allowed": False,
            "status": {
                "status": "Failure",
                "code": 422,
                "reason": "Invalid",
                "message": (
                    'PodCliqueSet.grove.io "web" is invalid: spec.replicas: Invalid value: -1: must be at least 0'
                ),
                "details": {
                    "name": "web",
                    "group": "grove.io",
                    "kind": "PodCliqueSet",
                    "causes": [
                        {
                            "reason": "FieldValueInvalid",
                            "message": "Invalid value: -1: must be at least 0",
                            "field": "spec.replicas",
                        }
                    ],
                },
            },
        }

    asking(story)


def test_a_change_that_has_no_effect_on_what_runs_is_accepted_with_a_warning() -> None:
    async def story(asked: Asked) -> None:
        old, new = (manifest(clique(spec={"replicas": count, "minAvailable": 1})) for count in (2, 4))
        response = (await asked.ask(VALIDATE_SET_PATH, question(PCS, new, old))).response
        assert (response["allowed"], tuple(response["warnings"])) == (True, updated(old, new).warnings)
        assert "scale them" in response["warnings"][0]

    asking(story)


def test_a_constraint_is_judged_by_the_topology_of_the_cluster() -> None:
    async def story(asked: Asked) -> None:
        constraint = {"topologyName": "dc", "pack": {"required": "rack"}}
        pcs = created(manifest(template={"topologyConstraint": constraint})).object
        missing = (await asked.ask(VALIDATE_SET_PATH, question(PCS, pcs))).response
        await asked.user.create(TOPOLOGY_BINDINGS, "", binding("zone", "rack"))
        present = (await asked.ask(VALIDATE_SET_PATH, question(PCS, pcs))).response
        assert (missing["allowed"], missing["status"]["details"]["causes"][0]["field"], present["allowed"]) == (
            False,
            "spec.template.topologyConstraint.topologyName",
            True,
        )

    asking(story)


def test_a_topology_binding_is_judged() -> None:
    async def story(asked: Asked) -> None:
        bad = question("clustertopologybindings", binding("zone", "zone", keys=("a", "b")))
        response = (await asked.ask(VALIDATE_TOPOLOGY_PATH, bad)).response
        assert (response["allowed"], response["status"]["message"]) == (
            False,
            (
                'ClusterTopologyBinding.grove.io "dc" is invalid: '
                'spec.levels[1].domain: Duplicate value: "zone": already used at [0]: remove one'
            ),
        )

    asking(story)


def test_without_a_look_at_the_cluster_there_is_no_verdict() -> None:
    async def story(asked: Asked) -> None:
        asked.transport.refuse(lambda _: True, ApiError(503, "ServiceUnavailable", "down"))
        pcs = manifest(template={"topologyConstraint": {"topologyName": "dc", "pack": {"required": "rack"}}})
        answer = await asked.ask(VALIDATE_SET_PATH, question(PCS, pcs))
        assert (answer.status, answer.text) == (500, "a lookup in the cluster failed: 503 ServiceUnavailable: down\n")

    asking(story)


def test_what_is_leaving_passes_even_if_the_cluster_cannot_be_looked_at() -> None:
    async def story(asked: Asked) -> None:
        asked.transport.refuse(lambda _: True, ApiError(503, "ServiceUnavailable", "down"))
        pcs = manifest(template={"topologyConstraint": {"topologyName": "dc", "pack": {"required": "rack"}}})
        leaving = {**pcs, "metadata": {**pcs["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}}
        for path in (DEFAULT_SET_PATH, VALIDATE_SET_PATH):
            response = (await asked.ask(path, question(PCS, {**leaving, "spec": {}}, leaving))).response
            assert response == {"uid": "q1", "allowed": True}

    asking(story)


def test_a_deletion_timestamp_that_somebody_wrote_switches_no_rule_off() -> None:
    async def story(asked: Asked) -> None:
        pcs = manifest(replicas=-1, metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})
        response = (await asked.ask(VALIDATE_SET_PATH, question(PCS, pcs))).response
        assert response["allowed"] is False

    asking(story)


# --- scale -----------------------------------------------------------------------------------------------------------


def scale(obj: Any, replicas: int) -> JsonObject:
    metadata = {"name": obj.metadata.name, "namespace": obj.metadata.namespace, "uid": obj.metadata.uid}
    # A count of zero is left out of a Scale.
    return {"metadata": metadata, "spec": {"replicas": replicas} if replicas else {}}


async def scaled(asked: Asked, plural: str, obj: Any, replicas: int) -> JsonObject:
    asking_scale = question(plural, scale(obj, replicas), scale(obj, 3), kind="Scale", subResource="scale")
    return (await asked.ask(VALIDATE_SCALE_PATH, asking_scale)).response


def test_a_clique_is_not_scaled_below_its_minimum() -> None:
    async def story(asked: Asked) -> None:
        child = await asked.user.create(PODCLIQUES, "default", podclique())
        refused, accepted = await scaled(asked, "podcliques", child, 1), await scaled(asked, "podcliques", child, 2)
        assert (refused["allowed"], refused["status"]["message"], accepted["allowed"]) == (
            False,
            (
                'PodClique.grove.io "web-0-a" is invalid: '
                "spec.replicas: Invalid value: 1: must be 0, or at least minAvailable (2)"
            ),
            True,
        )

    asking(story)


def test_a_scale_to_zero_says_so_by_leaving_the_count_out() -> None:
    async def story(asked: Asked) -> None:
        pcs = await asked.user.create(PODCLIQUESETS, "default", manifest())
        child = await asked.user.create(PODCLIQUES, "default", podclique())
        whole, part = await scaled(asked, PCS, pcs, 0), await scaled(asked, "podcliques", child, 0)
        assert (whole["allowed"], part["allowed"]) == (True, True)

    asking(story)


async def training_family(asked: Asked) -> tuple[Any, Any, Any, Any]:
    """A training set, a clique of it, a group of it, and a member of that group."""
    pcs = await asked.user.create(PODCLIQUESETS, "default", training())
    child = await asked.user.create(PODCLIQUES, "default", owned(podclique(), "PodCliqueSet", pcs))
    group = await asked.user.create(GROUPS, "default", owned(scaling_group(), "PodCliqueSet", pcs))
    member = owned(podclique(), "PodCliqueScalingGroup", group)
    member["metadata"]["name"] = "web-0-g-0-a"
    return pcs, child, group, await asked.user.create(PODCLIQUES, "default", member)


def owned(json: JsonObject, kind: str, owner: Any) -> JsonObject:
    """The object with this controller, which is of that kind."""
    reference = {"apiVersion": "grove.io/v1alpha1", "kind": kind, "controller": True}
    reference |= {"name": owner.metadata.name, "uid": owner.metadata.uid}
    return {**json, "metadata": {**json["metadata"], "ownerReferences": [reference]}}


def test_a_training_set_and_its_children_are_never_scaled() -> None:
    async def story(asked: Asked) -> None:
        pcs, child, group, member = await training_family(asked)
        asked_for = ((PCS, pcs), ("podcliques", child), ("podcliquescalinggroups", group), ("podcliques", member))
        answers = [await scaled(asked, plural, obj, 4) for plural, obj in asked_for]
        of_set = 'it belongs to training set "web", which cannot be scaled: delete the set and create one'
        assert [one["status"]["details"]["causes"][0]["message"] for one in answers] == [
            "Forbidden: a training set cannot be scaled: delete it and create one with the size you need",
            *(f"Forbidden: {of_set} with the size you need" for _ in range(3)),
        ]

    asking(story)


def test_the_scale_of_an_object_that_is_another_one_by_now_is_a_conflict() -> None:
    async def story(asked: Asked) -> None:
        first = await asked.user.create(PODCLIQUES, "default", podclique())
        await asked.user.delete(PODCLIQUES, "default", "web-0-a")
        gone = await scaled(asked, "podcliques", first, 2)
        await asked.user.create(PODCLIQUES, "default", podclique())
        replaced = await scaled(asked, "podcliques", first, 2)
        assert [(one["allowed"], one["status"]["code"]) for one in (gone, replaced)] == [(False, 404), (False, 409)]

    asking(story)


def test_a_scale_that_cannot_be_looked_up_has_no_verdict() -> None:
    async def story(asked: Asked) -> None:
        child = await asked.user.create(PODCLIQUES, "default", podclique())
        asked.transport.refuse(lambda _: True, ApiError(500, "InternalError", "etcd"))
        answer = await asked.ask(
            VALIDATE_SCALE_PATH, question("podcliques", scale(child, 2), scale(child, 3), subResource="scale")
        )
        assert (answer.status, answer.text) == (500, "a lookup in the cluster failed: 500 InternalError: etcd\n")

    asking(story)


@pytest.mark.parametrize("changed", [{"replicas": 4}, {"podSpec": {"containers": [{"name": "other"}]}}])
@pytest.mark.parametrize("keeps_owner", [True, False])
def test_a_child_of_a_training_set_is_not_edited_either(changed: JsonObject, keeps_owner: bool) -> None:
    async def story(asked: Asked) -> None:
        pcs, *_ = await training_family(asked)
        old, new = (owned(podclique(**spec), "PodCliqueSet", pcs) for spec in ({}, changed))
        answer = await asked.ask(
            VALIDATE_CLIQUE_PATH, question("podcliques", new if keeps_owner else disowned(new), old)
        )
        (cause,) = answer.response["status"]["details"]["causes"]
        assert (cause["reason"], cause["field"]) == ("FieldValueForbidden", f"spec.{next(iter(changed))}")

    asking(story)


def test_a_child_whose_set_was_replaced_by_another_is_judged_as_nobodys() -> None:
    async def story(asked: Asked) -> None:
        pcs, *_ = await training_family(asked)
        await asked.user.delete(PODCLIQUESETS, "default", "web")
        await asked.user.create(PODCLIQUESETS, "default", training())
        old, new = (owned(podclique(**spec), "PodCliqueSet", pcs) for spec in ({}, {"replicas": 4}))
        assert (await asked.ask(VALIDATE_CLIQUE_PATH, question("podcliques", new, old))).response["allowed"] is True

    asking(story)


# --- bodies ----------------------------------------------------------------------------------------------------------

GOOD = msgspec.json.encode(
    {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {"uid": "q1", **question(PCS, created(manifest()).object)},
    }
)
OLDER = GOOD.replace(b"admission.k8s.io/v1", b"admission.k8s.io/v1beta1")
STRANGE = msgspec.json.encode({"apiVersion": "v1", "kind": "Pod", "request": {"uid": "u", "operation": "CREATE"}})
CONNECT = GOOD.replace(b'"CREATE"', b'"CONNECT"')


@pytest.mark.parametrize(
    ("body", "text"),
    [
        pytest.param(b"", "not an AdmissionReview", id="nothing"),
        pytest.param(b"{", "not an AdmissionReview", id="half a body"),
        pytest.param(b"[]", "not an AdmissionReview", id="a list"),
        pytest.param(b'"\xff"', "not an AdmissionReview", id="not text"),
        pytest.param(b"{}", "not an AdmissionReview", id="an empty object"),
        pytest.param(STRANGE, "send AdmissionReview admission.k8s.io/v1, not Pod v1", id="another kind"),
        pytest.param(OLDER, "send AdmissionReview admission.k8s.io/v1", id="an older version"),
        pytest.param(CONNECT, "CONNECT is not supported", id="an operation that is not judged"),
        pytest.param(
            GOOD.replace(b'"podcliquesets"', b'"pods"'), "this path validates podcliquesets, not pods", id="pods"
        ),
    ],
)
def test_what_is_not_a_question_is_a_bad_request(body: bytes, text: str) -> None:
    async def story(asked: Asked) -> None:
        answer = await asked.send(VALIDATE_SET_PATH, body)
        assert (answer.status, answer.text.startswith(text)) == (400, True), answer

    asking(story)


def test_sizes_types_methods_and_paths_have_their_own_refusals() -> None:
    async def story(asked: Asked) -> None:
        huge = await asked.send(VALIDATE_SET_PATH, b" " * (LARGEST_BODY + 1))
        text = await asked.send(VALIDATE_SET_PATH, GOOD, Content_Type="text/plain")
        method = await asked.send(VALIDATE_SET_PATH, b"", method="GET")
        path = await asked.send("/webhooks/nothing", GOOD)
        good = await asked.send(VALIDATE_SET_PATH, GOOD, Content_Type="application/json; charset=utf-8")
        assert [one.status for one in (huge, text, method, path, good)] == [413, 415, 405, 404, 200]

    asking(story)


def test_the_largest_set_fits_into_a_question() -> None:
    async def story(asked: Asked) -> None:
        filler = {"annotations": {"filler": "x" * 250_000}}
        cliques = [clique(f"c{i}", annotations=filler["annotations"]) for i in range(4)]
        large = created(manifest(*cliques)).object
        response = (await asked.ask(VALIDATE_SET_PATH, question(PCS, large, large))).response
        assert response["allowed"] is True

    asking(story)


# --- TLS -------------------------------------------------------------------------------------------------------------


def test_a_new_certificate_is_shown_to_the_next_handshake_and_open_connections_go_on() -> None:
    async def story(asked: Asked) -> None:
        context = ssl.create_default_context(cadata=asked.material.authorities.decode())
        url = f"https://127.0.0.1:{asked.server.port}{VALIDATE_SET_PATH}"
        headers = {"Content-Type": "application/json"}
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context, limit=1)) as session:
            shown = []
            for what in (RotationStep.NOTHING, RotationStep.CERTIFICATE, RotationStep.AUTHORITY):
                if what is not RotationStep.NOTHING:
                    asked.renew(what)
                async with session.post(url, data=GOOD, headers=headers) as response:
                    assert response.status == 200
                    await response.read()
                shown.append(await _shown_certificate(asked))
        assert len(set(shown)) == 3

    asking(story)


async def _shown_certificate(asked: Asked) -> bytes:
    """What a handshake with the present authorities is shown."""
    context = ssl.create_default_context(cadata=asked.material.authorities.decode())
    _, writer = await asyncio.open_connection("127.0.0.1", asked.server.port, ssl=context)
    shown: bytes = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.close()
    await writer.wait_closed()
    return shown


def test_after_a_new_authority_the_old_bundle_is_not_enough() -> None:
    async def story(asked: Asked) -> None:
        old = asked.material
        asked.renew(RotationStep.AUTHORITY)
        new, asked.material = asked.material, old
        with pytest.raises(aiohttp.ClientConnectorCertificateError):
            await asked.send(VALIDATE_SET_PATH, GOOD)
        asked.material = new
        assert (await asked.send(VALIDATE_SET_PATH, GOOD)).status == 200

    asking(story)


# --- the authorizer --------------------------------------------------------------------------------------------------


def test_only_the_operator_edits_what_it_manages() -> None:
    async def story(asked: Asked) -> None:
        await asked.user.create(PODCLIQUESETS, "default", manifest())
        pod = {"metadata": {"name": "p", "namespace": "default", "labels": {"app.kubernetes.io/part-of": "web"}}}
        asked_of = question("pods", pod, pod, group="")
        refused = (await asked.ask(AUTHORIZER_PATH, asked_of)).response
        accepted = (await asked.ask(AUTHORIZER_PATH, {**asked_of, "userInfo": {"username": "operator"}})).response
        assert (refused["allowed"], refused["status"]["code"], accepted) == (False, 403, {"uid": "q1", "allowed": True})

    asking(story)


def claiming(name: str, resource: Resource[Any], owner: HasMetadata, **fields: Any) -> JsonObject:
    """An object whose controller is this one, and that says in no other way whose it is."""
    reference = {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "name": owner.metadata.name,
        "uid": owner.metadata.uid,
        "controller": True,
    }
    return {**fields, "metadata": {"name": name, "namespace": "default", "ownerReferences": [reference]}}


def test_an_owner_is_enough_to_be_protected_over_every_level_in_between() -> None:
    """A pod without labels, of a clique, of a group, of a set; the operator would find it by its owner."""

    async def story(asked: Asked) -> None:
        pcs = await asked.user.create(PODCLIQUESETS, "default", manifest())
        body = claiming("web-0-g", PODCLIQUESETS, pcs, **scaling_group())
        group = await asked.user.create(GROUPS, "default", body)
        body = claiming("web-0-g-0-a", GROUPS, group, **podclique())
        member = await asked.user.create(PODCLIQUES, "default", body)
        stolen = msgspec.structs.replace(member, metadata=msgspec.structs.replace(member.metadata, uid=Uid("stolen")))
        pod = claiming("forged", PODCLIQUES, member)

        async def is_allowed(new: JsonObject) -> bool:
            found = (await asked.ask(AUTHORIZER_PATH, question("pods", new, group=""))).response["allowed"]
            return bool(found)

        assert not await is_allowed(pod)
        # Another uid, another kind, another namespace: another owner.
        assert await is_allowed(claiming("forged", PODCLIQUES, stolen))
        assert await is_allowed(claiming("forged", GROUPS, member))
        assert await is_allowed({**pod, "metadata": {**pod["metadata"], "namespace": "elsewhere"}})

    asking(story)


def test_owners_that_own_each_other_are_not_followed_for_ever() -> None:
    async def story(asked: Asked) -> None:
        one = await asked.user.create(PODCLIQUES, "default", {**podclique(), "metadata": {"name": "one"}})
        two = await asked.user.create(PODCLIQUES, "default", claiming("two", PODCLIQUES, one, **podclique()))
        await asked.user.patch(PODCLIQUES, "default", "one", claiming("one", PODCLIQUES, two))
        pod = claiming("forged", PODCLIQUES, one)
        response = (await asked.ask(AUTHORIZER_PATH, question("pods", pod, group=""))).response
        assert (response["allowed"], len(response["warnings"])) == (True, 1)

    asking(story)


def test_where_the_authorizer_is_switched_off_it_has_no_verdict() -> None:
    async def story(asked: Asked) -> None:
        answer = await asked.ask(AUTHORIZER_PATH, question("pods", manifest(), manifest(), group=""))
        assert (answer.status, "disabled" in answer.text) == (400, True)

    asking(story, authorizer=None)
