"""Validate training sets: they must end, and cannot be scaled or updated. The same holds for their cliques and groups.

The workers of a running job depend on its template and size. To change them, the user creates a new set.
"""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import msgspec

from grove.api.labels import RANKED_CLIQUE
from grove.api.reasons import ConditionType
from grove.api.template_hash import canonical_template
from grove.api.types.meta import JsonObject, is_condition_true
from grove.api.types.podclique import PodClique, PodCliqueSpec
from grove.api.types.podcliquescalinggroup import PodCliqueScalingGroup
from grove.api.types.podcliqueset import (
    CliqueTemplate,
    PodCliqueSet,
    PodCliqueSetSpec,
    PodCliqueSetStatus,
    SetPhase,
    SetTemplate,
    TrainingSpec,
    WorkloadType,
)
from grove.api.validation.field_errors import IMMUTABLE, FieldError, forbidden, invalid
from grove.api.values.durations import DurationError, parse_duration
from grove.api.values.message_text import truncate

# Cliques that a warning lists.
_LISTED_CLIQUES = 5
_NO_SCALING = "a training set cannot be scaled: delete it and create one with the size you need"
_NO_UPDATE = "a training set cannot be updated: delete it and create one with the pods you need"
_NO_AUTOSCALING = "a training set cannot be scaled: remove this field"
_NO_ZERO = "must be greater than 0 in a training set, which cannot be scaled"
_NO_END = "training would never end: write Never or OnFailure"


def training_errors(spec: PodCliqueSetSpec) -> Iterator[FieldError]:
    if spec.workload_type != WorkloadType.TRAINING:
        if spec.training_spec is not None:
            yield forbidden(
                "spec.trainingSpec", "only allowed with workloadType: Training: set that, or remove this field"
            )
        return
    if spec.training_spec is not None:
        yield from _limit_errors(spec.training_spec)
    for i, clique in enumerate(spec.template.cliques):
        at = f"spec.template.cliques[{i}].spec"
        if clique.spec.replicas == 0:
            yield invalid(f"{at}.replicas", 0, _NO_ZERO)
        yield from _ending_errors(clique.spec.pod_spec, f"{at}.podSpec")
        if clique.spec.auto_scaling_config is not None:
            yield forbidden(f"{at}.autoScalingConfig", _NO_AUTOSCALING)
    for i, group in enumerate(spec.template.pod_clique_scaling_groups):
        if group.replicas == 0:
            yield invalid(f"spec.template.podCliqueScalingGroups[{i}].replicas", 0, _NO_ZERO)
        if group.scale_config is not None:
            yield forbidden(f"spec.template.podCliqueScalingGroups[{i}].scaleConfig", _NO_AUTOSCALING)


def training_warnings(pcs: PodCliqueSet) -> Iterator[str]:
    """Return warnings for fields that are valid but have no effect."""
    spec = pcs.spec
    yield from _ranked_clique_warnings(pcs)
    if spec.workload_type != WorkloadType.TRAINING:
        return
    if spec.replicas == 0:
        yield f"spec.replicas: no pod runs with 0 replicas, and {_NO_SCALING}"
    if spec.update_strategy is not None:
        yield "spec.updateStrategy: has no effect, because a training set cannot be updated"


def _ranked_clique_warnings(pcs: PodCliqueSet) -> Iterator[str]:
    named = pcs.metadata.annotations.get(RANKED_CLIQUE)
    if named is None:
        return
    at = f"metadata.annotations[{RANKED_CLIQUE}]"
    cliques = [clique.name for clique in pcs.spec.template.cliques]
    if pcs.spec.workload_type != WorkloadType.TRAINING:
        yield f"{at}: has no effect, because only pods of training sets have ranks"
    elif named not in cliques:
        listed = ", ".join(cliques[:_LISTED_CLIQUES])
        yield f"{at}: the template has no clique {truncate(named, 64)!r}, so no pod has a rank; name one of: {listed}"


def training_change_errors(old: PodCliqueSet, new: PodCliqueSet) -> Iterator[FieldError]:
    if old.spec.workload_type != new.spec.workload_type:
        yield invalid("spec.workloadType", new.spec.workload_type, IMMUTABLE)
        return
    if new.spec.workload_type != WorkloadType.TRAINING:
        return
    if old.spec.replicas != new.spec.replicas:
        yield forbidden("spec.replicas", _NO_SCALING)
    yield from _count_changes(old.spec.template, new.spec.template)
    yield from _pod_changes(old.spec.template, new.spec.template)
    yield from _limit_changes(old, new)


def training_clique_changes(old: PodClique, new: PodClique, set_name: str) -> Iterator[FieldError]:
    """Validate a direct change of a clique that belongs to the training set of that name."""
    yield from _child_scaled(old.spec.replicas, new.spec.replicas, set_name)
    if _pods_of(old.spec.pod_spec) != _pods_of(new.spec.pod_spec):
        detail = f'it belongs to training set "{set_name}", which cannot be updated: delete the set and create one'
        yield forbidden("spec.podSpec", f"{detail} with the pods you need")
    scaling = new.spec.auto_scaling_config
    if scaling is not None and scaling != old.spec.auto_scaling_config:
        detail = f'it belongs to training set "{set_name}", which cannot be scaled: remove this field'
        yield forbidden("spec.autoScalingConfig", detail)


