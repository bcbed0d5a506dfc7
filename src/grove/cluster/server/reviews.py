"""Questions about the caller: who am I, what may I do? Whoever has the token may do everything.

The answers do not depend on the question, so its body is not read; kubectl sends some of these as protobuf.
"""

import msgspec

from grove.api.meta import JsonObject
from grove.cluster.server.discovery import Page
from grove.cluster.server.status_errors import method_not_allowed
from grove.kube.transport import Request, Response

_REASON = "the embedded cluster does not restrict its token"
_EVERYTHING: JsonObject = {
    "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}],
    "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
    "incomplete": False,
}
_USER: JsonObject = {"userInfo": {"username": "grove-admin", "groups": ["system:masters", "system:authenticated"]}}


def pages() -> dict[str, Page]:
    authorization, authentication = "authorization.k8s.io/v1", "authentication.k8s.io/v1"
    return {
        f"/apis/{authorization}/selfsubjectaccessreviews": _answer(
            authorization, "SelfSubjectAccessReview", {"allowed": True, "reason": _REASON}
        ),
        f"/apis/{authorization}/selfsubjectrulesreviews": _answer(authorization, "SelfSubjectRulesReview", _EVERYTHING),
        f"/apis/{authentication}/selfsubjectreviews": _answer(authentication, "SelfSubjectReview", _USER),
    }


def _answer(api_version: str, kind: str, status: JsonObject) -> Page:
    review = {"kind": kind, "apiVersion": api_version, "metadata": {}, "spec": {}, "status": status}
    response = Response(status=201, body=msgspec.json.encode(review))

    def page(request: Request) -> Response:
        if request.method != "POST":
            raise method_not_allowed()
        return response

    return page
