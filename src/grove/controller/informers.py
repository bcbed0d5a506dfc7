"""Informers of the controller: one reflector and store per kind, limited to objects of Grove where possible."""

from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any

from grove.api import labels
from grove.api.resources import (
    AUTOSCALERS,
    CONTROLLER_REVISIONS,
    GROUPS,
    KAI_PODGROUPS,
    KAI_QUEUES,
    KAI_TOPOLOGIES,
    NATIVE_COMPOSITES,
    NATIVE_PODGROUPS,
    NODES,
    PODCLIQUES,
    PODCLIQUESETS,
    PODGANGS,
    PODS,
    ROLE_BINDINGS,
    ROLES,
    SERVICES,
    TOPOLOGY_BINDINGS,
    VOLCANO_PODGROUPS,
    VOLCANO_QUEUES,
    Resource,
)
from grove.api.types.clustertopologybinding import ClusterTopologyBinding
from grove.api.types.controllerrevision import ControllerRevision
from grove.api.types.horizontalpodautoscaler import HorizontalPodAutoscaler
from grove.api.types.node import Node
from grove.api.types.pod import Pod
from grove.api.types.podclique import PodClique
from grove.api.types.podcliquescalinggroup import PodCliqueScalingGroup
from grove.api.types.podcliqueset import PodCliqueSet
from grove.api.types.podgang import PodGang
from grove.api.types.rbac import Role, RoleBinding
from grove.api.types.scheduler_object import SchedulerObject
from grove.api.types.service import Service
from grove.clock import Clock
from grove.kube.client import Client
from grove.kube.namespaced_store import NamespacedStore
from grove.kube.reflector import Reflector, ReflectorCallbacks
from grove.kube.store import Store

NODE_VIEW = NODES.viewed_as(Node)
SCHEDULER_OBJECT_KINDS = (NATIVE_PODGROUPS, NATIVE_COMPOSITES, KAI_PODGROUPS, VOLCANO_PODGROUPS)
QUEUES = (KAI_QUEUES, VOLCANO_QUEUES)
_OURS = labels.selector({labels.MANAGED_BY: labels.MANAGED_BY_VALUE})


class Caches:
    """One store per kind. `namespaces`: only objects in these, and objects of the cluster; empty: all."""

    def __init__(self, monotonic: Callable[[], float] = lambda: 0.0, namespaces: tuple[str, ...] = ()) -> None:
        self.namespaces = namespaces

        def make(resource: Resource[Any]) -> Store[Any]:
            return NamespacedStore(namespaces, monotonic) if namespaces and resource.namespaced else Store(monotonic)

        self.sets: Store[PodCliqueSet] = make(PODCLIQUESETS)
        self.cliques: Store[PodClique] = make(PODCLIQUES)
        self.groups: Store[PodCliqueScalingGroup] = make(GROUPS)
        self.gangs: Store[PodGang] = make(PODGANGS)
        self.pods: Store[Pod] = make(PODS)
        self.services: Store[Service] = make(SERVICES)
        self.autoscalers: Store[HorizontalPodAutoscaler] = make(AUTOSCALERS)
        self.revisions: Store[ControllerRevision] = make(CONTROLLER_REVISIONS)
        self.roles: Store[Role] = make(ROLES)
        self.role_bindings: Store[RoleBinding] = make(ROLE_BINDINGS)
        self.nodes: Store[Node] = make(NODES)
        self.bindings: Store[ClusterTopologyBinding] = make(TOPOLOGY_BINDINGS)
        self.topologies: Store[SchedulerObject] = make(KAI_TOPOLOGIES)
        # Scheduler objects, by the full name of the kind.
        self.scheduler_objects: dict[str, Store[SchedulerObject]] = {
            kind.full_name: make(kind) for kind in SCHEDULER_OBJECT_KINDS
        }
        self.queues: dict[str, Store[SchedulerObject]] = {kind.full_name: make(kind) for kind in QUEUES}
        self._by_name: dict[str, Store[Any]] = {
            PODCLIQUESETS.full_name: self.sets,
            PODCLIQUES.full_name: self.cliques,
            GROUPS.full_name: self.groups,
            PODGANGS.full_name: self.gangs,
            PODS.full_name: self.pods,
            SERVICES.full_name: self.services,
            AUTOSCALERS.full_name: self.autoscalers,
            CONTROLLER_REVISIONS.full_name: self.revisions,
            ROLES.full_name: self.roles,
            ROLE_BINDINGS.full_name: self.role_bindings,
            NODES.full_name: self.nodes,
            TOPOLOGY_BINDINGS.full_name: self.bindings,
            KAI_TOPOLOGIES.full_name: self.topologies,
            **self.scheduler_objects,
            **self.queues,
        }

    def store(self, resource: Resource[Any], namespace: str = "") -> Store[Any]:
        """Return the store of a kind; with `namespace`, the one that lists and watches of this namespace go to."""
        store = self._by_name[resource.full_name]
        return store.part(namespace) if isinstance(store, NamespacedStore) and namespace else store

    def scopes(self, resource: Resource[Any]) -> tuple[str, ...]:
        """Return the namespaces that are listed and watched one by one; "": all at once, or objects of the cluster."""
        return self.namespaces if self.namespaces and resource.namespaced else ("",)

    def reflectors(
        self,
        client: Client,
        clock: Clock,
        random: Random,
        *,
        lost: Callable[[], None],
        on_watch: Callable[[str, bool], None],
        on_new_history: Callable[[], None],
    ) -> dict[str, Reflector[Any]]:
        """Return the reflectors of kinds that are always served, by plural, with chosen namespaces by namespace/plural.

        `lost` is called when the watch of sets breaks.
        """
        kinds: list[tuple[Resource[Any], str]] = [
            (PODCLIQUESETS, ""),
            (PODCLIQUES, _OURS),
            (GROUPS, _OURS),
            (PODGANGS, _OURS),
            (PODS, _OURS),
            (SERVICES, _OURS),
            (AUTOSCALERS, _OURS),
            (CONTROLLER_REVISIONS, _OURS),
            (ROLES, _OURS),
            (ROLE_BINDINGS, _OURS),
            (NODE_VIEW, ""),
        ]
        return {
            scoped_name(namespace, resource.plural): Reflector(
                client,
                resource,
                self.store(resource, namespace),
                clock,
                Random(random.random()),
                namespace=namespace,
                label_selector=selector,
                callbacks=ReflectorCallbacks(
                    on_watch_lost=lost if resource is PODCLIQUESETS else lambda: None,
                    on_watch=partial(on_watch, scoped_name(namespace, resource.plural)),
                    on_new_history=on_new_history,
                ),
            )
            for resource, selector in kinds
            for namespace in self.scopes(resource)
        }

    def optional_reflector(
        self,
        resource: Resource[Any],
        namespace: str,
        client: Client,
        clock: Clock,
        random: Random,
        *,
        changed: Callable[[], None],
        on_new_history: Callable[[], None],
    ) -> Reflector[Any]:
        """Return a reflector of a kind that may not be served (yet)."""
        return Reflector(
            client,
            resource,
            self.store(resource, namespace),
            clock,
            Random(random.random()),
            namespace=namespace,
            label_selector=_OURS if resource.full_name in self.scheduler_objects else "",
            is_optional=True,
            callbacks=ReflectorCallbacks(on_served_change=changed, on_new_history=on_new_history),
        )


def scoped_name(namespace: str, name: str) -> str:
    return f"{namespace}/{name}" if namespace else name


def unscoped_name(name: str) -> str:
    """Return the name of the kind, without the namespace that `scoped_name` added."""
    return name.rpartition("/")[2]
