"""Roles, bindings, accounts, their tokens, and the questions about them."""

import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import msgspec
import pytest

from grove.api.types.meta import JsonObject
from grove.kube.api_errors import ApiError
from grove.kube.http_transport import HttpTransport
from grove.kube.kubeconfig import Access
from tests.conformance.talk import Answer, Talk, config

RBAC = "rbac.authorization.k8s.io"
AUTHORIZATION = "/apis/authorization.k8s.io/v1"
AUTHENTICATION = "/apis/authentication.k8s.io/v1"
READ_CONFIGS: JsonObject = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch"]}


def role(name: str, *rules: JsonObject) -> JsonObject:
    return {"metadata": {"name": name}, "rules": list(rules)}


def binding(name: str, role: str, *subjects: JsonObject, kind: str = "Role") -> JsonObject:
    reference = {"apiGroup": RBAC, "kind": kind, "name": role}
    return {"metadata": {"name": name}, "roleRef": reference, "subjects": list(subjects)}


def account(name: str, namespace: str) -> JsonObject:
    return {"kind": "ServiceAccount", "name": name, "namespace": namespace}


async def token_of(api: Talk, name: str, **spec: Any) -> str:
    answer = await api.post(api.at("serviceaccounts", name, "token"), {"spec": spec})
    assert answer.status == 201, answer.body
    token: str = answer.body["status"]["token"]
    return token


@asynccontextmanager
async def with_token(api: Talk, access: Access, token: str) -> AsyncIterator[Talk]:
    async with HttpTransport(msgspec.structs.replace(access, token=token), api.clock) as transport:
        yield Talk(transport, api.clock, api.namespace)


@asynccontextmanager
async def as_account(api: Talk, access: Access, *rules: JsonObject, name: str = "robot") -> AsyncIterator[Talk]:
    """A client that may do what these rules say, in the namespace of the test, and what everybody may."""
    await api.create("serviceaccounts", {"metadata": {"name": name}})
    if rules:
        await api.create("roles", role("given", *rules))
        await api.create("rolebindings", binding("given", "given", account(name, api.namespace)))
    async with with_token(api, access, await token_of(api, name)) as robot:
        yield robot
        # A real server learns of new roles a moment later.


async def allowed(robot: Talk, path: str) -> Answer:
    """What is answered once the rights are known."""
    return await robot.until(path, lambda answer: answer.status != 403)


def user(api: Talk, name: str = "robot") -> str:
    return f"system:serviceaccount:{api.namespace}:{name}"


# --- what a restricted caller is told --------------------------------------------------------------------------------


async def test_what_is_granted_is_answered(api: Talk, access: Access) -> None:
    await api.create("configmaps", config("a", {"x": "1"}))
    async with as_account(api, access, READ_CONFIGS) as robot:
        assert (await allowed(robot, robot.at("configmaps", "a"))).body["data"] == {"x": "1"}
        assert "a" in (await robot.get(robot.at("configmaps"))).names


