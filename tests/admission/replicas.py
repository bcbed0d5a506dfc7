"""Replicas of an operator that keep their webhooks up on one embedded cluster, in virtual time; no sockets."""

import asyncio
import base64
from collections import deque
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from functools import cache
from random import Random
from typing import Any

from grove.admission.tls import LiveContext
from grove.admission.webhook_app import WebhookOptions, build_cert_rotator
from grove.admission.webhook_certificates import Lifetimes, is_valid_at, read_certificates
from grove.api.resources import MUTATING_WEBHOOKS, SECRETS, VALIDATING_WEBHOOKS, Object, Resource
from grove.api.types.meta import JsonObject
from grove.api.types.secret import Secret
from grove.api.types.webhookconfiguration import WebhookConfiguration
from grove.clock import LoopClock
from grove.cluster.apiserver.api_server import ApiServer
from grove.cluster.in_process_transport import InProcessTransport
from grove.installation.webhook_configurations import ServiceTarget, webhook_configurations
from grove.kube.api_errors import ApiError
from grove.kube.client import Client
from grove.sim.faults import CALM, FaultPlan, FaultyTransport
from grove.sim.virtual_clock import run_virtual

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
NAMESPACES = Resource(group="", version="v1", plural="namespaces", kind="Namespace", namespaced=False, view=Object)
NAMESPACE = "grove-system"
SECRET = "grove-webhook-server-cert"
# A working day holds many lives.
BRIEF = Lifetimes(
    authority=timedelta(hours=3),
    certificate=timedelta(minutes=30),
    leeway=timedelta(0),
    settling=timedelta(minutes=1),
)
SERVICE = WebhookOptions(
    host="", port=0, namespace=NAMESPACE, secret_name=SECRET, lifetimes=BRIEF
)  # fmt: skip


class ImpatientClock(LoopClock):
    """Fails when time stands still because somebody looks at the clock again and again, and waits for nothing."""

    def __init__(self, epoch: datetime) -> None:
        super().__init__(epoch)
        self._looked_at = (-1.0, 0)

    def monotonic(self) -> float:
        now = super().monotonic()
        at, count = self._looked_at
        self._looked_at = (now, count + 1 if now == at else 0)
        assert count < 2_000, f"time stands still at {now} s"
        return now


class Replica:
    def __init__(self, town: "Town", number: int, options: WebhookOptions, plan: FaultPlan) -> None:
        self.transport = FaultyTransport(
            InProcessTransport(town.server, town.clock), town.clock, Random(f"faults {number}"), plan
        )
        self.tls = LiveContext()
        client = Client(self.transport, town.clock)
        self.upkeep = build_cert_rotator(client, town.clock, Random(f"replica {number}"), options, self.tls)
        self.task = asyncio.create_task(self.upkeep.run())

    async def stop(self) -> None:
        self.task.cancel()
        await asyncio.wait([self.task])
        await self.upkeep.withdraw()


class Town:
    """A cluster with a namespace for the operator; the test is its user."""

    def __init__(self) -> None:
        self.clock = ImpatientClock(EPOCH)
        self.server = ApiServer(self.clock, Random("server"))
        self.user = Client(InProcessTransport(self.server, self.clock), self.clock)
        self.replicas: list[Replica] = []

    async def start(self) -> None:
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
        await self.user.create(NAMESPACES, "", namespace)

    async def install(self) -> None:
        """As `grove manifests` prints them: nobody has injected anything yet."""
        target = ServiceTarget(namespace=NAMESPACE)
        for body in webhook_configurations(target, ca_bundle="", has_authorizer=True):
            resource = MUTATING_WEBHOOKS if body["kind"] == MUTATING_WEBHOOKS.kind else VALIDATING_WEBHOOKS
            await self.user.create(resource, "", body)

    def run_replica(self, options: WebhookOptions = SERVICE, plan: FaultPlan = CALM) -> Replica:
        replica = Replica(self, len(self.replicas), options, plan)
        self.replicas.append(replica)
        return replica

    async def configurations(self) -> list[WebhookConfiguration]:
        found = [*(await self.user.list(MUTATING_WEBHOOKS)).items, *(await self.user.list(VALIDATING_WEBHOOKS)).items]
        return sorted(found, key=lambda one: one.metadata.name)

    async def bundles(self) -> list[bytes]:
        """Of every webhook."""
        webhooks = [webhook for one in await self.configurations() for webhook in one.webhooks]
        return [base64.b64decode(webhook["clientConfig"].get("caBundle", "")) for webhook in webhooks]

    async def secret(self) -> Secret | None:
        try:
            return await self.user.get(SECRETS, NAMESPACE, SECRET)
        except ApiError as error:
            if error.is_not_found:
                return None
            raise

    async def kept(self, key: str) -> bytes:
        secret = await self.secret()
        assert secret is not None
        return base64.b64decode(secret.data[key])

    async def edit_secret(self, **data: str | None) -> None:
        """Keys are written with `_` for `.`; None removes one."""
        changes: JsonObject = {"data": {key.replace("_", "."): value for key, value in data.items()}}
        await self.user.patch(SECRETS, NAMESPACE, SECRET, changes)

    async def settle(self, minutes: float = 2) -> None:
        await self.clock.sleep(minutes * 60)


class ApiServers:
    """API servers that hear of a changed bundle up to half a minute late, and shake hands with every replica."""

    def __init__(self, town: Town) -> None:
        self._town = town
        self._revision = -1
        self._listed: frozenset[bytes] = frozenset()
        self._seen: deque[tuple[float, frozenset[bytes]]] = deque()
        self.handshakes = 0
        self.authorities: set[bytes] = set()
        self.certificates: set[bytes] = set()

    async def run(self, seconds: float) -> None:
        end = self._town.clock.monotonic() + seconds
        while (now := self._town.clock.monotonic()) < end:
            self._seen.append((now, await self._bundles()))
            while self._seen[0][0] < now - 30:
                self._seen.popleft()
            bundles = frozenset[bytes]().union(*(bundles for _, bundles in self._seen))
            for replica in self._town.replicas:
                if replica.upkeep.is_ready and not replica.task.done():
                    self._shake_hands(replica, bundles)
            await self._town.clock.sleep(5)

    async def _bundles(self) -> frozenset[bytes]:
        """Listed again only when something was written since: a day has many looks and few writes."""
        revision = self._town.server.store.revision
        if revision != self._revision:
            self._revision, self._listed = revision, frozenset(await self._town.bundles())
        return self._listed

    def _shake_hands(self, replica: Replica, bundles: frozenset[bytes]) -> None:
        """With API servers of which each knows one of these."""
        shown = replica.tls.certificate
        assert is_valid_at(shown, self._town.clock.now()), f"expired at {self._town.clock.now()}"
        assert all(_is_signed(shown, bundle) for bundle in bundles), f"not trusted at {self._town.clock.now()}"
        self.handshakes += 1
        self.certificates.add(shown)
        self.authorities |= bundles


@cache
def _is_signed(certificate: bytes, bundle: bytes) -> bool:
    (shown,) = read_certificates(certificate)
    for authority in read_certificates(bundle):
        try:
            shown.verify_directly_issued_by(authority)
        except Exception:
            continue
        return True
    return False


def town_story(story: Callable[[Town], Awaitable[Any]]) -> None:
    async def main() -> None:
        town = Town()
        await town.start()
        await story(town)
        failed = [replica.task for replica in town.replicas if replica.task.done() and not replica.task.cancelled()]
        assert failed == []

    run_virtual(main())