def training_group_changes(
    old: PodCliqueScalingGroup, new: PodCliqueScalingGroup, set_name: str
) -> Iterator[FieldError]:
    """Validate a direct change of a group that belongs to the training set of that name."""
    yield from _child_scaled(old.spec.replicas, new.spec.replicas, set_name)


def _limit_errors(limits: TrainingSpec) -> Iterator[FieldError]:
    if limits.max_runtime is not None:
        at = "spec.trainingSpec.maxRuntime"
        try:
            if parse_duration(limits.max_runtime) <= timedelta(0):
                yield invalid(at, limits.max_runtime, "must be greater than 0, or absent for no limit")
        except DurationError as error:
            yield invalid(at, limits.max_runtime, str(error))
    if limits.max_restarts is not None and limits.max_restarts < 0:
        yield invalid("spec.trainingSpec.maxRestarts", limits.max_restarts, "must be at least 0")


def _ending_errors(pod_spec: JsonObject, at: str) -> Iterator[FieldError]:
    """Validate that pods can end. Init containers that always restart are sidecars and end with the containers."""
    if pod_spec.get("restartPolicy") == "Always":
        yield invalid(f"{at}.restartPolicy", "Always", _NO_END)
    containers: Any = pod_spec.get("containers")
    for i, container in enumerate(containers if isinstance(containers, list) else ()):
        if isinstance(container, dict) and container.get("restartPolicy") == "Always":
            yield invalid(f"{at}.containers[{i}].restartPolicy", "Always", _NO_END)


def _count_changes(old: SetTemplate, new: SetTemplate) -> Iterator[FieldError]:
    cliques = {clique.name: clique.spec.replicas for clique in old.cliques}
    for i, clique in enumerate(new.cliques):
        if cliques.get(clique.name, clique.spec.replicas) != clique.spec.replicas:
            yield forbidden(f"spec.template.cliques[{i}].spec.replicas", _NO_SCALING)
    groups = {group.name: group.replicas for group in old.pod_clique_scaling_groups}
    for i, group in enumerate(new.pod_clique_scaling_groups):
        if groups.get(group.name, group.replicas) != group.replicas:
            yield forbidden(f"spec.template.podCliqueScalingGroups[{i}].replicas", _NO_SCALING)


def _pod_changes(old: SetTemplate, new: SetTemplate) -> Iterator[FieldError]:
    """Reject changes that would change a pod. Changes that result in the same pods are allowed."""
    before = {clique.name: clique for clique in old.cliques}
    changed = [
        (f"spec.template.cliques[{i}]", before[clique.name], clique)
        for i, clique in enumerate(new.cliques)
        if clique.name in before
        and canonical_template(before[clique.name], old.priority_class_name)
        != canonical_template(clique, new.priority_class_name)
    ]
    if any(
        canonical_template(then, old.priority_class_name) != canonical_template(then, new.priority_class_name)
        for _, then, _ in changed
    ):
        yield forbidden("spec.template.priorityClassName", _NO_UPDATE)
    for at, then, now in changed:
        yield from _changed_parts(at, then, now, new.priority_class_name)


def _changed_parts(at: str, then: CliqueTemplate, now: CliqueTemplate, priority_class: str) -> Iterator[FieldError]:
    """Find the parts that change the pods, by applying one part after the other."""
    relabelled = msgspec.structs.replace(then, labels=now.labels)
    annotated = msgspec.structs.replace(relabelled, annotations=now.annotations)
    steps = (
        (f"{at}.labels", then, relabelled),
        (f"{at}.annotations", relabelled, annotated),
        (f"{at}.spec.podSpec", annotated, now),
    )
    for path, one, other in steps:
        if canonical_template(one, priority_class) != canonical_template(other, priority_class):
            yield forbidden(path, _NO_UPDATE)


def _limit_changes(old: PodCliqueSet, new: PodCliqueSet) -> Iterator[FieldError]:
    """Reject changes of the limits after the set has ended. Before, a user may set, raise and lower them.

    No maxRuntime means no limit, no maxRestarts means 0.
    """
    before, after = old.spec.training_spec or TrainingSpec(), new.spec.training_spec or TrainingSpec()
    outcome = _outcome(old.status)
    is_changed = (_runtime(before), before.max_restarts or 0) != (_runtime(after), after.max_restarts or 0)
    if outcome is not None and is_changed:
        yield forbidden("spec.trainingSpec", f"the set has ended ({outcome}): create a new PodCliqueSet")


def _outcome(status: PodCliqueSetStatus) -> str | None:
    """Return the terminal phase, or None. The condition Failed comes first; the phase follows when no pods are left."""
    if status.phase in (SetPhase.SUCCEEDED, SetPhase.FAILED):
        return status.phase
    return SetPhase.FAILED if is_condition_true(status.conditions, ConditionType.FAILED) else None


def _runtime(limits: TrainingSpec) -> timedelta | None:
    """Return the maximum runtime, or None if it is invalid."""
    if limits.max_runtime is None:
        return timedelta.max
    try:
        runtime = parse_duration(limits.max_runtime)
    except DurationError:
        return None
    return runtime if runtime > timedelta(0) else None


def _child_scaled(before: int, after: int, set_name: str) -> Iterator[FieldError]:
    if before != after:
        detail = f'it belongs to training set "{set_name}", which cannot be scaled: delete the set and create one'
        yield forbidden("spec.replicas", f"{detail} with the size you need")


def _pods_of(pod_spec: JsonObject) -> bytes:
    return canonical_template(CliqueTemplate(spec=PodCliqueSpec(pod_spec=pod_spec)), "")
