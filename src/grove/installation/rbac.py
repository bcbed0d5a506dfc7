"""RBAC rules of the operator, each with its reason: exactly what the program does, and nothing else.

`docs/how-to/install.md` shows the same table, and a test compares. Whoever adds a request to the controller or to
admission adds its verb here; a test on a real API server compares the rules with what was asked for.
"""

from collections.abc import Iterable
from typing import Any

import msgspec

from grove.api.resources import (
    CONTROLLER_REVISIONS,
    EVENTS,
    GROUPS,
    KAI_PODGROUPS,
    KAI_QUEUES,
    KAI_TOPOLOGIES,
    LEASES,
    MUTATING_WEBHOOKS,
    NATIVE_COMPOSITES,
    NATIVE_PODGROUPS,
    NODES,
    PODCLIQUES,
    PODCLIQUESETS,
    PODGANGS,
    PODS,
    SECRETS,
    SERVICES,
    TOPOLOGY_BINDINGS,
    VALIDATING_WEBHOOKS,
    VOLCANO_PODGROUPS,
    VOLCANO_QUEUES,
    Resource,
)
from grove.api.types.meta import JsonObject
from grove.installation.install_options import NAME, Installation
from grove.installation.labels import object_metadata
from grove.installation.webhook_configurations import MUTATING_NAMES, VALIDATING_NAMES

_RBAC = "rbac.authorization.k8s.io"
CLUSTER_ROLE = f"grove:system:{NAME}"
LEASE_ROLE = f"grove:system:{NAME}-lease"
CERTIFICATE_ROLE = f"grove:system:{NAME}-certificate"

_READ = ("get", "list", "watch")
# A child is read again on a conflict, patched, and deleted alone or with its siblings.
_CHILD = (*_READ, "create", "patch", "delete", "deletecollection")
# What a scheduler sees of a gang: followed, and removed one by one.
_MIRROR = (*_READ, "create", "patch", "delete")
_MADE_ANEW = (*_READ, "create", "delete")


class PolicyRule(msgspec.Struct, frozen=True, kw_only=True):
    """Resources of one group, the verbs that are used on them, and what for. No names: all objects."""

    group: str
    resources: tuple[str, ...]
    verbs: tuple[str, ...]
    why: str
    names: tuple[str, ...] = ()

    def wire(self) -> JsonObject:
        names = {"resourceNames": list(self.names)} if self.names else {}
        return {
            "apiGroups": [self.group],
            "resources": list(self.resources),
            **names,
            "verbs": list(self.verbs),
        }


def cluster_rules(installation: Installation) -> tuple[PolicyRule, ...]:
    return (
        *_CONTROLLER,
        *scheduler_rules(installation),
        *_ADMISSION,
        *(() if installation.is_manual else _TRUST),
    )


def scheduler_rules(installation: Installation) -> tuple[PolicyRule, ...]:
    """What only an installation needs that has a profile of the scheduler."""
    return tuple(rule for name in installation.configuration.scheduler.enabled for rule in _SCHEDULERS.get(name, ()))


def lease_rules(installation: Installation) -> tuple[PolicyRule, ...]:
    name = installation.configuration.leader_election.resource_name
    return (
        _rule((LEASES,), ("get", "patch"), "one of several replicas leads: read and renew the lease", names=(name,)),
        _rule((LEASES,), ("create",), "the lease of the first leader; a create cannot be limited to a name"),
    )


def certificate_rules(installation: Installation) -> tuple[PolicyRule, ...]:
    name = installation.configuration.server.webhooks.secret_name
    return (
        _rule(
            (SECRETS,),
            (*_READ, "patch"),
            "the certificate of the webhooks, shared by all replicas and renewed in time",
            names=(name,),
        ),
        _rule((SECRETS,), ("create",), "the first certificate; a create cannot be limited to a name"),
    )


def rbac_objects(installation: Installation) -> tuple[JsonObject, ...]:
    """Account, roles and bindings. A role without a use is left out."""
    lease_namespace = installation.configuration.leader_election.resource_namespace or installation.namespace
    objects: list[JsonObject] = [
        {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": object_metadata(NAME, installation.namespace),
            # The operator's pods ask for their token; nobody else who uses this account shall get one unasked.
            "automountServiceAccountToken": False,
        },
        _role("ClusterRole", CLUSTER_ROLE, "", cluster_rules(installation)),
        _binding("ClusterRole", CLUSTER_ROLE, "", installation),
    ]
    if installation.configuration.leader_election.enabled:
        objects += _bound_role(LEASE_ROLE, lease_namespace, lease_rules(installation), installation)
    if not installation.is_manual:
        rules = certificate_rules(installation)
        objects += _bound_role(CERTIFICATE_ROLE, installation.namespace, rules, installation)
    return tuple(objects)


