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
from grove.cluster.apiserver.admission.webhook_dispatcher import Inquiry, WebhookDispatcher
from grove.cluster.apiserver.admission.webhook_request import Asker, Call, NoVerdict, Outcome, UnansweredError
from grove.cluster.apiserver.auth.access_reviews import NAMESPACED, Reviews
from grove.cluster.apiserver.auth.rbac_authorizer import RBAC, RBACAuthorizer, attempt_of
from grove.cluster.apiserver.auth.rbac_defaults import store_rbac_defaults
from grove.cluster.apiserver.auth.tokens import ACCOUNTS, Authenticator, request_token
from grove.cluster.apiserver.auth.user_info import ADMIN, UserInfo
from grove.cluster.apiserver.codec.content_negotiation import Form, form_of, metadata_only
from grove.cluster.apiserver.codec.protobuf import in_json, is_protobuf, options_in_json
from grove.cluster.apiserver.codec.version_conversion import in_version
from grove.cluster.apiserver.context import Context
from grove.cluster.apiserver.discovery import Page
from grove.cluster.apiserver.printers.table import as_table, included_of
from grove.cluster.apiserver.registry.crd_strategy import Definitions
from grove.cluster.apiserver.registry.events_v1 import in_newer_shape
from grove.cluster.apiserver.registry.metadata import draw_uid
from grove.cluster.apiserver.registry.quota import QuotaLedger
from grove.cluster.apiserver.request_info import RequestInfo, find_target
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
from grove.cluster.apiserver.verbs.unsupported_subresources import CLOSED_DOORS, closed_door
from grove.cluster.apiserver.verbs.update import replace
from grove.cluster.apiserver.verbs.watch import WatchStream, is_watch, open_stream
from grove.cluster.built_in_resources import DEFINITIONS, NAMESPACES, PODS, SCALES
from grove.cluster.custom_resource import CustomVersion
from grove.cluster.resource_registry import Catalogue
from grove.cluster.storage.store import HISTORY, NotKeptError, Persister, Storage, TooDeepError
from grove.errors import require
from grove.kube.transport import Request, Response

log = structlog.get_logger()

Stream = WatchStream | LogStream
Observer = Callable[[Request, Response], None]

