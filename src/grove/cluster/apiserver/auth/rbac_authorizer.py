"""RBAC authorizer: decides what a user may do, from the roles and bindings in the store. It writes nothing.

`rbac_objects.py` validates roles and bindings; `rbac_defaults.py` creates the default ones.
"""

from collections.abc import Iterable, Iterator

import msgspec

from grove.api.types.meta import JsonObject
from grove.cluster.apiserver.auth.user_info import UserInfo, account_name
from grove.cluster.apiserver.codec.bool_params import is_on
from grove.cluster.apiserver.codec.selectors import find_exact_name
from grove.cluster.apiserver.status_errors import StatusError
from grove.cluster.built_in_resources import BY_QUALIFIED
from grove.cluster.storage.store import Storage
from grove.kube.transport import Request

RBAC = "rbac.authorization.k8s.io"
ROLES = BY_QUALIFIED[f"roles.{RBAC}"]
ROLE_BINDINGS = BY_QUALIFIED[f"rolebindings.{RBAC}"]
CLUSTER_ROLES = BY_QUALIFIED[f"clusterroles.{RBAC}"]
CLUSTER_ROLE_BINDINGS = BY_QUALIFIED[f"clusterrolebindings.{RBAC}"]
_KINDS = (ROLES, ROLE_BINDINGS, CLUSTER_ROLES, CLUSTER_ROLE_BINDINGS)

