"""The API server: takes requests apart, hands them to the verbs, and answers. No sockets here.

Transports: `cluster/inprocess.py`, `cluster/http/`. Each verb has a file beside this one.
"""

from collections.abc import Callable, Iterable
from random import Random
from typing import assert_never

import structlog

from grove.api.admission import AdmissionControl
from grove.clock import Clock
from grove.cluster.resources import DEFINITIONS, NAMESPACES, PODS
from grove.cluster.server import discovery, openapi, reviews
from grove.cluster.server.bind import bind
from grove.cluster.server.context import Context
from grove.cluster.server.create import create
from grove.cluster.server.definitions import fixed_definition, store_definitions
from grove.cluster.server.delete import delete, delete_collection
from grove.cluster.server.finalize import finalize
from grove.cluster.server.forms import Form, form_of, metadata_only
from grove.cluster.server.log_stream import LogStream, is_followed_log
from grove.cluster.server.logs import NO_LOGS, LogSource, read_log
from grove.cluster.server.newer_events import in_newer_shape
from grove.cluster.server.patch import patch
from grove.cluster.server.quota import QuotaLedger
from grove.cluster.server.read import read_list, read_one
from grove.cluster.server.scale import read_scale, write_scale
from grove.cluster.server.status_errors import (
    RefusedError,
    bad_request,
    internal_error,
    method_not_allowed,
    not_found,
    unknown_path,
    unsupported_verb,
)
from grove.cluster.server.table import as_table, included_of
from grove.cluster.server.targets import Target, find_target
from grove.cluster.server.update import replace
from grove.cluster.server.watch import WatchStream, is_watch, open_stream
from grove.cluster.store import Storage
from grove.errors import require
from grove.kube.transport import Request, Response

log = structlog.get_logger()

Stream = WatchStream | LogStream
Observer = Callable[[Request, Response], None]

_VERBS = {"POST": "create", "DELETE": "delete"}
_FIRST_NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")


def is_stream(request: Request) -> bool:
    """Answered by `open_stream`, not by `handle`."""
    return is_watch(request) or is_followed_log(request)


