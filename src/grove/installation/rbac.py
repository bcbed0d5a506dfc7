"""RBAC rules of the operator, each with its reason: exactly the requests that the operator sends.

`docs/how-to/install.md` shows the same table, and a test compares them. If you add a request to the controller or to
admission, add its verb here. A test on a real API server compares the rules with the requests in the audit log.
"""

from collections.abc import Iterable
from typing import Any

from grove.api.resources import (
    AUTOSCALERS,
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
    ROLE_BINDINGS,
    ROLES,
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
from grove.installation.policy_rule import PolicyRule
from grove.installation.user_roles import user_role_objects
from grove.installation.webhook_configurations import MUTATING_NAMES, VALIDATING_NAMES

_RBAC = "rbac.authorization.k8s.io"
CLUSTER_ROLE = f"grove:system:{NAME}"
LEASE_ROLE = f"grove:system:{NAME}-lease"
CERTIFICATE_ROLE = f"grove:system:{NAME}-certificate"

_READ = ("get", "list", "watch")
# A child is read again after a conflict, patched, and deleted alone or in bulk.
_CHILD = (*_READ, "create", "patch", "delete", "deletecollection")
# Scheduler objects are watched, and deleted one by one.
_SCHEDULER_OBJECT = (*_READ, "create", "patch", "delete")
_RECREATED = (*_READ, "create", "delete")


def cluster_rules(installation: Installation) -> tuple[PolicyRule, ...]:
    return (
        *CONTROLLER_RULES,
        *scheduler_rules(installation),
        *ADMISSION_RULES,
        *(() if installation.is_manual else TRUST_RULES),
    )


def scheduler_rules(installation: Installation) -> tuple[PolicyRule, ...]:
    """Return the rules that only installations with a profile of the scheduler need."""
    return tuple(
        rule for name in installation.configuration.scheduler.enabled for rule in SCHEDULER_RULES.get(name, ())
    )


def lease_rules(installation: Installation) -> tuple[PolicyRule, ...]:
    name = installation.configuration.leader_election.resource_name
    return (
        _rule((LEASES,), ("get", "patch"), "leader election: read and renew the lease", names=(name,)),
        _rule((LEASES,), ("create",), "create the lease; a create cannot be limited to a name"),
    )


def certificate_rules(installation: Installation) -> tuple[PolicyRule, ...]:
    name = installation.configuration.server.webhooks.secret_name
    return (
        _rule(
            (SECRETS,),
            (*_READ, "patch"),
            "the certificate of the webhooks, which all replicas share and renew",
            names=(name,),
        ),
        _rule((SECRETS,), ("create",), "create the certificate; a create cannot be limited to a name"),
    )


def rbac_objects(installation: Installation) -> tuple[JsonObject, ...]:
    """Return the service account, roles and bindings, and the roles of users, without those that are not needed."""
    lease_namespace = installation.configuration.leader_election.resource_namespace or installation.namespace
    objects: list[JsonObject] = [
        {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": object_metadata(NAME, installation.namespace),
            # The operator's pods request their token; other pods with this account get none automatically.
            "automountServiceAccountToken": False,
        },
        *_operator_roles(installation),
        *(user_role_objects() if installation.optional.has_user_roles else ()),
        *_operator_bindings(installation),
    ]
    if installation.configuration.leader_election.enabled:
        objects += _bound_role(LEASE_ROLE, lease_namespace, lease_rules(installation), installation)
    if not installation.is_manual:
        rules = certificate_rules(installation)
        objects += _bound_role(CERTIFICATE_ROLE, installation.namespace, rules, installation)
    return tuple(objects)


def _operator_roles(installation: Installation) -> tuple[JsonObject, ...]:
    """Return one ClusterRole; for chosen namespaces, a Role in each, and a ClusterRole for objects of the cluster."""
    rules = cluster_rules(installation)
    if not installation.watch_namespaces:
        return (_build_role("ClusterRole", CLUSTER_ROLE, "", rules),)
    of_cluster = tuple(rule for rule in rules if rule.is_cluster_scoped)
    of_namespace = tuple(rule for rule in rules if not rule.is_cluster_scoped)
    return (
        _build_role("ClusterRole", CLUSTER_ROLE, "", of_cluster),
        *(_build_role("Role", CLUSTER_ROLE, namespace, of_namespace) for namespace in installation.watch_namespaces),
    )


def _operator_bindings(installation: Installation) -> tuple[JsonObject, ...]:
    return (
        _build_binding("ClusterRole", CLUSTER_ROLE, "", installation),
        *(_build_binding("Role", CLUSTER_ROLE, namespace, installation) for namespace in installation.watch_namespaces),
    )


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
    return PolicyRule(
        group=resources[0].group,
        resources=plurals,
        verbs=verbs,
        why=why,
        names=names,
        is_cluster_scoped=not resources[0].namespaced,
    )


CONTROLLER_RULES = (
    _rule((PODCLIQUESETS,), (*_READ, "patch"), "watch sets, and add a finalizer"),
    _rule((PODCLIQUES, GROUPS), _CHILD, "create, update and delete the cliques and groups of a set"),
    _rule((PODGANGS,), _CHILD, "create, update and delete the gangs of a set"),
    _rule((PODCLIQUESETS, PODCLIQUES, GROUPS), ("patch",), "write their status", subresource="status"),
    _rule((PODGANGS,), ("patch",), "write their status", subresource="status"),
    _rule(
        (PODCLIQUESETS, PODCLIQUES, GROUPS),
        ("update",),
        "own their children, if OwnerReferencesPermissionEnforcement is enabled",
        subresource="finalizers",
    ),
    _rule(
        (PODGANGS,),
        ("update",),
        "own their scheduler objects, if OwnerReferencesPermissionEnforcement is enabled",
        subresource="finalizers",
    ),
    _rule((NATIVE_PODGROUPS,), _SCHEDULER_OBJECT, "create the pod groups of kube-scheduler, if it supports gangs"),
    # Their specs are immutable.
    _rule((NATIVE_COMPOSITES,), _RECREATED, "create the composite pod groups of kube-scheduler, if it supports gangs"),
    _rule((PODS, SERVICES), _CHILD, "create, ungate and delete pods, and the Services by which they find each other"),
    _rule((AUTOSCALERS,), _CHILD, "create, update and delete the autoscalers of cliques and groups"),
    _rule(
        (CONTROLLER_REVISIONS,),
        _CHILD,
        "store the pod templates of a set, for rolling updates and rollbacks",
    ),
    _rule((ROLES, ROLE_BINDINGS), _SCHEDULER_OBJECT, "let init containers read the PodCliques that they wait for"),
    _rule((NODES,), ("list", "watch"), "hold teardowns while most nodes are not ready"),
    _rule((EVENTS,), ("get", "create", "patch"), "record events and count repeats"),
)
ADMISSION_RULES = (
    _rule((TOPOLOGY_BINDINGS,), _READ, "validate sets that name a topology, and resolve its node labels"),
    _rule((TOPOLOGY_BINDINGS,), ("patch",), "report whether the topologies of schedulers agree", subresource="status"),
    _rule((MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS), ("list", "watch"), "check the webhook configurations of Grove"),
)
SCHEDULER_RULES: dict[str, tuple[PolicyRule, ...]] = {
    "kai-scheduler": (
        _rule((KAI_PODGROUPS,), _SCHEDULER_OBJECT, "create the pod groups of KAI"),
        _rule((KAI_QUEUES,), _READ, "check that the queue of a set exists"),
        _rule((KAI_TOPOLOGIES,), _SCHEDULER_OBJECT, "create the topologies of KAI"),
        _rule(
            (TOPOLOGY_BINDINGS,),
            ("update",),
            "own the topologies that it creates for KAI, if OwnerReferencesPermissionEnforcement is enabled",
            subresource="finalizers",
        ),
    ),
    "volcano": (
        _rule((VOLCANO_PODGROUPS,), _SCHEDULER_OBJECT, "create the pod groups of Volcano"),
        _rule((VOLCANO_QUEUES,), _READ, "check that the queue of a set exists and is open"),
    ),
}
# Only if the operator creates the certificate itself.
TRUST_RULES = (
    _rule((MUTATING_WEBHOOKS,), ("patch",), "update the CA bundle of Grove's webhooks", names=MUTATING_NAMES),
    _rule((VALIDATING_WEBHOOKS,), ("patch",), "update the CA bundle of Grove's webhooks", names=VALIDATING_NAMES),
)


def _bound_role(
    name: str, namespace: str, rules: Iterable[PolicyRule], installation: Installation
) -> tuple[JsonObject, ...]:
    return _build_role("Role", name, namespace, rules), _build_binding("Role", name, namespace, installation)


def _build_role(kind: str, name: str, namespace: str, rules: Iterable[PolicyRule]) -> JsonObject:
    return {
        "apiVersion": f"{_RBAC}/v1",
        "kind": kind,
        "metadata": object_metadata(name, namespace),
        "rules": [rule.wire() for rule in rules],
    }


def _build_binding(kind: str, name: str, namespace: str, installation: Installation) -> JsonObject:
    return {
        "apiVersion": f"{_RBAC}/v1",
        "kind": f"{kind}Binding",
        "metadata": object_metadata(name, namespace),
        "roleRef": {"apiGroup": _RBAC, "kind": kind, "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": NAME, "namespace": installation.namespace}],
    }
