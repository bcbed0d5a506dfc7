"""Webhook configurations: which writes the API server sends to which webhook, and match conditions that skip calls.

`admission/` computes the responses. A webhook that is down never blocks a deletion: the match conditions skip
terminating objects (the removal of a finalizer is an update), and writes that change no validated field.
"""

from typing import Any, Literal

import msgspec

from grove.api import labels
from grove.api.resources import (
    AUTOSCALERS,
    CONTROLLER_REVISIONS,
    GROUPS,
    MUTATING_WEBHOOKS,
    NATIVE_COMPOSITES,
    NATIVE_PODGROUPS,
    PODCLIQUES,
    PODCLIQUESETS,
    PODGANGS,
    PODS,
    SERVICES,
    TOPOLOGY_BINDINGS,
    VALIDATING_WEBHOOKS,
    Resource,
)
from grove.api.types.meta import JsonObject

DEFAULT_SET_PATH = "/webhooks/default-podcliqueset"
VALIDATE_SET_PATH = "/webhooks/validate-podcliqueset"
VALIDATE_CLIQUE_PATH = "/webhooks/validate-podclique"
VALIDATE_GROUP_PATH = "/webhooks/validate-podcliquescalinggroup"
VALIDATE_SCALE_PATH = "/webhooks/validate-scale"
VALIDATE_TOPOLOGY_PATH = "/webhooks/validate-clustertopology"
AUTHORIZER_PATH = "/webhooks/authorizer-webhook"

# The names of all configurations. They are stable: tools that manage installations use them.
MUTATING_NAMES = ("podcliqueset-defaulting-webhook",)
VALIDATING_NAMES = (
    "podcliqueset-validating-webhook",
    "podclique-validating-webhook",
    "podcliquescalinggroup-validating-webhook",
    "scale-validating-webhook",
    "clustertopology-validating-webhook",
    "authorizer-webhook",
)
_TIMEOUT_SECONDS = 10

_Scope = Literal["Namespaced", "Cluster", "*"]
_FailurePolicy = Literal["Fail", "Ignore"]


class ServiceTarget(msgspec.Struct, frozen=True, kw_only=True):
    """The Service of the webhooks, for an operator inside the cluster."""

    namespace: str
    name: str = "grove-operator"
    port: int = 443


class UrlTarget(msgspec.Struct, frozen=True, kw_only=True):
    """The address of the webhooks, `https://host:port`, for an operator outside of the cluster."""

    url: str


Target = ServiceTarget | UrlTarget


def webhook_configurations(
    target: Target,
    *,
    ca_bundle: str,
    has_authorizer: bool,
    operator_user: str = "",
    namespaces: tuple[str, ...] = (),
    annotations: JsonObject | None = None,
) -> tuple[JsonObject, ...]:
    """Return all configurations, including the defaults of the API server, so that they can be compared.

    `ca_bundle` is base64, as on the wire; "" leaves it out, so that another component can inject it. Writes of
    `operator_user` to cliques and groups are not reviewed: the set that they follow from was reviewed. With
    `namespaces`, only writes in these are reviewed.
    """
    made = _Maker(target=target, ca_bundle=ca_bundle, operator_user=operator_user, namespaces=namespaces)
    configurations = [
        _build_mutating_webhook("podcliqueset-defaulting-webhook", made.set_defaulting()),
        _build_validating_webhook("podcliqueset-validating-webhook", made.set_validating()),
        _build_validating_webhook(
            "podclique-validating-webhook", made.child_validating("pclq", PODCLIQUES, VALIDATE_CLIQUE_PATH)
        ),
        _build_validating_webhook(
            "podcliquescalinggroup-validating-webhook", made.child_validating("pcsg", GROUPS, VALIDATE_GROUP_PATH)
        ),
        _build_validating_webhook("scale-validating-webhook", made.scale_validating()),
        _build_validating_webhook("clustertopology-validating-webhook", made.topology_validating()),
    ]
    if has_authorizer:
        configurations.append(
            _build_validating_webhook("authorizer-webhook", made.authorizer(), made.deletion_authorizer())
        )
    return tuple(_annotate(one, annotations or {}) for one in configurations)


