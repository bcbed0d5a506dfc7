"""The shared state of all verbs: store, clock, random generator, admission, and the current request."""

from collections.abc import Mapping
from datetime import UTC, datetime
from random import Random
from typing import Protocol

from grove.api.types.admission import AdmissionControl, AdmissionRequest, Operation
from grove.api.types.meta import JsonObject
from grove.clock import Clock
from grove.cluster.apiserver.admission.webhook_dispatcher import WebhookDispatcher, WebhookSession
from grove.cluster.apiserver.auth.user_info import ADMIN
from grove.cluster.apiserver.registry.metadata import format_time
from grove.cluster.apiserver.request_info import RequestInfo
from grove.cluster.apiserver.status_errors import invalid
from grove.cluster.built_in_resources import ResourceInfo
from grove.cluster.storage.store import Entry, Storage


class Quotas(Protocol):
    """The quota check of a create: `apiserver/registry/quota.py`."""

    def check(self, resource_info: ResourceInfo, namespace: str, obj: JsonObject) -> None: ...


class Context:
    """The state that the verbs of one server share."""

    def __init__(
        self, store: Storage, clock: Clock, random: Random, *, quotas: Quotas, admission: AdmissionControl | None
    ) -> None:
        self.store = store
        self.clock = clock
        self.started_at = clock.now()
        self.random = random
        self.quotas = quotas
        self._admission = admission
        # None: webhooks are not called. Set when the cluster is served over HTTPS.
        self.webhooks: WebhookDispatcher | None = None
        # Many writes have the same time, so it is formatted once.
        self._formatted_now = (datetime.min.replace(tzinfo=UTC), "")
        # State of the current request; requests are handled one at a time.
        self.user = ADMIN
        self.query: Mapping[str, str] = {}
        self.webhook_session: WebhookSession | None = None
        self.warnings: list[str] = []
        self.program = ""

    def now(self) -> str:
        """Return the current time in wire format."""
        now = self.clock.now() if self.webhook_session is None else self.webhook_session.instant
        if now != self._formatted_now[0]:
            self._formatted_now = (now, format_time(now))
        return self._formatted_now[1]

    def encode_entry(self, entry: Entry) -> bytes:
        """Return the JSON of the object: with managedFields for external clients, without for in-process ones."""
        return entry.whole if self.program else entry.data

    def admit(self, target: RequestInfo, name: str, new: JsonObject, old: JsonObject | None) -> JsonObject:
        """Run in-process admission and return the defaulted object. Raises 422 with all errors."""
        if self._admission is None or not target.resource_info.is_custom:
            return new
        response = self._admission(
            AdmissionRequest(
                operation=Operation.CREATE if old is None else Operation.UPDATE,
                group=target.resource_info.group,
                plural=target.resource_info.plural,
                subresource=target.subresource,
                namespace=target.namespace,
                name=name,
                object=new,
                old=old,
            )
        )
        self.warnings += response.warnings
        if response.errors:
            raise invalid(target.resource_info, name, response.errors)
        return new if response.object is None else response.object
