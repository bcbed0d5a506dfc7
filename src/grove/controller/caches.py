"""The caches the controller reads: one list + watch per kind, limited to what is ours where a label allows it."""

from random import Random
from typing import Any

from grove.api import labels
from grove.api.controllerrevision import ControllerRevision
from grove.api.node import Node
from grove.api.pod import Pod
from grove.api.podclique import PodClique
from grove.api.podcliqueset import PodCliqueSet
from grove.api.podgang import PodGang
from grove.api.resources import (
    CONTROLLER_REVISIONS,
    GROUPS,
    NODES,
    PODCLIQUES,
    PODCLIQUESETS,
    PODGANGS,
    PODS,
    SERVICES,
    Resource,
)
from grove.api.scalinggroup import PodCliqueScalingGroup
from grove.api.service import Service
from grove.clock import Clock
from grove.kube.cache import Store
from grove.kube.client import Client
from grove.kube.watch import Reflector

NODE_VIEW = NODES.viewed_as(Node)
_OURS = labels.selector({labels.MANAGED_BY: labels.MANAGED_BY_VALUE})


class Caches:
    """One store per kind; `store(resource)` finds it for whoever writes."""

    def __init__(self) -> None:
        self.sets: Store[PodCliqueSet] = Store()
        self.cliques: Store[PodClique] = Store()
        self.groups: Store[PodCliqueScalingGroup] = Store()
        self.gangs: Store[PodGang] = Store()
        self.pods: Store[Pod] = Store()
        self.services: Store[Service] = Store()
        self.revisions: Store[ControllerRevision] = Store()
        self.nodes: Store[Node] = Store()
        self._by_plural: dict[str, Store[Any]] = {
            PODCLIQUESETS.plural: self.sets,
            PODCLIQUES.plural: self.cliques,
            GROUPS.plural: self.groups,
            PODGANGS.plural: self.gangs,
            PODS.plural: self.pods,
            SERVICES.plural: self.services,
            CONTROLLER_REVISIONS.plural: self.revisions,
            NODES.plural: self.nodes,
        }

    def store(self, resource: Resource[Any]) -> Store[Any]:
        return self._by_plural[resource.plural]

    def reflectors(self, client: Client, clock: Clock, random: Random) -> dict[str, Reflector[Any]]:
        """By the plural of what each follows."""
        kinds: list[tuple[Resource[Any], str]] = [
            (PODCLIQUESETS, ""),
            (PODCLIQUES, _OURS),
            (GROUPS, _OURS),
            (PODGANGS, _OURS),
            (PODS, _OURS),
            (SERVICES, _OURS),
            (CONTROLLER_REVISIONS, _OURS),
            (NODE_VIEW, ""),
        ]
        return {
            resource.plural: Reflector(
                client, resource, self.store(resource), clock, Random(random.random()), label_selector=selector
            )
            for resource, selector in kinds
        }
