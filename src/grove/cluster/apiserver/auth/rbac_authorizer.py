"""RBAC authorizer: decides what a user may do, from the roles and bindings in the store. It writes nothing.

`rbac_objects.py` validates roles and bindings; `rbac_defaults.py` creates the default ones.
"""

from collections.abc import Iterable, Iterator

import msgspec

from grove.api.types.meta import JsonObject
from grove.cluster.apiserver.auth.user_info import UserInfo, account_name
from grove.cluster.apiserver.codec.bool_params import is_on
from grove.cluster.apiserver.codec.selectors import exact_name
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


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
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


class Rights(msgspec.Struct, frozen=True):
    """All a caller has in a namespace; roles that a binding names and nobody made are problems."""

    grants: tuple[Grant, ...]
    problems: tuple[str, ...]


class Decision(msgspec.Struct, frozen=True):
    is_allowed: bool
    reason: str = ""


class RBACAuthorizer:
    """An authorizer that reads the current roles and bindings of the store."""

    def __init__(self, store: Storage) -> None:
        self._tables = [store.table(resource_info) for resource_info in _KINDS]
        self._store = store
        # Rules by user and namespace, until a role or binding changes.
        self._kept: dict[tuple[str, tuple[str, ...], str], Rights] = {}
        self._kept_at: list[int] = []

    def decide(self, user: UserInfo, attempt: Attempt) -> Decision:
        if user.is_unrestricted:
            return Decision(True)
        rights = self.rights(user, attempt.namespace)
        for grant in rights.grants:
            if _covers(grant.rule, attempt):
                return Decision(True, grant.why)
        return Decision(False, f"RBAC: {_together(rights.problems)}" if rights.problems else "")

    def check(self, user: UserInfo, attempt: Attempt) -> None:
        """Raise 403 unless the user is allowed to do this."""
        decision = self.decide(user, attempt)
        if not decision.is_allowed:
            raise _forbidden(user, attempt, decision.reason)

    def rights(self, user: UserInfo, namespace: str) -> Rights:
        ends = [table.end for table in self._tables]
        if ends != self._kept_at:
            self._kept.clear()
            self._kept_at = ends
        key = (user.name, user.groups, namespace)
        found = self._kept.get(key)
        if found is None:
            found = self._kept[key] = self._rights(user, namespace)
        return found

    def _rights(self, user: UserInfo, namespace: str) -> Rights:
        grants: list[Grant] = []
        problems: list[str] = []
        for binding, subject in self._bindings(user, namespace):
            reference = binding["roleRef"]
            rules = self._rules(reference, binding["metadata"].get("namespace", ""))
            if rules is None:
                problems.append(f'{reference["kind"].lower()}.{RBAC} "{reference["name"]}" not found')
                continue
            why = _why(binding, subject)
            grants += [Grant(rule, why) for rule in rules]
        return Rights(tuple(grants), tuple(problems))

    def _bindings(self, user: UserInfo, namespace: str) -> Iterator[tuple[JsonObject, JsonObject]]:
        """Yield every binding of the user, with the subject that matches."""
        for resource_info in (CLUSTER_ROLE_BINDINGS, ROLE_BINDINGS) if namespace else (CLUSTER_ROLE_BINDINGS,):
            place = namespace if resource_info is ROLE_BINDINGS else ""
            for entry in self._store.table(resource_info).entries(place):
                for subject in entry.obj.get("subjects") or ():
                    if _is_about(subject, user, place):
                        yield entry.obj, subject
                        break

    def _rules(self, reference: JsonObject, namespace: str) -> list[JsonObject] | None:
        is_role = reference["kind"] == "Role"
        entry = self._store.table(ROLES if is_role else CLUSTER_ROLES).find(
            namespace if is_role else "", reference["name"]
        )
        return None if entry is None else entry.obj.get("rules") or []


