"""Let the init containers of a set read PodCliques: a Role and a RoleBinding, only for sets with a start-up order.

The subjects are the service accounts of the set's pods. Their tokens are projected into the init container alone
(`init_container.py`), so no Secret and no ServiceAccount is created.
"""

from collections.abc import Iterator
from typing import Any

from grove.api import labels, names
from grove.api.resources import PODCLIQUES, ROLE_BINDINGS, ROLES, Resource
from grove.api.startup_order import dependencies_by_clique
from grove.api.types.meta import JsonObject, to_wire
from grove.api.types.rbac import RoleReference, RoleRule, RoleSubject
from grove.planner.actions import WHOLE_SET, Action, Chain, Create, CreateRejection, Patch, chain, delete_object
from grove.planner.child_manifests import build_owner
from grove.planner.child_sync import Retries
from grove.planner.snapshot import SetContext, Snapshot

_RULE = RoleRule(api_groups=(PODCLIQUES.group,), resources=(PODCLIQUES.plural,), verbs=("get", "list", "watch"))
_WHY = "init containers of the set wait for other cliques"


def plan_access(snapshot: Snapshot, retries: Retries) -> tuple[Chain, ...]:
    """Create or correct the Role and the RoleBinding of a set with a start-up order, which is immutable."""
    if not dependencies_by_clique(snapshot.context.spec.template):
        return ()
    stage = (*_plan_role(snapshot), *_plan_binding(snapshot))
    return chain("access", WHOLE_SET, retries.without_waiting(stage))


def find_open_access_rejections(snapshot: Snapshot) -> tuple[CreateRejection, ...]:
    """Return the rejections of a Role or RoleBinding that the set still needs."""
    if not dependencies_by_clique(snapshot.context.spec.template):
        return ()
    needed = (*_plan_role(snapshot), *_plan_binding(snapshot))
    keys = [action.failure_key for action in needed if isinstance(action, Create)]
    return tuple(failure for failure in snapshot.failures if failure.key in keys)


def _plan_role(snapshot: Snapshot) -> Iterator[Action]:
    context, name = snapshot.context, names.role(snapshot.context.name)
    role = next((one for one in snapshot.roles if one.metadata.name == name), None)
    rules = [to_wire(_RULE)]
    if role is None:
        yield _create(context, ROLES, labels.COMPONENT_ROLE, {"rules": rules})
    elif role.rules != (_RULE,) and not role.metadata.is_terminating:
        yield Patch(
            resource=ROLES,
            namespace=context.namespace,
            name=name,
            uid=role.metadata.uid,
            patch={"rules": rules},
            reason=_WHY,
        )


def _plan_binding(snapshot: Snapshot) -> Iterator[Action]:
    context, name = snapshot.context, names.role(snapshot.context.name)
    binding = next((one for one in snapshot.role_bindings if one.metadata.name == name), None)
    bound = () if binding is None else binding.subjects
    subjects = _subjects(snapshot, bound)
    wire = [to_wire(one) for one in subjects]
    reference = RoleReference(api_group=ROLES.group, kind=ROLES.kind, name=name)
    if binding is None:
        content = {"roleRef": to_wire(reference), "subjects": wire}
        yield _create(context, ROLE_BINDINGS, labels.COMPONENT_ROLE_BINDING, content)
    elif binding.metadata.is_terminating:
        return
    elif binding.role_ref != reference:
        # Never grant another role to the accounts of the set. The reference cannot be changed, only the whole binding.
        yield delete_object(ROLE_BINDINGS, binding.metadata, "it grants another role than that of the set")
    elif bound != subjects:
        yield Patch(
            resource=ROLE_BINDINGS,
            namespace=context.namespace,
            name=name,
            uid=binding.metadata.uid,
            patch={"subjects": wire},
            reason=_WHY,
        )


def _subjects(snapshot: Snapshot, bound: tuple[RoleSubject, ...]) -> tuple[RoleSubject, ...]:
    """Return the accounts of the set's pods. While an update runs, those of the older templates stay."""
    context = snapshot.context
    accounts = {_account(clique.spec.pod_spec) for clique in context.spec.template.cliques}
    progress = snapshot.pcs.status.rolling_update_progress
    if progress is not None and progress.update_ended_at is None:
        accounts.update(one.name for one in bound if one.namespace == context.namespace)
    return tuple(
        RoleSubject(kind="ServiceAccount", name=name, namespace=context.namespace) for name in sorted(accounts)
    )


def _account(pod_spec: JsonObject) -> str:
    return str(pod_spec.get("serviceAccountName") or pod_spec.get("serviceAccount") or "default")


def _create(context: SetContext, resource: Resource[Any], component: str, content: JsonObject) -> Create:
    name = names.role(context.name)
    return Create(
        resource=resource,
        namespace=context.namespace,
        name=name,
        body={
            "apiVersion": resource.api_version,
            "kind": resource.kind,
            "metadata": {
                "name": name,
                "namespace": context.namespace,
                "labels": {
                    **labels.default_labels(context.name),
                    # A label value cannot contain colons.
                    labels.NAME: name.replace(":", "-"),
                    labels.COMPONENT: component,
                },
                "ownerReferences": [build_owner(context.subject)],
            },
            **content,
        },
        failure_key=f"{resource.plural}/{name}",
        reason=_WHY,
    )