_VERBS = {"POST": "create", "DELETE": "delete"}
# Each webhook takes one round at most, and so does each change of the object during the calls.
_MOST_ROUNDS = 200
_MOST_WARNED_LETTERS, _LONGEST_WARNING, _MOST_WARNINGS = 4096, 256, 64
_FIRST_NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")


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
        observers: Iterable[Observer] = (),
        store: Storage | None = None,
    ) -> None:
        self.clock = clock
        self.store = store or Storage(history)
        # Called with every request and its response, except watches.
        self.observers = list(observers)
        self._logs = logs
        self.kinds = Catalogue(self.store)
        self._ledger = QuotaLedger(self.store)
        self._context = Context(self.store, clock, random, quotas=self._ledger, admission=admission)
        self._definitions = Definitions(self._context)
        self.authenticator = Authenticator(self.store, clock)
        self._authorizer = RBACAuthorizer(self.store)
        self._reviews = Reviews(self._context, self._authorizer, self.authenticator)
        self._ask: Asker = _ask_nobody
        # Responses that are not about objects, such as discovery, by path; rebuilt when the served kinds change.
        self._pages: dict[str, Page] = {}
        self._pages_edition = -1
        for name in _FIRST_NAMESPACES:
            if self.store.table(NAMESPACES).find("", name) is None:
                self._create_namespace(name)
        if self.store.keeper is not None:
            # Now, and not on first request: a full disk would then roll back the CRDs of Grove.
            self._definitions.keep_ours()
            store_rbac_defaults(self._context)

    def authorize(self, request: Request, user: UserInfo) -> None:
        """Raise `StatusError` unless RBAC allows the request. In-process requests are not authorized."""
        if not user.is_unrestricted:
            store_rbac_defaults(self._context)
            self._authorizer.check(user, attempt_of(request))

    def answer(self, request: Request, user: UserInfo = ADMIN) -> Coroutine[Any, Any, Response]:
        """Handle a request and respond once its result is persisted. A write that cannot be persisted is rejected."""
        if self.store.keeper is None:
            return self.handle_asking(request, user)
        return self._answer_kept(request, user, self.store.keeper)

    async def _answer_kept(self, request: Request, user: UserInfo, keeper: Persister) -> Response:
        while True:
            response = await self.handle_asking(request, user)
            try:
                await keeper.settled()
                return response
            except NotKeptError as problem:
                if request.is_write:
                    return insufficient_storage(str(problem)).response()
                # The state that was read is rolled back: read again.

    async def stream(self, request: Request) -> Stream:
        """Open a stream as `open_stream` does, once its initial state is persisted."""
        while True:
            stream = self.open_stream(request)
            if self.store.keeper is None:
                return stream
            try:
                await self.store.keeper.settled()
                return stream
            except NotKeptError:
                stream.close()
            except BaseException:
                stream.close()
                raise

    def ask_webhooks(self, ask: Asker) -> None:
        """Call admission webhooks from now on."""
        self._ask = ask
        self._context.webhooks = WebhookDispatcher(self.store)

    async def handle_asking(self, request: Request, user: UserInfo = ADMIN) -> Response:
        """Handle a request after calling the webhooks. Nothing is written before: a cancelled request has no effect.

        The object may change during the calls; then the webhooks are called again.
        """
        webhook_session: Inquiry | None = None
        for _ in range(_MOST_ROUNDS):
            try:
                return self._handle(request, user, webhook_session)
            except UnansweredError as unanswered:
                random = self._context.random
                if webhook_session is None:
                    # Retry with a fixed random seed and time, so that the object sent to webhooks stays the same.
                    webhook_session = Inquiry(random.getrandbits(64), self.clock.now())
                    continue
                outcomes = await asyncio.gather(*(self._ask(call, draw_uid(random)) for call in unanswered.calls))
                for call, outcome in zip(unanswered.calls, outcomes, strict=True):
                    webhook_session.answers[call.key] = outcome
        return never_settled().response()

    def handle(self, request: Request, user: UserInfo = ADMIN) -> Response:
        """Handle any request but a stream, synchronously. Webhooks cannot be called this way."""
        try:
            return self._handle(request, user, None)
        except UnansweredError:
            log.error("a webhook had to be asked, and could not", method=request.method, path=request.path)
            return internal_error().response()

    def _handle(self, request: Request, user: UserInfo, webhook_session: Inquiry | None) -> Response:
        context = self._context
        context.warnings.clear()
        context.program, context.user, context.query = request.program, user, request.query
        context.webhook_session = webhook_session
        if webhook_session is None:
            return self._attempt(request)
        chance, context.random = context.random, webhook_session.chance()
        try:
            return self._attempt(request)
        finally:
            context.random, context.webhook_session = chance, None

    def _attempt(self, request: Request) -> Response:
        try:
            page = self._page(request.path.rstrip("/"))
            if page is not None:
                response = page(request)
            elif request.path.startswith(NAMESPACED):
                response = self._reviews.answer_in_namespace(request)
            else:
                response = self._answer(request)
        except StatusError as refused:
            response = refused.response()
        except UnansweredError:
            raise
        except (RecursionError, TooDeepError):
            response = bad_request("the body is nested too deeply").response()
        except Exception:
            # One request must not stop the server; the client gets a 500.
            log.exception("request failed", method=request.method, path=request.path)
            response = internal_error().response()
        else:
            self._ledger.settle()
            self._definitions.settle()
        if self._context.warnings:
            response = _with_warnings(response, self._context.warnings)
        for observer in self.observers:
            observer(request, response)
        return response

    def open_stream(self, request: Request) -> Stream:
        """Open a watch or a followed log. Raises `ApiError`; an expired revision is reported in the first line."""
        try:
            target = self._target(request)
            if is_followed_log(request) and target.resource_info is PODS and target.subresource == "log":
                return LogStream(self._context, target, request, self._logs)
            if request.method != "GET" or target.name:
                raise method_not_allowed()
            return open_stream(self._context, target, request)
        except StatusError as refused:
            raise refused.api_error() from None

    def _page(self, path: str) -> Page | None:
        if self._pages_edition != self.kinds.edition:
            self._pages_edition = self.kinds.edition
            self._pages = {**discovery.pages(self.kinds), **openapi.pages(self.kinds), **self._reviews.pages()}
        return self._pages.get(path)

    def _target(self, request: Request) -> RequestInfo:
        target = find_target(self.kinds, request)
        if target.resource_info is DEFINITIONS:
            self._definitions.store_ours()
        elif target.resource_info.group == RBAC:
            store_rbac_defaults(self._context)
        return target

    def _answer(self, request: Request) -> Response:
        target = self._target(request)
        if is_protobuf(request):
            request = _from_protobuf(target, request)
        custom = target.resource_info.custom
        if not request.accept and not target.is_newer_event and (custom is None or custom.is_shown_as_stored):
            return self._dispatch(target, request)
        form = form_of(request.accept, is_custom=target.resource_info.is_custom)
        if target.is_newer_event and request.method != "GET":
            raise method_not_allowed()
        response = self._dispatch(target, request)
        if custom is not None and not custom.is_shown_as_stored:
            response = self._seen(custom, target, response)
        return self._formed(form, target, request, response)

    def _seen(self, custom: CustomVersion, target: RequestInfo, response: Response) -> Response:
        """Convert the response to the requested version of a custom kind, and add its deprecation warning."""
        if custom.deprecation is not None:
            words = f"{target.resource_info.api_version} {target.resource_info.kind} is deprecated"
            self._context.warnings.insert(0, custom.deprecation or words)
        if custom.stored_as is None or target.subresource == "scale":
            return response
        body = in_version(custom, target.resource_info.api_version, response.body)
        return Response(status=response.status, body=body, headers=response.headers)

    def _formed(self, form: Form, target: RequestInfo, request: Request, response: Response) -> Response:
        """Convert the response to the negotiated form. Deletes and most subresources have only one form."""
        if request.method == "DELETE" or target.subresource not in ("", "status", "scale"):
            return response
        match form:
            case Form.TABLE:
                shown = SCALES if target.subresource == "scale" else target.resource_info
                body = as_table(shown, response.body, included_of(request), self.clock.now())
            case Form.METADATA | Form.METADATA_LIST:
                # The write is done already, so it does not fail because of the requested form.
                body = metadata_only(response.body, form if request.method == "GET" else Form.METADATA)
            case Form.OBJECT if target.is_newer_event:
                body = in_newer_shape(response.body)
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
            case (door, _) if resource_info is PODS and door in CLOSED_DOORS:
                raise closed_door(self._context, target)
            case _:
                raise not_found(resource_info, target.name) if resource_info.is_custom else unknown_path()

    def _create_namespace(self, name: str) -> None:
        body = b'{"metadata":{"name":"%b"}}' % name.encode()
        answer = create(self._context, RequestInfo(NAMESPACES, ""), Request(method="POST", path="", body=body))
        require(answer.status == 201, f"namespace {name} can be created in an empty store")