def _annotate(configuration: JsonObject, annotations: JsonObject) -> JsonObject:
    if not annotations:
        return configuration
    return {**configuration, "metadata": {**configuration["metadata"], "annotations": dict(annotations)}}


# --- match conditions ------------------------------------------------------------------------------------------------

Condition = dict[str, str]

_NOT_TERMINATING: Condition = {
    "name": "not-leaving",
    "expression": "request.operation == 'CREATE' || !has(oldObject.metadata.deletionTimestamp)",
}
_SPEC_CHANGED: Condition = {
    "name": "spec-changed",
    "expression": "request.operation == 'CREATE' || object.?spec != oldObject.?spec",
}
# One annotation of a set is validated: multi-node NVLink cannot be enabled or disabled later.
_SET_CHANGED: Condition = {
    "name": "spec-or-nvlink-group-changed",
    "expression": (
        "request.operation == 'CREATE' || object.?spec != oldObject.?spec || "
        f"object.metadata.?annotations[?'{labels.MNNVL_GROUP}'] != "
        f"oldObject.metadata.?annotations[?'{labels.MNNVL_GROUP}']"
    ),
}
# A Scale omits a count of zero.
_SCALE_CHANGED: Condition = {
    "name": "replicas-changed",
    "expression": "object.?spec.?replicas.orValue(0) != oldObject.?spec.?replicas.orValue(0)",
}
# Objects that claim to belong to a set, by label or by owner: each can be missing, or be added later.
_CLAIMS_A_SET: Condition = {
    "name": "claims-a-set",
    "expression": " || ".join(
        f"({one} != null && ({one}.metadata.?labels[?'{labels.MANAGED_BY}'].orValue('') == '{labels.MANAGED_BY_VALUE}'"
        f" || {one}.metadata.?ownerReferences.orValue([]).exists(owner,"
        f" owner.apiVersion.startsWith('{PODCLIQUESETS.group}/') || owner.apiVersion.startsWith('{PODGANGS.group}/'))))"
        for one in ("object", "oldObject")
    ),
}
# Terminating objects are not blocked, and schedulers may update their own objects. But a write that makes one of them
# part of a set is reviewed.
_NOT_TERMINATING_UNLESS_IT_CLAIMS: Condition = {
    "name": "not-leaving-unless-it-claims",
    "expression": (
        "request.operation == 'CREATE' || "
        f"(!has(oldObject.metadata.deletionTimestamp) && request.resource.group != '{NATIVE_PODGROUPS.group}') || "
        "object.metadata.?ownerReferences != oldObject.metadata.?ownerReferences || "
        "object.metadata.?labels != oldObject.metadata.?labels"
    ),
}
# Otherwise an expired certificate could never be replaced: the webhook that reviews the write would need it.
_NOT_OUR_CERTIFICATE: Condition = {
    "name": "not-the-webhooks-own-secret",
    "expression": (
        "request.operation == 'CREATE' || "
        f"oldObject.metadata.?labels[?'{labels.COMPONENT}'].orValue('') != '{labels.COMPONENT_WEBHOOK}'"
    ),
}


def _not_by(user: str) -> tuple[Condition, ...]:
    if not user:
        return ()
    return ({"name": "not-by-the-operator", "expression": f"request.userInfo.username != {_quote(user)}"},)


def _quote(text: str) -> str:
    """Return a CEL string literal. CEL escapes like JSON."""
    return msgspec.json.encode(text).decode()


# --- the webhooks ----------------------------------------------------------------------------------------------------


