"""Validate the cliques of a set: counts, autoscaling, labels, and the parts of a podSpec that the operator uses."""

from collections.abc import Iterator
from typing import Any

from grove.api.types.meta import JsonObject
from grove.api.types.podclique import AutoScalingConfig, PodCliqueSpec
from grove.api.types.podcliqueset import CliqueTemplate, SetTemplate
from grove.api.validation.field_errors import FieldError, duplicate, invalid, required, shorten, type_invalid
from grove.api.validation.syntax import annotation_errors, check_env_name, label_errors
from grove.api.validation.validation_options import ValidationOptions

_CLIQUES = "spec.template.cliques"


def clique_errors(template: SetTemplate, settings: ValidationOptions) -> Iterator[FieldError]:
    if not template.cliques:
        yield required(_CLIQUES, "write at least one clique")
    for i, clique in enumerate(template.cliques):
        yield from _one_clique(clique, f"{_CLIQUES}[{i}]")
    yield from _scheduler_errors(template, settings)


def count_errors(spec: PodCliqueSpec, at: str) -> Iterator[FieldError]:
    """Validate replicas and minAvailable. A clique with 0 replicas is scaled to zero."""
    if spec.replicas < 0:
        yield invalid(f"{at}.replicas", spec.replicas, "must be at least 0")
    if spec.min_available is None:
        yield required(f"{at}.minAvailable", "write how many pods must be available")
    elif spec.min_available == spec.replicas == 0:
        # Without minAvailable, defaulting set it to replicas: name the field that the user wrote.
        yield invalid(f"{at}.replicas", 0, "must be greater than 0, or minAvailable must be set to at least 1")
    elif spec.min_available <= 0 and spec.replicas >= 0:
        yield invalid(f"{at}.minAvailable", spec.min_available, "must be greater than 0")
    elif spec.min_available > spec.replicas > 0:
        yield invalid(f"{at}.minAvailable", spec.min_available, f"must not be greater than replicas ({spec.replicas})")


def _one_clique(clique: CliqueTemplate, at: str) -> Iterator[FieldError]:
    yield from label_errors(clique.labels, f"{at}.labels")
    yield from annotation_errors(clique.annotations, f"{at}.annotations")
    yield from count_errors(clique.spec, f"{at}.spec")
    yield from _autoscaling_errors(clique.spec, f"{at}.spec.autoScalingConfig")
    yield from _pod_spec_errors(clique.spec.pod_spec, f"{at}.spec.podSpec")


def _autoscaling_errors(spec: PodCliqueSpec, at: str) -> Iterator[FieldError]:
    config = spec.auto_scaling_config
    if config is None:
        return
    if config.min_replicas is None:
        yield required(f"{at}.minReplicas", "write the lowest number of replicas for the autoscaler")
    elif spec.min_available is not None and config.min_replicas < spec.min_available:
        detail = f"must be at least minAvailable ({spec.min_available})"
        yield invalid(f"{at}.minReplicas", config.min_replicas, detail)
    yield from upper_bound_errors(config, spec.replicas, at)


def upper_bound_errors(config: AutoScalingConfig, replicas: int, at: str) -> Iterator[FieldError]:
    """Validate maxReplicas of a clique or group that has `replicas` replicas."""
    most, least = config.max_replicas, config.min_replicas
    if least is not None and most < least:
        yield invalid(f"{at}.maxReplicas", most, f"must be at least minReplicas ({least})")
    if most < replicas:
        yield invalid(f"{at}.maxReplicas", most, f"must be at least replicas ({replicas})")


def _pod_spec_errors(pod_spec: JsonObject, at: str) -> Iterator[FieldError]:
    if not pod_spec.get("containers"):
        yield required(f"{at}.containers", "a pod needs at least one container")
    if pod_spec.get("nodeName"):
        yield invalid(
            f"{at}.nodeName",
            pod_spec["nodeName"],
            "not supported, because a scheduler places the gang: use nodeSelector",
        )
    if pod_spec.get("topologySpreadConstraints"):
        detail = "not supported, because gangs are packed: use topologyConstraint, or remove the field"
        yield invalid(f"{at}.topologySpreadConstraints", pod_spec["topologySpreadConstraints"], detail)
    yield from pod_shape_errors(pod_spec, at)
    for kind in ("initContainers", "containers"):
        for i, container in enumerate(_list(pod_spec.get(kind))):
            if isinstance(container, dict):
                yield from _env_errors(_list(container.get("env")), f"{at}.{kind}[{i}].env")


def pod_shape_errors(pod_spec: JsonObject, at: str) -> Iterator[FieldError]:
    """Validate the types of the parts of a podSpec that the operator reads and changes.

    The schema of the CRD leaves the rest of a podSpec to the API server, which validates the pods.
    """
    for kind in ("initContainers", "containers", "schedulingGates"):
        yield from _list_errors(pod_spec.get(kind), f"{at}.{kind}")
    for kind in ("initContainers", "containers"):
        for i, container in enumerate(_list(pod_spec.get(kind))):
            if isinstance(container, dict):
                yield from _list_errors(container.get("env"), f"{at}.{kind}[{i}].env")


def _list_errors(value: object, at: str) -> Iterator[FieldError]:
    if value is not None and not isinstance(value, list):
        yield type_invalid(at, value, "must be of type array")
    for i, item in enumerate(_list(value)):
        if not isinstance(item, dict):
            yield type_invalid(f"{at}[{i}]", item, "must be of type object")


def _env_errors(env: list[Any], at: str) -> Iterator[FieldError]:
    first: dict[str, int] = {}
    for i, variable in enumerate(env):
        if not isinstance(variable, dict):
            continue
        name = variable.get("name")
        if not isinstance(name, str):
            yield required(f"{at}[{i}].name", "write a name")
        elif error_message := check_env_name(name):
            yield invalid(f"{at}[{i}].name", name, error_message)
        elif first.setdefault(name, i) != i:
            yield duplicate(f"{at}[{i}].name", name, f"already used at [{first[name]}]: remove one")


def _scheduler_errors(template: SetTemplate, settings: ValidationOptions) -> Iterator[FieldError]:
    """Validate that all cliques name the same scheduler, and that the operator has it enabled."""
    names = [_scheduler(clique, settings) for clique in template.cliques]
    for i, name in enumerate(names):
        at = f"{_CLIQUES}[{i}].spec.podSpec.schedulerName"
        if name != names[0]:
            first = shorten(names[0])
            yield invalid(
                at, name, f'all cliques of a set must use the same scheduler: write "{first}", as in the first clique'
            )
        elif name not in settings.schedulers:
            yield invalid(at, name, f"the scheduler is not enabled: write one of {', '.join(settings.schedulers)}")


def _scheduler(clique: CliqueTemplate, settings: ValidationOptions) -> str:
    return str(clique.spec.pod_spec.get("schedulerName") or settings.default_scheduler)


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []
