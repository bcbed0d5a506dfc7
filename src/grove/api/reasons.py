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
    PODS_REJECTED = "PodsRejected", "the API server refuses to create pods of the clique; the message has its words"
    SUCCEEDED = "Succeeded", "every pod of a training clique ended with exit code 0"
    # PodClique and PodCliqueScalingGroup
    MIN_AVAILABLE_BREACHED = (
        "MinAvailableBreached",
        "fewer than minAvailable are available, after having been available",
    )
    # PodCliqueScalingGroup
    GANG_TERMINATION_IN_PROGRESS = "GangTerminationInProgress", "the gang of this group is being torn down"
    # PodCliqueSet
    TOPOLOGY_LEVELS_UNAVAILABLE = "TopologyLevelsUnavailable", "a topology constraint names a domain nobody defines"
    UNSUPPORTED_FIELDS = "UnsupportedFields", "the set uses fields this version accepts but does not act on"
    RECONCILE_FAILED = "ReconcileFailed", "the set is invalid, or a write keeps failing; the message says what to do"
    GANG_SCHEDULING_UNAVAILABLE = (
        "GangSchedulingUnavailable",
        "the scheduler cannot place the set as gangs; the message says why and what to do",
    )
    SCHEDULER_LIMITED = (
        "SchedulerLimited",
        "the scheduler places the set as gangs, but does not do all that it asks; the message says what",
    )
    TEARDOWN_HELD = "TeardownHeld", "a due teardown waits because most nodes are not ready"
    UPDATE_STALLED = (
        "UpdateStalled",
        "an update does not go on; the reason and the message say what it waits for, and what to do",
    )
    FAILED = "Failed", "a training set failed for good; the reason says which limit it hit"
    # PodGang
    INITIALIZED = "Initialized", "every pod the gang needs exists and is referenced"
    SCHEDULED = "Scheduled", "every pod group of the gang has its minimum of pods on nodes"
    READY = "Ready", "every pod group of the gang has its minimum of ready pods"
    UNHEALTHY = "Unhealthy", "a pod group of the gang that was ready fell below its minimum"
    DISRUPTION_TARGET = "DisruptionTarget", "the gang is about to be torn down"
    # ClusterTopologyBinding
    SCHEDULER_TOPOLOGY_DRIFT = "SchedulerTopologyDrift", "a scheduler's own topology differs from this binding"
    # Pod (written by schedulers)
    POD_SCHEDULED = "PodScheduled", "the pod has a node"


