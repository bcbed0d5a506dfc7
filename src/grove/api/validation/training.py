"""What a training set may not do: run for ever, change while it runs, or scale."""

from collections.abc import Iterator
from datetime import timedelta

from grove.api.durations import DurationError, parse_duration
from grove.api.fielderrors import FieldError, forbidden, invalid
from grove.api.podcliqueset import PodCliqueSet, PodCliqueSetSpec, SetPhase, SetTemplate, TrainingSpec, WorkloadType
from grove.api.template_hash import canonical_template

_FIXED = "is fixed for the life of a training set: make a new set"


def training_errors(spec: PodCliqueSetSpec) -> Iterator[FieldError]:
    if spec.workload_type != WorkloadType.TRAINING:
        if spec.training_spec is not None:
            yield forbidden("spec.trainingSpec", "needs workloadType: Training; write that, or remove this")
        return
    if spec.training_spec is not None:
        yield from _limit_errors(spec.training_spec)
    for i, clique in enumerate(spec.template.cliques):
        at = f"spec.template.cliques[{i}].spec"
        if clique.spec.pod_spec.get("restartPolicy") == "Always":
            yield invalid(f"{at}.podSpec.restartPolicy", "Always", "training would never end: write Never or OnFailure")
        if clique.spec.auto_scaling_config is not None:
            yield forbidden(f"{at}.autoScalingConfig", "training sets do not scale: remove it")
    for i, group in enumerate(spec.template.pod_clique_scaling_groups):
        if group.scale_config is not None:
            at = f"spec.template.podCliqueScalingGroups[{i}].scaleConfig"
            yield forbidden(at, "training sets do not scale: remove it")


def training_change_errors(old: PodCliqueSet, new: PodCliqueSet) -> Iterator[FieldError]:
    if old.spec.workload_type != new.spec.workload_type:
        yield invalid("spec.workloadType", new.spec.workload_type, "never changes: make a new set")
        return
    if new.spec.workload_type != WorkloadType.TRAINING:
        return
    if old.spec.replicas != new.spec.replicas:
        yield forbidden("spec.replicas", _FIXED)
    yield from _template_changes(old.spec.template, new.spec.template)
    is_finished = old.status.phase in (SetPhase.SUCCEEDED, SetPhase.FAILED)
    yield from _limit_changes(old.spec.training_spec, new.spec.training_spec, is_finished)


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


def _template_changes(old: SetTemplate, new: SetTemplate) -> Iterator[FieldError]:
    cliques = {clique.name: clique for clique in old.cliques}
    for i, clique in enumerate(new.cliques):
        before = cliques.get(clique.name)
        if before is None:
            continue
        at = f"spec.template.cliques[{i}]"
        if before.spec.replicas != clique.spec.replicas:
            yield forbidden(f"{at}.spec.replicas", _FIXED)
        if canonical_template(before, old.priority_class_name) != canonical_template(clique, new.priority_class_name):
            yield forbidden(at, f"the pod template {_FIXED}")
    groups = {group.name: group for group in old.pod_clique_scaling_groups}
    for i, group in enumerate(new.pod_clique_scaling_groups):
        if group.name in groups and groups[group.name].replicas != group.replicas:
            yield forbidden(f"spec.template.podCliqueScalingGroups[{i}].replicas", _FIXED)


def _limit_changes(old: TrainingSpec | None, new: TrainingSpec | None, is_finished: bool) -> Iterator[FieldError]:
    """Limits may be raised while the set lives; no maxRuntime means no limit, no maxRestarts means none."""
    before, after = old or TrainingSpec(), new or TrainingSpec()
    runtime_before, runtime_after = _runtime(before), _runtime(after)
    restarts_before, restarts_after = before.max_restarts or 0, after.max_restarts or 0
    if is_finished and (runtime_before, restarts_before) != (runtime_after, restarts_after):
        yield forbidden("spec.trainingSpec", "the set is finished: make a new set")
        return
    if runtime_after < runtime_before:
        yield forbidden("spec.trainingSpec.maxRuntime", "may only be raised: delete the set to end it early")
    if restarts_after < restarts_before:
        yield forbidden("spec.trainingSpec.maxRestarts", "may only be raised: delete the set to end it early")


def _runtime(limits: TrainingSpec) -> timedelta:
    try:
        return timedelta.max if limits.max_runtime is None else parse_duration(limits.max_runtime)
    except DurationError:
        return timedelta.max
