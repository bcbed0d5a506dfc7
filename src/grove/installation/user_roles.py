"""Roles for the users of a cluster. They aggregate into the `view`, `edit` and `admin` of Kubernetes.

An editor writes sets and scales their parts. The parts themselves are written by the operator alone.
"""

from grove.api.resources import GROUPS, PODCLIQUES, PODCLIQUESETS, PODGANGS
from grove.api.types.meta import JsonObject
from grove.installation.labels import object_metadata
from grove.installation.policy_rule import PolicyRule

VIEW_ROLE = "grove:view"
EDIT_ROLE = "grove:edit"

_RBAC = "rbac.authorization.k8s.io"
_READ = ("get", "list", "watch")
_WRITE = ("create", "delete", "deletecollection", "patch", "update")
_SETS, _PARTS = PODCLIQUESETS.plural, (PODCLIQUES.plural, GROUPS.plural)
_SCALABLE = tuple(f"{plural}/scale" for plural in (_SETS, *_PARTS))
_STATUSES = tuple(f"{plural}/status" for plural in (_SETS, *_PARTS))

VIEW_RULES = (
    PolicyRule(
        group=PODCLIQUESETS.group,
        resources=(_SETS, *_PARTS, *_STATUSES, *_SCALABLE),
        verbs=_READ,
        why="see sets, groups and cliques",
    ),
    PolicyRule(
        group=PODGANGS.group,
        resources=(PODGANGS.plural, f"{PODGANGS.plural}/status"),
        verbs=_READ,
        why="see gangs and why they wait",
    ),
)
EDIT_RULES = (
    PolicyRule(group=PODCLIQUESETS.group, resources=(_SETS,), verbs=_WRITE, why="create, change and delete sets"),
    PolicyRule(
        group=PODCLIQUESETS.group,
        resources=_SCALABLE,
        verbs=("patch", "update"),
        why="scale sets, groups and cliques",
    ),
)
# The roles of Kubernetes that get the rules of each role.
_AGGREGATES = {VIEW_ROLE: ("view", "edit", "admin"), EDIT_ROLE: ("edit", "admin")}


def user_role_objects() -> tuple[JsonObject, ...]:
    return tuple(_role(name, rules) for name, rules in ((VIEW_ROLE, VIEW_RULES), (EDIT_ROLE, EDIT_RULES)))


def _role(name: str, rules: tuple[PolicyRule, ...]) -> JsonObject:
    metadata = object_metadata(name)
    aggregates = {f"{_RBAC}/aggregate-to-{role}": "true" for role in _AGGREGATES[name]}
    return {
        "apiVersion": f"{_RBAC}/v1",
        "kind": "ClusterRole",
        "metadata": {**metadata, "labels": {**metadata["labels"], **aggregates}},
        "rules": [rule.wire() for rule in rules],
    }