class _Maker(msgspec.Struct, frozen=True, kw_only=True):
    """A builder of the webhooks of one installation."""

    target: Target
    ca_bundle: str
    operator_user: str
    namespaces: tuple[str, ...] = ()

    def set_defaulting(self) -> JsonObject:
        webhook = self._webhook(
            "pcs.defaulting.webhooks.grove.io",
            DEFAULT_SET_PATH,
            [_rule(PODCLIQUESETS)],
            (_NOT_TERMINATING, _SPEC_CHANGED),
        )
        # A webhook that changes the set later may leave fields without defaults.
        return webhook | {"reinvocationPolicy": "IfNeeded"}

    def set_validating(self) -> JsonObject:
        name = "pcs.validating.webhooks.grove.io"
        return self._webhook(name, VALIDATE_SET_PATH, [_rule(PODCLIQUESETS)], (_NOT_TERMINATING, _SET_CHANGED))

    def child_validating(self, short: str, resource: Resource[Any], path: str) -> JsonObject:
        conditions = (_NOT_TERMINATING, _SPEC_CHANGED, *_not_by(self.operator_user))
        return self._webhook(f"{short}.validating.webhooks.grove.io", path, [_rule(resource)], conditions)

    def scale_validating(self) -> JsonObject:
        scales = [f"{resource.plural}/scale" for resource in (PODCLIQUESETS, PODCLIQUES, GROUPS)]
        rule = _rules(PODCLIQUESETS.group, PODCLIQUESETS.version, scales, ("UPDATE",), "Namespaced")
        return self._webhook("scale.validating.webhooks.grove.io", VALIDATE_SCALE_PATH, [rule], (_SCALE_CHANGED,))

    def topology_validating(self) -> JsonObject:
        return self._webhook(
            "clustertopology.validating.webhooks.grove.io",
            VALIDATE_TOPOLOGY_PATH,
            [_rule(TOPOLOGY_BINDINGS)],
            (_NOT_TERMINATING, _SPEC_CHANGED),
        )

    def authorizer(self) -> JsonObject:
        rules = [
            _rules(group, version, resources, operations, "Namespaced")
            for group, version, resources, operations in _protected_writes()
        ]
        conditions = (
            _NOT_TERMINATING_UNLESS_IT_CLAIMS,
            _NOT_OUR_CERTIFICATE,
            *_not_by(self.operator_user),
            _CLAIMS_A_SET,
        )
        return self._webhook("authorizer.webhooks.grove.io", AUTHORIZER_PATH, rules, conditions)

    def deletion_authorizer(self) -> JsonObject:
        """Build the webhook for deletions.

        It is separate because its failure policy is Ignore: it must not block deletions.
        """
        rules = [
            _rules(group, version, resources, operations, "Namespaced")
            for group, version, resources, operations in _protected_from_deletion()
        ]
        return self._webhook(
            "deletion.authorizer.webhooks.grove.io",
            AUTHORIZER_PATH,
            rules,
            (*_not_by(self.operator_user), _CLAIMS_A_SET),
            failure_policy="Ignore",
        )

    def _webhook(
        self,
        name: str,
        path: str,
        rules: list[JsonObject],
        conditions: tuple[Condition, ...],
        *,
        failure_policy: _FailurePolicy = "Fail",
    ) -> JsonObject:
        webhook: JsonObject = {
            "name": name,
            "clientConfig": self._client_config(path),
            "rules": rules,
            "failurePolicy": failure_policy,
            # A write through another API version changes the same object and must be reviewed too.
            "matchPolicy": "Equivalent",
            "namespaceSelector": self._namespace_selector(),
            "objectSelector": {},
            "sideEffects": "None",
            "timeoutSeconds": _TIMEOUT_SECONDS,
            "admissionReviewVersions": ["v1"],
        }
        return webhook | ({"matchConditions": [dict(one) for one in conditions]} if conditions else {})

    def _namespace_selector(self) -> JsonObject:
        if not self.namespaces:
            return {}
        values = list(self.namespaces)
        return {"matchExpressions": [{"key": "kubernetes.io/metadata.name", "operator": "In", "values": values}]}

    def _client_config(self, path: str) -> JsonObject:
        bundle = {"caBundle": self.ca_bundle} if self.ca_bundle else {}
        match self.target:
            case ServiceTarget(namespace=namespace, name=name, port=port):
                service = {"namespace": namespace, "name": name, "path": path, "port": port}
                return {"service": service, **bundle}
            case UrlTarget(url=url):
                return {"url": url.rstrip("/") + path, **bundle}


