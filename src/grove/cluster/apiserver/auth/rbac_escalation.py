"""Privilege escalation check: a restricted user can only grant permissions that the user holds."""

from collections.abc import Iterator

import msgspec

from grove.api.types.meta import JsonObject
from grove.cluster.apiserver.auth.rbac_authorizer import CLUSTER_ROLES, RBAC, ROLES, Attributes, RBACAuthorizer
from grove.cluster.apiserver.auth.user_info import UserInfo
from grove.cluster.apiserver.context import Context
from grove.cluster.apiserver.request_info import RequestInfo
from grove.cluster.apiserver.status_errors import forbidden, not_found


class _Permission(msgspec.Struct, frozen=True):
    """An atomic part of a rule: one verb on one resource, for one object or all, or on one path."""

    verb: str
    group: str = ""
    resource: str = ""
    name: str = ""
    path: str = ""

    def __str__(self) -> str:
        if self.path:
            return f'{{NonResourceURLs:["{self.path}"], Verbs:["{self.verb}"]}}'
        names = f', ResourceNames:["{self.name}"]' if self.name else ""
        return f'{{APIGroups:["{self.group}"], Resources:["{self.resource}"]{names}, Verbs:["{self.verb}"]}}'


def check_escalation(context: Context, target: RequestInfo, new: JsonObject) -> None:
    """Raise 403 if the role or binding grants permissions that the user does not hold."""
    user = context.user
    if target.resource_info.group != RBAC or user.is_unrestricted:
        return
    authorizer, name = RBACAuthorizer(context.store), new["metadata"]["name"]
    if "roleRef" in new:
        rules = _rules_of_role(context, authorizer, target, new["roleRef"])
    elif _is_allowed(authorizer, user, "escalate", target.resource_info.plural, target.namespace, name):
        return
    else:
        rules = new.get("rules") or []
    own_rules = [grant.rule for grant in authorizer.rules_for(user, target.namespace).grants]
    missing = [
        permission for permission in _break_down(rules) if not any(_rule_covers(rule, permission) for rule in own_rules)
    ]
    if missing:
        groups = " ".join(f'"{group}"' for group in user.groups)
        lines = "\n".join(map(str, missing))
        why = f'user "{user.name}" (groups=[{groups}]) is attempting to grant RBAC permissions not currently held:'
        raise forbidden(target.resource_info, name, f"{why}\n{lines}")


def is_covered(rule: JsonObject, rules: list[JsonObject]) -> bool:
    """Return whether these rules together grant everything that one rule grants."""
    return all(any(_rule_covers(own, permission) for own in rules) for permission in _break_down([rule]))


def _rules_of_role(
    context: Context, authorizer: RBACAuthorizer, target: RequestInfo, reference: JsonObject
) -> list[JsonObject]:
    resource_info = ROLES if reference["kind"] == "Role" else CLUSTER_ROLES
    namespace = target.namespace if resource_info.namespaced else ""
    if _is_allowed(authorizer, context.user, "bind", resource_info.plural, target.namespace, reference["name"]):
        return []
    entry = context.store.table(resource_info).find(namespace, reference["name"])
    if entry is None:
        # A real API server reports the name of the role with the kind of the binding.
        raise not_found(target.resource_info, reference["name"])
    return entry.obj.get("rules") or []


def _is_allowed(authorizer: RBACAuthorizer, user: UserInfo, verb: str, plural: str, namespace: str, name: str) -> bool:
    attributes = Attributes(verb=verb, group=RBAC, resource=plural, namespace=namespace, name=name)
    return authorizer.decide(user, attributes).is_allowed


def _break_down(rules: list[JsonObject]) -> Iterator[_Permission]:
    for rule in rules:
        for verb in rule.get("verbs") or ():
            for path in rule.get("nonResourceURLs") or ():
                yield _Permission(verb, path=path)
            for group in rule.get("apiGroups") or ():
                for resource in rule.get("resources") or ():
                    for name in rule.get("resourceNames") or ("",):
                        yield _Permission(verb, group, resource, name)


def _rule_covers(rule: JsonObject, permission: _Permission) -> bool:
    if not _has(rule, "verbs", permission.verb):
        return False
    if permission.path:
        return any(
            one in ("*", permission.path) or (one.endswith("*") and permission.path.startswith(one.rstrip("*")))
            for one in rule.get("nonResourceURLs") or ()
        )
    names = rule.get("resourceNames")
    return (
        _has(rule, "apiGroups", permission.group)
        and (_has(rule, "resources", permission.resource) or _has_all_of(rule, permission.resource))
        and (not names or permission.name in names)
    )


def _has(rule: JsonObject, field: str, wanted: str) -> bool:
    values = rule.get(field) or ()
    return wanted in values or "*" in values


def _has_all_of(rule: JsonObject, resource: str) -> bool:
    """Return whether the rule covers this subresource of all resources, as `*/status` does."""
    _, slash, subresource = resource.partition("/")
    return bool(slash) and f"*/{subresource}" in (rule.get("resources") or ())