@pytest.mark.parametrize(
    ("method", "place", "words", "details"),
    [
        (
            "GET",
            "pods",
            (
                'pods is forbidden: User "{user}" cannot list resource "pods" in API group "" in the '
                'namespace "{namespace}"'
            ),
            {"kind": "pods"},
        ),
        (
            "GET",
            "pods/x",
            (
                'pods "x" is forbidden: User "{user}" cannot get resource "pods" in API group "" in the '
                'namespace "{namespace}"'
            ),
            {"kind": "pods", "name": "x"},
        ),
        (
            "DELETE",
            "pods",
            (
                'pods is forbidden: User "{user}" cannot deletecollection resource "pods" in API group "" in '
                'the namespace "{namespace}"'
            ),
            {"kind": "pods"},
        ),
        (
            "DELETE",
            "pods/x",
            (
                'pods "x" is forbidden: User "{user}" cannot delete resource "pods" in API group "" in '
                'the namespace "{namespace}"'
            ),
            {"kind": "pods", "name": "x"},
        ),
        (
            "POST",
            "configmaps",
            (
                'configmaps is forbidden: User "{user}" cannot create resource "configmaps" in API group '
                '"" in the namespace "{namespace}"'
            ),
            {"kind": "configmaps"},
        ),
        (
            "PUT",
            "configmaps/x",
            (
                'configmaps "x" is forbidden: User "{user}" cannot update resource "configmaps" in API '
                'group "" in the namespace "{namespace}"'
            ),
            {"kind": "configmaps", "name": "x"},
        ),
        (
            "PATCH",
            "pods/x/status",
            (
                'pods "x" is forbidden: User "{user}" cannot patch resource "pods/status" in API '
                'group "" in the namespace "{namespace}"'
            ),
            {"kind": "pods", "name": "x"},
        ),
    ],
)
async def test_what_is_not_granted_is_refused(
    api: Talk, access: Access, method: str, place: str, words: str, details: JsonObject
) -> None:
    async with as_account(api, access) as robot:
        body: JsonObject | None = {} if method in ("POST", "PUT", "PATCH") else None
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        refused = await robot.send(method, f"/api/v1/namespaces/{api.namespace}/{place}", body, content_type=kind)
        assert refused.refusal == (403, "Forbidden", words.format(user=user(api), namespace=api.namespace))
        assert refused.details == details


@pytest.mark.parametrize(
    ("path", "words", "details"),
    [
        (
            "/api/v1/pods",
            ('pods is forbidden: User "{user}" cannot list resource "pods" in API group "" at the cluster scope'),
            {"kind": "pods"},
        ),
        (
            "/api/v1/nodes/n",
            ('nodes "n" is forbidden: User "{user}" cannot get resource "nodes" in API group "" at the cluster scope'),
            {"kind": "nodes", "name": "n"},
        ),
        (
            "/apis/grove.io/v1alpha1/podcliquesets",
            (
                'podcliquesets.grove.io is forbidden: User "{user}" cannot list '
                'resource "podcliquesets" in API group "grove.io" at the cluster scope'
            ),
            {"group": "grove.io", "kind": "podcliquesets"},
        ),
        (
            "/apis/nobody.example/v1/things",
            (
                'things.nobody.example is forbidden: User "{user}" cannot list resource '
                '"things" in API group "nobody.example" at the cluster scope'
            ),
            {"group": "nobody.example", "kind": "things"},
        ),
        ("/metrics", 'forbidden: User "{user}" cannot get path "/metrics"', {}),
        ("/", 'forbidden: User "{user}" cannot get path "/"', {}),
    ],
)
async def test_beyond_its_namespace_an_account_sees_nothing(
    api: Talk, access: Access, path: str, words: str, details: JsonObject
) -> None:
    async with as_account(api, access) as robot:
        refused = await robot.get(path)
        assert refused.refusal == (403, "Forbidden", words.format(user=user(api)))
        assert refused.details == details


async def test_a_namespace_itself_is_something_in_it(api: Talk, access: Access) -> None:
    async with as_account(api, access) as robot:
        refused = await robot.get(f"/api/v1/namespaces/{api.namespace}")
        words = (
            f'namespaces "{api.namespace}" is forbidden: User "{user(api)}" cannot get resource "namespaces" in API '
            f'group "" in the namespace "{api.namespace}"'
        )
        assert refused.refusal == (403, "Forbidden", words)


async def test_a_watch_is_refused_like_everything_else(api: Talk, access: Access) -> None:
    async with as_account(api, access) as robot:
        with pytest.raises(ApiError) as refused:
            async with robot.watch(robot.at("pods")):
                pass
        assert refused.value.code == 403
        assert f'User "{user(api)}" cannot watch resource "pods"' in refused.value.message


@pytest.mark.parametrize("path", ["/version", "/api", "/apis", "/healthz", "/openapi/v3", "/apis/apps/v1"])
async def test_everybody_may_discover(api: Talk, access: Access, path: str) -> None:
    async with as_account(api, access) as robot:
        assert (await robot.get(path)).status == 200


