"""Build and run the webhooks of the operator: certificate, server, registration. Every replica runs them."""

import asyncio
from datetime import datetime
from functools import partial
from pathlib import Path
from random import Random

import msgspec
import structlog

from grove.admission.authorizer import AuthorizerOptions
from grove.admission.cert_rotator import CertRotator, Registration
from grove.admission.cert_source import CertSource, FileCertSource, SecretCertSource, prepare_namespace
from grove.admission.handler import AdmissionHandler
from grove.admission.thread import CrossLoopReader, ServerThread
from grove.admission.tls import LiveContext
from grove.admission.webhook_certificates import Lifetimes, read_certificates
from grove.admission.webhook_config_sync import Configurations
from grove.admission.webhook_server import ReviewListener, WebhookServer, host_of_url
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
    """Options of the webhooks. Empty `url`: use the Service. `is_manual`: the certificate is in `certificate_dir`."""

    host: str
    port: int
    namespace: str
    secret_name: str
    service_name: str = "grove-operator"
    url: str = ""
    # Review only writes in these namespaces; empty: all.
    watch_namespaces: tuple[str, ...] = ()
    is_manual: bool = False
    certificate_dir: Path | None = None
    authorizer: AuthorizerOptions | None = None
    settings: ValidationOptions = ValidationOptions()
    lifetimes: Lifetimes = Lifetimes()


class WebhookApp:
    """The webhook server with its certificate. `run` until cancelled."""

    def __init__(
        self,
        client: Client,
        clock: Clock,
        random: Random,
        options: WebhookOptions,
        on_review: ReviewListener = lambda _path, _result, _seconds: None,
    ) -> None:
        self._client = client
        self._clock = clock
        self._options = options
        self._tls = tls = LiveContext()
        handler = AdmissionHandler(CrossLoopReader(client), options.settings, options.authorizer)
        self._server = WebhookServer(
            handler, tls, host=options.host, port=options.port, on_review=on_review, monotonic=clock.monotonic
        )
        self._cert_rotator = build_cert_rotator(client, clock, random, options, tls)

    @property
    def is_ready(self) -> bool:
        """Return whether it listens with a certificate that the webhook configurations trust."""
        return self._server.port > 0 and self._cert_rotator.is_ready

    @property
    def certificate_end(self) -> datetime | None:
        """Return when the served certificate expires; None: none is served."""
        found = read_certificates(self._tls.certificate)
        return found[0].not_valid_after_utc if found else None

    @property
    def error(self) -> str:
        """Return why certificate or registration cannot be updated; empty: they can."""
        return self._cert_rotator.error

    @property
    def port(self) -> int:
        """Return the port it listens on; 0 before it does."""
        return self._server.port

    async def run(self) -> None:
        """Raises `UserError` if the port, or outside a cluster the namespace of the certificate, is not available."""
        if self._options.url and not self._options.is_manual:
            await self._prepare()
        async with ServerThread(self._server):
            try:
                await self._cert_rotator.run()
            finally:
                # Unregister first, so that the API server calls no server that is gone.
                await self._cert_rotator.withdraw()

    async def _prepare(self) -> None:
        """Create the namespace of the certificate: outside a cluster nothing was installed."""
        while True:
            try:
                return await prepare_namespace(self._client, self._options.namespace, self._options.secret_name)
            except ApiError as error:
                log.warning("webhooks cannot be prepared", why=str(error))
                await self._clock.sleep(_PAUSE_SECONDS)


def build_cert_rotator(
    client: Client, clock: Clock, random: Random, options: WebhookOptions, tls: LiveContext
) -> CertRotator:
    """Build the rotation of the certificate, without the server."""
    changed = asyncio.Event()
    return CertRotator(
        clock,
        Random(random.random()),
        tls=tls,
        source=_build_cert_source(client, clock, Random(random.random()), options, changed),
        configurations=_configurations_of(client, clock, Random(random.random()), options, changed),
        registration=Registration(
            target=target_of(options), bodies=partial(_bodies, options), is_manual=options.is_manual
        ),
        lifetimes=options.lifetimes,
        changed=changed,
    )


def _configurations_of(
    client: Client, clock: Clock, random: Random, options: WebhookOptions, changed: asyncio.Event
) -> Configurations | None:
    """Return None if the user provides certificate and CA bundle: then the operator may not read them."""
    if options.is_manual and not options.url:
        return None
    return Configurations(client, clock, random, on_change=changed.set)


def _build_cert_source(
    client: Client, clock: Clock, random: Random, options: WebhookOptions, changed: asyncio.Event
) -> CertSource:
    if options.is_manual:
        if options.certificate_dir is None:
            raise UserError("webhooks: certProvisionMode is manual, but there is no certificate directory: set one")
        return FileCertSource(options.certificate_dir)
    return SecretCertSource(
        client,
        clock,
        random,
        namespace=options.namespace,
        name=options.secret_name,
        names=certificate_names(options),
        lifetimes=options.lifetimes,
        on_change=changed.set,
    )


def _bodies(options: WebhookOptions, ca_bundle: str) -> tuple[JsonObject, ...]:
    authorizer = options.authorizer
    return webhook_configurations(
        target_of(options),
        ca_bundle=ca_bundle,
        has_authorizer=authorizer is not None,
        operator_user=authorizer.operator_user if authorizer else "",
        namespaces=options.watch_namespaces,
    )


def target_of(options: WebhookOptions) -> Target:
    if options.url:
        host_of_url(options.url)
        return UrlTarget(url=options.url)
    return ServiceTarget(namespace=options.namespace, name=options.service_name)


def certificate_names(options: WebhookOptions) -> tuple[str, ...]:
    """Return the names by which an API server may call the webhooks."""
    if options.url:
        return (host_of_url(options.url),)
    service, namespace = options.service_name, options.namespace
    return (f"{service}.{namespace}.svc", f"{service}.{namespace}.svc.cluster.local", f"{service}.{namespace}", service)
