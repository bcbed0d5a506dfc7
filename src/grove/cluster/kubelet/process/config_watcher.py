"""Watches ConfigMaps and Secrets. Pods that miss one start when it appears."""

import asyncio
from collections.abc import Mapping
from random import Random

from grove.api.resources import SECRETS, Resource
from grove.api.types.meta import ObjectMeta, WireStruct
from grove.api.types.secret import Secret
from grove.clock import Clock
from grove.cluster.kubelet.process.async_events import Broadcast
from grove.cluster.kubelet.process.environment import decode_data
from grove.kube.client import Client
from grove.kube.reflector import Reflector
from grove.kube.store import Store


class ConfigMap(WireStruct):
    metadata: ObjectMeta
    data: dict[str, str] = {}
    # Base64, as on the wire.
    binary_data: dict[str, str] = {}


CONFIG_MAPS = Resource(group="", version="v1", plural="configmaps", kind="ConfigMap", view=ConfigMap)


class ConfigWatcher:
    """A cache of all ConfigMaps and Secrets."""

    def __init__(self, client: Client, clock: Clock, random: Random) -> None:
        self._config_maps: Store[ConfigMap] = Store()
        self._secrets: Store[Secret] = Store()
        self._reflectors = (
            Reflector(client, CONFIG_MAPS, self._config_maps, clock, random),
            Reflector(client, SECRETS, self._secrets, clock, random),
        )
        self.changes = Broadcast()
        self._config_maps.subscribe(self._notify)
        self._secrets.subscribe(self._notify)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for reflector in self._reflectors:
                group.create_task(reflector.run())

    async def wait_until_listed(self) -> None:
        """Wait for the first lists. Before that a missing object may still arrive."""
        for reflector in self._reflectors:
            await reflector.listed.wait()

    def in_namespace(self, namespace: str) -> "NamespaceConfigLookup":
        return NamespaceConfigLookup(namespace, self._config_maps, self._secrets)

    def _notify(self, _old: object, _new: object) -> None:
        self.changes.notify()


class NamespaceConfigLookup:
    """The `environment.ConfigLookup` of one namespace."""

    def __init__(self, namespace: str, config_maps: Store[ConfigMap], secrets: Store[Secret]) -> None:
        self._namespace = namespace
        self._config_maps = config_maps
        self._secrets = secrets

    def config_map(self, name: str) -> Mapping[str, bytes] | None:
        found = self._config_maps.by_name(self._namespace, name)
        return None if found is None else decode_data(found.binary_data, text=found.data)

    def secret(self, name: str) -> Mapping[str, bytes] | None:
        found = self._secrets.by_name(self._namespace, name)
        return None if found is None else decode_data(found.data)