_Protected = tuple[str, str, list[str], tuple[str, ...]]


def _protected_writes() -> list[_Protected]:
    """Return the writes that the authorizer reviews: to objects that the operator creates, or would take for its own.

    The operator trusts the status of its children, so their status is protected too. Schedulers update their own
    objects of a gang. So only creates and ownership changes of these are reviewed, and only for kube-scheduler, which
    creates none itself.
    """
    both, update = ("CREATE", "UPDATE"), ("UPDATE",)
    cliques, groups, gangs, revisions = PODCLIQUES.plural, GROUPS.plural, PODGANGS.plural, CONTROLLER_REVISIONS
    return [
        ("", "v1", ["secrets", "serviceaccounts"], update),
        ("", "v1", [SERVICES.plural, PODS.plural], both),
        (revisions.group, revisions.version, [revisions.plural], both),
        ("rbac.authorization.k8s.io", "v1", ["roles", "rolebindings"], both),
        (AUTOSCALERS.group, AUTOSCALERS.version, [AUTOSCALERS.plural], both),
        (PODCLIQUES.group, PODCLIQUES.version, [cliques, groups], both),
        (PODCLIQUES.group, PODCLIQUES.version, [f"{cliques}/status", f"{groups}/status"], update),
        (PODGANGS.group, PODGANGS.version, [gangs], both),
        (PODGANGS.group, PODGANGS.version, [f"{gangs}/status"], update),
        *((one.group, one.version, [one.plural], both) for one in (NATIVE_PODGROUPS, NATIVE_COMPOSITES)),
    ]


def _protected_from_deletion() -> list[_Protected]:
    """Return the deletes that the authorizer reviews. Pods are not among them: the operator replaces them."""
    revisions = CONTROLLER_REVISIONS
    return [
        ("", "v1", ["secrets", "serviceaccounts", SERVICES.plural], ("DELETE",)),
        (revisions.group, revisions.version, [revisions.plural], ("DELETE",)),
        ("rbac.authorization.k8s.io", "v1", ["roles", "rolebindings"], ("DELETE",)),
        (AUTOSCALERS.group, AUTOSCALERS.version, [AUTOSCALERS.plural], ("DELETE",)),
        (PODCLIQUES.group, PODCLIQUES.version, [PODCLIQUES.plural, GROUPS.plural], ("DELETE",)),
        (PODGANGS.group, PODGANGS.version, [PODGANGS.plural], ("DELETE",)),
    ]


def _rule(resource: Resource[Any]) -> JsonObject:
    scope: _Scope = "Namespaced" if resource.namespaced else "Cluster"
    return _rules(resource.group, resource.version, [resource.plural], ("CREATE", "UPDATE"), scope)


def _rules(group: str, version: str, resources: list[str], operations: tuple[str, ...], scope: _Scope) -> JsonObject:
    return {
        "apiGroups": [group],
        "apiVersions": [version],
        "operations": list(operations),
        "resources": resources,
        "scope": scope,
    }


def _build_mutating_webhook(name: str, *webhooks: JsonObject) -> JsonObject:
    return _configuration(MUTATING_WEBHOOKS, name, webhooks)


def _build_validating_webhook(name: str, *webhooks: JsonObject) -> JsonObject:
    return _configuration(VALIDATING_WEBHOOKS, name, webhooks)


def _configuration(resource: Resource[Any], name: str, webhooks: tuple[JsonObject, ...]) -> JsonObject:
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {"name": name, "labels": {labels.MANAGED_BY: labels.MANAGED_BY_WEBHOOKS, labels.PART_OF: "grove"}},
        "webhooks": list(webhooks),
    }
