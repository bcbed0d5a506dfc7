"""Sources of the webhook server's certificate: a Secret that all replicas share, or files that the user provides.

The Secret is the only truth. Every replica watches it and may write it; each write is bound to the version that was
read, and who loses the race takes what the winner wrote. When something is due is decided in `certificates.py`.
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
    due,
    material_of,
    next_due,
    renewed,
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
# Files tell nobody that they changed.
_FILE_SECONDS = 10.0
_MARKS = {
    labels.MANAGED_BY: labels.MANAGED_BY_WEBHOOKS,
    labels.PART_OF: "grove",
    labels.COMPONENT: labels.COMPONENT_WEBHOOK,
}


class Keys(Protocol):
    """One source of certificates."""

    async def run(self) -> None:
        """Follows the source, until cancelled."""

    async def current(self) -> KeyMaterial | None:
        """What is to be served now, made anew if it was time; None: there is nothing yet."""

    async def afresh(self) -> KeyMaterial | None:
        """What the source holds at this moment, whatever we believed before."""

    def seconds_to_next(self, material: KeyMaterial | None) -> float:
        """When to look again, if there is no news."""


async def prepare_namespace(client: Client, namespace: str, secret_name: str) -> None:
    """Make sure that the Secret can live in the namespace. Raises `UserError` where that is forbidden."""
    where = f"webhook certificate: Secret {namespace}/{secret_name}"
    try:
        body: JsonObject = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
        await client.create(NAMESPACES, "", body)
    except ApiError as error:
        if not (error.is_already_exists or error.code == FORBIDDEN):
            raise
        refusal = "" if error.is_already_exists else error.message
    else:
        return
    try:
        await client.get(SECRETS, namespace, secret_name)
    except ApiError as error:
        if error.code == FORBIDDEN:
            advice = f"ask for the rights to it, or create namespace {namespace} with them"
            raise UserError(f"{where} cannot be read: {refusal or error.message}; {advice}") from error
        if not error.is_not_found:
            raise
    if refusal and not await _exists(client, namespace):
        advice = f"kubectl create namespace {namespace}"
        raise UserError(f"{where}: the namespace does not exist and cannot be created: {refusal}; {advice}")


async def _exists(client: Client, namespace: str) -> bool:
    try:
        await client.get(NAMESPACES, "", namespace)
    except ApiError as error:
        if error.is_not_found:
            return False
        # Who may read the Secret need not be allowed to read its namespace.
        if error.code != FORBIDDEN:
            raise
    return True


class SecretKeys:
    """Our own authority, kept in a Secret."""

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
        on_news: Callable[[], None],
    ) -> None:
        self._client = client
        self._clock = clock
        self._namespace = namespace
        self._name = name
        self._names = names
        self._lifetimes = lifetimes
        self._store: Store[Secret] = Store()
        self._store.subscribe(lambda _old, _new: on_news())
        # One object only, so that reading this one Secret is all the right it takes.
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
            what = due(material, self._names, self._clock.now(), self._lifetimes)
            if what is RotationStep.NOTHING:
                return material
            await self._renew(secret, material, what)
        # Others write faster than we do; their writes are news, and we look again.
        return None

    async def afresh(self) -> KeyMaterial | None:
        secret = await self._read()
        return None if secret is None else _material(secret)

    def seconds_to_next(self, material: KeyMaterial | None) -> float:
        at = None if material is None else next_due(material, self._lifetimes)
        if at is None:
            return 0.0
        return min(_LONGEST_SECONDS, max(0.0, (at - self._clock.now()).total_seconds()))

    async def _renew(self, secret: Secret | None, material: KeyMaterial, what: RotationStep) -> None:
        new = renewed(material, what, self._names, self._clock.now(), self._lifetimes)
        try:
            self._store.observe(await self._write(secret, new))
        except ApiError as error:
            if not (error.is_conflict or error.is_already_exists):
                raise
            # Another replica was first. Its certificate is as good as ours.
            await self._read()
            return
        log.info("webhook certificates renewed", what=what.value, secret=f"{self._namespace}/{self._name}")

    async def _write(self, secret: Secret | None, material: KeyMaterial) -> Secret:
        data = {key: base64.b64encode(value).decode() for key, value in data_of(material).items()}
        if secret is None:
            return await self._client.create(SECRETS, self._namespace, self._new_secret(data))
        # One of an earlier version has other marks.
        metadata = {"resourceVersion": secret.metadata.resource_version, "uid": secret.metadata.uid, "labels": _MARKS}
        return await self._client.patch(SECRETS, self._namespace, self._name, {"metadata": metadata, "data": data})

    async def _read(self) -> Secret | None:
        """What the server holds now, which the watch may not have told yet."""
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
            "metadata": {"name": self._name, "namespace": self._namespace, "labels": _MARKS},
            "type": "kubernetes.io/tls",
            "data": data,
        }


class FileKeys:
    """Certificates that somebody else makes and replaces, such as cert-manager: read again and again."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._complaint = ""

    async def run(self) -> None:
        """There is nothing to follow: files are read when it is time."""

    async def current(self) -> KeyMaterial | None:
        return self._read()

    async def afresh(self) -> KeyMaterial | None:
        return self._read()

    def seconds_to_next(self, material: KeyMaterial | None) -> float:
        return _FILE_SECONDS

    def _read(self) -> KeyMaterial | None:
        try:
            certificate, key = (self._folder / CERTIFICATE).read_bytes(), (self._folder / KEY).read_bytes()
            authorities = self._folder / AUTHORITIES
            bundle = authorities.read_bytes() if authorities.is_file() else b""
        except OSError as error:
            self._complain(f"{error.filename}: {error.strerror}")
            return None
        self._complain("")
        return KeyMaterial(certificate=certificate, key=key, authorities=bundle)

    def _complain(self, error_message: str) -> None:
        """Once, not every few seconds."""
        if error_message and error_message != self._complaint:
            log.warning("webhook certificate cannot be read", why=error_message)
        self._complaint = error_message


def _material(secret: Secret | None) -> KeyMaterial:
    return material_of({key: _decoded(value) for key, value in (secret.data if secret else {}).items()})


def _decoded(value: str) -> bytes:
    try:
        return base64.b64decode(value, validate=True)
    except binascii.Error:
        return b""
