"""Build sets from Python objects. The results are the typed structs of the API, so every field can be replaced."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from grove.api.types.meta import JsonObject, ObjectMeta
from grove.api.types.podclique import PodCliqueSpec
from grove.api.types.podcliqueset import (
    CliqueTemplate,
    GroupConfig,
    PodCliqueSet,
    PodCliqueSetSpec,
    SetTemplate,
    StartupType,
    TopologyConstraint,
    TrainingSpec,
    UpdateStrategy,
    UpdateType,
    WorkloadType,
)
from grove.api.values.durations import format_duration
from grove.sdk.errors import InvalidSet
from grove.sdk.manifests import check_manifest, to_dict

GPU = "nvidia.com/gpu"


def container(
    name: str,
    image: str,
    *,
    command: Sequence[str] = (),
    args: Sequence[str] = (),
    env: Mapping[str, str] | None = None,
    cpu: str | float = "",
    memory: str = "",
    gpus: int = 0,
    ports: Sequence[int] = (),
) -> dict[str, Any]:
    """Return a container for `clique(containers=[...])`. Add any other field of Kubernetes to the dictionary.

    `cpu` and `memory` are requests; `gpus` are the request and the limit of `nvidia.com/gpu`.

    Example:
        container("engine", "example/engine:1.0", cpu=4, memory="32Gi", gpus=4, env={"MODEL": "small"})
    """
    requests = {"cpu": str(cpu), "memory": memory, GPU: str(gpus) if gpus else ""}
    resources: JsonObject = {"requests": {key: amount for key, amount in requests.items() if amount}}
    if gpus:
        resources["limits"] = {GPU: str(gpus)}
    fields: JsonObject = {
        "command": list(command),
        "args": list(args),
        "env": [{"name": key, "value": value} for key, value in (env or {}).items()],
        "ports": [{"containerPort": port} for port in ports],
        "resources": resources if resources["requests"] else {},
    }
    return {"name": name, "image": image, **{key: value for key, value in fields.items() if value}}


def clique(
    name: str,
    *,
    replicas: int = 1,
    min_available: int | None = None,
    image: str = "",
    command: Sequence[str] = (),
    args: Sequence[str] = (),
    env: Mapping[str, str] | None = None,
    cpu: str | float = "",
    memory: str = "",
    gpus: int = 0,
    containers: Sequence[Mapping[str, Any]] = (),
    pod_spec: Mapping[str, Any] | None = None,
    role: str = "",
    starts_after: Sequence[str] = (),
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    topology: TopologyConstraint | None = None,
) -> CliqueTemplate:
    """Return a clique: `replicas` pods of one role, of which `min_available` must run (default: all).

    With `image` it has one container of its name; `containers` are more of them. `pod_spec` has other fields of the
    pods. `starts_after` names the cliques that must be ready first; the set then needs `startup=StartupType.EXPLICIT`.
    Raises `InvalidSet` if it has no container.

    Example:
        clique("worker", replicas=4, min_available=2, image="example/engine:1.0", cpu=4, gpus=4)
    """
    own = [container(name, image, command=command, args=args, env=env, cpu=cpu, memory=memory, gpus=gpus)]
    spec: JsonObject = dict(pod_spec or {})
    every = [*(own if image else ()), *map(dict, containers), *spec.get("containers", ())]
    if not every:
        raise InvalidSet(f"clique {name!r} has no container; give it an image, or containers", ("containers",))
    return CliqueTemplate(
        name=name,
        labels=dict(labels or {}),
        annotations=dict(annotations or {}),
        topology_constraint=topology,
        spec=PodCliqueSpec(
            role_name=role,
            pod_spec={**spec, "containers": every},
            replicas=replicas,
            min_available=min_available,
            starts_after=tuple(starts_after),
        ),
    )


def group(
    name: str,
    cliques: Sequence[str],
    *,
    replicas: int = 1,
    min_available: int = 1,
    termination_delay: str | timedelta | None = None,
    topology: TopologyConstraint | None = None,
) -> GroupConfig:
    """Return a scaling group: instances made of these cliques, which scale and are placed together.

    Example:
        group("decode", ["leader", "worker"], replicas=2)
    """
    return GroupConfig(
        name=name,
        clique_names=tuple(cliques),
        replicas=replicas,
        min_available=min_available,
        termination_delay=_duration(termination_delay),
        topology_constraint=topology,
    )


def pod_clique_set(
    name: str,
    cliques: Sequence[CliqueTemplate],
    *,
    replicas: int = 1,
    groups: Sequence[GroupConfig] = (),
    training: TrainingSpec | None = None,
    startup: StartupType = StartupType.ANY_ORDER,
    termination_delay: str | timedelta | None = None,
    update: UpdateType = UpdateType.ROLLING_RECREATE,
    topology: TopologyConstraint | None = None,
    priority_class: str = "",
    namespace: str = "",
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
) -> PodCliqueSet:
    """Return a set: `replicas` copies of its cliques and groups, each of them placed as gangs.

    With `training` it runs to completion; without, it serves. Raises `InvalidSet`, which names the wrong fields.

    Example:
        pod_clique_set("chat", [clique("router", image="example/router:1.0", replicas=2)])
    """
    pcs = PodCliqueSet(
        metadata=ObjectMeta(
            name=name, namespace=namespace, labels=dict(labels or {}), annotations=dict(annotations or {})
        ),
        spec=PodCliqueSetSpec(
            replicas=replicas,
            workload_type=WorkloadType.INFERENCE if training is None else WorkloadType.TRAINING,
            training_spec=training,
            update_strategy=None if update == UpdateType.ROLLING_RECREATE else UpdateStrategy(type=update),
            template=SetTemplate(
                cliques=tuple(cliques),
                clique_startup_type=startup,
                priority_class_name=priority_class,
                topology_constraint=topology,
                termination_delay=_duration(termination_delay),
                pod_clique_scaling_groups=tuple(groups),
            ),
        ),
    )
    check_manifest(to_dict(pcs))
    return pcs


def _duration(value: str | timedelta | None) -> str | None:
    return format_duration(value) if isinstance(value, timedelta) else value
