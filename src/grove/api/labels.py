"""Every label, annotation, finalizer and gate key of the wire, and the label sets built from them."""

MANAGED_BY = "app.kubernetes.io/managed-by"
MANAGED_BY_VALUE = "grove-operator"
PART_OF = "app.kubernetes.io/part-of"
NAME = "app.kubernetes.io/name"
COMPONENT = "app.kubernetes.io/component"

PODCLIQUE = "grove.io/podclique"
# On a pod that Volcano places: the PodClique that made it. Names return in a gang's next incarnation, uids do not.
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
# On a ControllerRevision: the revision that it is. On a base gang: the revision that its replica runs.
GENERATION_HASH = "grove.io/podcliqueset-generation-hash"

# By these an object of ours is found again: without one of them it would exist and not be seen.
FOUND_BY = (MANAGED_BY, SET_REPLICA_INDEX, GROUP, GROUP_REPLICA_INDEX, POD_INDEX)

COMPONENT_SERVICE = "pcs-headless-service"
COMPONENT_GROUP = "pcs-podcliquescalinggroup"
COMPONENT_GANG = "podgang"
COMPONENT_STANDALONE_CLIQUE = "pcs-podclique"
COMPONENT_MEMBER_CLIQUE = "pcsg-podclique"
COMPONENT_AUTOSCALER = "pcs-hpa"
COMPONENT_CLAIM = "resource-claim"
COMPONENT_REVISION = "pcs-revision"
COMPONENT_WEBHOOK = "webhook"
# On the Secret of the webhook certificate: not the mark of a set's children, which is selected by and deleted in bulk.
MANAGED_BY_WEBHOOKS = "grove-webhooks"

TOPOLOGY_NAME = "grove.io/topology-name"
RECONCILE_TRIGGER = "grove.io/reconcile-trigger"
DISABLE_PROTECTION = "grove.io/disable-managed-resource-protection"

# On a PodGang: its unit is being torn down, and that must finish before the unit may come back.
TEARDOWN = "grove.io/teardown"
# On a PodGang: its units that were torn down to come back, and which of them are not back yet (JSON).
RECREATION = "grove.io/recreation"
# On a PodGang: the last names of indices that it does not reference any more, by clique (JSON). None is used again.
LAST_POD_NAMES = "grove.io/last-pod-names"
# On a PodGang: how often each clique was scaled to zero after it ran (JSON): its next pods name another group.
ZERO_COUNTS = "grove.io/zero-counts"
# On a PodClique that was made anew while its gang waited for its first placement: the life that it is placed with.
GANG_LIFE = "grove.io/gang-life"
# On a PodGroup of kube-scheduler that is not right below its gang's root: the name of that root.
GANG_ROOT = "grove.io/gang-root"
# On a PodGroup of KAI or Volcano: fields that we asked for and that older versions of them do not know.
ASKED_FIELDS = "grove.io/asked-fields"
# On a pod: how often its index failed in a row before it.
FAILURES = "grove.io/consecutive-failures"

SET_FINALIZER = "grove.io/podcliqueset.grove.io"
# Older objects carry these; we strip them, see docs/how-to/migrate.md.
GROUP_FINALIZER = "grove.io/podcliquescalinggroup.grove.io"
CLIQUE_FINALIZER = "grove.io/podclique.grove.io"

GATE = "grove.io/podgang-pending-creation"

# How a simulated pod behaves (docs/reference/wire.md).
SIM_READY_AFTER = "simulation.grove.io/ready-after"
SIM_EXIT_AFTER = "simulation.grove.io/exit-after"
SIM_EXIT_CODE = "simulation.grove.io/exit-code"


def default_labels(pcs_name: str) -> dict[str, str]:
    """The labels on everything we create for a set."""
    return {MANAGED_BY: MANAGED_BY_VALUE, PART_OF: pcs_name}


def selector(labels: dict[str, str]) -> str:
    """An equality selector in query syntax, keys sorted so that equal selectors are equal strings."""
    return ",".join(f"{key}={value}" for key, value in sorted(labels.items()))


def is_selected(labels: dict[str, str], by: str) -> bool:
    """Does a selector made by `selector` find an object with these labels?"""
    pairs = (pair.partition("=") for pair in by.split(","))
    return all(labels.get(key) == value for key, _, value in pairs)