class Reason(Documented):
    """The reason of a condition."""

    # PodCliqueScheduled
    SUFFICIENT_SCHEDULED_PODS = "SufficientScheduledPods", "at least minAvailable pods have a node"
    INSUFFICIENT_SCHEDULED_PODS = "InsufficientScheduledPods", "fewer than minAvailable pods have a node"
    # MinAvailableBreached, clique
    SUFFICIENT_READY_PODS = "SufficientReadyPods", "at least minAvailable pods are ready"
    NEVER_AVAILABLE = "NeverAvailable", "the minimum was not reached yet, so nothing was lost"
    SCALED_TO_ZERO = "ScaledToZero", "it was scaled to zero: it asks for no pods, so none can be missing"
    UPDATE_IN_PROGRESS = "UpdateInProgress", "an update replaces pods; availability is judged when it ends"
    INSUFFICIENT_READY_PODS = "InsufficientReadyPods", "the clique was available and fell below minAvailable"
    POD_FAILED = "PodFailed", "a training pod failed and the rest does not reach minAvailable, or has ended"
    # MinAvailableBreached, group
    SUFFICIENT_AVAILABLE_REPLICAS = (
        "SufficientAvailablePodCliqueScalingGroupReplicas",
        "at least minAvailable group replicas are not in breach",
    )
    INSUFFICIENT_AVAILABLE_REPLICAS = (
        "InsufficientAvailablePodCliqueScalingGroupReplicas",
        "fewer than minAvailable group replicas can still be good",
    )
    REPLICA_STATE_UNKNOWN = "ReplicaStateUnknown", "too many group replicas are missing or in doubt to tell"
    GANG_TERMINATION_ACTIVE = "GangTerminationActive", "a set replica is being torn down and made anew"
    # ReconcileFailed: a write that has failed for a minute, by the answer of the API server
    WRITE_REJECTED = "WriteRejected", "the API server rejects a write; the message has its words"
    WRITE_CONFLICT = "WriteConflict", "an object changes again and again before the operator's write arrives"
    TOO_LARGE = "TooLarge", "an object is larger than the API server or etcd accepts"
    THROTTLED = "Throttled", "the API server asks for patience again and again"
    SERVER_ERROR = "ServerError", "the API server, etcd or an admission webhook fails"
    NO_ANSWER = "NoAnswer", "the API server does not answer"
    # PodsRejected, ReconcileFailed
    QUOTA_EXCEEDED = "QuotaExceeded", "a resource quota leaves no room"
    CREATE_REJECTED = "CreateRejected", "the API server refused to create an object; the message has its words"
    NAME_TAKEN = "NameTaken", "an object that is not ours has the name we need"
    NAMESPACE_TERMINATING = "NamespaceTerminating", "the namespace is being deleted, so nothing new is made in it"
    PODS_ACCEPTED = "PodsAccepted", "the API server accepts the pods again"
    PODS_RELEASED = "PodsReleased", "the gang stayed below its minima, returned its waiting pods and tries again later"
    INVALID_SPEC = "InvalidSpec", "the set breaks a rule; nothing is changed until it is corrected"
    OBJECT_BUDGET_EXCEEDED = (
        "ObjectBudgetExceeded",
        "the set asks for more objects than one set may have; nothing is created beyond that",
    )
    # UnsupportedFields
    NOT_SUPPORTED_YET = "NotSupportedYet", "the message names each field and what happens instead"
    # GangSchedulingUnavailable
    NO_GANG_SCHEDULING = "NoGangScheduling", "the scheduler does not place the pods of a gang all or nothing"
    MISSING_DEPENDENCY = (
        "MissingDependency",
        "something that the scheduler needs is missing, such as a queue, so no pod is made",
    )
    # SchedulerLimited
    PARTIALLY_SUPPORTED = "PartiallySupported", "the scheduler places the set as gangs, but not in all as it asks"
    # TeardownHeld
    MASS_OUTAGE = "MassOutage", "more than 55 % of the nodes, and at least 3, are not ready"
    # UpdateStalled
    NO_CAPACITY = "NoCapacity", "a new pod of the update has no node"
    MINIMUM_NOT_MET = "MinimumNotMet", "too few are ready for another ready one to be taken"
    PODS_NOT_STARTING = "PodsNotStarting", "a container of a new pod cannot start, such as an image that is not there"
    PODS_NOT_READY = "PodsNotReady", "a new pod of the update does not become ready"
    PODS_REJECTED = "PodsRejected", "the API server refuses the new pods of the update"
    # TopologyLevelsUnavailable
    TOPOLOGY_AWARE_SCHEDULING_DISABLED = "TopologyAwareSchedulingDisabled", "topology-aware scheduling is switched off"
    ALL_TOPOLOGY_LEVELS_AVAILABLE = "AllClusterTopologyLevelsAvailable", "every domain the set names is defined"
    TOPOLOGY_NAME_MISSING = "TopologyNameMissing", "no topologyName says which binding defines the domains"
    CLUSTER_TOPOLOGY_NOT_FOUND = "ClusterTopologyNotFound", "the named ClusterTopologyBinding does not exist"
    TOPOLOGY_LEVELS_UNAVAILABLE = "ClusterTopologyLevelsUnavailable", "the binding lacks a domain the set names"
    # Failed (training)
    MAX_RESTARTS_EXCEEDED = "MaxRestartsExceeded", "the restart budget is used up"
    MAX_RUNTIME_EXCEEDED = "MaxRuntimeExceeded", "the set ran longer than maxRuntime"
    # Succeeded (training clique)
    ALL_PODS_SUCCEEDED = "AllPodsSucceeded", "every pod of the clique ended with exit code 0"
    # PodGang
    PODS_CREATION_PENDING = "PodGangPodsCreationPending", "some pods of the gang do not exist yet"
    PODS_CREATED = "PodGangPodsCreated", "every pod of the gang exists"
    MINIMUM_SCHEDULED = "MinimumScheduled", "every pod group has its minimum on nodes"
    MINIMUM_NOT_SCHEDULED = "MinimumNotScheduled", "a pod group waits for nodes; the message names it"
    MINIMUM_READY = "MinimumReady", "every pod group has its minimum of ready pods"
    MINIMUM_NOT_READY = "MinimumNotReady", "a pod group has fewer ready pods than its minimum; the message names it"
    MINIMUM_KEPT = "MinimumKept", "no pod group that was ready fell below its minimum"
    MINIMUM_LOST = "MinimumLost", "a pod group was ready and fell below its minimum; the message names it"
    # SchedulerTopologyDrift
    IN_SYNC = "InSync", "every scheduler's topology equals the binding"
    DRIFT = "Drift", "a scheduler's topology differs from the binding, or does not exist"
    TOPOLOGY_NOT_FOUND = "TopologyNotFound", "the binding names a scheduler that is not enabled or has no topology"
    # PodScheduled
    UNSCHEDULABLE = "Unschedulable", "no node fits; the message names the constraint that binds"
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
    ALL_SCHEDULED_REPLICAS_LOST = "AllScheduledReplicasLost", "everything that had a node lost it"
    TEARDOWN_HELD = "TeardownHeld", "a due teardown waits because most nodes are not ready"
    # Updates
    UPDATE_STARTED = "UpdateStarted", "the templates of a set changed, and its replicas follow one after the other"
    UPDATE_TURN = "UpdateTurn", "the next replica of a set is updated"
    UPDATE_COMPLETED = "UpdateCompleted", "everything of a set runs its newest templates"
    UPDATE_STALLED = "UpdateStalled", "an update does not go on; the message says what it waits for"
    # Rejections
    PODS_REJECTED = "PodsRejected", "the API server refuses to create pods; the message has its words"
    CREATE_REJECTED = "CreateRejected", "the API server refused to create an object; the message has its words"
    NAME_TAKEN = "NameTaken", "an object that is not ours has the name we need: rename one of the two"
    UNSUPPORTED_FIELDS = "UnsupportedFields", "the set uses fields this version accepts but does not act on"
    RECONCILE_FAILED = "ReconcileFailed", "the set is invalid, or a write keeps failing; the message says what to do"
    # Training
    POD_CLIQUE_FAILED = "PodCliqueFailed", "a clique of a training set is below its minimum"
    INDEX_GIVEN_UP = "IndexGivenUp", "a training pod above the minimum failed 6 times; its index is not tried any more"
    REPLICA_RESTARTING = "ReplicaRestarting", "a training replica is restarted; the message counts and says what failed"
    MAX_RESTARTS_EXCEEDED = "MaxRestartsExceeded", "the restart budget is used up; the set fails"
    MAX_RUNTIME_EXCEEDED = "MaxRuntimeExceeded", "the set ran longer than maxRuntime; the set fails"
    WORKLOAD_SUCCEEDED = "WorkloadSucceeded", "every replica of a training set completed"
    # Scheduling
    NO_GANG_SCHEDULING = "NoGangScheduling", "the scheduler does not place the set as gangs; the message says why"
    PARTIALLY_SUPPORTED = (
        "PartiallySupported",
        "the scheduler does not do all that the set asks of it; the message says what",
    )
    MISSING_DEPENDENCY = (
        "MissingDependency",
        "something that the set names is missing, so no pod is made; the message says what",
    )
    SCHEDULED = "Scheduled", "a pod was given a node"
    FAILED_SCHEDULING = "FailedScheduling", "a gang or pod does not fit; the message names the constraint that binds"
    TOPOLOGY_DRIFT_DETECTED = "TopologyDriftDetected", "a scheduler's topology differs from its binding"
    TOPOLOGY_IN_SYNC = "TopologyInSync", "a scheduler's topology equals its binding again"


