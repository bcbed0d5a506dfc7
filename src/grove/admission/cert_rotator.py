"""Rotates the webhook certificate without a failed handshake.

A certificate is served only after every webhook of this operator trusts its CA. A new CA is written to the Secret
first, then to the configurations beside the old one. After a pause, in which every API server has seen it, its first
certificate is served.
"""

import asyncio
import base64
from collections.abc import Callable
from contextlib import suppress
from random import Random

import msgspec
import structlog

from grove.admission.cert_source import CertSource
from grove.admission.tls import LiveContext, UnusableCertificateError
from grove.admission.webhook_certificates import (
    KeyMaterial,
    Lifetimes,
    created_at,
    is_valid_at,
    issuer_of,
    read_certificates,
)
from grove.admission.webhook_config_diff import (
    Correction,
    InstalledConfiguration,
    compute_corrections,
    is_of_a_service,
    is_trusted,
    leads_anywhere_to,
)
from grove.admission.webhook_config_sync import Configurations
from grove.api.types.meta import JsonObject
from grove.clock import Clock
from grove.installation.webhook_configurations import ServiceTarget, Target, UrlTarget
from grove.kube.api_errors import ApiError

log = structlog.get_logger()

_FIRST_DELAY_SECONDS = 0.5
_LONGEST_DELAY_SECONDS = 30.0
# Limits the rate of writes when two operators correct the same configuration.
_PAUSE_SECONDS = 1.0
# Longer than any request may take.
_PATIENCE_SECONDS = 90.0
# Rounding: the rest of a wait may be too short to move a clock, and would be waited for again and again.
_SHORTEST_SECONDS = 0.01
_NEVER = float("inf")


class Registration(msgspec.Struct, frozen=True, kw_only=True):
    """The desired webhook configurations. `bodies` builds all of them for a CA bundle in base64."""

    target: Target
    bodies: Callable[[str], tuple[JsonObject, ...]]
    # The user provides certificates and CA bundles.
    is_manual: bool = False


