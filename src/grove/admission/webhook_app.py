"""Admission of a real cluster, assembled: certificate, server, registration. Every replica runs it, leader or not."""

import asyncio
from functools import partial
from pathlib import Path
from random import Random

import msgspec
import structlog

from grove.admission.authorizer import AuthorizerOptions
from grove.admission.cert_rotator import CertRotator, Registration
from grove.admission.cert_source import FileKeys, Keys, SecretKeys, prepare_namespace
from grove.admission.handler import AdmissionHandler
from grove.admission.thread import DistantReader, ServerThread
from grove.admission.tls import LiveContext
from grove.admission.webhook_certificates import Lifetimes
from grove.admission.webhook_config_sync import Configurations
from grove.admission.webhook_server import WebhookServer, reached_host
from grove.api.types.meta import JsonObject
from grove.api.validation.validation_options import ValidationOptions
from grove.clock import Clock
from grove.errors import UserError
from grove.installation.webhook_configurations import ServiceTarget, Target, UrlTarget, webhook_configurations
from grove.kube.api_errors import ApiError
from grove.kube.client import Client

log = structlog.get_logger()

_PAUSE_SECONDS = 2.0


class WebhookOptions(msgspec.Struct, frozen=True, kw_only=True):
    """`url` empty: reached through the Service. `is_manual`: the certificate is what lies in `certificate_dir`."""

    host: str
    port: int
    namespace: str
    secret_name: str
    service_name: str = "grove-operator"
    url: str = ""
    is_manual: bool = False
    certificate_dir: Path | None = None
    authorizer: AuthorizerOptions | None = None
    settings: ValidationOptions = ValidationOptions()
    lifetimes: Lifetimes = Lifetimes()


class WebhookApp:
    """`run` until cancelled."""

    def __init__(self, client: Client, clock: Clock, random: Random, options: WebhookOptions) -> None:
        self._client = client
        self._clock = clock
        self._options = options
        tls = LiveContext()
        judge = AdmissionHandler(DistantReader(client), options.settings, options.authorizer)
        self._server = WebhookServer(judge, tls, host=options.host, port=options.port)
        self._upkeep = upkeep_of(client, clock, random, options, tls)

    @property
    def is_ready(self) -> bool:
        """Listening, with a certificate that the cluster's webhook configurations trust."""
        return self._server.port > 0 and self._upkeep.is_ready

    @property
    def trouble(self) -> str:
        """What cannot be kept up of certificate and registration; empty: nothing."""
        return self._upkeep.trouble

    @property
    def port(self) -> int:
        """The port it listens on; 0 before it does."""
        return self._server.port

    async def run(self) -> None:
        """Raises `UserError` if the port cannot be had, or outside a cluster a place for the certificate."""
        if self._options.url and not self._options.is_manual:
            await self._prepare()
        async with ServerThread(self._server):
            try:
                await self._upkeep.run()
            finally:
                # First nobody asks us any more, then we stop answering.
                await self._upkeep.withdraw()

    async def _prepare(self) -> None:
        """Outside a cluster nothing was installed: the namespace of the certificate may be missing."""
        while True:
            try:
                return await prepare_namespace(self._client, self._options.namespace, self._options.secret_name)
            except ApiError as error:
                log.warning("webhooks cannot be prepared", why=str(error))
                await self._clock.sleep(_PAUSE_SECONDS)


def upkeep_of(client: Client, clock: Clock, random: Random, options: WebhookOptions, tls: LiveContext) -> CertRotator:
    """All but the server: what keeps its certificate good and trusted."""
    news = asyncio.Event()
    return CertRotator(
        clock,
        Random(random.random()),
        tls=tls,
        keys=_keys_of(client, clock, Random(random.random()), options, news),
        configurations=_configurations_of(client, clock, Random(random.random()), options, news),
        registration=Registration(
            target=target_of(options), bodies=partial(_bodies, options), is_manual=options.is_manual
        ),
        lifetimes=options.lifetimes,
        news=news,
    )


def _configurations_of(
    client: Client, clock: Clock, random: Random, options: WebhookOptions, news: asyncio.Event
) -> Configurations | None:
    """None: whoever provides the certificate and the Service provides the trust too, and we may not even look."""
    if options.is_manual and not options.url:
        return None
    return Configurations(client, clock, random, on_news=news.set)


def _keys_of(client: Client, clock: Clock, random: Random, options: WebhookOptions, news: asyncio.Event) -> Keys:
    if options.is_manual:
        if options.certificate_dir is None:
            raise UserError("webhooks: certificates are provided manually, but nobody said where: name a directory")
        return FileKeys(options.certificate_dir)
    return SecretKeys(
        client,
        clock,
        random,
        namespace=options.namespace,
        name=options.secret_name,
        names=certificate_names(options),
        lifetimes=options.lifetimes,
        on_news=news.set,
    )


def _bodies(options: WebhookOptions, ca_bundle: str) -> tuple[JsonObject, ...]:
    authorizer = options.authorizer
    return webhook_configurations(
        target_of(options),
        ca_bundle=ca_bundle,
        has_authorizer=authorizer is not None,
        operator_user=authorizer.operator_user if authorizer else "",
    )


def target_of(options: WebhookOptions) -> Target:
    if options.url:
        reached_host(options.url)
        return UrlTarget(url=options.url)
    return ServiceTarget(namespace=options.namespace, name=options.service_name)


def certificate_names(options: WebhookOptions) -> tuple[str, ...]:
    """The names by which an API server may call us."""
    if options.url:
        return (reached_host(options.url),)
    service, namespace = options.service_name, options.namespace
    return (f"{service}.{namespace}.svc", f"{service}.{namespace}.svc.cluster.local", f"{service}.{namespace}", service)
