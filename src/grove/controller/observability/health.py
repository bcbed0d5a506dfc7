"""Liveness and readiness probes, and log lines when a resource cannot be listed or watched.

A standby is ready: its webhooks serve. A leader is ready once every kind was listed. Later errors are shown on the page
and in the log, but do not make it unready: a restart of the API server must not take the webhooks out of service.
"""

from collections.abc import Callable, Iterator, Mapping

import structlog

from grove.controller.manager import Controller
from grove.controller.observability.http_endpoints import Endpoint, PageMaker, Query
from grove.controller.observability.instrumentation import RequestAttributes
from grove.kube.api_errors import ApiError
from grove.planner.status.write_failures import describe_failed

# Reported from these values on.
STALE_SECONDS = 60.0
LATE_SECONDS = 1.0
SHOWN_WRITES = 5
SHOWN_OBJECTS = 5

log = structlog.get_logger()


class Health:
    """The health of this process. Implements `Listener`."""

    def __init__(self) -> None:
        # By resource: the verb that failed last, and the error.
        self._list_watch_errors: dict[str, tuple[str, ApiError]] = {}
        # The controller of this term; None: another process leads.
        self.controller: Controller | None = None
        # Describes the leader.
        self.leader: Callable[[], str] = lambda: "no leader yet"
        # None: this process does not serve webhooks.
        self.webhooks_ready: Callable[[], bool] | None = None
        # Why the webhook certificate or registration cannot be updated; empty: it can.
        self.webhook_error: Callable[[], str] = lambda: ""
        # The delay of the event loop.
        self.lag_seconds: Callable[[], float] = lambda: 0.0

    def on_response(self, attributes: RequestAttributes, code: int) -> None:
        pass

    def on_list_watch(self, attributes: RequestAttributes, error: ApiError | None) -> None:
        """Record the result of a list or watch. Log an error only when it changes: retries come every few seconds."""
        verb, before = self._list_watch_errors.get(attributes.resource, ("", None))
        if error is not None:
            self._list_watch_errors[attributes.resource] = (attributes.verb, error)
            if before is None or (before.code, before.reason) != (error.code, error.reason):
                log.error(
                    f"cannot {attributes.verb} {attributes.resource}", code=error.code, reason=error.reason,
                    message=error.brief, advice=advice(error),
                )  # fmt: skip
        # Every attempt to watch begins with a list: its success does not mean that watching works.
        elif before is not None and (attributes.verb, verb) != ("list", "watch"):
            del self._list_watch_errors[attributes.resource]
            log.info(f"can {attributes.verb} {attributes.resource} again", resource=attributes.resource)

    def forget(self) -> None:
        """Forget the controller of a term that is over."""
        self.controller = None
        self._list_watch_errors.clear()

    def failing_resources(self) -> dict[str, tuple[str, int]]:
        """Return, by resource that cannot be listed or watched: the verb and the HTTP status code; 0: no response."""
        offers = None if self.controller is None else self.controller.discovery_error
        return {
            **({} if offers is None else {"discovery": ("get", offers.code)}),
            **{resource: (verb, error.code) for resource, (verb, error) in self._list_watch_errors.items()},
        }

    def pages(self) -> Mapping[str, PageMaker]:
        return {"/healthz": self._healthz, "/readyz": self._readyz}

    async def _healthz(self, _: Query) -> Endpoint:
        return Endpoint(body=b"ok\n")

    async def _readyz(self, _: Query) -> Endpoint:
        missing = list(self._unready_reasons())
        lines = [*(missing or ["ok"]), f"leader: {self.leader()}", *self._error_lines(), *self._other_lines()]
        return Endpoint(body="".join(f"{line}\n" for line in lines).encode(), status=503 if missing else 200)

    def _unready_reasons(self) -> list[str]:
        missing = []
        if self.webhooks_ready is not None and not self.webhooks_ready():
            missing.append("not ready: the webhooks have no certificate yet")
        if self.controller is not None and not self.controller.is_synced:
            missing.append(f"not ready: waiting for {', '.join(self.controller.find_unlisted())}")
        if self.controller is not None and not self.controller.has_features:
            missing.append("not ready: the features of the API server are not discovered yet")
        return missing

    def _other_lines(self) -> Iterator[str]:
        if error := self.webhook_error():
            yield f"webhooks: cannot be updated: {error}"
        if (lag := self.lag_seconds()) >= LATE_SECONDS:
            yield f"event loop: {lag:.1f} s late in the last minute; give the operator more CPU"
        if self.controller is not None:
            yield from self._controller_lines(self.controller)

    def _controller_lines(self, controller: Controller) -> Iterator[str]:
        if controller.discovery_error is not None:
            yield f"discovery: cannot discover the features of the API server: {controller.discovery_error}"
        for resource, seconds in sorted(controller.stale_seconds().items()):
            if seconds >= STALE_SECONDS and resource not in self._list_watch_errors:
                yield f"{resource}: the cache is stale: no event for {seconds:.0f} s"
        for resource, found in sorted(controller.unreadable().items()):
            if found:
                names = ", ".join(f"{one.namespace}/{one.name}".lstrip("/") for one in found[:SHOWN_OBJECTS])
                more = f" and {len(found) - SHOWN_OBJECTS} more" if len(found) > SHOWN_OBJECTS else ""
                yield f"{resource}: {names}{more} cannot be read: a field has another type than the operator knows"
        if controller.recorder.error:
            yield f"events: lost, the API server rejects them: {controller.recorder.error}"
        failed = controller.lasting_failures()
        yield from (f"writes: {describe_failed(one)}" for one in failed[:SHOWN_WRITES])
        if len(failed) > SHOWN_WRITES:
            yield f"writes: {len(failed) - SHOWN_WRITES} more keep failing"

    def _error_lines(self) -> list[str]:
        return [
            f"{resource}: {error}" + (f"; {hint}" if (hint := advice(error)) else "")
            for resource, (_, error) in sorted(self._list_watch_errors.items())
        ]


def advice(error: ApiError) -> str:
    """Return what a user can do about the error; empty: it may be transient."""
    match error.code:
        case 404:
            return "install the CustomResourceDefinitions: grove crds | kubectl apply --server-side -f -"
        case 403:
            return "the operator's role does not allow it: install the roles that grove manifests prints"
        case 401:
            return "the server does not accept the operator's credentials: renew them"
        case _:
            return ""