async def test_a_rule_may_be_about_names(api: Talk, access: Access) -> None:
    for name in ("a", "b"):
        await api.create("configmaps", config(name))
    rule = {**READ_CONFIGS, "resourceNames": ["a"]}
    async with as_account(api, access, rule) as robot:
        await allowed(robot, robot.at("configmaps", "a"))
        assert (await robot.get(robot.at("configmaps", "b"))).status == 403
        assert (await robot.get(robot.at("configmaps"))).status == 403
        # A list of that one object is about that object.
        listed = await robot.get(robot.at("configmaps"), fieldSelector="metadata.name=a")
        assert (listed.status, listed.names) == (200, ["a"])


@pytest.mark.parametrize(
    ("resources", "place", "is_allowed"),
    [
        (["*"], "pods/x/status", True),
        (["pods/status"], "pods/x/status", True),
        (["pods/status"], "pods/x", False),
        (["pods"], "pods/x/status", False),
        (["*/status"], "pods/x/status", True),
        (["*/status"], "pods/x", False),
    ],
)
async def test_a_subresource_is_granted_by_itself(
    api: Talk, access: Access, resources: list[str], place: str, is_allowed: bool
) -> None:
    rules = ({"apiGroups": [""], "resources": resources, "verbs": ["get"]}, READ_CONFIGS)
    async with as_account(api, access, *rules) as robot:
        # Until the rights are known.
        await allowed(robot, robot.at("configmaps"))
        answer = await robot.get(f"/api/v1/namespaces/{api.namespace}/{place}")
        assert answer.status == (404 if is_allowed else 403)


async def test_groups_of_accounts_are_subjects(api: Talk, access: Access) -> None:
    await api.create("roles", role("r", READ_CONFIGS))
    group = {"kind": "Group", "apiGroup": RBAC, "name": f"system:serviceaccounts:{api.namespace}"}
    await api.create("rolebindings", binding("b", "r", group))
    async with as_account(api, access) as robot:
        await allowed(robot, robot.at("configmaps"))


async def test_a_cluster_role_is_given_in_one_namespace(api: Talk, access: Access) -> None:
    name = f"{api.namespace}-reader"
    await api.create("clusterroles", role(name, READ_CONFIGS))
    await api.create("rolebindings", binding("b", name, account("robot", api.namespace), kind="ClusterRole"))
    async with as_account(api, access) as robot:
        await allowed(robot, robot.at("configmaps"))
        assert (await robot.get("/api/v1/configmaps")).status == 403


async def test_a_cluster_role_is_given_everywhere(api: Talk, access: Access) -> None:
    name = f"{api.namespace}-everywhere"
    rule = {"apiGroups": [""], "resources": ["nodes"], "verbs": ["list"]}
    paths = {"nonResourceURLs": ["/metrics*"], "verbs": ["get"]}
    await api.create("clusterroles", role(name, rule, paths))
    subject = account("robot", api.namespace)
    await api.create("clusterrolebindings", binding(name, name, subject, kind="ClusterRole"))
    async with as_account(api, access) as robot:
        await allowed(robot, "/api/v1/nodes")
        assert (await robot.get("/metrics")).status != 403


async def test_a_right_that_is_taken_away_is_gone(api: Talk, access: Access) -> None:
    async with as_account(api, access, READ_CONFIGS) as robot:
        await allowed(robot, robot.at("configmaps"))
        await api.delete(api.at("rolebindings", "given"))
        await robot.until(robot.at("configmaps"), lambda answer: answer.status == 403)


async def test_a_role_that_nobody_made_is_told(api: Talk, access: Access) -> None:
    await api.create("rolebindings", binding("b", "nobody-made", account("robot", api.namespace)))
    async with as_account(api, access) as robot:
        end = f'RBAC: role.{RBAC} "nobody-made" not found'
        refused = await robot.until(robot.at("pods"), lambda answer: answer.body["message"].endswith(end))
        assert refused.refusal[0] == 403


# --- giving rights away ----------------------------------------------------------------------------------------------

WRITE_ROLES: JsonObject = {"apiGroups": [RBAC], "resources": ["roles", "rolebindings"], "verbs": ["create", "patch"]}