class CertRotator:
    """A rotator of one certificate. `run` rotates it until it is cancelled.

    `is_ready` becomes true when the webhooks trust the served certificate, and stays true. Without `configurations`,
    the user manages the webhook configurations.
    """

    def __init__(
        self,
        clock: Clock,
        random: Random,
        *,
        tls: LiveContext,
        source: CertSource,
        configurations: Configurations | None,
        registration: Registration,
        lifetimes: Lifetimes,
        changed: asyncio.Event,
    ) -> None:
        self._clock = clock
        self._random = random
        self._tls = tls
        self._source = source
        self._configurations = configurations
        self._registration = registration
        self._lifetimes = lifetimes
        self._changed = changed
        self._served: KeyMaterial | None = None
        # The CA that all webhooks trust, and since when; None: not all do.
        self._trusted: tuple[bytes, float] | None = None
        self._corrected_at = float("-inf")
        self._failures = 0
        self._last_warning = ""
        self.is_ready = False
        self.error = ""
        """Why certificate or configurations cannot be updated; empty: they can. Retried."""

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._source.run())
            if self._configurations is not None:
                tasks.create_task(self._configurations.run())
            while True:
                self._changed.clear()
                await self._wait(await self._reconcile())

    async def withdraw(self) -> None:
        """Delete the configurations of a URL target. Call it before the server stops."""
        if self._configurations is not None and isinstance(self._registration.target, UrlTarget):
            await self._configurations.withdraw(self._registration.target)

    async def _reconcile(self) -> float:
        """Reconcile once. Return the seconds until the next time, unless something changes."""
        try:
            async with asyncio.timeout(_PATIENCE_SECONDS):
                seconds = await self._sync()
        except (ApiError, UnusableCertificateError) as error:
            return self._back_off(str(error))
        except TimeoutError:
            return self._back_off(
                "Secret and webhook configurations are not listed yet: check that the operator may list and watch them"
            )
        self._failures = 0
        self.error = ""
        return seconds

    async def _sync(self) -> float:
        material = await self._source.current()
        if material is None:
            return _LONGEST_DELAY_SECONDS
        installed = () if self._configurations is None else await self._configurations.list_installed()
        to_switch = self._serve(material, installed)
        to_correct = await self._register(self._configurations, material, installed) if self._configurations else _NEVER
        return min(self._source.seconds_to_next(material), to_switch, to_correct)

    async def _wait(self, seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(max(seconds, _SHORTEST_SECONDS)):
                await self._changed.wait()

    def _back_off(self, why: str) -> float:
        self._failures += 1
        self.error = why
        log.warning("webhooks cannot be updated", why=why, failures=self._failures)
        longest = min(_LONGEST_DELAY_SECONDS, _FIRST_DELAY_SECONDS * 2.0 ** (self._failures - 1))
        return longest * (0.5 + self._random.random() / 2)

    # Serving

    def _serve(self, material: KeyMaterial, installed: tuple[InstalledConfiguration, ...]) -> float:
        """Switch to the newest certificate if that is safe. Return the seconds until it may be."""
        if self._registration.is_manual:
            self._switch(material)
            self.is_ready = True
            return _NEVER
        trusted_for = self._seconds_of_trust(issuer_of(material), installed)
        settling = self._lifetimes.settling.total_seconds()
        if not self._must_wait(material, installed) or trusted_for >= settling:
            self._switch(material)
        if self.is_ready or self._served != material:
            return _NEVER if self._served == material or trusted_for < 0 else settling - trusted_for
        to_ready = self._seconds_to_ready(material)
        self.is_ready = trusted_for >= 0 and to_ready <= 0
        return _NEVER if to_ready <= 0 else to_ready

    def _must_wait(self, new: KeyMaterial, installed: tuple[InstalledConfiguration, ...]) -> bool:
        """Return whether the served certificate is valid and trusted, and the new one has another CA."""
        served = self._served
        if served is None or issuer_of(served) == issuer_of(new):
            return False
        is_good = is_valid_at(served.certificate, self._clock.now())
        return is_good and is_trusted(installed, self._registration.target, issuer_of(served))

    def _seconds_of_trust(self, issuer: bytes, installed: tuple[InstalledConfiguration, ...]) -> float:
        """Return for how long every webhook has trusted this CA; negative: not all do."""
        if not is_trusted(installed, self._registration.target, issuer):
            self._trusted = None
            return -1.0
        now = self._clock.monotonic()
        if self._trusted is None or self._trusted[0] != issuer:
            self._trusted = (issuer, now)
        return now - self._trusted[1]

    def _seconds_to_ready(self, material: KeyMaterial) -> float:
        """Return the seconds until a replica that has only the new certificate may serve, during a rotation.

        API servers must have the new CA first.
        """
        born = created_at(issuer_of(material), self._lifetimes)
        if born is None or len(read_certificates(material.authorities)) == 1:
            return 0.0
        return (born + self._lifetimes.settling - self._clock.now()).total_seconds()

    def _switch(self, material: KeyMaterial) -> None:
        if self._served is not None and self._served.certificate == material.certificate:
            self._served = material
            return
        self._tls.use(material.certificate, material.key)
        self._served = material
        log.info("webhook certificate in use", until=_end(material))

    # Trust

    async def _register(
        self, configurations: Configurations, material: KeyMaterial, installed: tuple[InstalledConfiguration, ...]
    ) -> float:  # fmt: skip
        """Correct the configurations. Return the seconds until the next correction is allowed."""
        self._warn_about_targets(installed)
        wanted = self._corrections(material, installed)
        if not wanted:
            return _NEVER
        pause = self._corrected_at + _PAUSE_SECONDS - self._clock.monotonic()
        if pause > 0:
            return pause
        # The configurations were read before this live read, so the bundle to write is never older than theirs.
        if await self._source.read_live() != material:
            return _PAUSE_SECONDS
        self._corrected_at = self._clock.monotonic()
        for correction in wanted:
            await configurations.apply(correction)
        return _PAUSE_SECONDS

    def _corrections(self, material: KeyMaterial, installed: tuple[InstalledConfiguration, ...]) -> list[Correction]:
        bundle = base64.b64encode(material.authorities).decode()
        target = self._registration.target
        return list(compute_corrections(installed, target, self._registration.bodies(bundle), bundle))

    def _warn_about_targets(self, installed: tuple[InstalledConfiguration, ...]) -> None:
        """Log once that the API server calls another installation, or none."""
        warning = _describe_wrong_target(installed, self._registration.target)
        if warning and warning != self._last_warning:
            log.warning(warning)
        self._last_warning = warning


def _describe_wrong_target(installed: tuple[InstalledConfiguration, ...], target: Target) -> str:
    match target:
        case UrlTarget():
            names = ", ".join(one.name for one in installed if is_of_a_service(one))
            return (
                f"the webhooks belong to an installation in the cluster: to use this operator, delete {names}"
                if names
                else ""
            )
        case ServiceTarget():
            if leads_anywhere_to(installed, target):
                return ""
            return f"no webhook configuration leads to Service {target.namespace}/{target.name}: nothing is validated"


def _end(material: KeyMaterial) -> str:
    found = read_certificates(material.certificate)
    return found[0].not_valid_after_utc.isoformat() if found else ""