# The type of the body of subresources that do not take the object itself.
_BODIES = {
    "binding": ("v1", "Binding"),
    "eviction": ("policy/v1", "Eviction"),
    "scale": ("autoscaling/v1", "Scale"),
    "token": ("authentication.k8s.io/v1", "TokenRequest"),
}


def _from_protobuf(target: RequestInfo, request: Request) -> Request:
    """Convert a protobuf body to JSON. Patches are always JSON, and custom kinds have no field numbers."""
    resource_info = target.resource_info
    if request.method == "PATCH" or resource_info.is_custom:
        return request
    if request.method == "DELETE":
        return options_in_json(request) if request.body else request
    return in_json(request, *_BODIES.get(target.subresource, (resource_info.api_version, resource_info.kind)))


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


async def _ask_nobody(call: Call, uid: str) -> Outcome:
    return NoVerdict("this cluster asks nobody")


def _with_warnings(response: Response, warnings: list[str]) -> Response:
    """Add one `Warning` header line per warning."""
    lines = "\n".join(f'299 - "{_quoted(warning)}"' for warning in _told_warnings(warnings))
    return Response(status=response.status, body=response.body, headers={**response.headers, "Warning": lines})


def _told_warnings(warnings: list[str]) -> list[str]:
    """Deduplicate and truncate warnings as a real API server does, to a number of lines that every client reads."""
    texts = list(dict.fromkeys(warnings))
    if sum(map(len, texts)) > _MOST_WARNED_LETTERS:
        texts = [text[:_LONGEST_WARNING] for text in texts]
    totals = accumulate(map(len, texts))
    fitting = [text for text, total in zip(texts, totals, strict=True) if total <= _MOST_WARNED_LETTERS]
    return fitting[:_MOST_WARNINGS]


def _quoted(text: str) -> str:
    return " ".join(text.split()).replace("\\", "\\\\").replace('"', '\\"')