_VERBS = {"POST": "create", "GET": "get", "HEAD": "get", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_NAMESPACE_SUBRESOURCES = ("status", "finalize")


class Attributes(msgspec.Struct, frozen=True, kw_only=True):
    """The attributes of a request: a verb on a resource, or on a non-resource path."""

    verb: str
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    # Only for non-resource requests.
    path: str = ""

    @property
    def full_resource(self) -> str:
        return f"{self.resource}/{self.subresource}" if self.subresource else self.resource


class Grant(msgspec.Struct, frozen=True):
    """One rule of a role, and the binding that grants it to the user."""

    rule: JsonObject
    why: str


class UserRules(msgspec.Struct, frozen=True):
    """The rules of a user in a namespace, and an error message for each binding whose role does not exist."""

    grants: tuple[Grant, ...]
    error_messages: tuple[str, ...]


class Decision(msgspec.Struct, frozen=True):
    is_allowed: bool
    reason: str = ""


class RBACAuthorizer:
    """An authorizer that reads the current roles and bindings of the store."""

    def __init__(self, store: Storage) -> None:
        self._tables = [store.table(resource_info) for resource_info in _KINDS]
        self._store = store
        # Rules by user and namespace, until a role or binding changes.
        self._cache: dict[tuple[str, tuple[str, ...], str], UserRules] = {}
        self._cached_at: list[int] = []

    def decide(self, user: UserInfo, attributes: Attributes) -> Decision:
        if user.is_unrestricted:
            return Decision(True)
        user_rules = self.rules_for(user, attributes.namespace)
        for grant in user_rules.grants:
            if _rule_allows(grant.rule, attributes):
                return Decision(True, grant.why)
        return Decision(False, f"RBAC: {_join(user_rules.error_messages)}" if user_rules.error_messages else "")

    def check(self, user: UserInfo, attributes: Attributes) -> None:
        """Raise 403 unless the user is allowed to do this."""
        decision = self.decide(user, attributes)
        if not decision.is_allowed:
            raise _forbidden_error(user, attributes, decision.reason)

    def rules_for(self, user: UserInfo, namespace: str) -> UserRules:
        ends = [table.end for table in self._tables]
        if ends != self._cached_at:
            self._cache.clear()
            self._cached_at = ends
        key = (user.name, user.groups, namespace)
        found = self._cache.get(key)
        if found is None:
            found = self._cache[key] = self._resolve_rules(user, namespace)
        return found

    def _resolve_rules(self, user: UserInfo, namespace: str) -> UserRules:
        grants: list[Grant] = []
        error_messages: list[str] = []
        for binding, subject in self._bindings(user, namespace):
            reference = binding["roleRef"]
            rules = self._rules(reference, binding["metadata"].get("namespace", ""))
            if rules is None:
                error_messages.append(f'{reference["kind"].lower()}.{RBAC} "{reference["name"]}" not found')
                continue
            why = _describe_grant(binding, subject)
            grants += [Grant(rule, why) for rule in rules]
        return UserRules(tuple(grants), tuple(error_messages))

    def _bindings(self, user: UserInfo, namespace: str) -> Iterator[tuple[JsonObject, JsonObject]]:
        """Yield every binding of the user, with the subject that matches."""
        for resource_info in (CLUSTER_ROLE_BINDINGS, ROLE_BINDINGS) if namespace else (CLUSTER_ROLE_BINDINGS,):
            place = namespace if resource_info is ROLE_BINDINGS else ""
            for entry in self._store.table(resource_info).entries(place):
                for subject in entry.obj.get("subjects") or ():
                    if _subject_matches(subject, user, place):
                        yield entry.obj, subject
                        break

    def _rules(self, reference: JsonObject, namespace: str) -> list[JsonObject] | None:
        is_role = reference["kind"] == "Role"
        entry = self._store.table(ROLES if is_role else CLUSTER_ROLES).find(
            namespace if is_role else "", reference["name"]
        )
        return None if entry is None else entry.obj.get("rules") or []


def get_attributes(request: Request) -> Attributes:
    """Return the attributes of a request. The resource need not exist."""
    parts = request.path.strip("/").split("/")
    verb = _VERBS.get(request.method, request.method.lower())
    if parts[0] == "api" and len(parts) > 2:
        group, rest = "", parts[2:]
    elif parts[0] == "apis" and len(parts) > 3:
        group, rest = parts[1], parts[3:]
    else:
        return Attributes(verb=request.method.lower() if request.method != "HEAD" else "get", path=request.path)
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 1:
        namespace = rest[1]
        if len(rest) > 2 and rest[2] not in _NAMESPACE_SUBRESOURCES:
            rest = rest[2:]
    resource, name, subresource = (*rest, "", "")[:3]
    if not name and verb in ("get", "delete"):
        verb = _collection_verb(verb, request)
        name = _selected_name(request)
    return Attributes(
        verb=verb, group=group, resource=resource, subresource=subresource, namespace=namespace, name=name
    )  # fmt: skip


def _collection_verb(verb: str, request: Request) -> str:
    if verb == "delete":
        return "deletecollection"
    return "watch" if is_on(request.query, "watch") else "list"


def _selected_name(request: Request) -> str:
    """Return the name that a field selector on `metadata.name` selects: RBAC treats such a list as that object."""
    selector = request.query.get("fieldSelector", "")
    return find_exact_name(selector) if "metadata.name" in selector else ""


def _subject_matches(subject: JsonObject, user: UserInfo, namespace: str) -> bool:
    match subject.get("kind"):
        case "User":
            return subject.get("name") == user.name
        case "Group":
            return subject.get("name") in user.groups
        case "ServiceAccount":
            place = subject.get("namespace") or namespace
            return bool(place) and account_name(place, subject.get("name", "")) == user.name
        case _:
            return False


def _rule_allows(rule: JsonObject, attributes: Attributes) -> bool:
    if not _includes(rule.get("verbs"), attributes.verb):
        return False
    if attributes.path:
        return any(_path_matches(pattern, attributes.path) for pattern in rule.get("nonResourceURLs") or ())
    names = rule.get("resourceNames")
    return (
        _includes(rule.get("apiGroups"), attributes.group)
        and _includes_resource(rule.get("resources") or (), attributes)
        and (not names or attributes.name in names)
    )


def _includes(wanted: Iterable[str] | None, value: str) -> bool:
    return wanted is not None and (value in wanted or "*" in wanted)


def _includes_resource(wanted: Iterable[str], attributes: Attributes) -> bool:
    full = attributes.full_resource
    return any(
        one in ("*", full) or (bool(attributes.subresource) and one == f"*/{attributes.subresource}") for one in wanted
    )


def _path_matches(pattern: str, path: str) -> bool:
    return pattern in ("*", path) or (pattern.endswith("*") and path.startswith(pattern.rstrip("*")))


def _describe_grant(binding: JsonObject, subject: JsonObject) -> str:
    reference, metadata = binding["roleRef"], binding["metadata"]
    shown = _format_name(metadata["name"], metadata.get("namespace", ""))
    whom = subject["name"]
    if subject["kind"] == "ServiceAccount":
        whom = _format_name(whom, subject.get("namespace", ""))
    return (
        f'RBAC: allowed by {binding["kind"]} "{shown}" of {reference["kind"]} "{reference["name"]}" '
        f'to {subject["kind"]} "{whom}"'
    )


def _format_name(name: str, namespace: str) -> str:
    return f"{name}/{namespace}" if namespace else name


def _join(error_messages: tuple[str, ...]) -> str:
    return error_messages[0] if len(error_messages) == 1 else f"[{', '.join(error_messages)}]"


def _forbidden_error(user: UserInfo, attributes: Attributes, reason: str) -> StatusError:
    who = f'User "{user.name}" cannot {attributes.verb}'
    if attributes.path:
        return StatusError(403, "Forbidden", f'forbidden: {who} path "{attributes.path}"', {})
    qualified = f"{attributes.resource}.{attributes.group}" if attributes.group else attributes.resource
    named = f' "{attributes.name}"' if attributes.name else ""
    where = f'in the namespace "{attributes.namespace}"' if attributes.namespace else "at the cluster scope"
    message = (
        f"{qualified}{named} is forbidden: {who} resource "
        f'"{attributes.full_resource}" in API group "{attributes.group}" {where}'
    )
    details: JsonObject = {"name": attributes.name} if attributes.name else {}
    if attributes.group:
        details["group"] = attributes.group
    details["kind"] = attributes.resource
    return StatusError(403, "Forbidden", f"{message}: {reason}" if reason else message, details)