async def test_nobody_gives_away_what_he_has_not(api: Talk, access: Access) -> None:
    async with as_account(api, access, WRITE_ROLES, READ_CONFIGS) as robot:
        await allowed(robot, robot.at("configmaps"))
        secrets = {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}
        refused = await robot.post(robot.at("roles"), role("more", secrets))
        groups = f'"system:serviceaccounts" "system:serviceaccounts:{api.namespace}" "system:authenticated"'
        words = (
            f'roles.{RBAC} "more" is forbidden: user "{user(api)}" (groups=[{groups}]) is attempting to grant RBAC '
            'permissions not currently held:\n{APIGroups:[""], Resources:["secrets"], Verbs:["get"]}'
        )
        assert refused.refusal == (403, "Forbidden", words)


async def test_what_one_has_can_be_given_away(api: Talk, access: Access) -> None:
    async with as_account(api, access, WRITE_ROLES, READ_CONFIGS) as robot:
        await allowed(robot, robot.at("configmaps"))
        part = {**READ_CONFIGS, "verbs": ["get"], "resourceNames": ["a"]}
        assert (await robot.post(robot.at("roles"), role("less", part))).status == 201
        given = binding("less", "less", account("other", api.namespace))
        assert (await robot.post(robot.at("rolebindings"), given)).status == 201


async def test_a_role_with_more_cannot_be_bound(api: Talk, access: Access) -> None:
    await api.create("roles", role("more", {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}))
    async with as_account(api, access, WRITE_ROLES, READ_CONFIGS) as robot:
        await allowed(robot, robot.at("configmaps"))
        refused = await robot.post(robot.at("rolebindings"), binding("b", "more", account("robot", api.namespace)))
        assert refused.refusal[:2] == (403, "Forbidden")
        assert "is attempting to grant RBAC permissions not currently held" in refused.refusal[2]
        missing = await robot.post(robot.at("rolebindings"), binding("b", "nobody-made"))
        assert missing.refusal == (404, "NotFound", f'rolebindings.{RBAC} "nobody-made" not found')


@pytest.mark.parametrize(("verb", "resource"), [("escalate", "roles"), ("bind", "roles")])
async def test_some_may_give_away_more(api: Talk, access: Access, verb: str, resource: str) -> None:
    more = {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}
    await api.create("roles", role("more", more))
    right = {"apiGroups": [RBAC], "resources": [resource], "verbs": [verb]}
    async with as_account(api, access, WRITE_ROLES, READ_CONFIGS, right) as robot:
        await allowed(robot, robot.at("configmaps"))
        written = await robot.post(robot.at("roles"), role("even-more", more))
        bound = await robot.post(robot.at("rolebindings"), binding("b", "more", account("robot", api.namespace)))
        assert (written.status, bound.status) == ((201, 403) if verb == "escalate" else (403, 201))


async def test_a_role_is_not_widened_either(api: Talk, access: Access) -> None:
    async with as_account(api, access, WRITE_ROLES, READ_CONFIGS) as robot:
        await allowed(robot, robot.at("configmaps"))
        everything = [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]
        refused = await robot.merge(robot.at("roles", "given"), {"rules": everything})
        assert refused.refusal[:2] == (403, "Forbidden")


