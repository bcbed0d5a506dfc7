"""Bearer tokens: authenticates static tokens, and issues and verifies service account tokens (TokenRequest).

A service account token is valid until it expires, and only while its service account and the pod, Secret or Node that
it is bound to exist with the same uid.
"""

import base64
import hashlib
import hmac
from datetime import timedelta
from typing import Any

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature, encode_dss_signature

from grove.api.types.meta import JsonObject
from grove.api.validation.field_errors import FieldError, invalid
from grove.clock import Clock
from grove.cluster.apiserver.auth.user_info import UserInfo, account_groups, account_name
from grove.cluster.apiserver.codec.request_decoding import decode_object, is_dry_run
from grove.cluster.apiserver.context import Context
from grove.cluster.apiserver.registry.metadata import format_time, generate_uid
from grove.cluster.apiserver.request_info import RequestInfo
from grove.cluster.apiserver.status_errors import UnreadableError, bad_request, conflict, invalid_kind, not_found
from grove.cluster.apiserver.verbs.read import find_entry
from grove.cluster.built_in_resources import BY_QUALIFIED, NODES, PODS, ResourceInfo
from grove.cluster.storage.store import Storage
from grove.kube.transport import Request, Response

ISSUER = "https://kubernetes.default.svc"
ACCOUNTS = BY_QUALIFIED["serviceaccounts"]
_SECRETS = BY_QUALIFIED["secrets"]
_DEFAULT_SECONDS = 3600
_MIN_SECONDS = 600
_MAX_SECONDS = 1 << 32
_BOUND_KINDS: dict[str, ResourceInfo] = {"Pod": PODS, "Secret": _SECRETS, "Node": NODES}
_GROUP = "authentication.k8s.io"
_CREDENTIAL = "authentication.kubernetes.io/credential-id"
_CLAIM = "kubernetes.io"
_SIGNATURE_BYTES = 32
# The order of the curve P-256. Private keys are below it.
_ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551


class _BoundObjectRef(msgspec.Struct, frozen=True, rename="camel"):
    kind: str = ""
    api_version: str = ""
    name: str = ""
    uid: str = ""


class _Spec(msgspec.Struct, frozen=True, rename="camel"):
    audiences: list[str] | None = None
    expiration_seconds: int | None = None
    bound_object_ref: _BoundObjectRef | None = None


class _ObjectRef(msgspec.Struct, frozen=True):
    name: str
    uid: str


class _Private(msgspec.Struct, frozen=True):
    """The private claims of a token: its service account and the object that it is bound to."""

    namespace: str
    serviceaccount: _ObjectRef
    pod: _ObjectRef | None = None
    secret: _ObjectRef | None = None
    node: _ObjectRef | None = None

    def bound_objects(self) -> tuple[tuple[ResourceInfo, str, _ObjectRef], ...]:
        """Return the kind, namespace and reference of every object that must still exist."""
        holders = ((ACCOUNTS, self.serviceaccount), (PODS, self.pod), (_SECRETS, self.secret))
        found = [(resource_info, self.namespace, holder) for resource_info, holder in holders if holder is not None]
        # The token of a pod also names its node, which need not exist any more.
        if self.node is not None and self.pod is None:
            found.append((NODES, "", self.node))
        return tuple(found)


class _Claims(msgspec.Struct, frozen=True):
    aud: list[str]
    exp: int
    nbf: int
    iss: str
    jti: str
    sub: str
    private: _Private = msgspec.field(name=_CLAIM)


class TokenIdentity(msgspec.Struct, frozen=True):
    """The user of a token, and its audiences."""

    user: UserInfo
    audiences: tuple[str, ...]


