"""Access reviews: SubjectAccessReview and its variants, SelfSubjectReview and TokenReview. They are not stored.

`rbac_authorizer.py` and `tokens.py` make the decisions.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec

from grove.api.types.meta import JsonObject
from grove.api.validation.field_errors import FieldError, invalid
from grove.cluster.apiserver.auth.rbac_authorizer import Attempt, RBACAuthorizer
from grove.cluster.apiserver.auth.rbac_defaults import store_rbac_defaults
from grove.cluster.apiserver.auth.tokens import Authenticator, review_of
from grove.cluster.apiserver.auth.user_info import UserInfo
from grove.cluster.apiserver.codec.protobuf import in_json, is_protobuf
from grove.cluster.apiserver.codec.request_decoding import decode_object
from grove.cluster.apiserver.context import Context
from grove.cluster.apiserver.discovery import Page
from grove.cluster.apiserver.status_errors import (
    UnreadableError,
    bad_request,
    invalid_kind,
    method_not_allowed,
    unknown_path,
)
from grove.kube.transport import Request, Response

_AUTHORIZATION, _AUTHENTICATION = "authorization.k8s.io", "authentication.k8s.io"
NAMESPACED = f"/apis/{_AUTHORIZATION}/v1/namespaces/"


class _Resource(msgspec.Struct, frozen=True):
    namespace: str = ""
    verb: str = ""
    group: str = ""
    resource: str = ""
    subresource: str = ""
    name: str = ""


class _Path(msgspec.Struct, frozen=True):
    path: str = ""
    verb: str = ""


class _Spec(msgspec.Struct, frozen=True, rename="camel"):
    """The spec of any review. Each kind of review uses some of the fields."""

    resource_attributes: _Resource | None = None
    non_resource_attributes: _Path | None = None
    user: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: dict[str, tuple[str, ...]] = {}
    namespace: str = ""
    token: str = ""
    audiences: tuple[str, ...] = ()

    @property
    def attempt(self) -> Attempt:
        if (asked := self.resource_attributes) is not None:
            return Attempt(**msgspec.structs.asdict(asked))
        path = self.non_resource_attributes or _Path()
        return Attempt(verb=path.verb, path=path.path)

    @property
    def subject(self) -> UserInfo:
        return UserInfo(name=self.user, uid=self.uid, groups=self.groups, extra=tuple(self.extra.items()))


class _Question(msgspec.Struct, frozen=True):
    spec: _Spec
    # As the client sent it: the response repeats it.
    asked: JsonObject
    namespace: str = ""


_Answer = Callable[["Reviews", _Question], JsonObject]


class Reviews:
    """The handlers of all reviews, for the user of the current request."""

    def __init__(self, context: Context, authorizer: RBACAuthorizer, authenticator: Authenticator) -> None:
        self._context = context
        self._authorizer = authorizer
        self._authenticator = authenticator

    def pages(self) -> dict[str, Page]:
        """Return the handler of each path. `answer_in_namespace` handles LocalSubjectAccessReviews."""
        return {
            f"/apis/{group}/v1/{kind.lower()}s": partial(self._told, kind, f"{group}/v1", answer, "")
            for group, kind, answer in _REVIEWS
        }

    def answer_in_namespace(self, request: Request) -> Response:
        namespace, _, plural = request.path.rstrip("/").removeprefix(NAMESPACED).partition("/")
        if not namespace or plural != "localsubjectaccessreviews":
            raise unknown_path()
        api_version = f"{_AUTHORIZATION}/v1"
        return self._told("LocalSubjectAccessReview", api_version, Reviews.local_access, namespace, request)

    def _told(self, kind: str, api_version: str, answer: _Answer, namespace: str, request: Request) -> Response:
        if request.method != "POST":
            raise method_not_allowed()
        if is_protobuf(request):
            request = in_json(request, api_version, kind)
        question = _read(kind, namespace, request)
        store_rbac_defaults(self._context)
        status = answer(self, question)
        metadata = {"namespace": namespace} if namespace else {}
        review: JsonObject = {"kind": kind, "apiVersion": api_version, "metadata": metadata}
        if kind == "SelfSubjectReview":
            review["metadata"] = {"creationTimestamp": self._context.now()}
        else:
            review["spec"] = {} if kind == "SelfSubjectRulesReview" else question.asked
        return Response(status=201, body=msgspec.json.encode({**review, "status": status}))

    def own_access(self, question: _Question) -> JsonObject:
        _check(_one_question(question.spec))
        return self._decided(self._context.user, question.spec.attempt)

    def access(self, question: _Question) -> JsonObject:
        spec = question.spec
        errors = _one_question(spec)
        if not spec.user and not spec.groups:
            errors.append(invalid("spec.user", "", "at least one of user or group must be specified"))
        _check(errors)
        return self._decided(spec.subject, spec.attempt)

    def local_access(self, question: _Question) -> JsonObject:
        asked = question.spec.resource_attributes
        if asked is not None and asked.namespace != question.namespace:
            field = "spec.resourceAttributes.namespace"
            _check([invalid(field, asked.namespace, "must match metadata.namespace")])
        if question.spec.non_resource_attributes is not None:
            field = "spec.nonResourceAttributes"
            _check([invalid(field, {}, "disallowed on this kind of request")])
        return self.access(question)

    def own_rules(self, question: _Question) -> JsonObject:
        if not question.spec.namespace:
            raise bad_request("no namespace on request")
        rights = self._authorizer.rights(self._context.user, question.spec.namespace)
        rules = [grant.rule for grant in rights.grants]
        found: JsonObject = {
            "resourceRules": [_told_rule(rule, _RESOURCE_FIELDS) for rule in rules if rule.get("resources")],
            "nonResourceRules": [_told_rule(rule, _PATH_FIELDS) for rule in rules if rule.get("nonResourceURLs")],
            "incomplete": False,
        }
        return found | ({"evaluationError": ", ".join(rights.problems)} if rights.problems else {})

    def own_name(self, question: _Question) -> JsonObject:
        return {"userInfo": self._context.user.wire()}

    def token(self, question: _Question) -> JsonObject:
        if not question.spec.token:
            raise bad_request("token is required for TokenReview in authentication")
        return review_of(self._authenticator, question.spec.token, question.spec.audiences)

    def _decided(self, user: UserInfo, attempt: Attempt) -> JsonObject:
        decision = self._authorizer.decide(user, attempt)
        return {"allowed": decision.is_allowed} | ({"reason": decision.reason} if decision.reason else {})


_RESOURCE_FIELDS = ("verbs", "apiGroups", "resources", "resourceNames")
_PATH_FIELDS = ("verbs", "nonResourceURLs")
_REVIEWS: tuple[tuple[str, str, _Answer], ...] = (
    (_AUTHORIZATION, "SelfSubjectAccessReview", Reviews.own_access),
    (_AUTHORIZATION, "SelfSubjectRulesReview", Reviews.own_rules),
    (_AUTHORIZATION, "SubjectAccessReview", Reviews.access),
    (_AUTHENTICATION, "SelfSubjectReview", Reviews.own_name),
    (_AUTHENTICATION, "TokenReview", Reviews.token),
)


def _read(kind: str, namespace: str, request: Request) -> _Question:
    obj = decode_object(kind, request)
    said = (obj.get("kind") or kind, obj.get("apiVersion"))
    if said[0] != kind:
        raise UnreadableError(str(said[0]), str(said[1] or "").rpartition("/")[2], kind, "these are different kinds")
    asked = obj.get("spec") or {}
    try:
        return _Question(msgspec.convert(_without_nulls(asked), _Spec), asked, namespace)
    except msgspec.ValidationError as problem:
        raise UnreadableError(kind, "v1", kind, f"json: {problem}") from None


def _without_nulls(asked: Any) -> Any:
    return {key: value for key, value in asked.items() if value is not None} if isinstance(asked, dict) else asked


def _one_question(spec: _Spec) -> list[FieldError]:
    if (spec.resource_attributes is None) is not (spec.non_resource_attributes is None):
        return []
    path = spec.non_resource_attributes
    shown = None if path is None else {"Path": path.path, "Verb": path.verb}
    return [invalid("spec", shown, "exactly one of nonResourceAttributes or resourceAttributes must be specified")]


def _check(errors: list[FieldError]) -> None:
    if errors:
        raise invalid_kind("", _AUTHORIZATION, "", errors)


def _told_rule(rule: JsonObject, fields: tuple[str, ...]) -> JsonObject:
    return {field: rule[field] for field in fields if rule.get(field)}
