"""Keys of labels, annotations, finalizers and scheduling gates, and the label sets built from them."""

MANAGED_BY = "app.kubernetes.io/managed-by"
MANAGED_BY_VALUE = "grove-operator"
PART_OF = "app.kubernetes.io/part-of"
NAME = "app.kubernetes.io/name"
COMPONENT = "app.kubernetes.io/component"

PODCLIQUE = "grove.io/podclique"
# On a pod that Volcano places: the uid of its PodClique. The next incarnation of a gang reuses names, but not uids.
PODCLIQUE_UID = "grove.io/podclique-uid"
PODGANG = "grove.io/podgang"
BASE_PODGANG = "grove.io/base-podgang"
SET_REPLICA_INDEX = "grove.io/podcliqueset-replica-index"
GROUP = "grove.io/podcliquescalinggroup"
GROUP_REPLICA_INDEX = "grove.io/podcliquescalinggroup-replica-index"
POD_INDEX = "grove.io/podclique-pod-index"
TEMPLATE_HASH = "grove.io/pod-template-hash"
SCHEDULER_NAME = "grove.io/scheduler-name"
MNNVL_GROUP = "grove.io/mnnvl-group"
INCARNATION = "grove.io/incarnation"
# On a ControllerRevision: its own hash. On a base gang: the revision that its replica runs.
GENERATION_HASH = "grove.io/podcliqueset-generation-hash"

# The operator lists its objects by these labels. An object that lost one of them exists but is not in the list.
FOUND_BY = (MANAGED_BY, SET_REPLICA_INDEX, GROUP, GROUP_REPLICA_INDEX, POD_INDEX)

COMPONENT_SERVICE = "pcs-headless-service"
COMPONENT_GROUP = "pcs-podcliquescalinggroup"
COMPONENT_GANG = "podgang"
COMPONENT_STANDALONE_CLIQUE = "pcs-podclique"
COMPONENT_MEMBER_CLIQUE = "pcsg-podclique"
COMPONENT_AUTOSCALER = "pcs-hpa"
COMPONENT_CLAIM = "resource-claim"
COMPONENT_REVISION = "pcs-revision"
COMPONENT_ROLE = "pod-role"
COMPONENT_ROLE_BINDING = "pod-role-binding"
COMPONENT_WEBHOOK = "webhook"
# On the Secret of the webhook certificate. Must differ from MANAGED_BY_VALUE, which selects objects for bulk deletes.
MANAGED_BY_WEBHOOKS = "grove-webhooks"

TOPOLOGY_NAME = "grove.io/topology-name"
RECONCILE_TRIGGER = "grove.io/reconcile-trigger"
DISABLE_PROTECTION = "grove.io/disable-managed-resource-protection"

# On a PodGang: its replica is being torn down. This must finish before the replica is created again.
TEARDOWN = "grove.io/teardown"
# On a PodGang: the replicas that were torn down to be recreated, and which of them do not exist yet (JSON).
RECREATION = "grove.io/recreation"
# On a PodGang: the last pod names of indices that it no longer references, by clique (JSON). No name is reused.
LAST_POD_NAMES = "grove.io/last-pod-names"
# On a PodGang: how often each clique was scaled to zero after it ran (JSON). Its next pods use another pod group.
ZERO_COUNTS = "grove.io/zero-counts"
# On a PodClique that was recreated before its gang was placed for the first time: the incarnation of that gang.
GANG_INCARNATION = "grove.io/gang-life"
# On a PodGroup of kube-scheduler that is not directly below the root of its gang: the name of that root.
GANG_ROOT = "grove.io/gang-root"
# On a PodGroup of KAI or Volcano: fields that the operator wrote and that older versions do not know. On a
# HorizontalPodAutoscaler: `behavior`, if the operator wrote it.
REQUESTED_FIELDS = "grove.io/asked-fields"
# On a pod: the number of consecutive failures of its index before this pod.
FAILURES = "grove.io/consecutive-failures"

SET_FINALIZER = "grove.io/podcliqueset.grove.io"
# Objects of older versions have these; the operator removes them, see docs/how-to/migrate.md.
GROUP_FINALIZER = "grove.io/podcliquescalinggroup.grove.io"
CLIQUE_FINALIZER = "grove.io/podclique.grove.io"

GATE = "grove.io/podgang-pending-creation"

# On a training set with several cliques: the one whose pods have ranks.
RANKED_CLIQUE = "grove.io/ranked-clique"

# Behavior of a simulated pod (docs/reference/wire.md).
SIM_READY_AFTER = "simulation.grove.io/ready-after"
SIM_EXIT_AFTER = "simulation.grove.io/exit-after"
SIM_EXIT_CODE = "simulation.grove.io/exit-code"
SIM_PULL_ERROR = "simulation.grove.io/pull-error"
SIM_CPU_USAGE = "simulation.grove.io/cpu-usage"
SIM_MEMORY_USAGE = "simulation.grove.io/memory-usage"
# On a set: the CPU that the ready pods of a set, group or clique use together; its name follows.
SIM_LOAD_PREFIX = "load.simulation.grove.io/"
# On any object: a custom metric of it; the name of the metric follows.
SIM_METRIC_PREFIX = "metrics.simulation.grove.io/"
# On a ConfigMap, as a label: its data are external metrics.
SIM_EXTERNAL_METRICS = "simulation.grove.io/external-metrics"


def default_labels(pcs_name: str) -> dict[str, str]:
    """Return the labels of every object that the operator creates for a set."""
    return {MANAGED_BY: MANAGED_BY_VALUE, PART_OF: pcs_name}


def selector(labels: dict[str, str]) -> str:
    """Return an equality selector in query syntax. Keys are sorted, so that equal selectors are equal strings."""
    return ",".join(f"{key}={value}" for key, value in sorted(labels.items()))


def is_selected(labels: dict[str, str], by: str) -> bool:
    """Return whether a selector made by `selector` matches these labels."""
    pairs = (pair.partition("=") for pair in by.split(","))
    return all(labels.get(key) == value for key, _, value in pairs)