# --- roles and bindings as objects -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("plural", "body", "problem"),
    [
        (
            "roles",
            role("x", {"apiGroups": [""], "resources": ["pods"]}),
            'Role.{rbac} "x" is invalid: rules[0].verbs: Required value',
        ),
        (
            "roles",
            role("x", {"resources": ["pods"], "verbs": ["get"]}),
            (
                'Role.{rbac} "x" is invalid: rules[0].apiGroups: Required value: resource rules must supply at least '
                "one api group"
            ),
        ),
        (
            "roles",
            role("x", {"apiGroups": [""], "verbs": ["get"]}),
            (
                'Role.{rbac} "x" is invalid: rules[0].resources: Required value: resource rules must supply at least '
                "one resource"
            ),
        ),
        (
            "roles",
            role("x", {"nonResourceURLs": ["/x"], "verbs": ["get"]}),
            (
                'Role.{rbac} "x" is invalid: rules[0].nonResourceURLs: Invalid value: ["/x"]: namespaced rules cannot '
                "apply to non-resource URLs"
            ),
        ),
        (
            "roles",
            role("a%b"),
            ('Role.{rbac} "a%b" is invalid: metadata.name: Invalid value: "a%b": may not contain \'%\''),
        ),
        (
            "rolebindings",
            binding("x", "r", {"kind": "Robot", "name": "r"}),
            (
                'RoleBinding.{rbac} "x" is invalid: subjects[0].kind: Unsupported value: "Robot": supported values: '
                '"ServiceAccount", "User", "Group"'
            ),
        ),
        (
            "rolebindings",
            binding("x", "r", {"kind": "User"}),
            'RoleBinding.{rbac} "x" is invalid: subjects[0].name: Required value',
        ),
        (
            "rolebindings",
            binding("x", "", kind="Role"),
            'RoleBinding.{rbac} "x" is invalid: roleRef.name: Required value',
        ),
        (
            "rolebindings",
            binding("x", "r", kind="Thing"),
            (
                'RoleBinding.{rbac} "x" is invalid: roleRef.kind: Unsupported value: "Thing": supported values: '
                '"Role", "ClusterRole"'
            ),
        ),
        (
            "clusterrolebindings",
            binding("x", "r", {"kind": "ServiceAccount", "name": "a"}, kind="ClusterRole"),
            'ClusterRoleBinding.{rbac} "x" is invalid: subjects[0].namespace: Required value',
        ),
        (
            "clusterrolebindings",
            binding("x", "r", kind="Role"),
            (
                'ClusterRoleBinding.{rbac} "x" is invalid: roleRef.kind: Unsupported value: "Role": supported values: '
                '"ClusterRole"'
            ),
        ),
    ],
)
async def test_what_makes_no_sense_is_refused(api: Talk, plural: str, body: JsonObject, problem: str) -> None:
    refused = await api.post(api.at(plural), body)
    assert refused.refusal == (422, "Invalid", problem.format(rbac=RBAC))


@pytest.mark.parametrize(
    ("plural", "body"),
    [
        ("roles", role("x", {"apiGroups": [""], "resources": ["pods"], "verbs": "get"})),
        ("roles", {"metadata": {"name": "x"}, "rules": {}}),
        ("rolebindings", {"metadata": {"name": "x"}, "roleRef": "r"}),
        ("rolebindings", {"metadata": {"name": "x"}, "roleRef": {"kind": "Role", "name": "r"}, "subjects": ["bob"]}),
    ],
)
async def test_what_has_another_shape_is_refused(api: Talk, plural: str, body: JsonObject) -> None:
    code, reason, words = (await api.post(api.at(plural), body)).refusal
    assert (code, reason, "cannot be handled as a" in words) == (400, "BadRequest", True)


async def test_references_are_completed(api: Talk) -> None:
    body = {
        "metadata": {"name": "b"},
        "roleRef": {"kind": "Role", "name": "r"},
        "subjects": [{"kind": "User", "name": "u"}],
    }
    made = await api.create("rolebindings", body)
    assert made.body["roleRef"] == {"apiGroup": RBAC, "kind": "Role", "name": "r"}
    assert made.body["subjects"] == [{"apiGroup": RBAC, "kind": "User", "name": "u"}]


async def test_a_role_may_be_called_almost_anything(api: Talk) -> None:
    assert (await api.create("roles", role("system:a:B_c"))).body["rules"] in ([], None)


async def test_a_binding_stays_with_its_role(api: Talk) -> None:
    await api.create("rolebindings", binding("b", "r"))
    changed = binding("b", "other")
    refused = await api.put(api.at("rolebindings", "b"), changed)
    words = (
        f'RoleBinding.{RBAC} "b" is invalid: roleRef: Invalid value: {{"APIGroup":"{RBAC}","Kind":"Role",'
        '"Name":"other"}: field is immutable'
    )
    assert refused.refusal == (422, "Invalid", words)


async def test_the_first_roles_are_there(api: Talk) -> None:
    names = (await api.get("/apis/rbac.authorization.k8s.io/v1/clusterroles")).names
    assert {"cluster-admin", "admin", "edit", "view", "system:basic-user", "system:discovery"} <= set(names)
    bound = (await api.get("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings")).names
    assert {"cluster-admin", "system:basic-user", "system:discovery", "system:public-info-viewer"} <= set(bound)