def attempt_of(request: Request) -> Attempt:
    """Return the attributes of a request. The resource need not exist."""
    parts = request.path.strip("/").split("/")
    verb = _VERBS.get(request.method, request.method.lower())
    if parts[0] == "api" and len(parts) > 2:
        group, rest = "", parts[2:]
    elif parts[0] == "apis" and len(parts) > 3:
        group, rest = parts[1], parts[3:]
    else:
        return Attempt(verb=request.method.lower() if request.method != "HEAD" else "get", path=request.path)
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 1:
        namespace = rest[1]
        if len(rest) > 2 and rest[2] not in _NAMESPACE_SUBRESOURCES:
            rest = rest[2:]
    resource, name, subresource = (*rest, "", "")[:3]
    if not name and verb in ("get", "delete"):
        verb = _collective(verb, request)
        name = _selected_name(request)
    return Attempt(
        verb=verb, group=group, resource=resource, subresource=subresource, namespace=namespace, name=name
    )  # fmt: skip


def _collective(verb: str, request: Request) -> str:
    if verb == "delete":
        return "deletecollection"
    return "watch" if is_on(request.query, "watch") else "list"


def _selected_name(request: Request) -> str:
    """Return the name that a field selector on `metadata.name` selects: RBAC treats such a list as that object."""
    selector = request.query.get("fieldSelector", "")
    return exact_name(selector) if "metadata.name" in selector else ""


def _is_about(subject: JsonObject, user: UserInfo, namespace: str) -> bool:
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


def _covers(rule: JsonObject, attempt: Attempt) -> bool:
    if not _has(rule.get("verbs"), attempt.verb):
        return False
    if attempt.path:
        return any(_is_path(pattern, attempt.path) for pattern in rule.get("nonResourceURLs") or ())
    names = rule.get("resourceNames")
    return (
        _has(rule.get("apiGroups"), attempt.group)
        and _has_resource(rule.get("resources") or (), attempt)
        and (not names or attempt.name in names)
    )


def _has(wanted: Iterable[str] | None, value: str) -> bool:
    return wanted is not None and (value in wanted or "*" in wanted)


def _has_resource(wanted: Iterable[str], attempt: Attempt) -> bool:
    full = attempt.full_resource
    return any(
        one in ("*", full) or (bool(attempt.subresource) and one == f"*/{attempt.subresource}") for one in wanted
    )


def _is_path(pattern: str, path: str) -> bool:
    return pattern in ("*", path) or (pattern.endswith("*") and path.startswith(pattern.rstrip("*")))


def _why(binding: JsonObject, subject: JsonObject) -> str:
    reference, metadata = binding["roleRef"], binding["metadata"]
    shown = _shown(metadata["name"], metadata.get("namespace", ""))
    whom = subject["name"]
    if subject["kind"] == "ServiceAccount":
        whom = _shown(whom, subject.get("namespace", ""))
    return (
        f'RBAC: allowed by {binding["kind"]} "{shown}" of {reference["kind"]} "{reference["name"]}" '
        f'to {subject["kind"]} "{whom}"'
    )


def _shown(name: str, namespace: str) -> str:
    return f"{name}/{namespace}" if namespace else name


def _together(problems: tuple[str, ...]) -> str:
    return problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]"


def _forbidden(user: UserInfo, attempt: Attempt, reason: str) -> StatusError:
    who = f'User "{user.name}" cannot {attempt.verb}'
    if attempt.path:
        return StatusError(403, "Forbidden", f'forbidden: {who} path "{attempt.path}"', {})
    qualified = f"{attempt.resource}.{attempt.group}" if attempt.group else attempt.resource
    named = f' "{attempt.name}"' if attempt.name else ""
    where = f'in the namespace "{attempt.namespace}"' if attempt.namespace else "at the cluster scope"
    message = (
        f"{qualified}{named} is forbidden: {who} resource "
        f'"{attempt.full_resource}" in API group "{attempt.group}" {where}'
    )
    details: JsonObject = {"name": attempt.name} if attempt.name else {}
    if attempt.group:
        details["group"] = attempt.group
    details["kind"] = attempt.resource
    return StatusError(403, "Forbidden", f"{message}: {reason}" if reason else message, details)
