"""Environment variables by which the processes of a training job find each other: those of torchrun and PyTorch.

Ranks count over the pods of one PodClique. The variables are written into the PodClique when it is created, outside
the template: they are no part of its hash, and an operator that begins to set them restarts nothing.
"""

from grove.api import labels, names
from grove.api.types.meta import JsonObject
from grove.planner.desired_state import DesiredClique
from grove.planner.snapshot import SetContext

# The port that PyTorch uses by default.
MASTER_PORT = "29500"


def find_ranked_clique(context: SetContext) -> str:
    """Return the clique of the template whose pods have ranks: the only one, or the one that the annotation names."""
    cliques = [clique.name for clique in context.spec.template.cliques]
    if not context.is_training:
        return ""
    if len(cliques) == 1:
        return cliques[0]
    named = context.annotations.get(labels.RANKED_CLIQUE, "")
    return named if named in cliques else ""


def add_distributed_env(pod_spec: JsonObject, context: SetContext, replica_index: int, clique: DesiredClique) -> None:
    """Put the variables before the user's in every container, without those that the container sets itself."""
    if clique.template.name != find_ranked_clique(context):
        return
    variables = _build_variables(context, replica_index, clique)
    for kind in ("containers", "initContainers"):
        if pod_spec.get(kind):
            pod_spec[kind] = [_with_missing(container, variables) for container in pod_spec[kind]]


def _build_variables(context: SetContext, replica_index: int, clique: DesiredClique) -> list[JsonObject]:
    service = names.service_address(context.name, replica_index, context.namespace)
    address = f"{names.pod_hostname(clique.name, 0)}.{service}"
    rank = {"valueFrom": {"fieldRef": {"fieldPath": f"metadata.labels['{labels.POD_INDEX}']"}}}
    # A training set cannot be scaled, so the template has the count.
    count = {"value": str(clique.template.spec.replicas)}
    master, port = {"value": address}, {"value": MASTER_PORT}
    return [
        {"name": "PET_NNODES", **count},
        {"name": "PET_NODE_RANK", **rank},
        {"name": "PET_MASTER_ADDR", **master},
        {"name": "PET_MASTER_PORT", **port},
        {"name": "MASTER_ADDR", **master},
        {"name": "MASTER_PORT", **port},
        {"name": "WORLD_SIZE", **count},
        {"name": "RANK", **rank},
    ]


def _with_missing(container: JsonObject, variables: list[JsonObject]) -> JsonObject:
    own = container.get("env") or ()
    known = {variable.get("name") for variable in own}
    return {**container, "env": [*(one for one in variables if one["name"] not in known), *own]}
