"""GET pods/NAME/log: what a container wrote. The server keeps no logs; whoever runs the containers is asked."""

from datetime import timedelta
from typing import Protocol

import msgspec

from grove.api.meta import JsonObject
from grove.cluster.server.context import Context
from grove.cluster.server.loose import items, part
from grove.cluster.server.read import find_entry
from grove.cluster.server.status_errors import RefusedError, bad_request
from grove.cluster.server.targets import Target
from grove.kube.transport import Request, Response


class LogLine(msgspec.Struct, frozen=True):
    """`written_at` as on the wire, in UTC: such texts sort like the instants they name."""

    written_at: str
    text: str


class LogSource(Protocol):
    """Whoever runs containers and remembers what they wrote."""

    def lines(self, pod: JsonObject, container: str) -> tuple[LogLine, ...]: ...


class NoLogs:
    """For clusters whose pods nobody runs."""

    def lines(self, pod: JsonObject, container: str) -> tuple[LogLine, ...]:
        raise RefusedError(501, "NotImplemented", "logs are not kept by the kubelet of this cluster")


NO_LOGS = NoLogs()


def read_log(context: Context, target: Target, request: Request, source: LogSource) -> Response:
    pod = find_entry(context, target).obj
    query = request.query
    container = _container(pod, query.get("container", ""))
    if query.get("follow") in ("true", "1"):
        raise RefusedError(501, "NotImplemented", "following logs is not possible on this cluster: leave out -f")
    if query.get("previous") in ("true", "1"):
        raise bad_request(f'previous terminated container "{container}" in pod "{target.name}" not found')
    _check_started(pod, container)
    lines = _selected(context, request, source.lines(pod, container))
    has_times = query.get("timestamps") in ("true", "1")
    text = "".join(f"{line.written_at} {line.text}\n" if has_times else f"{line.text}\n" for line in lines)
    return Response(status=200, body=_cut(request, text), headers={"Content-Type": "text/plain; charset=utf-8"})


def _container(pod: JsonObject, wanted: str) -> str:
    name, spec = pod["metadata"]["name"], pod["spec"]
    names = [each["name"] for field in ("containers", "initContainers") for each in items(spec.get(field))]
    if wanted:
        if wanted not in names:
            raise bad_request(f"container {wanted} is not valid for pod {name}")
        return wanted
    if len(items(spec.get("containers"))) == 1:
        return str(names[0])
    raise bad_request(f"a container name must be specified for pod {name}, choose one of: [{' '.join(names)}]")


def _check_started(pod: JsonObject, container: str) -> None:
    status = part(pod.get("status"))
    found = items(status.get("containerStatuses")) + items(status.get("initContainerStatuses"))
    state = next((part(each.get("state")) for each in found if each.get("name") == container), {})
    if "running" in state or "terminated" in state:
        return
    name = pod["metadata"]["name"]
    if not part(pod.get("spec")).get("nodeName"):
        raise bad_request(f"pod {name} does not have a host assigned")
    why = part(state.get("waiting")).get("reason") or "ContainerCreating"
    raise bad_request(f'container "{container}" in pod "{name}" is waiting to start: {why}')


def _selected(context: Context, request: Request, lines: tuple[LogLine, ...]) -> tuple[LogLine, ...]:
    since = request.query.get("sinceTime", "")
    if seconds := _number(request, "sinceSeconds"):
        since = (context.clock.now() - timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")
    if since:
        lines = tuple(line for line in lines if line.written_at >= since)
    last = _number(request, "tailLines")
    return lines if last is None else lines[max(len(lines) - last, 0) :]


def _cut(request: Request, text: str) -> bytes:
    limit = _number(request, "limitBytes")
    return text.encode() if limit is None else text.encode()[:limit]


def _number(request: Request, field: str) -> int | None:
    text = request.query.get(field, "")
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise bad_request(f'{field}: Invalid value: "{text}": must be a non-negative integer')
    return int(text)
