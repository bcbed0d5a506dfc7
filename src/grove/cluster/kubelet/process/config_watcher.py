"""Config maps and secrets, watched: pods that need one that is not there go on when it appears."""

import asyncio
from collections.abc import Mapping
from random import Random

from grove.api.resources import SECRETS, Resource
from grove.api.types.meta import ObjectMeta, WireStruct
from grove.api.types.secret import Secret
from grove.clock import Clock
from grove.cluster.kubelet.process.async_events import Broadcast
from grove.cluster.kubelet.process.environment import decoded
from grove.kube.client import Client
from grove.kube.reflector import Reflector
from grove.kube.store import Store


class ConfigMap(WireStruct):
    metadata: ObjectMeta
    data: dict[str, str] = {}
    # Base64, as on the wire.
    binary_data: dict[str, str] = {}


CONFIG_MAPS = Resource(group="", version="v1", plural="configmaps", kind="ConfigMap", view=ConfigMap)


class Configs:
    def __init__(self, client: Client, clock: Clock, random: Random) -> None:
        self._config_maps: Store[ConfigMap] = Store()
        self._secrets: Store[Secret] = Store()
        self._reflectors = (
            Reflector(client, CONFIG_MAPS, self._config_maps, clock, random),
            Reflector(client, SECRETS, self._secrets, clock, random),
        )
        self.changes = Broadcast()
        self._config_maps.subscribe(self._note)
        self._secrets.subscribe(self._note)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for reflector in self._reflectors:
                group.create_task(reflector.run())

    async def listed(self) -> None:
        """Before that nobody knows what is missing."""
        for reflector in self._reflectors:
            await reflector.listed.wait()

    def within(self, namespace: str) -> "NamespaceConfigs":
        return NamespaceConfigs(namespace, self._config_maps, self._secrets)

    def _note(self, _old: object, _new: object) -> None:
        self.changes.tell()


class NamespaceConfigs:
    """An `environment.ConfigLookup`."""

    def __init__(self, namespace: str, config_maps: Store[ConfigMap], secrets: Store[Secret]) -> None:
        self._namespace = namespace
        self._config_maps = config_maps
        self._secrets = secrets

    def config_map(self, name: str) -> Mapping[str, bytes] | None:
        found = self._config_maps.by_name(self._namespace, name)
        return None if found is None else decoded(found.binary_data, text=found.data)

    def secret(self, name: str) -> Mapping[str, bytes] | None:
        found = self._secrets.by_name(self._namespace, name)
        return None if found is None else decoded(found.data)