class FindingReason(Documented):
    """The reason of a finding: why an object waits, or why its scheduling gate may be removed."""

    GANG_COMPLETE = "GangComplete", "every pod of the gang exists, so its gates may go"
    GANG_STARTED = "GangStarted", "the gang was placed before, so a replacement may follow at once"
    GANG_AT_MINIMUM = "GangAtMinimum", "the minima exist and the API server refuses the rest, so the gates may go"
    GANG_INCOMPLETE = "GangIncomplete", "some pods of the gang do not exist yet"
    BASE_SCHEDULED = "BaseGangScheduled", "every pod group of the base gang has its minimum on nodes"
    BASE_NOT_SCHEDULED = "BaseGangNotScheduled", "the base gang must be scheduled before a scaled gang may be"
    NO_SERVICE = "NoService", "the service by which pods of a replica find each other does not exist yet"
    SCHEDULER_NOT_TOLD = "SchedulerNotTold", "what the scheduler reads of the gang is not written yet"
    MISSING_DEPENDENCY = "MissingDependency", "something that the gang names is missing, such as a queue or a topology"
    EXTRAS_WAIT = "ExtrasWait", "pods above the minimum wait until the minimum, and that of scaled gangs, had its turn"
    NOT_AS_A_GANG = "NotAsAGang", "the scheduler does not place the gang all or nothing; the message says why"
    PARTIALLY_SUPPORTED = (
        "PartiallySupported",
        "the scheduler does not do all that the set asks of it; the message says what",
    )
    DOES_NOT_FIT = "DoesNotFit", "the scheduler found no room for the gang; the message has its words"
    WAITS_FOR_QUEUE = "WaitsForQueue", "the gang is not let into its queue yet, so the scheduler looks for no node"
    PODS_REJECTED = "PodsRejected", "the API server refuses pods; they are tried again later"
    NAME_TAKEN = "NameTaken", "an object that is not ours has the name we need"
    CREATE_REJECTED = "CreateRejected", "the API server refused to create an object"
    REPLACEMENT_BACK_OFF = "ReplacementBackOff", "a pod keeps ending; its replacement waits a little longer each time"
    BEING_REMOVED = "BeingRemoved", "the replica is not wanted any more and is being removed"
    TEARDOWN_UNFINISHED = "TeardownUnfinished", "a teardown that was begun finishes before the unit comes back"
    NAME_STILL_LEAVING = "NameStillLeaving", "the old object of this name is still being deleted"
    INVALID_SET = "InvalidSet", "the set breaks a rule, so nothing is changed until it is corrected"
    OBJECT_BUDGET_EXCEEDED = "ObjectBudgetExceeded", "the set asks for more objects than one set may have"
    UNATTENDED = "Unattended", "nobody has acted on the set since it was created, or deleted: no operator runs"
    BEING_DELETED = "BeingDeleted", "somebody deleted the object and it is on its way out"
    HELD_BY_FINALIZER = "HeldByFinalizer", "another controller's finalizer keeps an object that was deleted"
    TERMINATION_DELAY = "TerminationDelay", "a breach runs; when the termination delay is over, the unit is torn down"
    TEARDOWN_HELD = "TeardownHeld", "a due teardown waits because most nodes are not ready"
    COMING_BACK = "ComingBack", "the unit was torn down after a breach, or for an update, and is being made anew"
    UPDATING = "Updating", "a newer template is being rolled out; the message says what the step waits for"
    UPDATE_STALLED = "UpdateStalled", "the update does not go on; the message says what it waits for"
    POD_ENDED = "PodEnded", "the containers of the pod have ended"
