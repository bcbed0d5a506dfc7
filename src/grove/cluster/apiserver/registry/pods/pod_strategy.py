"""Strategy of pods: defaults, validation of new pods, and which fields an update may change.

Related modules: `pod_placement.py`, `pod_resources.py`, `pod_volumes.py`, `quota.py`, binding (`bind.py`) and deletion
with its grace period (`cluster/apiserver/verbs/delete.py`).
"""

from typing import Any

import msgspec

from grove.api.types.meta import JsonObject
from grove.api.validation.field_errors import FieldError, duplicate, forbidden, invalid, not_supported, required
from grove.cluster.apiserver.context import Context
from grove.cluster.apiserver.registry.metadata import build_unreadable_error, find_dns_label_error, find_label_key_error
from grove.cluster.apiserver.registry.pods.pod_placement import (
    AffinityFields,
    TolerationFields,
    validate_affinity,
    validate_node_selector,
    validate_tolerations,
)
from grove.cluster.apiserver.registry.pods.pod_resources import ResourceFields, find_quantity_error, validate_resources
from grove.cluster.apiserver.registry.pods.pod_topology_labels import with_topology_labels
from grove.cluster.apiserver.registry.pods.pod_volumes import Mount, VolumeFields, check_volumes, validate_mounts
from grove.cluster.apiserver.registry.priority_classes import BUILT_IN_PRIORITIES, DEFAULT_PREEMPTION
from grove.cluster.apiserver.status_errors import forbidden as forbidden_request
from grove.cluster.built_in_resources import PODS, PRIORITY_CLASSES


class _Container(msgspec.Struct, frozen=True, rename="camel"):
    name: str | None = None
    image: str | None = None
    resources: ResourceFields | None = None
    ports: list[dict[str, Any]] | None = None
    volume_mounts: list[Mount] | None = None


class _Gate(msgspec.Struct, frozen=True):
    name: str = ""


class PodShape(msgspec.Struct, frozen=True, rename="camel"):
    """The fields of a pod's spec that are validated, with their types."""

    containers: list[_Container] | None = None
    init_containers: list[_Container] | None = None
    scheduling_gates: list[_Gate] | None = None
    volumes: list[VolumeFields] | None = None
    node_name: str | None = None
    node_selector: dict[str, str] | None = None
    affinity: AffinityFields | None = None
    tolerations: list[TolerationFields] | None = None
    restart_policy: str | None = None
    termination_grace_period_seconds: int | None = None
    priority_class_name: str | None = None
    priority: int | None = None
    preemption_policy: str | None = None
    hostname: str | None = None
    subdomain: str | None = None

    @property
    def all_containers(self) -> list[_Container]:
        return [*(self.init_containers or ()), *(self.containers or ())]


def read_pod_spec(obj: JsonObject) -> PodShape:
    """Decode the spec of a pod. Raises 400 for wrong types."""
    try:
        return msgspec.convert(obj.get("spec") or {}, PodShape)
    except msgspec.ValidationError as error:
        raise build_unreadable_error(PODS, "json: " + str(error).replace("`$", "`$.spec")) from None


def _check_quantities(shape: PodShape) -> None:
    """Raise 400 for a quantity that cannot be parsed."""
    for container in shape.all_containers:
        if container.resources is not None and (message := find_quantity_error(container.resources)):
            raise build_unreadable_error(PODS, message)


# Defaults


