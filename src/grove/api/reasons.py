"""Condition types, condition reasons and event reasons that Grove writes, each with its meaning in one line.

The value is on the wire; `docs/reference/conditions.md` shows the `meaning`. The messages, with numbers and names, are
written where the decision is made.
"""

from enum import StrEnum
from typing import Self


class Documented(StrEnum):
    """An enum of values on the wire, each with its meaning for the reference."""

    meaning: str

    def __new__(cls, value: str, meaning: str) -> Self:
        member = str.__new__(cls, value)
        member._value_ = value
        member.meaning = meaning
        return member


class ConditionType(Documented):
    # PodClique
    POD_CLIQUE_SCHEDULED = "PodCliqueScheduled", "at least minAvailable pods of the clique have a node"
    PODS_REJECTED = "PodsRejected", "the API server rejects pods of the clique; the message quotes it"
    SUCCEEDED = "Succeeded", "every pod of a training clique ended with exit code 0"
    # PodClique and PodCliqueScalingGroup
    MIN_AVAILABLE_BREACHED = (
        "MinAvailableBreached",
        "it was available, and now fewer than minAvailable of its pods or replicas are available",
    )
    # PodCliqueScalingGroup
    GANG_TERMINATION_IN_PROGRESS = "GangTerminationInProgress", "the gang of this group is being torn down"
    # PodCliqueSet
    AVAILABLE = (
        "Available",
        "all set replicas are available; while one is being updated, all others, and at least one",
    )
    PROGRESSING = (
        "Progressing",
        "the operator moves the set towards its spec, or has nothing left to do; False: a user must act",
    )
    COMPLETE = "Complete", "a training set succeeded"
    TOPOLOGY_LEVELS_UNAVAILABLE = (
        "TopologyLevelsUnavailable",
        "a topology constraint names a domain that no binding defines",
    )
    UNSUPPORTED_FIELDS = "UnsupportedFields", "the set uses fields that this version accepts but does not support"
    RECONCILE_FAILED = "ReconcileFailed", "the set is invalid, or a write keeps failing; the message says what to do"
    GANG_SCHEDULING_UNAVAILABLE = (
        "GangSchedulingUnavailable",
        "the scheduler cannot place the set as gangs; the message says why and what to do",
    )
    SCHEDULER_LIMITED = (
        "SchedulerLimited",
        "the scheduler places the set as gangs, but does not support all that the set requests; the message says what",
    )
    STARTUP_ORDER_UNAVAILABLE = (
        "StartupOrderUnavailable",
        "cliques that start after others get no pods; the message says why and what to do",
    )
    TEARDOWN_HELD = (
        "TeardownHeld",
        "a due teardown, or a deletion for an update, waits because most nodes are not ready",
    )
    UPDATE_STALLED = (
        "UpdateStalled",
        "an update makes no progress; reason and message say what it waits for and what to do",
    )
    FAILED = "Failed", "a training set failed; the reason says which limit it reached"
    # PodGang
    INITIALIZED = "Initialized", "every pod of the gang exists and is referenced"
    SCHEDULED = "Scheduled", "every pod group of the gang has its minimum of pods on nodes"
    READY = "Ready", "every pod group of the gang has its minimum of ready pods"
    UNHEALTHY = "Unhealthy", "a pod group of the gang that was ready fell below its minimum"
    DISRUPTION_TARGET = "DisruptionTarget", "the gang is about to be torn down"
    # ClusterTopologyBinding
    SCHEDULER_TOPOLOGY_DRIFT = "SchedulerTopologyDrift", "a scheduler's own topology differs from this binding"
    # Pod (written by schedulers)
    POD_SCHEDULED = "PodScheduled", "the pod has a node"


# Conditions that report the state of a set. True conditions of all other types report a problem.
STATE_CONDITIONS = (ConditionType.AVAILABLE, ConditionType.PROGRESSING, ConditionType.COMPLETE)


