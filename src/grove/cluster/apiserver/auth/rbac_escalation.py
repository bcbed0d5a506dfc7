"""Privilege escalation check: a restricted user can only grant permissions that the user holds."""

from collections.abc import Iterator

import msgspec

from grove.api.types.meta import JsonObject
from grove.cluster.apiserver.auth.rbac_authorizer import CLUSTER_ROLES, RBAC, ROLES, Attempt, RBACAuthorizer
from grove.cluster.apiserver.auth.user_info import UserInfo
from grove.cluster.apiserver.context import Context
from grove.cluster.apiserver.request_info import RequestInfo
from grove.cluster.apiserver.status_errors import forbidden, not_found


class _Piece(msgspec.Struct, frozen=True):
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


def confirm_grant(context: Context, target: RequestInfo, new: JsonObject) -> None:
    """Raise 403 if the role or binding grants permissions that the user does not hold."""
    user = context.user
    if target.resource_info.group != RBAC or user.is_unrestricted:
        return
    authorizer, name = RBACAuthorizer(context.store), new["metadata"]["name"]
    if "roleRef" in new:
        rules = _given_rules(context, authorizer, target, new["roleRef"])
    elif _may(authorizer, user, "escalate", target.resource_info.plural, target.namespace, name):
        return
    else:
        rules = new.get("rules") or []
    held = [grant.rule for grant in authorizer.rights(user, target.namespace).grants]
    missing = [piece for piece in _pieces(rules) if not any(_holds(rule, piece) for rule in held)]
    if missing:
        groups = " ".join(f'"{group}"' for group in user.groups)
        lines = "\n".join(map(str, missing))
        why = f'user "{user.name}" (groups=[{groups}]) is attempting to grant RBAC permissions not currently held:'
        raise forbidden(target.resource_info, name, f"{why}\n{lines}")


def _given_rules(
    context: Context, authorizer: RBACAuthorizer, target: RequestInfo, reference: JsonObject
) -> list[JsonObject]:
    resource_info = ROLES if reference["kind"] == "Role" else CLUSTER_ROLES
    namespace = target.namespace if resource_info.namespaced else ""
    if _may(authorizer, context.user, "bind", resource_info.plural, target.namespace, reference["name"]):
        return []
    entry = context.store.table(resource_info).find(namespace, reference["name"])
    if entry is None:
        # A real API server reports the name of the role with the kind of the binding.
        raise not_found(target.resource_info, reference["name"])
    return entry.obj.get("rules") or []


def _may(authorizer: RBACAuthorizer, user: UserInfo, verb: str, plural: str, namespace: str, name: str) -> bool:
    attempt = Attempt(verb=verb, group=RBAC, resource=plural, namespace=namespace, name=name)
    return authorizer.decide(user, attempt).is_allowed


def _pieces(rules: list[JsonObject]) -> Iterator[_Piece]:
    for rule in rules:
        for verb in rule.get("verbs") or ():
            for path in rule.get("nonResourceURLs") or ():
                yield _Piece(verb, path=path)
            for group in rule.get("apiGroups") or ():
                for resource in rule.get("resources") or ():
                    for name in rule.get("resourceNames") or ("",):
                        yield _Piece(verb, group, resource, name)


def _holds(rule: JsonObject, piece: _Piece) -> bool:
    if not _has(rule, "verbs", piece.verb):
        return False
    if piece.path:
        return any(
            one in ("*", piece.path) or (one.endswith("*") and piece.path.startswith(one.rstrip("*")))
            for one in rule.get("nonResourceURLs") or ()
        )
    names = rule.get("resourceNames")
    return (
        _has(rule, "apiGroups", piece.group)
        and (_has(rule, "resources", piece.resource) or _has_all_of(rule, piece.resource))
        and (not names or piece.name in names)
    )


def _has(rule: JsonObject, field: str, wanted: str) -> bool:
    values = rule.get(field) or ()
    return wanted in values or "*" in values


def _has_all_of(rule: JsonObject, resource: str) -> bool:
    """Return whether the rule covers this subresource of all resources, as `*/status` does."""
    _, slash, subresource = resource.partition("/")
    return bool(slash) and f"*/{subresource}" in (rule.get("resources") or ())