_SPEC_DEFAULTS: JsonObject = {
    "restartPolicy": "Always",
    "terminationGracePeriodSeconds": 30,
    "dnsPolicy": "ClusterFirst",
    "securityContext": {},
    "schedulerName": "default-scheduler",
    "enableServiceLinks": True,
}
_DEFAULT_TOLERATIONS: list[JsonObject] = [
    {"key": f"node.kubernetes.io/{taint}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
    for taint in ("not-ready", "unreachable")
]


def prepare_pod(context: Context, obj: JsonObject) -> JsonObject:
    """Return a new pod with defaults, priority and initial status."""
    shape = read_pod_spec(obj)
    _check_quantities(shape)
    spec = _with_defaults(obj.get("spec") or {})
    spec |= _resolve_priority(context, obj["metadata"]["name"], shape)
    metadata = (
        with_topology_labels(context, obj["metadata"], node) if (node := spec.get("nodeName")) else obj["metadata"]
    )
    return {**obj, "metadata": metadata, "spec": spec, "status": _build_status(shape, context.now())}


def _with_defaults(spec: JsonObject) -> JsonObject:
    if None in spec.values():
        spec = {key: value for key, value in spec.items() if value is not None}
    filled = {**_SPEC_DEFAULTS, **spec}
    if filled["terminationGracePeriodSeconds"] < 0:
        filled["terminationGracePeriodSeconds"] = 1
    for field in ("containers", "initContainers"):
        if field in filled:
            filled[field] = [_container_with_defaults(container) for container in filled[field]]
    if "schedulingGates" in filled and not filled["schedulingGates"]:
        del filled["schedulingGates"]
    filled["tolerations"] = _with_default_tolerations(filled.get("tolerations") or [])
    return filled


def _with_default_tolerations(tolerations: list[JsonObject]) -> list[JsonObject]:
    """Add the default tolerations for nodes that are not ready or unreachable, unless the pod has its own."""
    if not tolerations:
        return _DEFAULT_TOLERATIONS
    missing = [
        default for default in _DEFAULT_TOLERATIONS if not any(_tolerates(t, default["key"]) for t in tolerations)
    ]
    return [*tolerations, *missing]


def _tolerates(toleration: JsonObject, key: str) -> bool:
    return toleration.get("key") in (None, "", key) and toleration.get("effect") in (None, "", "NoExecute")


def _container_with_defaults(container: JsonObject) -> JsonObject:
    image = container.get("image") or ""
    tag = image.rpartition("/")[2].partition("@")[0].partition(":")[2]
    is_pinned = "@" in image or tag not in ("", "latest")
    filled = {
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        "imagePullPolicy": "IfNotPresent" if is_pinned else "Always",
        **container,
    }
    filled["resources"] = _resources_with_defaults(container.get("resources") or {})
    if ports := container.get("ports"):
        filled["ports"] = [{"protocol": "TCP", **port} for port in ports]
    return filled


def _resources_with_defaults(resources: JsonObject) -> JsonObject:
    """Default missing requests to the limits."""
    limits = resources.get("limits")
    if not limits:
        return resources
    return {**resources, "requests": {**limits, **(resources.get("requests") or {})}}


def _resolve_priority(context: Context, pod_name: str, shape: PodShape) -> JsonObject:
    """Return the priority fields that follow from the priority class. Raises 403 if the class does not exist."""
    name = shape.priority_class_name or _find_default_class(context)
    if name in BUILT_IN_PRIORITIES:
        value, policy = BUILT_IN_PRIORITIES[name], DEFAULT_PREEMPTION
    elif name:
        found = context.store.table(PRIORITY_CLASSES).find("", name)
        if found is None:
            raise forbidden_request(PODS, pod_name, f"no PriorityClass with name {name} was found")
        value = found.obj.get("value", 0)
        policy = found.obj.get("preemptionPolicy", DEFAULT_PREEMPTION)
    else:
        value, policy = 0, DEFAULT_PREEMPTION
    if shape.priority not in (None, value):
        raise forbidden_request(
            PODS,
            pod_name,
            f"the integer value of priority ({shape.priority}) must not be provided in pod spec; "
            f"priority admission controller computed {value} from the given PriorityClass name",
        )
    if shape.preemption_policy not in (None, policy):
        raise forbidden_request(
            PODS,
            pod_name,
            f"the string value of PreemptionPolicy ({shape.preemption_policy}) must not be provided in pod spec; "
            f"priority admission controller computed {policy} from the given PriorityClass name",
        )
    resolved: JsonObject = {"priorityClassName": name} if name else {}
    return {**resolved, "priority": value, "preemptionPolicy": policy}


def _find_default_class(context: Context) -> str:
    classes = context.store.table(PRIORITY_CLASSES)
    for entry in classes.entries("") if classes.count("") else ():
        if entry.obj.get("globalDefault") is True:
            return entry.name
    return ""


_GATED: JsonObject = {
    "type": "PodScheduled",
    "status": "False",
    "lastProbeTime": None,
    "reason": "SchedulingGated",
    "message": "Scheduling is blocked due to non-empty scheduling gates",
}


def _build_status(shape: PodShape, now: str) -> JsonObject:
    status: JsonObject = {"phase": "Pending"}
    if shape.scheduling_gates:
        status["conditions"] = [{**_GATED, "lastTransitionTime": now}]
    status["qosClass"] = _qos_class(shape)
    return status


def _qos_class(shape: PodShape) -> str:
    classes = {_container_qos_class(container) for container in shape.all_containers}
    return "Burstable" if len(classes) > 1 else next(iter(classes), "BestEffort")


def _container_qos_class(container: _Container) -> str:
    resources = container.resources
    if resources is None:
        return "BestEffort"
    limits = resources.limits or {}
    requests = {**limits, **(resources.requests or {})}
    requested = [name for name in ("cpu", "memory") if requests.get(name) not in (None, 0, "0")]
    if not requested:
        return "BestEffort"
    is_exact = len(requested) == 2 and all(limits.get(name) == requests[name] for name in requested)
    return "Guaranteed" if is_exact else "Burstable"


# A new pod


def validate_pod(obj: JsonObject) -> list[FieldError]:
    shape = read_pod_spec(obj)
    errors, volumes = check_volumes(shape.volumes or [])
    errors += _validate_containers(shape, volumes)
    if shape.restart_policy not in ("Always", "OnFailure", "Never"):
        supported = ("Always", "OnFailure", "Never")
        errors.append(not_supported("spec.restartPolicy", shape.restart_policy, supported))
    for field, value in (("hostname", shape.hostname), ("subdomain", shape.subdomain)):
        if value and (error_message := find_dns_label_error(value)):
            errors.append(invalid(f"spec.{field}", value, error_message))
    errors += _validate_placement(shape)
    return errors + _validate_gates(shape)


def _validate_placement(shape: PodShape) -> list[FieldError]:
    errors = [*validate_tolerations(shape.tolerations or []), *validate_node_selector(shape.node_selector or {})]
    return errors if shape.affinity is None else [*errors, *validate_affinity(shape.affinity)]


def _validate_containers(shape: PodShape, volumes: frozenset[str]) -> list[FieldError]:
    if not shape.containers:
        return [required("spec.containers", "")]
    errors: list[FieldError] = []
    seen: dict[str, None] = {}
    for field, containers in (("initContainers", shape.init_containers or []), ("containers", shape.containers)):
        for index, container in enumerate(containers):
            path = f"spec.{field}[{index}]"
            errors += _validate_name(path, container.name or "", seen)
            if not container.image:
                errors.append(required(f"{path}.image", ""))
            errors += validate_mounts(container.volume_mounts or [], volumes, f"{path}.volumeMounts")
            errors += validate_resources(f"{path}.resources", container.resources or ResourceFields())
            seen[container.name or ""] = None
    return errors


def _validate_name(path: str, name: str, seen: dict[str, None]) -> list[FieldError]:
    if not name:
        return [required(f"{path}.name", "")]
    if error_message := find_dns_label_error(name):
        return [invalid(f"{path}.name", name, error_message)]
    return [duplicate(f"{path}.name", name, "")] if name in seen else []


def _validate_gates(shape: PodShape) -> list[FieldError]:
    errors: list[FieldError] = []
    names: dict[str, None] = {}
    for index, gate in enumerate(shape.scheduling_gates or ()):
        path = f"spec.schedulingGates[{index}]"
        if error_message := find_label_key_error(gate.name):
            errors.append(invalid(path, gate.name, error_message))
        if gate.name in names:
            errors.append(duplicate(path, gate.name, ""))
        names[gate.name] = None
    if names and shape.node_name:
        errors.append(forbidden("spec.nodeName", "cannot be set until all schedulingGates have been cleared"))
    return errors


# An existing pod

_MUTABLE_MESSAGE = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)


