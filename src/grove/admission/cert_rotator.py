"""Keeps admission reachable for as long as the operator runs: certificate, trust, and the switch to a new certificate.

A certificate is served only after every webhook that leads to us trusts its authority. The new authority stands in the
Secret first, then in the configurations beside the old one, then time passes so that every API server has seen it, and
only then its first certificate is shown. So no handshake ever fails because of a rotation.
"""

import asyncio
import base64
from collections.abc import Callable
from contextlib import suppress
from random import Random

import msgspec
import structlog

from grove.admission.cert_source import Keys
from grove.admission.tls import LiveContext, UnusableCertificateError
from grove.admission.webhook_certificates import (
    KeyMaterial,
    Lifetimes,
    born_at,
    is_valid_at,
    issuer_of,
    read_certificates,
)
from grove.admission.webhook_config_diff import (
    Correction,
    Held,
    corrections,
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
# Two operators that fight for one configuration shall not do so at the speed of the network.
_PAUSE_SECONDS = 1.0
# Longer than any request may take.
_PATIENCE_SECONDS = 90.0
# Sums of fractions: what remains of a wait may be too little to move a clock, and would be waited for again and again.
_SHORTEST_SECONDS = 0.01
_NEVER = float("inf")


class Registration(msgspec.Struct, frozen=True, kw_only=True):
    """What the cluster's configurations shall say. `bodies` makes all of them for a bundle in base64."""

    target: Target
    bodies: Callable[[str], tuple[JsonObject, ...]]
    # Certificates are somebody else's business, and so is the trust in them.
    is_manual: bool = False


class CertRotator:
    """`run` until cancelled. `is_ready` once the certificate that is served is trusted; it stays so.

    Without `configurations` somebody else sees to them.
    """

    def __init__(
        self,
        clock: Clock,
        random: Random,
        *,
        tls: LiveContext,
        keys: Keys,
        configurations: Configurations | None,
        registration: Registration,
        lifetimes: Lifetimes,
        news: asyncio.Event,
    ) -> None:
        self._clock = clock
        self._random = random
        self._tls = tls
        self._keys = keys
        self._configurations = configurations
        self._registration = registration
        self._lifetimes = lifetimes
        self._news = news
        self._served: KeyMaterial | None = None
        # The authority that all trust, and since when; None: not all do.
        self._trusted: tuple[bytes, float] | None = None
        self._corrected_at = float("-inf")
        self._failures = 0
        self._complaint = ""
        self.is_ready = False
        self.trouble = ""
        """What cannot be kept up, in words; it is tried again."""

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._keys.run())
            if self._configurations is not None:
                tasks.create_task(self._configurations.run())
            while True:
                self._news.clear()
                await self._wait(await self._reconcile())

    async def withdraw(self) -> None:
        """Before the server stops answering."""
        if self._configurations is not None and isinstance(self._registration.target, UrlTarget):
            await self._configurations.withdraw(self._registration.target)

    async def _reconcile(self) -> float:
        """One look at everything; returns the seconds to the next, if there is no news."""
        try:
            async with asyncio.timeout(_PATIENCE_SECONDS):
                seconds = await self._look_after()
        except (ApiError, UnusableCertificateError) as error:
            return self._back_off(str(error))
        except TimeoutError:
            return self._back_off("nothing is known yet: may we list and watch the Secret and the configurations?")
        self._failures = 0
        self.trouble = ""
        return seconds

    async def _look_after(self) -> float:
        material = await self._keys.current()
        if material is None:
            return _LONGEST_DELAY_SECONDS
        held = () if self._configurations is None else await self._configurations.held()
        to_switch = self._serve(material, held)
        to_correct = await self._register(self._configurations, material, held) if self._configurations else _NEVER
        return min(self._keys.seconds_to_next(material), to_switch, to_correct)

    async def _wait(self, seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(max(seconds, _SHORTEST_SECONDS)):
                await self._news.wait()

    def _back_off(self, why: str) -> float:
        self._failures += 1
        self.trouble = why
        log.warning("webhooks cannot be kept up", why=why, failures=self._failures)
        longest = min(_LONGEST_DELAY_SECONDS, _FIRST_DELAY_SECONDS * 2.0 ** (self._failures - 1))
        return longest * (0.5 + self._random.random() / 2)

    # Serving

    def _serve(self, material: KeyMaterial, held: tuple[Held, ...]) -> float:
        """Switches to the newest certificate if that is safe; returns the seconds until it may be."""
        if self._registration.is_manual:
            self._switch(material)
            self.is_ready = True
            return _NEVER
        trusted_for = self._seconds_of_trust(issuer_of(material), held)
        settling = self._lifetimes.settling.total_seconds()
        if not self._must_wait(material, held) or trusted_for >= settling:
            self._switch(material)
        if self.is_ready or self._served != material:
            return _NEVER if self._served == material or trusted_for < 0 else settling - trusted_for
        to_ready = self._seconds_to_ready(material)
        self.is_ready = trusted_for >= 0 and to_ready <= 0
        return _NEVER if to_ready <= 0 else to_ready

    def _must_wait(self, new: KeyMaterial, held: tuple[Held, ...]) -> bool:
        """Is what we serve good, and does the new certificate come from an authority that not all may know yet?"""
        served = self._served
        if served is None or issuer_of(served) == issuer_of(new):
            return False
        is_good = is_valid_at(served.certificate, self._clock.now())
        return is_good and is_trusted(held, self._registration.target, issuer_of(served))

    def _seconds_of_trust(self, issuer: bytes, held: tuple[Held, ...]) -> float:
        """For how long we have seen every webhook trust this authority; negative: not all do."""
        if not is_trusted(held, self._registration.target, issuer):
            self._trusted = None
            return -1.0
        now = self._clock.monotonic()
        if self._trusted is None or self._trusted[0] != issuer:
            self._trusted = (issuer, now)
        return now - self._trusted[1]

    def _seconds_to_ready(self, material: KeyMaterial) -> float:
        """A replica that starts in the middle of a rotation has no old certificate to show while it settles."""
        born = born_at(issuer_of(material), self._lifetimes)
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
        self, configurations: Configurations, material: KeyMaterial, held: tuple[Held, ...]
    ) -> float:  # fmt: skip
        """Makes the configurations right; returns the seconds until it may go on."""
        self._complain_about_names(held)
        wanted = self._corrections(material, held)
        if not wanted:
            return _NEVER
        pause = self._corrected_at + _PAUSE_SECONDS - self._clock.monotonic()
        if pause > 0:
            return pause
        # The configurations were seen before this read: so what is written now is never older than what they say.
        if await self._keys.afresh() != material:
            return _PAUSE_SECONDS
        self._corrected_at = self._clock.monotonic()
        for correction in wanted:
            await configurations.carry_out(correction)
        return _PAUSE_SECONDS

    def _corrections(self, material: KeyMaterial, held: tuple[Held, ...]) -> list[Correction]:
        bundle = base64.b64encode(material.authorities).decode()
        target = self._registration.target
        return list(corrections(held, target, self._registration.bodies(bundle), bundle))

    def _complain_about_names(self, held: tuple[Held, ...]) -> None:
        """Once: the API server asks somebody else, or nobody."""
        error_message = _complaint(held, self._registration.target)
        if error_message and error_message != self._complaint:
            log.warning(error_message)
        self._complaint = error_message


def _complaint(held: tuple[Held, ...], target: Target) -> str:
    match target:
        case UrlTarget():
            taken = ", ".join(one.name for one in held if is_of_a_service(one))
            return f"the cluster has an installation of its own: to be asked instead, delete {taken}" if taken else ""
        case ServiceTarget():
            if leads_anywhere_to(held, target):
                return ""
            return f"no webhook configuration leads to Service {target.namespace}/{target.name}: nothing is judged"


def _end(material: KeyMaterial) -> str:
    found = read_certificates(material.certificate)
    return found[0].not_valid_after_utc.isoformat() if found else ""
