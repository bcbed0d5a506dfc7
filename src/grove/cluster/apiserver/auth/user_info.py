"""Users of requests. `tokens.py` and `cluster/http/` authenticate them; `rbac_authorizer.py` authorizes them."""

from collections.abc import Mapping

import msgspec

from grove.api.types.meta import JsonObject

AUTHENTICATED = "system:authenticated"
_ANONYMOUS, _UNAUTHENTICATED = "system:anonymous", "system:unauthenticated"
_MASTERS = "system:masters"
_ACCOUNT_PREFIX = "system:serviceaccount:"


class UserInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A user or service account, as RBAC and webhooks see it."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()

    @property
    def is_unrestricted(self) -> bool:
        return _MASTERS in self.groups

    def to_wire(self) -> JsonObject:
        """Return the user as a `UserInfo` of the Kubernetes API."""
        found: JsonObject = {"username": self.name}
        if self.uid:
            found["uid"] = self.uid
        if self.groups:
            found["groups"] = list(self.groups)
        if self.extra:
            found["extra"] = {key: list(values) for key, values in self.extra}
        return found


# The user of the kubeconfig.
ADMIN = UserInfo(name="grove-admin", groups=(_MASTERS, AUTHENTICATED))


def account_name(namespace: str, name: str) -> str:
    """Return the user name of a service account."""
    return f"{_ACCOUNT_PREFIX}{namespace}:{name}"


def account_groups(namespace: str) -> tuple[str, ...]:
    return "system:serviceaccounts", f"system:serviceaccounts:{namespace}", AUTHENTICATED


def account(namespace: str, name: str) -> UserInfo:
    return UserInfo(name=account_name(namespace, name), groups=account_groups(namespace))


def impersonate(
    name: str, groups: tuple[str, ...] = (), uid: str = "", extra: Mapping[str, tuple[str, ...]] = {}
) -> UserInfo:
    """Return an impersonated user. Service accounts get their groups, `system:anonymous` is unauthenticated."""
    parts = name.removeprefix(_ACCOUNT_PREFIX).split(":")
    if not groups and name.startswith(_ACCOUNT_PREFIX) and len(parts) == 2:
        groups = account_groups(parts[0])
    elif name == _ANONYMOUS:
        groups = (*groups, _UNAUTHENTICATED)
    else:
        groups = (*groups, AUTHENTICATED)
    return UserInfo(name=name, uid=uid, groups=groups, extra=tuple(extra.items()))


# Users of the built-in controllers, with the names that they have on a real cluster.
GARBAGE_COLLECTOR = account("kube-system", "generic-garbage-collector")
NAMESPACE_CONTROLLER = account("kube-system", "namespace-controller")
DISRUPTION_CONTROLLER = account("kube-system", "disruption-controller")
AUTOSCALER = account("kube-system", "horizontal-pod-autoscaler")
POD_COLLECTOR = account("kube-system", "pod-garbage-collector")
# Part of the API server.
DEFINITION_CONTROLLER = UserInfo(name="system:apiserver", groups=(_MASTERS, AUTHENTICATED))
ACCOUNT_CONTROLLER = account("kube-system", "service-account-controller")
