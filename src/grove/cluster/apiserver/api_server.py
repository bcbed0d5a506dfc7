"""The embedded API server: resolves requests, dispatches them to the verbs, and returns responses. It has no sockets.

Transports: `cluster/in_process_transport.py`, `cluster/http/`. Each verb has a file in `verbs/`.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from itertools import accumulate
from random import Random
from typing import Any, assert_never

import structlog

from grove.api.types.admission import AdmissionControl
from grove.clock import Clock
from grove.cluster.apiserver import discovery, openapi
from grove.cluster.apiserver.admission.webhook_dispatcher import WebhookDispatcher, WebhookSession
from grove.cluster.apiserver.admission.webhook_request import (
    Call,
    CallFailure,
    CallResult,
    PendingCallsError,
    WebhookCaller,
)
from grove.cluster.apiserver.auth.access_reviews import NAMESPACED, AccessReviews
from grove.cluster.apiserver.auth.rbac_authorizer import RBAC, RBACAuthorizer, get_attributes
from grove.cluster.apiserver.auth.rbac_defaults import store_rbac_defaults, update_rbac_defaults
from grove.cluster.apiserver.auth.tokens import ACCOUNTS, Authenticator, request_token
from grove.cluster.apiserver.auth.user_info import ADMIN, UserInfo
from grove.cluster.apiserver.codec.content_negotiation import Form, negotiate_form, reduce_to_metadata
from grove.cluster.apiserver.codec.protobuf import is_protobuf, options_to_json_request, to_json_request
from grove.cluster.apiserver.codec.version_conversion import convert_body
from grove.cluster.apiserver.context import Context
from grove.cluster.apiserver.discovery import Handler
from grove.cluster.apiserver.metrics.metrics_api import PREFIX as METRICS_PREFIX
from grove.cluster.apiserver.metrics.metrics_api import MetricsApi
from grove.cluster.apiserver.metrics.pod_usage import UsageSource
from grove.cluster.apiserver.printers.table import encode_table, read_included
from grove.cluster.apiserver.registry.crd_strategy import CrdController
from grove.cluster.apiserver.registry.events_v1 import to_events_v1
from grove.cluster.apiserver.registry.metadata import generate_uid
from grove.cluster.apiserver.registry.quota import QuotaLedger
from grove.cluster.apiserver.request_info import RequestInfo, resolve_request_info
from grove.cluster.apiserver.status_errors import (
    StatusError,
    bad_request,
    insufficient_storage,
    internal_error,
    method_not_allowed,
    never_settled,
    not_found,
    unknown_path,
    unsupported_verb,
)
from grove.cluster.apiserver.verbs.bind import bind
from grove.cluster.apiserver.verbs.create import create
from grove.cluster.apiserver.verbs.delete import delete, delete_collection
from grove.cluster.apiserver.verbs.evict import evict
from grove.cluster.apiserver.verbs.finalize import finalize
from grove.cluster.apiserver.verbs.log_follow import LogStream, is_followed_log
from grove.cluster.apiserver.verbs.logs import NO_LOGS, LogSource, read_log
from grove.cluster.apiserver.verbs.patch import patch
from grove.cluster.apiserver.verbs.read import read_list, read_one
from grove.cluster.apiserver.verbs.scale import read_scale, write_scale
from grove.cluster.apiserver.verbs.unsupported_subresources import UNSUPPORTED_SUBRESOURCES, build_unsupported_error
from grove.cluster.apiserver.verbs.update import replace
from grove.cluster.apiserver.verbs.watch import WatchStream, is_watch, open_stream
from grove.cluster.built_in_resources import DEFINITIONS, NAMESPACES, PODS, SCALES
from grove.cluster.custom_resource import CustomVersion
from grove.cluster.resource_registry import ResourceRegistry
from grove.cluster.storage.store import HISTORY, NotPersistedError, Persister, Storage, TooDeepError
from grove.errors import require
from grove.kube.transport import Request, Response

log = structlog.get_logger()

Stream = WatchStream | LogStream
Observer = Callable[[Request, Response], None]

_VERBS = {"POST": "create", "DELETE": "delete"}
# Each webhook takes one round at most, and so does each change of the object during the calls.
_MAX_ROUNDS = 200
_MAX_WARNING_CHARS, _MAX_WARNING_LENGTH, _MAX_WARNINGS = 4096, 256, 64
_INITIAL_NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")


def is_stream(request: Request) -> bool:
    """Return whether the request is for `open_stream`, not for `handle`."""
    return is_watch(request) or is_followed_log(request)


class ApiServer:
    """A Kubernetes API over a new or a restored store. The same seed and requests give the same responses."""

    def __init__(
        self,
        clock: Clock,
        random: Random,
        *,
        admission: AdmissionControl | None = None,
        history: int = HISTORY,
        logs: LogSource = NO_LOGS,
        usage: UsageSource | None = None,
        observers: Iterable[Observer] = (),
        store: Storage | None = None,
    ) -> None:
        self.clock = clock
        self.store = store or Storage(history)
        # Called with every request and its response, except watches.
        self.observers = list(observers)
        self._logs = logs
        # None: the metrics API is not served.
        self.usage = usage
        self._metrics = None if usage is None else MetricsApi(self.store, usage)
        self.kinds = ResourceRegistry(self.store)
        self._quotas = QuotaLedger(self.store)
        self._context = Context(self.store, clock, random, quotas=self._quotas, admission=admission)
        self._crds = CrdController(self._context)
        self.authenticator = Authenticator(self.store, clock)
        self._authorizer = RBACAuthorizer(self.store)
        self._reviews = AccessReviews(self._context, self._authorizer, self.authenticator)
        self._call_webhook: WebhookCaller = _fail_webhook_call
        # Responses that are not about objects, such as discovery, by path; rebuilt when the served kinds change.
        self._handlers: dict[str, Handler] = {}
        self._handlers_edition = -1
        for name in _INITIAL_NAMESPACES:
            if self.store.table(NAMESPACES).find("", name) is None:
                self._create_namespace(name)
        if self.store.persister is not None:
            # Not on the first request: if the disk is full, the rollback of that request would remove Grove's CRDs.
            self._crds.update_own_crds()
            update_rbac_defaults(self._context)

    def authorize(self, request: Request, user: UserInfo) -> None:
        """Raise `StatusError` unless RBAC allows the request. In-process requests are not authorized."""
        if not user.is_unrestricted:
            store_rbac_defaults(self._context)
            self._authorizer.check(user, get_attributes(request))

    def serve(self, request: Request, user: UserInfo = ADMIN) -> Coroutine[Any, Any, Response]:
        """Handle a request and respond once its result is persisted. A write that cannot be persisted is rejected."""
        if self.store.persister is None:
            return self.handle_with_webhooks(request, user)
        return self._serve_persisted(request, user, self.store.persister)

    async def _serve_persisted(self, request: Request, user: UserInfo, persister: Persister) -> Response:
        while True:
            response = await self.handle_with_webhooks(request, user)
            try:
                await persister.wait_persisted()
                return response
            except NotPersistedError as error:
                if request.is_write:
                    return insufficient_storage(str(error)).response()
                # The state that was read is rolled back: read again.

    async def stream(self, request: Request) -> Stream:
        """Open a stream as `open_stream` does, once its initial state is persisted."""
        while True:
            stream = self.open_stream(request)
            if self.store.persister is None:
                return stream
            try:
                await self.store.persister.wait_persisted()
                return stream
            except NotPersistedError:
                stream.close()
            except BaseException:
                stream.close()
                raise

    def enable_webhooks(self, call_webhook: WebhookCaller) -> None:
        """Call admission webhooks from now on, with `call_webhook`."""
        self._call_webhook = call_webhook
        self._context.webhooks = WebhookDispatcher(self.store)

    async def handle_with_webhooks(self, request: Request, user: UserInfo = ADMIN) -> Response:
        """Handle a request after calling the webhooks. Nothing is written before: a cancelled request has no effect.

        The object may change during the calls; then the webhooks are called again.
        """
        webhook_session: WebhookSession | None = None
        for _ in range(_MAX_ROUNDS):
            try:
                return self._handle(request, user, webhook_session)
            except PendingCallsError as pending:
                random = self._context.random
                if webhook_session is None:
                    # Retry with a fixed random seed and time, so that the object sent to webhooks stays the same.
                    webhook_session = WebhookSession(random.getrandbits(64), self.clock.now())
                    continue
                results = await asyncio.gather(
                    *(self._call_webhook(call, generate_uid(random)) for call in pending.calls)
                )
                for call, result in zip(pending.calls, results, strict=True):
                    webhook_session.results[call.key] = result
        return never_settled().response()

    def handle(self, request: Request, user: UserInfo = ADMIN) -> Response:
        """Handle any request but a stream, synchronously. Webhooks cannot be called this way."""
        try:
            return self._handle(request, user, None)
        except PendingCallsError:
            log.error("a synchronous request needs a webhook call", method=request.method, path=request.path)
            return internal_error().response()

    def _handle(self, request: Request, user: UserInfo, webhook_session: WebhookSession | None) -> Response:
        context = self._context
        context.warnings.clear()
        context.program, context.user, context.query = request.program, user, request.query
        context.webhook_session = webhook_session
        if webhook_session is None:
            return self._respond(request)
        random, context.random = context.random, webhook_session.new_random()
        try:
            return self._respond(request)
        finally:
            context.random, context.webhook_session = random, None

    def _respond(self, request: Request) -> Response:
        try:
            page = self._find_handler(request.path.rstrip("/"))
            if page is not None:
                response = page(request)
            elif request.path.startswith(NAMESPACED):
                response = self._reviews.handle_namespaced(request)
            elif self._metrics is not None and request.path.startswith(METRICS_PREFIX):
                response = self._metrics.handle(request, self.clock.now())
            else:
                response = self._handle_resource(request)
        except StatusError as error:
            response = error.response()
        except PendingCallsError:
            raise
        except (RecursionError, TooDeepError):
            response = bad_request("the body is nested too deeply").response()
        except Exception:
            # One request must not stop the server; the client gets a 500.
            log.exception("request failed", method=request.method, path=request.path)
            response = internal_error().response()
        else:
            self._quotas.settle()
            self._crds.settle()
        if self._context.warnings:
            response = _with_warnings(response, self._context.warnings)
        for observer in self.observers:
            observer(request, response)
        return response

    def open_stream(self, request: Request) -> Stream:
        """Open a watch or a followed log. Raises `ApiError`; an expired revision is reported in the first line."""
        try:
            target = self._resolve(request)
            if is_followed_log(request) and target.resource_info is PODS and target.subresource == "log":
                return LogStream(self._context, target, request, self._logs)
            if request.method != "GET" or target.name:
                raise method_not_allowed()
            return open_stream(self._context, target, request)
        except StatusError as error:
            raise error.api_error() from None

    def _find_handler(self, path: str) -> Handler | None:
        if self._handlers_edition != self.kinds.edition:
            self._handlers_edition = self.kinds.edition
            self._handlers = {
                **discovery.build_handlers(self.kinds, has_metrics=self._metrics is not None),
                **openapi.build_handlers(self.kinds),
                **self._reviews.build_handlers(),
            }
        return self._handlers.get(path)

    def _resolve(self, request: Request) -> RequestInfo:
        target = resolve_request_info(self.kinds, request)
        if target.resource_info is DEFINITIONS:
            self._crds.store_own_crds()
        elif target.resource_info.group == RBAC:
            store_rbac_defaults(self._context)
        return target

    def _handle_resource(self, request: Request) -> Response:
        target = self._resolve(request)
        if is_protobuf(request):
            request = _decode_protobuf(target, request)
        custom = target.resource_info.custom
        if not request.accept and not target.is_events_v1 and (custom is None or custom.needs_no_conversion):
            return self._dispatch(target, request)
        form = negotiate_form(request.accept, is_custom=target.resource_info.is_custom)
        if target.is_events_v1 and request.method != "GET":
            raise method_not_allowed()
        response = self._dispatch(target, request)
        if custom is not None and not custom.needs_no_conversion:
            response = self._convert_version(custom, target, response)
        return self._convert_form(form, target, request, response)

    def _convert_version(self, custom: CustomVersion, target: RequestInfo, response: Response) -> Response:
        """Convert the response to the requested version of a custom kind, and add its deprecation warning."""
        if custom.deprecation is not None:
            message = f"{target.resource_info.api_version} {target.resource_info.kind} is deprecated"
            self._context.warnings.insert(0, custom.deprecation or message)
        if custom.stored_as is None or target.subresource == "scale":
            return response
        body = convert_body(custom, target.resource_info.api_version, response.body)
        return Response(status=response.status, body=body, headers=response.headers)

    def _convert_form(self, form: Form, target: RequestInfo, request: Request, response: Response) -> Response:
        """Convert the response to the negotiated form. Deletes and most subresources have only one form."""
        if request.method == "DELETE" or target.subresource not in ("", "status", "scale"):
            return response
        match form:
            case Form.TABLE:
                shown = SCALES if target.subresource == "scale" else target.resource_info
                body = encode_table(shown, response.body, read_included(request), self.clock.now())
            case Form.METADATA | Form.METADATA_LIST:
                # The write is done already, so it does not fail because of the requested form.
                body = reduce_to_metadata(response.body, form if request.method == "GET" else Form.METADATA)
            case Form.OBJECT if target.is_events_v1:
                body = to_events_v1(response.body)
            case Form.OBJECT:
                return response
            case _:
                assert_never(form)
        return Response(status=response.status, body=body, headers=response.headers)

    def _dispatch(self, target: RequestInfo, request: Request) -> Response:
        if target.subresource:
            return self._dispatch_subresource(target, request)
        match (request.method, bool(target.name)):
            case ("GET", True):
                return read_one(self._context, target, request)
            case ("GET", False):
                require(not is_watch(request), "a transport opens a watch as a stream")
                return read_list(self._context, target, request)
            case ("POST", False):
                return create(self._context, target, request)
            case ("PUT", True):
                return replace(self._context, target, request)
            case ("PATCH", True):
                return patch(self._context, target, request)
            case ("DELETE", True):
                return delete(self._context, target, request)
            case ("DELETE", False):
                return delete_collection(self._context, target, request)
            case _:
                raise method_not_allowed()

    def _dispatch_subresource(self, target: RequestInfo, request: Request) -> Response:
        resource_info = target.resource_info
        match (target.subresource, request.method):
            case ("status", "GET") if resource_info.has_status:
                return read_one(self._context, target, request)
            case ("status", "PUT") if resource_info.has_status:
                return replace(self._context, target, request)
            case ("status", "PATCH") if resource_info.has_status:
                return patch(self._context, target, request)
            case ("scale", "GET") if resource_info.has_scale:
                return read_scale(self._context, target)
            case ("scale", "PUT" | "PATCH") if resource_info.has_scale:
                return write_scale(self._context, target, request)
            case ("log", "GET") if resource_info is PODS:
                return read_log(self._context, target, request, self._logs)
            case ("binding", "POST") if resource_info is PODS:
                return bind(self._context, target, request)
            case ("eviction", "POST") if resource_info is PODS:
                return evict(self._context, target, request)
            case ("finalize", "PUT") if resource_info is NAMESPACES:
                return finalize(self._context, target, request)
            case ("token", "POST") if resource_info is ACCOUNTS:
                return request_token(self._context, self.authenticator, target, request)
            case ("status" | "scale" | "binding" | "eviction" | "log" | "finalize" | "token", _) if _is_served(target):
                verb = _VERBS.get(request.method, "")
                raise unsupported_verb(resource_info, verb) if resource_info.is_custom else method_not_allowed()
            case (subresource, _) if resource_info is PODS and subresource in UNSUPPORTED_SUBRESOURCES:
                raise build_unsupported_error(self._context, target)
            case _:
                raise not_found(resource_info, target.name) if resource_info.is_custom else unknown_path()

    def _create_namespace(self, name: str) -> None:
        body = b'{"metadata":{"name":"%b"}}' % name.encode()
        response = create(self._context, RequestInfo(NAMESPACES, ""), Request(method="POST", path="", body=body))
        require(response.status == 201, f"namespace {name} can be created in an empty store")


# The type of the body of subresources that do not take the object itself.
_BODIES = {
    "binding": ("v1", "Binding"),
    "eviction": ("policy/v1", "Eviction"),
    "scale": ("autoscaling/v1", "Scale"),
    "token": ("authentication.k8s.io/v1", "TokenRequest"),
}


def _decode_protobuf(target: RequestInfo, request: Request) -> Request:
    """Convert a protobuf body to JSON. Patches are always JSON, and custom kinds have no field numbers."""
    resource_info = target.resource_info
    if request.method == "PATCH" or resource_info.is_custom:
        return request
    if request.method == "DELETE":
        return options_to_json_request(request) if request.body else request
    return to_json_request(request, *_BODIES.get(target.subresource, (resource_info.api_version, resource_info.kind)))


def _is_served(target: RequestInfo) -> bool:
    resource_info = target.resource_info
    match target.subresource:
        case "status":
            return resource_info.has_status
        case "scale":
            return resource_info.has_scale
        case "finalize":
            return resource_info is NAMESPACES
        case "token":
            return resource_info is ACCOUNTS
        case _:
            return resource_info is PODS


async def _fail_webhook_call(call: Call, uid: str) -> CallResult:
    return CallFailure("webhook calls are not enabled in this cluster")


def _with_warnings(response: Response, warnings: list[str]) -> Response:
    """Add one `Warning` header line per warning."""
    lines = "\n".join(f'299 - "{_quote(warning)}"' for warning in _truncate_warnings(warnings))
    return Response(status=response.status, body=response.body, headers={**response.headers, "Warning": lines})


def _truncate_warnings(warnings: list[str]) -> list[str]:
    """Deduplicate and truncate warnings as a real API server does, to a number of lines that every client reads."""
    texts = list(dict.fromkeys(warnings))
    if sum(map(len, texts)) > _MAX_WARNING_CHARS:
        texts = [text[:_MAX_WARNING_LENGTH] for text in texts]
    totals = accumulate(map(len, texts))
    fitting = [text for text, total in zip(texts, totals, strict=True) if total <= _MAX_WARNING_CHARS]
    return fitting[:_MAX_WARNINGS]


def _quote(text: str) -> str:
    return " ".join(text.split()).replace("\\", "\\\\").replace('"', '\\"')