# --- reviews ---------------------------------------------------------------------------------------------------------


async def test_an_administrator_may_do_everything(api: Talk) -> None:
    asked = {"resourceAttributes": {"verb": "delete", "resource": "nodes"}}
    answer = await api.post(f"{AUTHORIZATION}/selfsubjectaccessreviews", {"spec": asked})
    assert (answer.status, answer.body["spec"], answer.body["status"]) == (201, asked, {"allowed": True})


async def test_an_administrator_lists_that_he_may_do_everything(api: Talk) -> None:
    answer = await api.post(f"{AUTHORIZATION}/selfsubjectrulesreviews", {"spec": {"namespace": api.namespace}})
    found = answer.body["status"]
    assert {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]} in found["resourceRules"]
    assert {"verbs": ["*"], "nonResourceURLs": ["*"]} in found["nonResourceRules"]


async def test_an_account_asks_what_it_may(api: Talk, access: Access) -> None:
    async with as_account(api, access, READ_CONFIGS) as robot:
        await allowed(robot, robot.at("configmaps"))
        may = {"namespace": api.namespace, "verb": "list", "resource": "configmaps"}
        answer = await robot.post(f"{AUTHORIZATION}/selfsubjectaccessreviews", {"spec": {"resourceAttributes": may}})
        reason = (
            f'RBAC: allowed by RoleBinding "given/{api.namespace}" of Role "given" to ServiceAccount '
            f'"robot/{api.namespace}"'
        )
        assert answer.body["status"] == {"allowed": True, "reason": reason}
        may_not = {**may, "verb": "delete"}
        answer = await robot.post(
            f"{AUTHORIZATION}/selfsubjectaccessreviews", {"spec": {"resourceAttributes": may_not}}
        )
        assert answer.body["status"] == {"allowed": False}


async def test_an_account_lists_what_it_may(api: Talk, access: Access) -> None:
    async with as_account(api, access, READ_CONFIGS) as robot:
        await allowed(robot, robot.at("configmaps"))
        answer = await robot.post(f"{AUTHORIZATION}/selfsubjectrulesreviews", {"spec": {"namespace": api.namespace}})
        found = answer.body["status"]
        assert READ_CONFIGS in found["resourceRules"]
        assert any("selfsubjectaccessreviews" in rule["resources"] for rule in found["resourceRules"])
        assert any("/healthz" in rule["nonResourceURLs"] for rule in found["nonResourceRules"])
        assert found["incomplete"] is False


async def test_somebody_asks_for_somebody_else(api: Talk) -> None:
    await api.create("roles", role("r", READ_CONFIGS))
    await api.create("rolebindings", binding("b", "r", {"kind": "User", "name": "bob"}))
    asked = {"user": "bob", "resourceAttributes": {"namespace": api.namespace, "verb": "get", "resource": "configmaps"}}
    reason = f'RBAC: allowed by RoleBinding "b/{api.namespace}" of Role "r" to User "bob"'
    local = f"{AUTHORIZATION}/namespaces/{api.namespace}/localsubjectaccessreviews"
    for path in (f"{AUTHORIZATION}/subjectaccessreviews", local):
        question = partial(api.post, path, {"metadata": {}, "spec": asked})
        answer = await api.until_answered(question, lambda answer: answer.body["status"].get("allowed"))
        assert (answer.status, answer.body["status"]) == (201, {"allowed": True, "reason": reason})


