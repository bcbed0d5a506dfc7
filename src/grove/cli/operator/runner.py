"""Run the operator: controller, leader election, webhooks and HTTP endpoints.

Shutdown order: finish open writes, release the Lease, then stop webhooks and endpoints.
"""

import asyncio
import gc
import os
import platform
import signal
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from random import Random

import structlog

from grove import __version__
from grove.admission.webhook_app import WebhookApp, WebhookOptions
from grove.api.types.operatorconfiguration import OperatorConfiguration
from grove.cli.commands.operator import OperatorOptions
from grove.cli.common.log_format import log_to_stderr
from grove.cli.operator.operator_options import (
    build_controller_options,
    build_lease_options,
    build_webhook_options,
    is_in_cluster,
    load_configuration,
)
from grove.clock import Clock, MachineClock
from grove.controller.controller_options import ControllerOptions
from grove.controller.leader.leader_election import Leadership, lead_alone
from grove.controller.leader.write_fence import Fence, FencedTransport
from grove.controller.manager import Controller, run_through_restores
from grove.controller.observability.event_loop_lag import LoopLag
from grove.controller.observability.health import Health
from grove.controller.observability.http_endpoints import Endpoint, Pages, Query
from grove.controller.observability.instrumentation import InstrumentedTransport
from grove.controller.observability.metrics import CONTENT_TYPE, Metrics
from grove.controller.observability.profiling import profiling_pages
from grove.controller.rate_limit import RateLimitedTransport
from grove.errors import UserError
from grove.kube.client import Client
from grove.kube.http_transport import HttpTransport
from grove.kube.kubeconfig import Access, find_access
from grove.kube.transport import Transport
from grove.kube.write_limiter import WriteLimiter
from grove.operations.random_source import fresh_random

LOOPBACK = "127.0.0.1"

log = structlog.get_logger()


def run_operator(options: OperatorOptions) -> None:
    """Run until SIGINT or SIGTERM. Raises `UsageError` for a wrong configuration; waits for an unreachable server."""
    configuration, warnings = load_configuration(options.config)
    access = find_access(os.environ, kubeconfig=options.kubeconfig, context=options.context)
    if access.gone_local:
        raise UserError(
            f"the local cluster {access.gone_local} is gone, and the operator would manage {access}; "
            "start it again with `grove up --no-operator`, or name a cluster with --kubeconfig or --context"
        )
    webhooks = build_webhook_options(configuration, access, options.webhook_url, os.environ, options.watch_namespaces)
    log_to_stderr(level=configuration.log_level, is_json=configuration.log_format == "json")
    for warning in warnings:
        log.warning("configuration", warning=warning)
    # There is almost no cyclic garbage, so frequent collections would only cost time.
    gc.freeze()
    gc.set_threshold(200_000, 50, 1_000)
    gc.enable()
    controller_options = build_controller_options(configuration, os.environ, options.watch_namespaces)
    asyncio.run(_run_operator(configuration, controller_options, access, webhooks))


async def _run_operator(
    configuration: OperatorConfiguration,
    controller_options: ControllerOptions,
    access: Access,
    webhooks: WebhookOptions | None,
) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    clock = MachineClock.from_system_time()
    async with HttpTransport(access, clock) as transport:
        operator = _Operator(configuration, controller_options, access, webhooks, transport, clock, fresh_random())
        await operator.run(stop)
    log.info("stopped")


