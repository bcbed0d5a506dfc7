"""The HorizontalPodAutoscalers of a set replica: create them, keep them up to date, delete those without a config.

An autoscaler is not part of a gang: it stays while its target is recreated or updated. The operator owns the target,
the bounds and the metrics. It owns `behavior` only if the config of the set has one; otherwise users set it.
"""

from collections.abc import Iterator
from typing import Any

from grove.api import labels
from grove.api.merge_patch import merge_patch
from grove.api.resources import AUTOSCALERS, PODCLIQUES
from grove.api.types.horizontalpodautoscaler import HorizontalPodAutoscaler
from grove.api.types.meta import JsonObject, to_wire
from grove.api.values.quantities import QuantityError, parse_milli
from grove.planner.actions import Action, Chain, Create, Patch, chain, delete_object
from grove.planner.child_manifests import build_object
from grove.planner.child_sync import Retries
from grove.planner.desired_state import DesiredAutoscaler
from grove.planner.replica_facts import ReplicaFacts
from grove.planner.snapshot import SetContext
from grove.planner.views import ReplicaView

_BEHAVIOR = "behavior"
# What the API server sets if a config has no metrics.
_DEFAULT_METRICS = [
    {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}}}
]
# What the API server sets for the absent fields of a behavior.
_HUNDRED_PERCENT = {"type": "Percent", "value": 100, "periodSeconds": 15}
_DEFAULT_RULES: dict[str, JsonObject] = {
    "scaleUp": {
        "stabilizationWindowSeconds": 0,
        "selectPolicy": "Max",
        "policies": [{"type": "Pods", "value": 4, "periodSeconds": 15}, _HUNDRED_PERCENT],
    },
    "scaleDown": {"selectPolicy": "Max", "policies": [_HUNDRED_PERCENT]},
}
_QUANTITIES = ("value", "averageValue", "tolerance")


def plan_autoscalers(facts: ReplicaFacts, retries: Retries) -> tuple[Chain, ...]:
    """Return the chain that creates, patches and deletes the autoscalers of a replica."""
    context, replica, wanted = facts.context, facts.replica, facts.desired.autoscalers
    names = frozenset(autoscaler.name for autoscaler in wanted)
    actions: list[Action] = [
        delete_object(AUTOSCALERS, found.metadata, "the set has no autoscaling config for it any more")
        for name, found in replica.autoscalers.items()
        if name not in names and not found.metadata.is_terminating
    ]
    for autoscaler in wanted:
        found = replica.autoscalers.get(autoscaler.name)
        if found is not None:
            actions += _plan_patch(autoscaler, found)
        elif _has_target(replica, autoscaler) and not facts.is_build_held:
            actions.append(_create(context, replica.index, autoscaler))
    return chain(f"{facts.desired.name}/autoscalers", replica.index, retries.without_waiting(tuple(actions)))


def _has_target(replica: ReplicaView, autoscaler: DesiredAutoscaler) -> bool:
    targets = replica.cliques if autoscaler.target is PODCLIQUES else replica.groups
    return autoscaler.name in targets


def _create(context: SetContext, replica_index: int, autoscaler: DesiredAutoscaler) -> Create:
    return Create(
        resource=AUTOSCALERS,
        namespace=context.namespace,
        name=autoscaler.name,
        body=build_autoscaler(context, replica_index, autoscaler),
        failure_key=f"{AUTOSCALERS.plural}/{autoscaler.name}",
        reason=f"scales {autoscaler.target.kind} {autoscaler.name}",
    )


def build_autoscaler(context: SetContext, replica_index: int, autoscaler: DesiredAutoscaler) -> JsonObject:
    metadata: JsonObject = {
        "name": autoscaler.name,
        "labels": {
            **labels.default_labels(context.name),
            labels.NAME: autoscaler.name,
            labels.COMPONENT: labels.COMPONENT_AUTOSCALER,
            labels.SET_REPLICA_INDEX: str(replica_index),
        },
    }
    if autoscaler.config.behavior is not None:
        metadata["annotations"] = {labels.REQUESTED_FIELDS: _BEHAVIOR}
    spec = {key: value for key, value in _build_spec(autoscaler).items() if value is not None}
    return build_object(AUTOSCALERS, metadata, context.subject, spec)


def _build_spec(autoscaler: DesiredAutoscaler) -> JsonObject:
    """Return the fields that the operator owns. None: the API server sets its default."""
    config = autoscaler.config
    target = {"apiVersion": autoscaler.target.api_version, "kind": autoscaler.target.kind, "name": autoscaler.name}
    spec: JsonObject = {
        "scaleTargetRef": target,
        "minReplicas": config.min_replicas,
        "maxReplicas": config.max_replicas,
        "metrics": list(config.metrics) or None,
    }
    return spec if config.behavior is None else {**spec, _BEHAVIOR: config.behavior}


def _plan_patch(autoscaler: DesiredAutoscaler, found: HorizontalPodAutoscaler) -> Iterator[Patch]:
    """Patch the fields that differ from the config. The defaults of the API server are no difference."""
    if found.metadata.is_terminating:
        return
    wanted, current = _build_spec(autoscaler), to_wire(found.spec)
    is_marked = _BEHAVIOR in found.metadata.annotations.get(labels.REQUESTED_FIELDS, "").split(",")
    if is_marked and _BEHAVIOR not in wanted:
        # The config had a behavior, and has none any more.
        wanted[_BEHAVIOR] = None
    changed = _find_changed(wanted, current)
    patch: JsonObject = {}
    if changed:
        patch["spec"] = merge_patch({key: current.get(key) for key in changed}, {key: wanted[key] for key in changed})
    if is_marked != (autoscaler.config.behavior is not None):
        mark = None if is_marked else _BEHAVIOR
        patch["metadata"] = {"annotations": {labels.REQUESTED_FIELDS: mark}}
    if patch:
        yield Patch(
            resource=AUTOSCALERS,
            namespace=found.metadata.namespace,
            name=autoscaler.name,
            uid=found.metadata.uid,
            patch=patch,
            reason="the autoscaler differs from the config of the set",
        )


def _find_changed(wanted: JsonObject, current: JsonObject) -> list[str]:
    stored = _normalize({**current, "minReplicas": current.get("minReplicas") or 1})
    expected = _normalize(_with_defaults(wanted))
    return [key for key in wanted if expected.get(key) != stored.get(key)]


def _with_defaults(spec: JsonObject) -> JsonObject:
    """Return what the API server stores for this spec."""
    filled = {**spec, "minReplicas": spec["minReplicas"] or 1, "metrics": spec["metrics"] or _DEFAULT_METRICS}
    if (behavior := spec.get(_BEHAVIOR)) is not None:
        filled[_BEHAVIOR] = {key: {**rules, **(behavior.get(key) or {})} for key, rules in _DEFAULT_RULES.items()}
    return filled


def _normalize(value: Any) -> Any:
    """Return a form in which equal specs are equal: the API server rewrites quantities and drops empty objects."""
    if isinstance(value, dict):
        found = {key: _quantity(item) if key in _QUANTITIES else _normalize(item) for key, item in value.items()}
        return {key: item for key, item in found.items() if item not in (None, {}, [])}
    return [_normalize(item) for item in value] if isinstance(value, list | tuple) else value


def _quantity(value: Any) -> Any:
    try:
        return parse_milli(value)
    except (QuantityError, TypeError):
        return value