def prepare_pod_update(old: JsonObject, new: JsonObject) -> JsonObject:
    """Return the updated pod as a real API server stores it: without empty scheduling gates."""
    spec = new.get("spec") or {}
    if spec is old["spec"]:
        return new
    _check_quantities(read_pod_spec(new))
    cleaned = {key: value for key, value in spec.items() if value is not None and (value or key != "schedulingGates")}
    for key, value in _SPEC_DEFAULTS.items():
        cleaned.setdefault(key, old["spec"].get(key, value))
    for field in ("containers", "initContainers"):
        if field in cleaned and cleaned[field] is not old["spec"].get(field):
            cleaned[field] = [_container_with_defaults(container) for container in cleaned[field]]
    return {**new, "spec": cleaned}


def validate_pod_update(old: JsonObject, new: JsonObject) -> list[FieldError]:
    before, after = old["spec"], new.get("spec") or {}
    if before is after:
        return []
    changed = [key for key in {**before, **after} if before.get(key) != after.get(key)]
    errors: list[FieldError] = []
    is_gated = bool(before.get("schedulingGates"))
    has_forbidden_change = False
    for key in changed:
        match key:
            case "schedulingGates":
                errors += _validate_gates_update(before, after)
            case "containers" | "initContainers":
                has_forbidden_change |= _without_images(before.get(key, [])) != _without_images(after.get(key, []))
            case "tolerations":
                errors += _validate_tolerations_update(before, after)
            case "activeDeadlineSeconds":
                errors += _validate_deadline_update(before, after)
            case "nodeSelector" if is_gated:
                errors += _validate_node_selector_update(before, after)
            case "affinity" if is_gated:
                # A gated pod may tighten its affinity. Whether the change tightens it is not checked.
                pass
            case _:
                has_forbidden_change = True
    if has_forbidden_change:
        errors.append(forbidden("spec", _MUTABLE_MESSAGE))
    if errors or not changed:
        return errors
    shape = read_pod_spec(new)
    wrong_volumes, volumes = check_volumes(shape.volumes or [])
    return [*wrong_volumes, *_validate_containers(shape, volumes), *_validate_placement(shape)]


