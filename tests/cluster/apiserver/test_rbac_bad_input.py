"""Rubbish about rights and webhooks: answered with a refusal, and never stored half understood."""

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from grove.cluster.apiserver.auth.rbac_authorizer import Attributes, RBACAuthorizer
from grove.cluster.apiserver.auth.user_info import account
from grove.kube.transport import MERGE_PATCH, Request
from grove.sim.virtual_clock import run_virtual
from tests.cluster.apidsl import fresh_api
from tests.seeds import examples

_WORDS = st.sampled_from(
    [
        "name", "rules", "verbs", "apiGroups", "resources", "resourceNames", "nonResourceURLs", "roleRef", "subjects",
        "kind", "Role", "ClusterRole", "User", "Group", "ServiceAccount", "namespace", "*", "get", "pods", "x", "",
        "webhooks", "clientConfig", "url", "service", "caBundle", "https://127.0.0.1/x", "a.b.c", "operations",
        "apiVersions", "v1", "matchConditions", "expression", "true", "1 +", "objectSelector", "matchExpressions",
        "key", "operator", "In", "values", "timeoutSeconds", "None", "sideEffects", "admissionReviewVersions", "token",
        "resourceAttributes", "user", "groups", "audiences", "expirationSeconds", "boundObjectRef",
    ]
)  # fmt: skip
_LEAVES = st.none() | st.booleans() | st.integers(-2, 2**33) | _WORDS
_RUBBISH = st.recursive(
    _LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_WORDS, inner, max_size=5), max_leaves=20
)
_FIELDS = st.dictionaries(st.sampled_from(["rules", "roleRef", "subjects", "webhooks", "spec"]), _RUBBISH, max_size=3)
_RBAC = "/apis/rbac.authorization.k8s.io/v1"
_HOOKS = "/apis/admissionregistration.k8s.io/v1"
_REVIEWS = "/apis/authorization.k8s.io/v1"
_PLACES = (
    f"{_RBAC}/clusterroles",
    f"{_RBAC}/clusterrolebindings",
    f"{_RBAC}/namespaces/default/roles",
    f"{_RBAC}/namespaces/default/rolebindings",
    f"{_HOOKS}/mutatingwebhookconfigurations",
    f"{_HOOKS}/validatingwebhookconfigurations",
    f"{_REVIEWS}/selfsubjectaccessreviews",
    f"{_REVIEWS}/selfsubjectrulesreviews",
    f"{_REVIEWS}/subjectaccessreviews",
    f"{_REVIEWS}/namespaces/default/localsubjectaccessreviews",
    "/apis/authentication.k8s.io/v1/tokenreviews",
    "/api/v1/namespaces/default/serviceaccounts/a/token",
)


@settings(max_examples=examples(300), deadline=None)
@given(place=st.sampled_from(_PLACES), fields=_FIELDS, patch=_FIELDS)
def test_nothing_makes_the_server_fail(place: str, fields: dict[str, object], patch: dict[str, object]) -> None:
    async def story() -> None:
        api = fresh_api()
        await api.post("/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "a"}})
        body = msgspec.json.encode({"metadata": {"name": "x"}, **fields})
        made = await api.server.serve(Request(method="POST", path=place, body=body))
        assert made.status < 500, made.body
        change = msgspec.json.encode(patch)
        path = f"{place}/x"
        changed = await api.server.serve(Request(method="PATCH", path=path, body=change, content_type=MERGE_PATCH))
        assert changed.status < 500, changed.body
        # Whatever was stored can be decided by.
        attempt = Attributes(verb="get", resource="pods", namespace="default", name="x")
        RBACAuthorizer(api.server.store).decide(account("default", "a"), attempt)

    run_virtual(story())
