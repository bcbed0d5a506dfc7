"""Watch, correct and delete the webhook configurations. `webhook_config_diff.py` computes the corrections."""

import asyncio
from collections.abc import Callable
from random import Random
from typing import assert_never

import structlog

from grove.admission.webhook_config_diff import (
    Correction,
    CreateConfiguration,
    InstalledConfiguration,
    PatchConfiguration,
    created_for,
    select_installed,
)
from grove.api.resources import MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS, Resource
from grove.api.types.webhookconfiguration import WebhookConfiguration
from grove.clock import Clock
from grove.installation.webhook_configurations import UrlTarget
from grove.kube.api_errors import ApiError
from grove.kube.client import Client
from grove.kube.reflector import Reflector
from grove.kube.store import Store
from grove.kube.transport import JSON_PATCH

log = structlog.get_logger()

_WITHDRAWAL_SECONDS = 5.0


class Configurations:
    """The webhook configurations of the cluster. All are watched and selected by name: labels may get lost."""

    def __init__(self, client: Client, clock: Clock, random: Random, *, on_change: Callable[[], None]) -> None:
        self._client = client
        self._mutating: Store[WebhookConfiguration] = Store()
        self._validating: Store[WebhookConfiguration] = Store()
        self._reflectors = (
            Reflector(client, MUTATING_WEBHOOKS, self._mutating, clock, Random(random.random())),
            Reflector(client, VALIDATING_WEBHOOKS, self._validating, clock, Random(random.random())),
        )
        for store in (self._mutating, self._validating):
            store.subscribe(lambda _old, _new: on_change())

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            for reflector in self._reflectors:
                tasks.create_task(reflector.run())

    async def list_installed(self) -> tuple[InstalledConfiguration, ...]:
        """Return Grove's configurations; wait until all were listed once."""
        for reflector in self._reflectors:
            await reflector.listed.wait()
        return self._list_installed()

    async def apply(self, correction: Correction) -> None:
        """Write a correction. A conflict is ignored: the change of the other writer triggers the next reconcile."""
        try:
            match correction:
                case CreateConfiguration():
                    what = "webhook configuration created"
                    written = await self._client.create(correction.resource, "", correction.body)
                case PatchConfiguration():
                    what = "CA bundle injected" if correction.is_first else "webhook configuration corrected"
                    written = await self._client.patch(
                        correction.resource, "", correction.name, correction.patch, content_type=JSON_PATCH
                    )
                case _:
                    assert_never(correction)
        except ApiError as error:
            if not (error.is_conflict or error.is_already_exists or error.is_not_found):
                raise
            return
        self._store(correction.resource).observe(written)
        log.info(what, configuration=correction.name)

    async def withdraw(self, target: UrlTarget) -> None:
        """Delete configurations that only call this URL: without the server they would block every write."""
        try:
            async with asyncio.timeout(_WITHDRAWAL_SECONDS):
                for one in created_for(self._list_installed(), target):
                    await self._client.delete(one.resource, "", one.name, uid=one.configuration.metadata.uid)
        except (ApiError, TimeoutError) as error:
            log.warning("webhook configurations could not be deleted: delete them", url=target.url, why=str(error))

    def _list_installed(self) -> tuple[InstalledConfiguration, ...]:
        return select_installed(self._mutating.values(), self._validating.values())

    def _store(self, resource: Resource[WebhookConfiguration]) -> Store[WebhookConfiguration]:
        return self._mutating if resource.kind == MUTATING_WEBHOOKS.kind else self._validating
