"""What every verb works with: the store, time, chance, and whom to ask for admission."""

from collections.abc import Mapping
from datetime import UTC, datetime
from random import Random
from typing import Protocol

from grove.api.types.admission import AdmissionControl, AdmissionRequest, Operation
from grove.api.types.meta import JsonObject
from grove.clock import Clock
from grove.cluster.apiserver.admission.webhook_dispatcher import Inquiry, WebhookDispatcher
from grove.cluster.apiserver.auth.user_info import ADMIN
from grove.cluster.apiserver.registry.metadata import wire_time
from grove.cluster.apiserver.request_info import RequestInfo
from grove.cluster.apiserver.status_errors import invalid
from grove.cluster.built_in_resources import ResourceInfo
from grove.cluster.storage.store import Entry, Storage


class Quotas(Protocol):
    """What a create asks before it stores (`cluster/apiserver/registry/quota.py`)."""

    def check(self, resource_info: ResourceInfo, namespace: str, obj: JsonObject) -> None: ...


class Context:
    """Shared by all verbs of one server."""

    def __init__(
        self, store: Storage, clock: Clock, random: Random, *, quotas: Quotas, admission: AdmissionControl | None
    ) -> None:
        self.store = store
        self.clock = clock
        self.started_at = clock.now()
        self.random = random
        self.quotas = quotas
        self._admission = admission
        # Nobody is asked, unless this cluster is served where others can be reached.
        self.webhooks: WebhookDispatcher | None = None
        # Many writes share an instant; it is written out once.
        self._present = (datetime.min.replace(tzinfo=UTC), "")
        # Of the request being handled; requests are handled one after the other.
        self.user = ADMIN
        self.query: Mapping[str, str] = {}
        self.webhook_session: Inquiry | None = None
        self.warnings: list[str] = []
        self.program = ""

    def now(self) -> str:
        """The present, as it is written into objects."""
        now = self.clock.now() if self.webhook_session is None else self.webhook_session.instant
        if now != self._present[0]:
            self._present = (now, wire_time(now))
        return self._present[1]

    def shown(self, entry: Entry) -> bytes:
        """An object as whoever asks wants to see it: with its managedFields or, in this process, without them."""
        return entry.whole if self.program else entry.data

    def admit(self, target: RequestInfo, name: str, new: JsonObject, old: JsonObject | None) -> JsonObject:
        """The object with defaults filled in, if admission allows it; raises 422 with every error at once."""
        if self._admission is None or not target.resource_info.is_custom:
            return new
        answer = self._admission(
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
        self.warnings += answer.warnings
        if answer.errors:
            raise invalid(target.resource_info, name, answer.errors)
        return new if answer.object is None else answer.object