class Authenticator:
    """An authenticator for the tokens of one cluster."""

    def __init__(self, store: Storage, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._trusted: list[tuple[bytes, UserInfo]] = []
        self._key: ec.EllipticCurvePrivateKey | None = None
        # Claims of tokens whose signature was verified: verifying takes longer than the rest of a request.
        self._verified: dict[str, _Claims] = {}

    def trust(self, token: str, user: UserInfo) -> None:
        """Accept this static token for the user."""
        self._trusted.append((token.encode(), user))

    def identify(self, token: str, audiences: tuple[str, ...] = ()) -> TokenIdentity | None:
        """Return the identity of a valid token, or None. The default audience is that of the API server."""
        shown = token.encode("utf-8", "surrogateescape")
        for trusted, user in self._trusted:
            if hmac.compare_digest(shown, trusted):
                return TokenIdentity(user, (ISSUER,))
        claims = self._claims(token)
        if claims is None or not self._is_valid(claims):
            return None
        common = tuple(audience for audience in audiences or (ISSUER,) if audience in claims.aud)
        return TokenIdentity(_user_of(claims), common) if common else None

    def derive_key(self, secret: bytes) -> None:
        """Derive the signing key from this secret, so that tokens stay valid after a restart of the cluster."""
        digest = hashlib.sha256(b"tokens of service accounts\0" + secret).digest()
        self._key = ec.derive_private_key(int.from_bytes(digest, "big") % (_ORDER - 1) + 1, ec.SECP256R1())
        self._verified.clear()

    def sign(self, claims: JsonObject) -> str:
        key = self._signing_key()
        head = {"alg": "ES256", "kid": _key_id(key)}
        content = f"{_encode(msgspec.json.encode(head))}.{_encode(msgspec.json.encode(claims))}"
        r, s = decode_dss_signature(key.sign(content.encode(), ec.ECDSA(hashes.SHA256())))
        raw = r.to_bytes(_SIGNATURE_BYTES, "big") + s.to_bytes(_SIGNATURE_BYTES, "big")
        return f"{content}.{_encode(raw)}"

    def _signing_key(self) -> ec.EllipticCurvePrivateKey:
        if self._key is None:
            self._key = ec.generate_private_key(ec.SECP256R1())
        return self._key

    def _claims(self, token: str) -> _Claims | None:
        """Return the claims of a token that this cluster signed, or None."""
        found = self._verified.get(token)
        if found is not None:
            return found
        content, _, signature = token.rpartition(".")
        raw, payload = _decode(signature), _decode(content.partition(".")[2])
        if self._key is None or raw is None or payload is None or len(raw) != 2 * _SIGNATURE_BYTES:
            return None
        r, s = (int.from_bytes(half, "big") for half in (raw[:_SIGNATURE_BYTES], raw[_SIGNATURE_BYTES:]))
        try:
            self._key.public_key().verify(encode_dss_signature(r, s), content.encode(), ec.ECDSA(hashes.SHA256()))
            claims = msgspec.json.decode(payload, type=_Claims)
        except (InvalidSignature, msgspec.DecodeError, UnicodeEncodeError):
            return None
        if len(self._verified) >= 1000:
            self._verified.clear()
        self._verified[token] = claims
        return claims

    def _is_valid(self, claims: _Claims) -> bool:
        now = self._clock.now().timestamp()
        if not claims.nbf <= now + 1 or now >= claims.exp:
            return False
        return all(self._exists(*one) for one in claims.private.bound_objects())

    def _exists(self, resource_info: ResourceInfo, namespace: str, holder: _ObjectRef) -> bool:
        entry = self._store.table(resource_info).find(namespace, holder.name)
        return entry is not None and entry.obj["metadata"]["uid"] == holder.uid


def request_token(context: Context, authenticator: Authenticator, target: RequestInfo, request: Request) -> Response:
    """Handle POST serviceaccounts/NAME/token."""
    obj = decode_object("TokenRequest", request)
    spec = _read_spec(obj)
    seconds = _DEFAULT_SECONDS if spec.expiration_seconds is None else spec.expiration_seconds
    if errors := _duration_errors(seconds):
        raise invalid_kind("TokenRequest", _GROUP, "", errors)
    entry = find_entry(context, target)
    metadata = entry.obj["metadata"]
    private: JsonObject = {
        "namespace": target.namespace,
        "serviceaccount": {"name": target.name, "uid": metadata["uid"]},
        **_bound_claims(context, target, spec.bound_object_ref),
    }
    now = int(context.clock.now().timestamp())
    audiences = spec.audiences or [ISSUER]
    claims: JsonObject = {
        "aud": audiences,
        "exp": now + seconds,
        "iat": now,
        "iss": ISSUER,
        "jti": generate_uid(context.random),
        _CLAIM: private,
        "nbf": now,
        "sub": account_name(target.namespace, target.name),
    }
    shown = ("name", "namespace", "uid")
    token_request: JsonObject = {
        "kind": "TokenRequest",
        "apiVersion": f"{_GROUP}/v1",
        "metadata": {**{key: metadata[key] for key in shown}, "creationTimestamp": context.now()},
        "spec": {
            "audiences": audiences,
            "expirationSeconds": seconds,
            "boundObjectRef": None if spec.bound_object_ref is None else (obj["spec"]["boundObjectRef"]),
        },
        "status": {
            "token": "" if is_dry_run(request) else authenticator.sign(claims),
            "expirationTimestamp": format_time(context.clock.now() + timedelta(seconds=seconds)),
        },
    }
    return Response(status=201, body=msgspec.json.encode(token_request))


def _read_spec(obj: JsonObject) -> _Spec:
    try:
        return msgspec.convert(obj.get("spec") or {}, _Spec)
    except msgspec.ValidationError as error:
        raise UnreadableError("TokenRequest", "v1", "TokenRequest", f"json: {error}") from None


def _duration_errors(seconds: int) -> list[FieldError]:
    field = "spec.expirationSeconds"
    if seconds < _MIN_SECONDS:
        return [invalid(field, seconds, "may not specify a duration less than 10 minutes")]
    if seconds > _MAX_SECONDS:
        return [invalid(field, seconds, "may not specify a duration larger than 2^32 seconds")]
    return []


def _bound_claims(context: Context, target: RequestInfo, bound: _BoundObjectRef | None) -> JsonObject:
    if bound is None:
        return {}
    resource_info = _BOUND_KINDS.get(bound.kind) if bound.api_version == "v1" else None
    if resource_info is None:
        group, _, version = bound.api_version.rpartition("/")
        raise bad_request(f"cannot bind token to object of type {group}/{version}, Kind={bound.kind}")
    namespace = target.namespace if resource_info.namespaced else ""
    entry = context.store.table(resource_info).find(namespace, bound.name)
    if entry is None:
        raise not_found(resource_info, bound.name)
    uid = entry.obj["metadata"]["uid"]
    if bound.uid and bound.uid != uid:
        error_message = f"the UID in the bound object reference ({bound.uid}) does not match the UID in record. "
        raise conflict(
            resource_info, bound.name, error_message + "The object might have been deleted and then recreated"
        )
    _check_account_of_pod(target, resource_info, entry.obj)
    return {bound.kind.lower(): {"name": bound.name, "uid": uid}}


def _check_account_of_pod(target: RequestInfo, resource_info: ResourceInfo, obj: JsonObject) -> None:
    if resource_info is PODS and (runs_as := obj["spec"].get("serviceAccountName") or "default") != target.name:
        raise bad_request(
            f'cannot bind token for serviceaccount "{target.name}" to pod running with different serviceaccount name '
            f'("{runs_as}")'
        )


def _user_of(claims: _Claims) -> UserInfo:
    namespace = claims.private.namespace
    return UserInfo(
        name=claims.sub,
        uid=claims.private.serviceaccount.uid,
        groups=account_groups(namespace),
        extra=((_CREDENTIAL, (f"JTI={claims.jti}",)),),
    )


def _key_id(key: ec.EllipticCurvePrivateKey) -> str:
    public = key.public_key().public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    return _encode(hashlib.sha256(public).digest())


def _encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _decode(text: str) -> bytes | None:
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except ValueError:
        return None


def build_token_review_status(authenticator: Authenticator, token: str, audiences: tuple[str, ...]) -> JsonObject:
    """Return the status of a TokenReview."""
    identity = authenticator.identify(token, audiences)
    if identity is None:
        return {"user": {}, "error": "invalid bearer token"}
    status: dict[str, Any] = {"authenticated": True, "user": identity.user.to_wire()}
    return {**status, "audiences": list(identity.audiences)}