@pytest.mark.parametrize(
    ("plural", "spec", "words"),
    [
        (
            "selfsubjectaccessreviews",
            {},
            ("spec: Invalid value: null: exactly one of nonResourceAttributes or resourceAttributes must be specified"),
        ),
        (
            "selfsubjectaccessreviews",
            {"resourceAttributes": {}, "nonResourceAttributes": {"path": "/x", "verb": "get"}},
            (
                'spec: Invalid value: {"Path":"/x","Verb":"get"}: exactly one of nonResourceAttributes or '
                "resourceAttributes must be specified"
            ),
        ),
        (
            "subjectaccessreviews",
            {"resourceAttributes": {"verb": "get", "resource": "nodes"}},
            'spec.user: Invalid value: "": at least one of user or group must be specified',
        ),
    ],
)
async def test_a_question_must_be_one(api: Talk, plural: str, spec: JsonObject, words: str) -> None:
    refused = await api.post(f"{AUTHORIZATION}/{plural}", {"spec": spec})
    assert refused.refusal == (422, "Invalid", f'.authorization.k8s.io "" is invalid: {words}')


async def test_rules_are_those_of_a_namespace(api: Talk) -> None:
    refused = await api.post(f"{AUTHORIZATION}/selfsubjectrulesreviews", {"spec": {}})
    assert refused.refusal == (400, "BadRequest", "no namespace on request")


async def test_reviews_are_created_only(api: Talk) -> None:
    refused = await api.get(f"{AUTHORIZATION}/selfsubjectaccessreviews")
    assert refused.refusal[:2] == (405, "MethodNotAllowed")


# --- tokens ----------------------------------------------------------------------------------------------------------


async def test_a_token_says_whose_it_is(api: Talk, access: Access) -> None:
    async with as_account(api, access) as robot:
        answer = await robot.post(f"{AUTHENTICATION}/selfsubjectreviews", {})
        found = answer.body["status"]["userInfo"]
        uid = (await api.get(api.at("serviceaccounts", "robot"))).metadata["uid"]
        assert (found["username"], found["uid"]) == (user(api), uid)
        assert found["groups"] == [
            "system:serviceaccounts",
            f"system:serviceaccounts:{api.namespace}",
            "system:authenticated",
        ]
        assert list(found["extra"]) == ["authentication.kubernetes.io/credential-id"]


async def test_a_token_is_a_signed_statement(api: Talk) -> None:
    await api.create("serviceaccounts", {"metadata": {"name": "robot"}})
    answer = await api.post(api.at("serviceaccounts", "robot", "token"), {"spec": {"expirationSeconds": 1200}})
    assert (answer.status, answer.metadata["name"]) == (201, "robot")
    assert answer.body["spec"] == {
        "audiences": ["https://kubernetes.default.svc"],
        "expirationSeconds": 1200,
        "boundObjectRef": None,
    }
    head, claims, _ = answer.body["status"]["token"].split(".")
    assert set(_read(head)) == {"alg", "kid"}
    found = _read(claims)
    assert (found["iss"], found["sub"]) == ("https://kubernetes.default.svc", user(api))
    assert found["exp"] - found["iat"] == 1200
    uid = (await api.get(api.at("serviceaccounts", "robot"))).metadata["uid"]
    assert found["kubernetes.io"] == {"namespace": api.namespace, "serviceaccount": {"name": "robot", "uid": uid}}


def _read(part: str) -> JsonObject:
    found: JsonObject = msgspec.json.decode(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    return found


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        (
            {"expirationSeconds": 599},
            ("spec.expirationSeconds: Invalid value: 599: may not specify a duration less than 10 minutes"),
        ),
        (
            {"expirationSeconds": 2**32 + 1},
            ("spec.expirationSeconds: Invalid value: 4294967297: may not specify a duration larger than 2^32 seconds"),
        ),
    ],
)
async def test_a_token_lasts_neither_too_long_nor_too_short(api: Talk, spec: JsonObject, words: str) -> None:
    await api.create("serviceaccounts", {"metadata": {"name": "robot"}})
    refused = await api.post(api.at("serviceaccounts", "robot", "token"), {"spec": spec})
    assert refused.refusal == (422, "Invalid", f'TokenRequest.authentication.k8s.io "" is invalid: {words}')


async def test_only_an_account_has_tokens(api: Talk) -> None:
    refused = await api.post(api.at("serviceaccounts", "nobody", "token"), {"spec": {}})
    assert refused.refusal == (404, "NotFound", 'serviceaccounts "nobody" not found')
    assert (await api.get(api.at("serviceaccounts", "nobody", "token"))).status == 405