class Reason(Documented):
    """The reason of a condition."""

    # Available
    ALL_REPLICAS_AVAILABLE = "AllReplicasAvailable", "every set replica is available"
    REPLICAS_UNAVAILABLE = "ReplicasUnavailable", "some set replicas are not available; the message has the count"
    # Available, Progressing
    UPDATING = "Updating", "an update replaces one set replica after the other; the message names the current one"
    # Progressing
    STARTING = "Starting", "some set replicas are not available yet, or not any more"
    SCALING = "Scaling", "set replicas are being removed, or gangs above the minimum do not run yet"
    UPDATE_STALLED = "UpdateStalled", "an update makes no progress; the message says what it waits for and what to do"
    COMPLETE = "Complete", "nothing is left to do"
    # Complete (training)
    ALL_REPLICAS_SUCCEEDED = "AllReplicasSucceeded", "every pod of every set replica ended with exit code 0"
    # PodCliqueScheduled
    SUFFICIENT_SCHEDULED_PODS = "SufficientScheduledPods", "at least minAvailable pods have a node"
    INSUFFICIENT_SCHEDULED_PODS = "InsufficientScheduledPods", "fewer than minAvailable pods have a node"
    # MinAvailableBreached, clique
    SUFFICIENT_READY_PODS = "SufficientReadyPods", "at least minAvailable pods are ready"
    NEVER_AVAILABLE = "NeverAvailable", "the minimum was not reached yet, so nothing was lost"
    SCALED_TO_ZERO = "ScaledToZero", "it was scaled to zero, so no pod can be missing"
    UPDATE_IN_PROGRESS = "UpdateInProgress", "an update replaces pods; availability is checked when it ends"
    INSUFFICIENT_READY_PODS = "InsufficientReadyPods", "the clique was available and fell below minAvailable"
    POD_FAILED = "PodFailed", "a training pod failed; the other pods are fewer than minAvailable, or have ended"
    # MinAvailableBreached, group
    SUFFICIENT_AVAILABLE_REPLICAS = (
        "SufficientAvailablePodCliqueScalingGroupReplicas",
        "at least minAvailable group replicas are not in breach",
    )
    INSUFFICIENT_AVAILABLE_REPLICAS = (
        "InsufficientAvailablePodCliqueScalingGroupReplicas",
        "fewer than minAvailable group replicas can still be available",
    )
    REPLICA_STATE_UNKNOWN = "ReplicaStateUnknown", "too many group replicas are missing or have an unknown state"
    GANG_TERMINATION_ACTIVE = "GangTerminationActive", "a set replica is being torn down and recreated"
    # ReconcileFailed: a write that has failed for a minute, by the answer of the API server
    WRITE_REJECTED = "WriteRejected", "the API server rejects a write; the message quotes it"
    WRITE_CONFLICT = "WriteConflict", "other clients keep changing an object before the operator's write arrives"
    TOO_LARGE = "TooLarge", "an object is larger than the API server or etcd accepts"
    THROTTLED = "Throttled", "the API server keeps limiting the rate of requests"
    SERVER_ERROR = "ServerError", "the API server, etcd or an admission webhook returns an error"
    NO_ANSWER = "NoAnswer", "the API server does not answer"
    # PodsRejected, ReconcileFailed
    QUOTA_EXCEEDED = "QuotaExceeded", "a resource quota is exhausted"
    CREATE_REJECTED = "CreateRejected", "the API server rejected the create of an object; the message quotes it"
    NAME_TAKEN = "NameTaken", "a foreign object has the name that the operator needs"
    NAMESPACE_TERMINATING = "NamespaceTerminating", "the namespace is being deleted, so no object can be created in it"
    PODS_ACCEPTED = "PodsAccepted", "the API server accepts the pods again"
    PODS_RELEASED = (
        "PodsReleased",
        "the gang stayed below its minima; the operator deleted its waiting pods and retries later",
    )
    INVALID_SPEC = "InvalidSpec", "the set is invalid; the operator changes nothing until it is corrected"
    OBJECT_BUDGET_EXCEEDED = (
        "ObjectBudgetExceeded",
        "the set needs more objects than its limit; the operator creates none beyond that",
    )
    # UnsupportedFields
    NOT_SUPPORTED_YET = "NotSupportedYet", "the message lists each field and what happens instead"
    # GangSchedulingUnavailable
    NO_GANG_SCHEDULING = "NoGangScheduling", "the scheduler does not place the pods of a gang all or nothing"
    MISSING_DEPENDENCY = (
        "MissingDependency",
        "something that the set needs is missing, such as a queue, so no pod is created",
    )
    # SchedulerLimited
    PARTIALLY_SUPPORTED = (
        "PartiallySupported",
        "the scheduler places the set as gangs, but does not support all that it requests",
    )
    # TeardownHeld
    MASS_OUTAGE = "MassOutage", "more than 55 % of the nodes, and at least 3, are not ready"
    # UpdateStalled
    NO_CAPACITY = "NoCapacity", "a new pod of the update has no node"
    MINIMUM_NOT_MET = "MinimumNotMet", "too few pods or replicas are ready, so no ready one is replaced"
    PODS_NOT_STARTING = (
        "PodsNotStarting",
        "a container of a new pod cannot start, for example because its image does not exist",
    )
    PODS_NOT_READY = "PodsNotReady", "a new pod of the update does not become ready"
    PODS_REJECTED = "PodsRejected", "the API server rejects the new pods of the update"
    # TopologyLevelsUnavailable
    TOPOLOGY_AWARE_SCHEDULING_DISABLED = "TopologyAwareSchedulingDisabled", "topology-aware scheduling is disabled"
    ALL_TOPOLOGY_LEVELS_AVAILABLE = "AllClusterTopologyLevelsAvailable", "the binding defines every domain of the set"
    TOPOLOGY_NAME_MISSING = "TopologyNameMissing", "no topologyName names the binding that defines the domains"
    CLUSTER_TOPOLOGY_NOT_FOUND = "ClusterTopologyNotFound", "the named ClusterTopologyBinding does not exist"
    TOPOLOGY_LEVELS_UNAVAILABLE = "ClusterTopologyLevelsUnavailable", "the binding does not define a domain of the set"
    # Failed (training)
    MAX_RESTARTS_EXCEEDED = "MaxRestartsExceeded", "the restart budget is used up"
    MAX_RUNTIME_EXCEEDED = "MaxRuntimeExceeded", "the set ran longer than maxRuntime"
    # Succeeded (training clique)
    ALL_PODS_SUCCEEDED = "AllPodsSucceeded", "every pod of the clique ended with exit code 0"
    # PodGang
    PODS_CREATION_PENDING = "PodGangPodsCreationPending", "some pods of the gang do not exist yet"
    PODS_CREATED = "PodGangPodsCreated", "every pod of the gang exists"
    MINIMUM_SCHEDULED = "MinimumScheduled", "every pod group has its minimum on nodes"
    MINIMUM_NOT_SCHEDULED = (
        "MinimumNotScheduled",
        "a pod group has fewer pods on nodes than its minimum; the message names it",
    )
    MINIMUM_READY = "MinimumReady", "every pod group has its minimum of ready pods"
    MINIMUM_NOT_READY = "MinimumNotReady", "a pod group has fewer ready pods than its minimum; the message names it"
    MINIMUM_KEPT = "MinimumKept", "no pod group that was ready fell below its minimum"
    MINIMUM_LOST = "MinimumLost", "a pod group was ready and fell below its minimum; the message names it"
    # SchedulerTopologyDrift
    IN_SYNC = "InSync", "every scheduler's topology equals the binding"
    DRIFT = "Drift", "a scheduler's topology differs from the binding, or does not exist"
    TOPOLOGY_NOT_FOUND = "TopologyNotFound", "the binding names a scheduler that is not enabled or has no topology"
    # PodScheduled
    UNSCHEDULABLE = "Unschedulable", "no node fits; the message names the missing resource or constraint"
    SCHEDULING_GATED = "SchedulingGated", "a scheduling gate holds the pod"