class _Operator:
    """The operator process: components with the lifetime of the process, and a new controller for every leader term."""

    def __init__(
        self,
        configuration: OperatorConfiguration,
        controller_options: ControllerOptions,
        access: Access,
        webhooks: WebhookOptions | None,
        transport: Transport,
        clock: Clock,
        random: Random,
    ) -> None:
        self._configuration = configuration
        self._controller_options = controller_options
        self._access = access
        self._webhooks = webhooks
        self._transport = transport
        self._clock = clock
        self._random = random
        self._identity = f"{platform.node()}_{random.randbytes(6).hex()}"
        self._metrics = Metrics(clock)
        self._health = Health()
        self._lag = LoopLag(clock)
        self._health.lag_seconds = self._metrics.lag_seconds = lambda: self._lag.seconds
        self._metrics.failing_resources = self._health.failing_resources
        # Outside a cluster, listen on loopback only. In a cluster, probes and scrapes come from outside the pod.
        self._host = "" if is_in_cluster(access) else LOOPBACK

    async def run(self, stop: asyncio.Event) -> None:
        async with self._serve_endpoints(), asyncio.TaskGroup() as tasks:
            serving = tasks.create_task(self._serve_webhooks(self._webhooks)) if self._webhooks is not None else None
            measuring = tasks.create_task(self._lag.run())
            try:
                await self._lead(stop)
            finally:
                measuring.cancel()
                if serving is not None:
                    serving.cancel()

    async def _serve_webhooks(self, options: WebhookOptions) -> None:
        """Serve webhooks. Every replica does, because the API server calls any of them."""
        client = Client(InstrumentedTransport(self._transport, self._metrics, self._health), self._clock)
        webhooks = WebhookApp(
            client, self._clock, Random(self._random.random()), options, self._metrics.webhooks.observe
        )
        self._health.webhooks_ready = lambda: webhooks.is_ready
        self._health.webhook_error = lambda: webhooks.error
        self._metrics.webhooks.certificate_end = lambda: webhooks.certificate_end
        await webhooks.run()

    async def _lead(self, stop: asyncio.Event) -> None:
        election = self._configuration.leader_election
        if not election.enabled:
            self._health.leader = lambda: "this process, without an election"
            await lead_alone(self._run_controller, self._clock, stop)
            return
        client = Client(InstrumentedTransport(self._transport, self._metrics), self._clock)
        options = build_lease_options(election, self._access.namespace)
        leadership = Leadership(client, self._clock, self._random, options, self._identity)
        self._health.leader = lambda: _describe_leader(leadership)
        await leadership.run(self._run_controller, stop)

    async def _run_controller(self, fence: Fence) -> None:
        """Run the controller for one leader term, with empty caches."""
        transport = InstrumentedTransport(
            self._limit_rate(FencedTransport(self._transport, fence)), self._metrics, self._health
        )
        client = Client(transport, self._clock, WriteLimiter(self._clock))

        def build_controller() -> Controller:
            self._forget_controller()
            controller = Controller(
                client,
                self._clock,
                Random(self._random.random()),
                self._controller_options,
                instrumentation=self._metrics,
                is_logging=True,
            )
            self._health.controller = controller
            self._metrics.follow(controller)
            return controller

        try:
            await run_through_restores(build_controller, self._metrics.count_restore)
        finally:
            self._forget_controller()

    def _forget_controller(self) -> None:
        self._metrics.unfollow()
        self._health.forget()

    def _limit_rate(self, transport: Transport) -> Transport:
        connection = self._configuration.runtime_client_connection
        if connection.qps <= 0:
            return transport
        return RateLimitedTransport(
            transport, self._clock, per_second=connection.qps, burst=connection.burst or int(connection.qps)
        )

    @asynccontextmanager
    async def _serve_endpoints(self) -> AsyncIterator[None]:
        server, debugging = self._configuration.server, self._configuration.debugging
        probes, metrics = server.health_probes, server.metrics
        async with AsyncExitStack() as stack:
            health = await stack.enter_async_context(
                Pages(self._health.pages(), probes.bind_address or self._host, probes.port, "server.healthProbes.port")
            )
            metrics_pages = await stack.enter_async_context(
                Pages(
                    {"/metrics": self._metrics_page}, metrics.bind_address or self._host, metrics.port,
                    "server.metrics.port",
                )
            )  # fmt: skip
            urls = {"health": health.url, "metrics": metrics_pages.url}
            if debugging.enable_profiling:
                pages = Pages(
                    profiling_pages(self._clock), debugging.pprof_bind_host, debugging.pprof_bind_port,
                    "debugging.pprofBindPort",
                )  # fmt: skip
                urls["profiling"] = (await stack.enter_async_context(pages)).url
            self._log_start(urls)
            yield

    async def _metrics_page(self, _: Query) -> Endpoint:
        return Endpoint(body=self._metrics.text(), content_type=CONTENT_TYPE)

    def _log_start(self, urls: dict[str, str]) -> None:
        log.info(
            "grove operator", version=__version__, server=self._access.server, context=self._access.context,
            source=self._access.source,
            identity=self._identity, election=self._configuration.leader_election.enabled,
            webhooks=_describe_webhooks(self._webhooks), **urls,
        )  # fmt: skip


def _describe_webhooks(options: WebhookOptions | None) -> str:
    if options is None:
        return "not served: this process is not in a cluster and has no --webhook-url"
    return options.url or f"port {options.port}"


def _describe_leader(leadership: Leadership) -> str:
    if leadership.is_leading:
        return "this process"
    trouble = f"; Lease: {leadership.error}" if leadership.error is not None else ""
    return f"{leadership.holder or 'no leader yet'}{trouble}"
