"""Access reviews: SubjectAccessReview and its variants, SelfSubjectReview and TokenReview. They are not stored.

`rbac_authorizer.py` and `tokens.py` make the decisions.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec

from grove.api.types.meta import JsonObject
from grove.api.validation.field_errors import FieldError, invalid
from grove.cluster.apiserver.auth.rbac_authorizer import Attributes, RBACAuthorizer
from grove.cluster.apiserver.auth.rbac_defaults import store_rbac_defaults
from grove.cluster.apiserver.auth.tokens import Authenticator, build_token_review_status
from grove.cluster.apiserver.auth.user_info import UserInfo
from grove.cluster.apiserver.codec.protobuf import is_protobuf, to_json_request
from grove.cluster.apiserver.codec.request_decoding import decode_object
from grove.cluster.apiserver.context import Context
from grove.cluster.apiserver.discovery import Handler
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
    def attributes(self) -> Attributes:
        if (resource := self.resource_attributes) is not None:
            return Attributes(**msgspec.structs.asdict(resource))
        path = self.non_resource_attributes or _Path()
        return Attributes(verb=path.verb, path=path.path)

    @property
    def subject(self) -> UserInfo:
        return UserInfo(name=self.user, uid=self.uid, groups=self.groups, extra=tuple(self.extra.items()))


class _ReviewRequest(msgspec.Struct, frozen=True):
    spec: _Spec
    # As the client sent it: the response repeats it.
    raw_spec: JsonObject
    namespace: str = ""


_Reviewer = Callable[["AccessReviews", _ReviewRequest], JsonObject]


class AccessReviews:
    """The handlers of all reviews, for the user of the current request."""

    def __init__(self, context: Context, authorizer: RBACAuthorizer, authenticator: Authenticator) -> None:
        self._context = context
        self._authorizer = authorizer
        self._authenticator = authenticator

    def build_handlers(self) -> dict[str, Handler]:
        """Return the handler of each path. `handle_namespaced` handles LocalSubjectAccessReviews."""
        return {
            f"/apis/{group}/v1/{kind.lower()}s": partial(self._handle, kind, f"{group}/v1", reviewer, "")
            for group, kind, reviewer in _REVIEWS
        }

    def handle_namespaced(self, request: Request) -> Response:
        namespace, _, plural = request.path.rstrip("/").removeprefix(NAMESPACED).partition("/")
        if not namespace or plural != "localsubjectaccessreviews":
            raise unknown_path()
        api_version = f"{_AUTHORIZATION}/v1"
        return self._handle(
            "LocalSubjectAccessReview", api_version, AccessReviews.review_local_access, namespace, request
        )

    def _handle(self, kind: str, api_version: str, reviewer: _Reviewer, namespace: str, request: Request) -> Response:
        if request.method != "POST":
            raise method_not_allowed()
        if is_protobuf(request):
            request = to_json_request(request, api_version, kind)
        review_request = _read_request(kind, namespace, request)
        store_rbac_defaults(self._context)
        status = reviewer(self, review_request)
        metadata = {"namespace": namespace} if namespace else {}
        review: JsonObject = {"kind": kind, "apiVersion": api_version, "metadata": metadata}
        if kind == "SelfSubjectReview":
            review["metadata"] = {"creationTimestamp": self._context.now()}
        else:
            review["spec"] = {} if kind == "SelfSubjectRulesReview" else review_request.raw_spec
        return Response(status=201, body=msgspec.json.encode({**review, "status": status}))

    def review_own_access(self, review_request: _ReviewRequest) -> JsonObject:
        _check(_validate_attributes(review_request.spec))
        return self._decide(self._context.user, review_request.spec.attributes)

    def review_access(self, review_request: _ReviewRequest) -> JsonObject:
        spec = review_request.spec
        errors = _validate_attributes(spec)
        if not spec.user and not spec.groups:
            errors.append(invalid("spec.user", "", "at least one of user or group must be specified"))
        _check(errors)
        return self._decide(spec.subject, spec.attributes)

    def review_local_access(self, review_request: _ReviewRequest) -> JsonObject:
        resource = review_request.spec.resource_attributes
        if resource is not None and resource.namespace != review_request.namespace:
            field = "spec.resourceAttributes.namespace"
            _check([invalid(field, resource.namespace, "must match metadata.namespace")])
        if review_request.spec.non_resource_attributes is not None:
            field = "spec.nonResourceAttributes"
            _check([invalid(field, {}, "disallowed on this kind of request")])
        return self.review_access(review_request)

    def review_own_rules(self, review_request: _ReviewRequest) -> JsonObject:
        if not review_request.spec.namespace:
            raise bad_request("no namespace on request")
        user_rules = self._authorizer.rules_for(self._context.user, review_request.spec.namespace)
        rules = [grant.rule for grant in user_rules.grants]
        found: JsonObject = {
            "resourceRules": [_select_fields(rule, _RESOURCE_FIELDS) for rule in rules if rule.get("resources")],
            "nonResourceRules": [_select_fields(rule, _PATH_FIELDS) for rule in rules if rule.get("nonResourceURLs")],
            "incomplete": False,
        }
        return found | ({"evaluationError": ", ".join(user_rules.error_messages)} if user_rules.error_messages else {})

    def review_self(self, review_request: _ReviewRequest) -> JsonObject:
        return {"userInfo": self._context.user.to_wire()}

    def review_token(self, review_request: _ReviewRequest) -> JsonObject:
        if not review_request.spec.token:
            raise bad_request("token is required for TokenReview in authentication")
        return build_token_review_status(self._authenticator, review_request.spec.token, review_request.spec.audiences)

    def _decide(self, user: UserInfo, attributes: Attributes) -> JsonObject:
        decision = self._authorizer.decide(user, attributes)
        return {"allowed": decision.is_allowed} | ({"reason": decision.reason} if decision.reason else {})


_RESOURCE_FIELDS = ("verbs", "apiGroups", "resources", "resourceNames")
_PATH_FIELDS = ("verbs", "nonResourceURLs")
_REVIEWS: tuple[tuple[str, str, _Reviewer], ...] = (
    (_AUTHORIZATION, "SelfSubjectAccessReview", AccessReviews.review_own_access),
    (_AUTHORIZATION, "SelfSubjectRulesReview", AccessReviews.review_own_rules),
    (_AUTHORIZATION, "SubjectAccessReview", AccessReviews.review_access),
    (_AUTHENTICATION, "SelfSubjectReview", AccessReviews.review_self),
    (_AUTHENTICATION, "TokenReview", AccessReviews.review_token),
)


def _read_request(kind: str, namespace: str, request: Request) -> _ReviewRequest:
    obj = decode_object(kind, request)
    type_meta = (obj.get("kind") or kind, obj.get("apiVersion"))
    if type_meta[0] != kind:
        raise UnreadableError(
            str(type_meta[0]), str(type_meta[1] or "").rpartition("/")[2], kind, "these are different kinds"
        )
    raw_spec = obj.get("spec") or {}
    try:
        return _ReviewRequest(msgspec.convert(_without_nulls(raw_spec), _Spec), raw_spec, namespace)
    except msgspec.ValidationError as error:
        raise UnreadableError(kind, "v1", kind, f"json: {error}") from None


def _without_nulls(raw_spec: Any) -> Any:
    return (
        {key: value for key, value in raw_spec.items() if value is not None} if isinstance(raw_spec, dict) else raw_spec
    )


def _validate_attributes(spec: _Spec) -> list[FieldError]:
    if (spec.resource_attributes is None) is not (spec.non_resource_attributes is None):
        return []
    path = spec.non_resource_attributes
    shown = None if path is None else {"Path": path.path, "Verb": path.verb}
    return [invalid("spec", shown, "exactly one of nonResourceAttributes or resourceAttributes must be specified")]


def _check(errors: list[FieldError]) -> None:
    if errors:
        raise invalid_kind("", _AUTHORIZATION, "", errors)


def _select_fields(rule: JsonObject, fields: tuple[str, ...]) -> JsonObject:
    return {field: rule[field] for field in fields if rule.get(field)}
