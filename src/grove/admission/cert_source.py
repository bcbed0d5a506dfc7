"""Sources of the webhook server's certificate: a Secret that all replicas share, or files that the user provides.

The Secret is the source of truth. Every replica watches it and may write it. Each write names the version that it is
based on; a replica whose write conflicts uses what the other wrote. `webhook_certificates.py` decides when to rotate.
"""

import base64
import binascii
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Protocol

import structlog

from grove.admission.webhook_certificates import (
    AUTHORITIES,
    CERTIFICATE,
    KEY,
    KeyMaterial,
    Lifetimes,
    RotationStep,
    data_of,
    material_of,
    next_rotation_at,
    next_rotation_step,
    rotate,
)
from grove.api import labels
from grove.api.resources import NAMESPACES, SECRETS
from grove.api.types.meta import JsonObject
from grove.api.types.secret import Secret
from grove.clock import Clock
from grove.errors import UserError
from grove.kube.api_errors import ApiError
from grove.kube.client import Client
from grove.kube.reflector import Reflector
from grove.kube.store import Store

log = structlog.get_logger()

FORBIDDEN = 403

_ATTEMPTS = 5
_LONGEST_SECONDS = 86_400.0
# Files are polled.
_FILE_SECONDS = 10.0
_LABELS = {
    labels.MANAGED_BY: labels.MANAGED_BY_WEBHOOKS,
    labels.PART_OF: "grove",
    labels.COMPONENT: labels.COMPONENT_WEBHOOK,
}


class CertSource(Protocol):
    """A source of certificates."""

    async def run(self) -> None:
        """Watch the source until cancelled."""

    async def current(self) -> KeyMaterial | None:
        """Return the certificate to serve, rotated if it is time; None: there is none yet."""

    async def read_live(self) -> KeyMaterial | None:
        """Read the source, not the cache."""

    def seconds_to_next(self, material: KeyMaterial | None) -> float:
        """Return the seconds until the next check, unless something changes."""


async def prepare_namespace(client: Client, namespace: str, secret_name: str) -> None:
    """Create the namespace of the Secret if it does not exist. Raises `UserError` if that is forbidden."""
    where = f"webhook certificate: Secret {namespace}/{secret_name}"
    try:
        body: JsonObject = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
        await client.create(NAMESPACES, "", body)
    except ApiError as error:
        if not (error.is_already_exists or error.code == FORBIDDEN):
            raise
        rejection = "" if error.is_already_exists else error.message
    else:
        return
    try:
        await client.get(SECRETS, namespace, secret_name)
    except ApiError as error:
        if error.code == FORBIDDEN:
            advice = f"grant the operator the permission, or create namespace {namespace} and grant it there"
            raise UserError(f"{where} cannot be read: {rejection or error.message}; {advice}") from error
        if not error.is_not_found:
            raise
    if rejection and not await _exists(client, namespace):
        advice = f"kubectl create namespace {namespace}"
        raise UserError(f"{where}: the namespace does not exist and cannot be created: {rejection}; {advice}")


async def _exists(client: Client, namespace: str) -> bool:
    try:
        await client.get(NAMESPACES, "", namespace)
    except ApiError as error:
        if error.is_not_found:
            return False
        # The right to read the Secret does not include the right to read its namespace.
        if error.code != FORBIDDEN:
            raise
    return True