class ApiServer:
    """A Kubernetes API over its own store. Same seed, same requests: same answers, byte for byte."""

    def __init__(
        self,
        clock: Clock,
        random: Random,
        *,
        admission: AdmissionControl | None = None,
        history: int = 100_000,
        logs: LogSource = NO_LOGS,
        observers: Iterable[Observer] = (),
    ) -> None:
        self.clock = clock
        self.store = Storage(history)
        # Called with every request (watches excepted) and its answer.
        self.observers = list(observers)
        # What is not about objects: discovery and the like, by path.
        self._pages = {**discovery.pages(), **openapi.pages(), **reviews.pages()}
        self._logs = logs
        self._ledger = QuotaLedger(self.store)
        self._context = Context(self.store, clock, random, quotas=self._ledger, admission=admission)
        for name in _FIRST_NAMESPACES:
            self._create_namespace(name)

    def handle(self, request: Request) -> Response:
        """The answer to everything but a stream."""
        self._context.warnings.clear()
        try:
            page = self._pages.get(request.path.rstrip("/"))
            response = self._answer(request) if page is None else page(request)
        except RefusedError as refused:
            response = refused.response()
        except RecursionError:
            response = bad_request("the body is nested too deeply").response()
        except Exception:
            # One request must not take the server down; whoever sent it learns that it is not to blame.
            log.exception("request failed", method=request.method, path=request.path)
            response = internal_error().response()
        else:
            self._ledger.settle()
        if self._context.warnings:
            response = _with_warnings(response, self._context.warnings)
        for observer in self.observers:
            observer(request, response)
        return response

    def open_stream(self, request: Request) -> Stream:
        """Raises `ApiError`. Of a watch, a revision that is too old is the first line, not an error here."""
        try:
            target = self._target(request)
            if is_followed_log(request) and target.served is PODS and target.subresource == "log":
                return LogStream(self._context, target, request, self._logs)
            if request.method != "GET" or target.name:
                raise method_not_allowed()
            return open_stream(self._context, target, request)
        except RefusedError as refused:
            raise refused.api_error() from None

    def _target(self, request: Request) -> Target:
        target = find_target(request)
        if target.served is DEFINITIONS:
            store_definitions(self._context)
            if target.subresource and request.method != "GET":
                raise fixed_definition(target.name)
        return target

    def _answer(self, request: Request) -> Response:
        target = self._target(request)
        if not request.accept and not target.is_newer_event:
            return self._dispatch(target, request)
        form = form_of(request.accept, is_custom=target.served.is_custom)
        if target.is_newer_event and request.method != "GET":
            raise method_not_allowed()
        return self._formed(form, target, request, self._dispatch(target, request))

    def _formed(self, form: Form, target: Target, request: Request, response: Response) -> Response:
        """The answer in the form that the client wants; deletes and subresources have but one."""
        if request.method == "DELETE" or target.subresource not in ("", "status"):
            return response
        match form:
            case Form.TABLE:
                body = as_table(target.served, response.body, included_of(request), self.clock.now())
            case Form.METADATA | Form.METADATA_LIST:
                # A write has happened by now: it is not refused for how its answer was asked for.
                body = metadata_only(response.body, form if request.method == "GET" else Form.METADATA)
            case Form.OBJECT if target.is_newer_event:
                body = in_newer_shape(response.body)
            case Form.OBJECT:
                return response
            case _:
                assert_never(form)
        return Response(status=response.status, body=body, headers=response.headers)

    def _dispatch(self, target: Target, request: Request) -> Response:
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

    def _dispatch_subresource(self, target: Target, request: Request) -> Response:
        served = target.served
        match (target.subresource, request.method):
            case ("status", "GET") if served.has_status:
                return read_one(self._context, target, request)
            case ("status", "PUT") if served.has_status:
                return replace(self._context, target, request)
            case ("status", "PATCH") if served.has_status:
                return patch(self._context, target, request)
            case ("scale", "GET") if served.scale_selector:
                return read_scale(self._context, target)
            case ("scale", "PUT" | "PATCH") if served.scale_selector:
                return write_scale(self._context, target, request)
            case ("log", "GET") if served is PODS:
                return read_log(self._context, target, request, self._logs)
            case ("binding", "POST") if served is PODS:
                return bind(self._context, target, request)
            case ("finalize", "PUT") if served is NAMESPACES:
                return finalize(self._context, target, request)
            case ("status" | "scale" | "binding" | "log" | "finalize", _) if _is_served(target):
                verb = _VERBS.get(request.method, "")
                raise unsupported_verb(served, verb) if served.is_custom else method_not_allowed()
            case _:
                raise not_found(served, target.name) if served.is_custom else unknown_path()

    def _create_namespace(self, name: str) -> None:
        body = b'{"metadata":{"name":"%b"}}' % name.encode()
        answer = create(self._context, Target(NAMESPACES, ""), Request(method="POST", path="", body=body))
        require(answer.status == 201, f"namespace {name} can be created in an empty store")


def _is_served(target: Target) -> bool:
    served = target.served
    match target.subresource:
        case "status":
            return served.has_status
        case "scale":
            return served.scale_selector is not None
        case "finalize":
            return served is NAMESPACES
        case _:
            return served is PODS


def _with_warnings(response: Response, warnings: list[str]) -> Response:
    """One header line per warning, as HTTP would carry them."""
    lines = "\n".join(f'299 - "{_quoted(warning)}"' for warning in warnings)
    return Response(status=response.status, body=response.body, headers={**response.headers, "Warning": lines})


def _quoted(text: str) -> str:
    return " ".join(text.split()).replace("\\", "\\\\").replace('"', '\\"')