def _rule(
    resources: tuple[Resource[Any], ...],
    verbs: tuple[str, ...],
    why: str,
    *,
    names: tuple[str, ...] = (),
    subresource: str = "",
) -> PolicyRule:
    suffix = f"/{subresource}" if subresource else ""
    plurals = tuple(resource.plural + suffix for resource in resources)
    return PolicyRule(group=resources[0].group, resources=plurals, verbs=verbs, why=why, names=names)


_CONTROLLER = (
    _rule((PODCLIQUESETS,), (*_READ, "patch"), "follow the sets, and guard them by a finalizer"),
    _rule((PODCLIQUES, GROUPS), _CHILD, "make, change and remove the cliques and groups of a set"),
    _rule((PODGANGS,), _CHILD, "make, change and remove the gangs of a set"),
    _rule((PODCLIQUESETS, PODCLIQUES, GROUPS), ("patch",), "write what was observed", subresource="status"),
    _rule((PODGANGS,), ("patch",), "write what was observed", subresource="status"),
    _rule(
        (PODCLIQUESETS, PODCLIQUES, GROUPS),
        ("update",),
        "own what is made for them, where OwnerReferencesPermissionEnforcement is on",
        subresource="finalizers",
    ),
    _rule(
        (PODGANGS,),
        ("update",),
        "own what a scheduler sees of them, where OwnerReferencesPermissionEnforcement is on",
        subresource="finalizers",
    ),
    _rule((NATIVE_PODGROUPS,), _MIRROR, "show the gangs to kube-scheduler, where it knows gangs"),
    # Their specs never change.
    _rule((NATIVE_COMPOSITES,), _MADE_ANEW, "show which cliques are a gang to kube-scheduler, where it knows gangs"),
    _rule((PODS, SERVICES), _CHILD, "make, ungate and remove pods, and the Services by which they find each other"),
    _rule(
        (CONTROLLER_REVISIONS,),
        _CHILD,
        "keep the pod templates that a set had, to update replica by replica and to go back",
    ),
    _rule((NODES,), ("list", "watch"), "hold teardowns back while most nodes are out of reach"),
    _rule((EVENTS,), ("get", "create", "patch"), "tell people what happened, and count repeats"),
)
_ADMISSION = (
    _rule((TOPOLOGY_BINDINGS,), _READ, "judge sets that name a topology, and find the node labels behind it"),
    _rule((TOPOLOGY_BINDINGS,), ("patch",), "tell whether schedulers' own topologies agree", subresource="status"),
    _rule((MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS), ("list", "watch"), "see whether our webhooks are right"),
)
_SCHEDULERS: dict[str, tuple[PolicyRule, ...]] = {
    "kai-scheduler": (
        _rule((KAI_PODGROUPS,), _MIRROR, "show the gangs to KAI"),
        _rule((KAI_QUEUES,), _READ, "see whether the queue of a set is there"),
        _rule((KAI_TOPOLOGIES,), _MIRROR, "show the topology of a ClusterTopologyBinding to KAI"),
        _rule(
            (TOPOLOGY_BINDINGS,),
            ("update",),
            "own what KAI sees of them, where OwnerReferencesPermissionEnforcement is on",
            subresource="finalizers",
        ),
    ),
    "volcano": (
        _rule((VOLCANO_PODGROUPS,), _MIRROR, "show the gangs to Volcano"),
        _rule((VOLCANO_QUEUES,), _READ, "see whether the queue of a set is there and open"),
    ),
}
# Only where the certificate is our own.
_TRUST = (
    _rule((MUTATING_WEBHOOKS,), ("patch",), "keep the CA bundle of our own webhooks right", names=MUTATING_NAMES),
    _rule((VALIDATING_WEBHOOKS,), ("patch",), "keep the CA bundle of our own webhooks right", names=VALIDATING_NAMES),
)


def _bound_role(
    name: str, namespace: str, rules: Iterable[PolicyRule], installation: Installation
) -> tuple[JsonObject, ...]:
    return _role("Role", name, namespace, rules), _binding("Role", name, namespace, installation)


def _role(kind: str, name: str, namespace: str, rules: Iterable[PolicyRule]) -> JsonObject:
    return {
        "apiVersion": f"{_RBAC}/v1",
        "kind": kind,
        "metadata": object_metadata(name, namespace),
        "rules": [rule.wire() for rule in rules],
    }


def _binding(kind: str, name: str, namespace: str, installation: Installation) -> JsonObject:
    return {
        "apiVersion": f"{_RBAC}/v1",
        "kind": f"{kind}Binding",
        "metadata": object_metadata(name, namespace),
        "roleRef": {"apiGroup": _RBAC, "kind": kind, "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": NAME, "namespace": installation.namespace}],
    }