class SecretCertSource:
    """A CA of the operator, stored in a Secret."""

    def __init__(
        self,
        client: Client,
        clock: Clock,
        random: Random,
        *,
        namespace: str,
        name: str,
        names: tuple[str, ...],
        lifetimes: Lifetimes,
        on_change: Callable[[], None],
    ) -> None:
        self._client = client
        self._clock = clock
        self._namespace = namespace
        self._name = name
        self._names = names
        self._lifetimes = lifetimes
        self._store: Store[Secret] = Store()
        self._store.subscribe(lambda _old, _new: on_change())
        # One object only, so that the right to read this Secret is enough.
        self._reflector = Reflector(
            client,
            SECRETS,
            self._store,
            clock,
            random,
            namespace=namespace,
            field_selector=f"metadata.name={name}",
        )

    async def run(self) -> None:
        await self._reflector.run()

    async def current(self) -> KeyMaterial | None:
        await self._reflector.listed.wait()
        for _ in range(_ATTEMPTS):
            secret = self._store.by_name(self._namespace, self._name)
            material = _material(secret)
            what = next_rotation_step(material, self._names, self._clock.now(), self._lifetimes)
            if what is RotationStep.NOTHING:
                return material
            await self._renew(secret, material, what)
        # Other replicas write faster: their writes trigger the next reconcile.
        return None

    async def read_live(self) -> KeyMaterial | None:
        secret = await self._read()
        return None if secret is None else _material(secret)

    def seconds_to_next(self, material: KeyMaterial | None) -> float:
        at = None if material is None else next_rotation_at(material, self._lifetimes)
        if at is None:
            return 0.0
        return min(_LONGEST_SECONDS, max(0.0, (at - self._clock.now()).total_seconds()))

    async def _renew(self, secret: Secret | None, material: KeyMaterial, what: RotationStep) -> None:
        new = rotate(material, what, self._names, self._clock.now(), self._lifetimes)
        try:
            self._store.observe(await self._write(secret, new))
        except ApiError as error:
            if not (error.is_conflict or error.is_already_exists):
                raise
            # Another replica was first; use its certificate.
            await self._read()
            return
        log.info("webhook certificates renewed", what=what.value, secret=f"{self._namespace}/{self._name}")

    async def _write(self, secret: Secret | None, material: KeyMaterial) -> Secret:
        data = {key: base64.b64encode(value).decode() for key, value in data_of(material).items()}
        if secret is None:
            return await self._client.create(SECRETS, self._namespace, self._new_secret(data))
        # A Secret of an earlier version has other labels.
        metadata = {"resourceVersion": secret.metadata.resource_version, "uid": secret.metadata.uid, "labels": _LABELS}
        return await self._client.patch(SECRETS, self._namespace, self._name, {"metadata": metadata, "data": data})

    async def _read(self) -> Secret | None:
        """Read the Secret from the API server: the watch may be behind."""
        try:
            secret = await self._client.get(SECRETS, self._namespace, self._name)
        except ApiError as error:
            if error.is_not_found:
                return None
            raise
        self._store.observe(secret)
        return secret

    def _new_secret(self, data: dict[str, str]) -> JsonObject:
        return {
            "apiVersion": SECRETS.api_version,
            "kind": SECRETS.kind,
            "metadata": {"name": self._name, "namespace": self._namespace, "labels": _LABELS},
            "type": "kubernetes.io/tls",
            "data": data,
        }


class FileCertSource:
    """Certificate files that cert-manager or the user replaces; polled."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._last_warning = ""

    async def run(self) -> None:
        """Do nothing: files are polled."""

    async def current(self) -> KeyMaterial | None:
        return self._read()

    async def read_live(self) -> KeyMaterial | None:
        return self._read()

    def seconds_to_next(self, material: KeyMaterial | None) -> float:
        return _FILE_SECONDS

    def _read(self) -> KeyMaterial | None:
        try:
            certificate, key = (self._folder / CERTIFICATE).read_bytes(), (self._folder / KEY).read_bytes()
            authorities = self._folder / AUTHORITIES
            bundle = authorities.read_bytes() if authorities.is_file() else b""
        except OSError as error:
            self._warn_once(f"{error.filename}: {error.strerror}")
            return None
        self._warn_once("")
        return KeyMaterial(certificate=certificate, key=key, authorities=bundle)

    def _warn_once(self, warning: str) -> None:
        """Log each message once, not every few seconds."""
        if warning and warning != self._last_warning:
            log.warning("webhook certificate cannot be read", why=warning)
        self._last_warning = warning


def _material(secret: Secret | None) -> KeyMaterial:
    return material_of({key: _decode(value) for key, value in (secret.data if secret else {}).items()})


def _decode(value: str) -> bytes:
    try:
        return base64.b64decode(value, validate=True)
    except binascii.Error:
        return b""