class EventReason(Documented):
    """The reason of an event."""

    # Objects created and deleted
    POD_CLIQUE_CREATED = "PodCliqueCreateSuccessful", "a PodClique was created"
    POD_CLIQUE_CREATE_FAILED = "PodCliqueCreateFailed", "a PodClique could not be created"
    POD_CLIQUE_SYNCED = "PodCliqueCreateOrUpdateSuccessful", "a PodClique was created or changed"
    POD_CLIQUE_SYNC_FAILED = "PodCliqueCreateOrUpdateFailed", "a PodClique could not be created or changed"
    POD_CLIQUE_DELETED = "PodCliqueDeleteSuccessful", "a PodClique was deleted"
    POD_CLIQUE_DELETE_FAILED = "PodCliqueDeleteFailed", "a PodClique could not be deleted"
    GROUP_CREATED = "PodCliqueScalingGroupCreateSuccessful", "a PodCliqueScalingGroup was created"
    GROUP_SYNC_FAILED = (
        "PodCliqueScalingGroupCreateOrUpdateFailed",
        "a PodCliqueScalingGroup could not be created or changed",
    )
    GROUP_DELETED = "PodCliqueScalingGroupDeleteSuccessful", "a PodCliqueScalingGroup was deleted"
    GROUP_DELETE_FAILED = "PodCliqueScalingGroupDeleteFailed", "a PodCliqueScalingGroup could not be deleted"
    GANG_SYNCED = "PodGangCreateOrUpdateSuccessful", "a PodGang was created or changed"
    GANG_SYNC_FAILED = "PodGangCreateOrUpdateFailed", "a PodGang could not be created or changed"
    GANG_DELETED = "PodGangDeleteSuccessful", "a PodGang was deleted"
    GANG_DELETE_FAILED = "PodGangDeleteFailed", "a PodGang could not be deleted"
    POD_CREATED = "PodCreateSuccessful", "a pod was created"
    POD_CREATE_FAILED = "PodCreateFailed", "a pod could not be created"
    POD_DELETED = "PodDeleteSuccessful", "a pod was deleted"
    POD_DELETE_FAILED = "PodDeleteFailed", "a pod could not be deleted"
    SERVICE_SYNC_FAILED = "ServiceCreateOrUpdateFailed", "a headless Service could not be created or changed"
    COMPUTE_DOMAIN_CREATED = "ComputeDomainCreateSuccessful", "a ComputeDomain was created"
    COMPUTE_DOMAIN_CREATE_FAILED = "ComputeDomainCreateFailed", "a ComputeDomain could not be created"
    COMPUTE_DOMAIN_DELETED = "ComputeDomainDeleteSuccessful", "a ComputeDomain was deleted"
    COMPUTE_DOMAIN_DELETE_FAILED = "ComputeDomainDeleteFailed", "a ComputeDomain could not be deleted"
    # Gangs torn down, replicas removed
    REPLICA_DELETED = "PodCliqueSetReplicaDeleteSuccessful", "a set replica was torn down after a breach"
    REPLICA_DELETE_FAILED = "PodCliqueSetReplicaDeleteFailed", "a set replica could not be torn down completely"
    GROUP_REPLICA_DELETED = (
        "PodCliqueScalingGroupReplicaDeleteSuccessful",
        "a group replica was removed: scaled in, updated, or torn down after a breach",
    )
    GROUP_REPLICA_DELETE_FAILED = (
        "PodCliqueScalingGroupReplicaDeleteFailed",
        "a group replica could not be removed completely",
    )
    MIN_AVAILABLE_BREACHED = (
        "MinAvailableBreached",
        "a clique or group fell below its minimum; the message has the deadline",
    )
    MIN_AVAILABLE_RESTORED = (
        "MinAvailableRestored",
        "a clique or group that was below its minimum is available again, or was scaled to zero",
    )
    ALL_SCHEDULED_REPLICAS_LOST = "AllScheduledReplicasLost", "every pod or replica that had a node lost it"
    TEARDOWN_HELD = (
        "TeardownHeld",
        "a due teardown, or a deletion for an update, waits because most nodes are not ready",
    )
    # Updates
    UPDATE_STARTED = "UpdateStarted", "the templates of a set changed; its replicas are updated one after the other"
    UPDATE_TURN = "UpdateTurn", "the next replica of a set is updated"
    UPDATE_COMPLETED = "UpdateCompleted", "all pods of a set run the newest templates"
    UPDATE_STALLED = "UpdateStalled", "an update makes no progress; the message says what it waits for"
    # Rejections
    PODS_REJECTED = "PodsRejected", "the API server rejects pods; the message quotes it"
    CREATE_REJECTED = "CreateRejected", "the API server rejected the create of an object; the message quotes it"
    NAME_TAKEN = "NameTaken", "a foreign object has the name that the operator needs: rename one of the two"
    UNSUPPORTED_FIELDS = "UnsupportedFields", "the set uses fields that this version accepts but does not support"
    RECONCILE_FAILED = "ReconcileFailed", "the set is invalid, or a write keeps failing; the message says what to do"
    # Training
    POD_CLIQUE_FAILED = "PodCliqueFailed", "a clique of a training set is below its minimum"
    INDEX_GIVEN_UP = (
        "IndexGivenUp",
        "a training pod above the minimum failed 6 times; the operator does not retry its index",
    )
    REPLICA_RESTARTING = (
        "ReplicaRestarting",
        "a training replica is restarted; the message has the count and the failure",
    )
    MAX_RESTARTS_EXCEEDED = "MaxRestartsExceeded", "the restart budget is used up; the set fails"
    MAX_RUNTIME_EXCEEDED = "MaxRuntimeExceeded", "the set ran longer than maxRuntime; the set fails"
    WORKLOAD_SUCCEEDED = "WorkloadSucceeded", "every replica of a training set completed"
    # Scheduling
    NO_GANG_SCHEDULING = "NoGangScheduling", "the scheduler does not place the set as gangs; the message says why"
    PARTIALLY_SUPPORTED = (
        "PartiallySupported",
        "the scheduler does not support all that the set requests; the message says what",
    )
    MISSING_DEPENDENCY = (
        "MissingDependency",
        "something that the set names is missing, so no pod is created; the message says what",
    )
    SCHEDULED = "Scheduled", "a scheduler placed a pod on a node"
    FAILED_SCHEDULING = (
        "FailedScheduling",
        "a gang or pod does not fit; the message names the missing resource or constraint",
    )
    TOPOLOGY_DRIFT_DETECTED = "TopologyDriftDetected", "a scheduler's topology differs from its binding"
    TOPOLOGY_IN_SYNC = "TopologyInSync", "a scheduler's topology equals its binding again"


