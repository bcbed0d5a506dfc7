"""GET pods/NAME/log: returns the log of a container, which the server reads from the kubelet's `LogSource`.

With `follow=true` the response is a stream: `log_follow.py`.
"""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Protocol

import msgspec

from grove.api.types.meta import JsonObject
from grove.api.validation.field_errors import FieldError, forbidden, invalid
from grove.cluster.apiserver.codec.bool_params import is_on
from grove.cluster.apiserver.codec.lenient_json import items, part
from grove.cluster.apiserver.context import Context
from grove.cluster.apiserver.request_info import RequestInfo
from grove.cluster.apiserver.status_errors import StatusError, bad_request, invalid_kind
from grove.cluster.apiserver.verbs.read import find_entry
from grove.kube.transport import Request, Response

TEXT = {"Content-Type": "text/plain; charset=utf-8"}


class LogLine(msgspec.Struct, frozen=True):
    """One line of a log. `written_at` is in wire format, in UTC."""

    written_at: str
    text: str


class LogSource(Protocol):
    """A kubelet's access to container logs, by run.

    `state` is the current or the last state of the container and selects the run. Later calls for the same run return
    its new lines, too.
    """

    def lines(self, pod: JsonObject, container: str, state: JsonObject) -> tuple[LogLine, ...]: ...

    def follow(self, pod: JsonObject, container: str, state: JsonObject, wake: Callable[[], None]) -> "LogTail | None":
        """Follow a run and call `wake` on new lines; None: new lines come only with a change of the pod."""


class LogTail(Protocol):
    """A followed run."""

    def new_lines(self) -> tuple[LogLine, ...]:
        """Return the lines since the last call; the first call returns all."""

    def close(self) -> None: ...


class NoLogs:
    """A log source for clusters without a kubelet."""

    def lines(self, pod: JsonObject, container: str, state: JsonObject) -> tuple[LogLine, ...]:
        raise StatusError(501, "NotImplemented", "this cluster has no container logs")

    def follow(self, pod: JsonObject, container: str, state: JsonObject, wake: Callable[[], None]) -> None:
        """Return None: `lines` raises the error."""


NO_LOGS = NoLogs()


class LogOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Validated options of a log request."""

    container: str = ""
    is_previous: bool = False
    has_times: bool = False
    since: datetime | None = None
    tail: int | None = None
    limit: int | None = None

    def select(self, lines: tuple[LogLine, ...]) -> tuple[LogLine, ...]:
        """Return the lines after `since`, limited to the last `tail` ones."""
        if self.since is not None:
            lines = tuple(line for line in lines if _instant(line.written_at) >= self.since)
        return lines if self.tail is None else lines[max(len(lines) - self.tail, 0) :]

    def format_line(self, line: LogLine) -> str:
        return f"{line.written_at} {line.text}" if self.has_times else line.text


def read_log(context: Context, target: RequestInfo, request: Request, source: LogSource) -> Response:
    pod = find_entry(context, target).obj
    options = read_log_options(context, target, request)
    container = choose_container(pod, options.container)
    if not has_node(pod):
        return Response(status=204, headers=TEXT)
    lines = source.lines(pod, container, choose_run(pod, container, options))
    text = "".join(f"{options.format_line(line)}\n" for line in options.select(lines)).encode()
    return Response(status=200, body=text[: options.limit], headers=TEXT)


def choose_container(pod: JsonObject, wanted: str) -> str:
    name, spec = pod["metadata"]["name"], pod["spec"]
    names = [each["name"] for field in ("containers", "initContainers") for each in items(spec.get(field))]
    if wanted:
        if wanted not in names:
            raise bad_request(f"container {wanted} is not valid for pod {name}")
        return wanted
    if len(items(spec.get("containers"))) == 1:
        return str(names[0])
    raise bad_request(f"a container name must be specified for pod {name}, choose one of: [{' '.join(names)}]")


def has_node(pod: JsonObject) -> bool:
    """Return whether the pod has a node. The log of a pod without a node is empty; that is not an error."""
    return bool(part(pod.get("spec")).get("nodeName"))


def choose_run(pod: JsonObject, container: str, options: LogOptions) -> JsonObject:
    """Return the container state of the requested run. Raises 400 if there was none."""
    name = pod["metadata"]["name"]
    status = container_status(pod, container)
    last = part(status.get("lastState"))
    if options.is_previous:
        if "terminated" not in last:
            raise bad_request(f'previous terminated container "{container}" in pod "{name}" not found')
        return last
    state = part(status.get("state"))
    if "running" in state or "terminated" in state:
        return state
    if "terminated" in last:
        # Waiting for a restart: return the last run.
        return last
    why = part(state.get("waiting")).get("reason") or "ContainerCreating"
    raise bad_request(f'container "{container}" in pod "{name}" is waiting to start: {why}')


def container_status(pod: JsonObject, container: str) -> JsonObject:
    status = part(pod.get("status"))
    found = items(status.get("containerStatuses")) + items(status.get("initContainerStatuses"))
    return next((each for each in found if each.get("name") == container), {})


def read_log_options(context: Context, target: RequestInfo, request: Request) -> LogOptions:
    query = request.query
    seconds, tail, limit = (_number(query, field) for field in ("sinceSeconds", "tailLines", "limitBytes"))
    since_time = query.get("sinceTime", "")
    errors: list[FieldError] = []
    if tail is not None and tail < 0:
        errors.append(invalid("tailLines", tail, "must be greater than or equal to 0"))
    errors += [
        invalid(field, value, "must be greater than 0")
        for field, value in (("limitBytes", limit), ("sinceSeconds", seconds))
        if value is not None and value < 1
    ]
    if seconds is not None and since_time:
        errors.append(forbidden("[]", "at most one of `sinceTime` or `sinceSeconds` may be specified"))
    if errors:
        raise invalid_kind("PodLogOptions", "", target.name, errors)
    since = _instant(since_time) if since_time else None
    if seconds is not None:
        # Lines have whole seconds, so the limit is rounded down to a second.
        since = (context.clock.now() - timedelta(seconds=seconds)).replace(microsecond=0)
    return LogOptions(
        container=query.get("container", ""),
        is_previous=is_on(query, "previous"),
        has_times=is_on(query, "timestamps"),
        since=since,
        tail=tail,
        limit=limit,
    )


def _instant(text: str) -> datetime:
    try:
        found = msgspec.convert(text, datetime)
    except msgspec.ValidationError:
        raise bad_request(f'sinceTime: Invalid value: "{text}": must be a time such as 2026-01-02T15:04:05Z') from None
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


def _number(query: Mapping[str, str], field: str) -> int | None:
    text = query.get(field, "")
    if not text:
        return None
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) < 10):
        raise bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax')
    return int(text)