@pytest.mark.parametrize(
    ("bound", "refusal"),
    [
        ({"kind": "Pod", "apiVersion": "v1", "name": "nope"}, (404, "NotFound", 'pods "nope" not found')),
        (
            {"kind": "Foo", "apiVersion": "v1", "name": "nope"},
            (400, "BadRequest", "cannot bind token to object of type /v1, Kind=Foo"),
        ),
    ],
)
async def test_a_token_is_bound_to_what_there_is(api: Talk, bound: JsonObject, refusal: Any) -> None:
    await api.create("serviceaccounts", {"metadata": {"name": "robot"}})
    refused = await api.post(api.at("serviceaccounts", "robot", "token"), {"spec": {"boundObjectRef": bound}})
    assert refused.refusal == refusal


async def test_a_token_goes_with_its_account(api: Talk, access: Access) -> None:
    async with as_account(api, access) as robot:
        assert (await robot.get("/version")).status == 200
        await api.delete(api.at("serviceaccounts", "robot"))
        await robot.until("/version", lambda answer: answer.status == 401)


async def test_a_token_goes_with_what_it_is_bound_to(api: Talk, access: Access) -> None:
    await api.create("serviceaccounts", {"metadata": {"name": "robot"}})
    await api.create("secrets", {"metadata": {"name": "held"}})
    bound = {"kind": "Secret", "apiVersion": "v1", "name": "held"}
    token = await token_of(api, "robot", boundObjectRef=bound)
    async with with_token(api, access, token) as robot:
        assert (await robot.get("/version")).status == 200
        await api.delete(api.at("secrets", "held"))
        await robot.until("/version", lambda answer: answer.status == 401)


async def test_a_token_for_others_is_none_for_the_server(api: Talk, access: Access) -> None:
    await api.create("serviceaccounts", {"metadata": {"name": "robot"}})
    async with with_token(api, access, await token_of(api, "robot", audiences=["others"])) as robot:
        refused = await robot.get("/version")
        assert refused.refusal == (401, "Unauthorized", "Unauthorized")


@pytest.mark.parametrize("token", ["rubbish", "a.b.c", "eyJhbGciOiJub25lIn0.e30."])
async def test_what_is_no_token_is_refused(api: Talk, access: Access, token: str) -> None:
    async with with_token(api, access, token) as nobody:
        refused = await nobody.get("/version")
        assert refused.refusal == (401, "Unauthorized", "Unauthorized")


async def test_who_shows_no_token_is_anonymous(api: Talk, access: Access) -> None:
    async with with_token(api, access, "") as nobody:
        words = 'nodes is forbidden: User "system:anonymous" cannot list resource "nodes" in API group ""'
        assert (await nobody.get("/api/v1/nodes")).refusal == (403, "Forbidden", f"{words} at the cluster scope")


async def test_everybody_may_see_whether_it_is_well(api: Talk, access: Access) -> None:
    async with with_token(api, access, "") as nobody:
        assert (await nobody.get("/healthz")).status == 200


async def test_a_token_is_reviewed(api: Talk) -> None:
    await api.create("serviceaccounts", {"metadata": {"name": "robot"}})
    token = await token_of(api, "robot")
    found = (await api.post(f"{AUTHENTICATION}/tokenreviews", {"spec": {"token": token}})).body["status"]
    assert (found["authenticated"], found["user"]["username"]) == (True, user(api))
    assert found["audiences"] == ["https://kubernetes.default.svc"]
    others = {"token": token, "audiences": ["others"]}
    refused = await api.post(f"{AUTHENTICATION}/tokenreviews", {"spec": others})
    assert "authenticated" not in refused.body["status"]


async def test_rubbish_is_reviewed_as_such(api: Talk) -> None:
    found = await api.post(f"{AUTHENTICATION}/tokenreviews", {"spec": {"token": "rubbish"}})
    assert (found.status, found.body["status"]) == (201, {"user": {}, "error": "invalid bearer token"})
    nothing = await api.post(f"{AUTHENTICATION}/tokenreviews", {"spec": {}})
    assert nothing.refusal == (400, "BadRequest", "token is required for TokenReview in authentication")