class FindingReason(Documented):
    """The reason of a finding: why an object waits, or why its scheduling gate may be removed."""

    GANG_COMPLETE = "GangComplete", "every pod of the gang exists, so its gates are removed"
    GANG_STARTED = "GangStarted", "the gang was placed before, so the gate of a replacement is removed at once"
    GANG_AT_MINIMUM = "GangAtMinimum", "the minima exist and the API server rejects the rest, so the gates are removed"
    GANG_INCOMPLETE = "GangIncomplete", "some pods of the gang do not exist yet"
    BASE_SCHEDULED = "BaseGangScheduled", "every pod group of the base gang has its minimum on nodes"
    BASE_NOT_SCHEDULED = "BaseGangNotScheduled", "the base gang must be scheduled before a scaled gang"
    NO_SERVICE = "NoService", "the headless Service of the replica does not exist yet"
    SCHEDULER_OBJECT_PENDING = (
        "SchedulerObjectPending",
        "the object that the scheduler reads for the gang is not written yet",
    )
    STARTS_LATER = "StartsLater", "the pod waits in an init container for the cliques that it starts after"
    MISSING_DEPENDENCY = "MissingDependency", "something that the gang names is missing, such as a queue or a topology"
    ABOVE_MINIMUM_WAITS = (
        "AboveMinimumWaits",
        "pods above the minimum wait for the minimum of the base gang and of scaled gangs",
    )
    NOT_AS_A_GANG = "NotAsAGang", "the scheduler does not place the gang all or nothing; the message says why"
    PARTIALLY_SUPPORTED = (
        "PartiallySupported",
        "the scheduler does not support all that the set requests; the message says what",
    )
    DOES_NOT_FIT = "DoesNotFit", "the gang does not fit; the message quotes the scheduler"
    NEVER_FITS = "NeverFits", "the pods fit on no node, not even on empty ones"
    NODE_LOST = "NodeLost", "the node of a pod does not answer, or no longer exists"
    CONTAINER_CRASHES = "ContainerCrashes", "a container ends with an error"
    CONTAINER_CANNOT_START = (
        "ContainerCannotStart",
        "a container cannot start, for example because its image or a ConfigMap does not exist",
    )
    WAITS_FOR_QUEUE = (
        "WaitsForQueue",
        "its queue has not admitted the gang yet, so the scheduler does not look for nodes",
    )
    PODS_REJECTED = "PodsRejected", "the API server rejects pods; the operator retries later"
    NAME_TAKEN = "NameTaken", "a foreign object has the name that the operator needs"
    CREATE_REJECTED = "CreateRejected", "the API server rejected the create of an object"
    REPLACEMENT_BACK_OFF = "ReplacementBackOff", "a pod keeps ending; each replacement waits longer"
    BEING_REMOVED = "BeingRemoved", "the replica is being removed after a scale-in"
    TEARDOWN_UNFINISHED = "TeardownUnfinished", "a teardown must finish before the replica is created again"
    NAME_STILL_TERMINATING = "NameStillTerminating", "the old object of this name is still being deleted"
    INVALID_SET = "InvalidSet", "the set is invalid; the operator changes nothing until it is corrected"
    OBJECT_BUDGET_EXCEEDED = "ObjectBudgetExceeded", "the set needs more objects than its limit"
    NO_OPERATOR = "NoOperator", "no operator has acted on the latest change of the set: start one"
    BEING_DELETED = "BeingDeleted", "a user deleted the object and it is terminating"
    HELD_BY_FINALIZER = "HeldByFinalizer", "a finalizer of another controller keeps a deleted object"
    TERMINATION_DELAY = "TerminationDelay", "a breach lasts; after the termination delay the replica is torn down"
    TEARDOWN_HELD = (
        "TeardownHeld",
        "a due teardown, or a deletion for an update, waits because most nodes are not ready",
    )
    BEING_RECREATED = (
        "BeingRecreated",
        "the replica was torn down after a breach or for an update and is being recreated",
    )
    UPDATING = "Updating", "a new template is being rolled out; the message says what the step waits for"
    UPDATE_STALLED = "UpdateStalled", "the update makes no progress; the message says what it waits for"
    POD_ENDED = "PodEnded", "the containers of the pod have ended"
