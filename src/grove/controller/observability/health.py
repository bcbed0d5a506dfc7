"""Liveness and readiness probes, and log lines when a resource cannot be listed or watched.

A standby is ready: its webhooks serve. A leader is ready once every kind was listed. Later errors are shown on the page
and in the log, but do not make it unready: a restart of the API server must not take the webhooks out of service.
"""

from collections.abc import Callable, Iterator, Mapping

import structlog

from grove.controller.manager import Controller
from grove.controller.observability.http_endpoints import Endpoint, PageMaker, Query
from grove.controller.observability.instrumentation import Asked
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
        self._troubles: dict[str, tuple[str, ApiError]] = {}
        # The controller of this term; None: another process leads.
        self.controller: Controller | None = None
        # Describes the leader.
        self.leader: Callable[[], str] = lambda: "nobody yet"
        # None: this process does not serve webhooks.
        self.webhooks_ready: Callable[[], bool] | None = None
        # Why the webhook certificate or registration cannot be updated; empty: it can.
        self.webhooks_trouble: Callable[[], str] = lambda: ""
        # The delay of the event loop.
        self.lag_seconds: Callable[[], float] = lambda: 0.0

    def answered(self, asked: Asked, code: int) -> None:
        pass

    def followed(self, asked: Asked, trouble: ApiError | None) -> None:
        """Log each change of the error once: a failing list or watch is retried every few seconds."""
        verb, before = self._troubles.get(asked.resource, ("", None))
        if trouble is not None:
            self._troubles[asked.resource] = (asked.verb, trouble)
            if before is None or (before.code, before.reason) != (trouble.code, trouble.reason):
                log.error(
                    f"cannot {asked.verb} {asked.resource}", code=trouble.code, reason=trouble.reason,
                    message=trouble.brief, advice=advice(trouble),
                )  # fmt: skip
        # Every attempt to watch begins with a list: its success does not mean that watching works.
        elif before is not None and (asked.verb, verb) != ("list", "watch"):
            del self._troubles[asked.resource]
            log.info(f"can {asked.verb} {asked.resource} again", resource=asked.resource)

    def forget(self) -> None:
        """Forget the controller of a term that is over."""
        self.controller = None
        self._troubles.clear()

    def troubles(self) -> dict[str, tuple[str, int]]:
        """Return, by resource that cannot be listed or watched: the verb and the HTTP status code; 0: no response."""
        offers = None if self.controller is None else self.controller.offers_trouble
        return {
            **({} if offers is None else {"discovery": ("get", offers.code)}),
            **{resource: (verb, trouble.code) for resource, (verb, trouble) in self._troubles.items()},
        }

    def pages(self) -> Mapping[str, PageMaker]:
        return {"/healthz": self._healthz, "/readyz": self._readyz}

    async def _healthz(self, _: Query) -> Endpoint:
        return Endpoint(body=b"ok\n")

    async def _readyz(self, _: Query) -> Endpoint:
        missing = list(self._missing())
        lines = [*(missing or ["ok"]), f"leader: {self.leader()}", *self._trouble_lines(), *self._other_lines()]
        return Endpoint(body="".join(f"{line}\n" for line in lines).encode(), status=503 if missing else 200)

    def _missing(self) -> list[str]:
        missing = []
        if self.webhooks_ready is not None and not self.webhooks_ready():
            missing.append("not ready: the webhooks have no certificate yet")
        if self.controller is not None and not self.controller.is_synced:
            missing.append(f"not ready: waiting for {', '.join(self.controller.unlisted())}")
        if self.controller is not None and not self.controller.has_offers:
            missing.append("not ready: it is not known yet what the API server offers")
        return missing

    def _other_lines(self) -> Iterator[str]:
        if trouble := self.webhooks_trouble():
            yield f"webhooks: cannot be kept up: {trouble}"
        if (lag := self.lag_seconds()) >= LATE_SECONDS:
            yield f"event loop: {lag:.1f} s late in the last minute; give the operator more CPU"
        if self.controller is not None:
            yield from self._controller_lines(self.controller)

    def _controller_lines(self, controller: Controller) -> Iterator[str]:
        if controller.offers_trouble is not None:
            yield f"discovery: cannot find out what the API server offers: {controller.offers_trouble}"
        for resource, seconds in sorted(controller.stale_seconds().items()):
            if seconds >= STALE_SECONDS and resource not in self._troubles:
                yield f"{resource}: the cache is stale: nothing was heard for {seconds:.0f} s"
        for resource, found in sorted(controller.unreadable().items()):
            if found:
                names = ", ".join(f"{one.namespace}/{one.name}".lstrip("/") for one in found[:SHOWN_OBJECTS])
                more = f" and {len(found) - SHOWN_OBJECTS} more" if len(found) > SHOWN_OBJECTS else ""
                yield f"{resource}: {names}{more} cannot be read: a field has another type than the operator knows"
        if controller.recorder.trouble:
            yield f"events: lost, the API server rejects them: {controller.recorder.trouble}"
        failed = controller.lasting_failures()
        yield from (f"writes: {describe_failed(one)}" for one in failed[:SHOWN_WRITES])
        if len(failed) > SHOWN_WRITES:
            yield f"writes: {len(failed) - SHOWN_WRITES} more keep failing"

    def _trouble_lines(self) -> list[str]:
        return [
            f"{resource}: {trouble}" + (f"; {hint}" if (hint := advice(trouble)) else "")
            for resource, (_, trouble) in sorted(self._troubles.items())
        ]


def advice(trouble: ApiError) -> str:
    """Return what a user can do about the error; empty: it may be transient."""
    match trouble.code:
        case 404:
            return "install the CustomResourceDefinitions: grove crds | kubectl apply --server-side -f -"
        case 403:
            return "the operator's role does not allow it: install the roles that grove manifests prints"
        case 401:
            return "the server does not accept our credentials: renew them"
        case _:
            return ""