def _validate_gates_update(before: JsonObject, after: JsonObject) -> list[FieldError]:
    old_names = [gate.get("name") for gate in before.get("schedulingGates", [])]
    return [
        forbidden(
            f"spec.schedulingGates[{index}].name",
            f"only deletion is allowed, but found new scheduling gate '{gate.get('name', '')}'",
        )
        for index, gate in enumerate(after.get("schedulingGates", []))
        if gate.get("name") not in old_names
    ]


def _validate_node_selector_update(before: JsonObject, after: JsonObject) -> list[FieldError]:
    wanted = after.get("nodeSelector") or {}
    if all(wanted.get(key) == value for key, value in (before.get("nodeSelector") or {}).items()):
        return []
    error_message = "only additions to spec.nodeSelector are allowed (no mutations or deletions)"
    return [invalid("spec.nodeSelector", wanted, error_message)]


def _validate_tolerations_update(before: JsonObject, after: JsonObject) -> list[FieldError]:
    """Return an error if a toleration was removed or changed. Only `tolerationSeconds` may change."""
    new_tolerations = [_without_seconds(toleration) for toleration in after.get("tolerations", [])]
    if all(_without_seconds(toleration) in new_tolerations for toleration in before.get("tolerations", [])):
        return []
    return [forbidden("spec.tolerations", "existing toleration can not be modified except its tolerationSeconds")]


def _without_seconds(toleration: JsonObject) -> JsonObject:
    return {key: value for key, value in toleration.items() if key != "tolerationSeconds"}


def _validate_deadline_update(before: JsonObject, after: JsonObject) -> list[FieldError]:
    path, old, new = (
        "spec.activeDeadlineSeconds",
        before.get("activeDeadlineSeconds"),
        after.get("activeDeadlineSeconds"),
    )
    if new is None:
        return [invalid(path, None, "must not update from a positive integer to nil value")]
    if not isinstance(new, int) or not 1 <= new <= 2**31 - 1:
        return [invalid(path, new, "must be between 1 and 2147483647, inclusive")]
    if old is not None and new > old:
        return [invalid(path, new, "must be less than or equal to previous value")]
    return []


def _without_images(containers: list[JsonObject]) -> list[JsonObject]:
    return [{key: value for key, value in container.items() if key != "image"} for container in containers]
