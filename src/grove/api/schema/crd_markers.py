"""Descriptions and validation rules of CRD fields, as kubebuilder markers in Go.

A field without an entry is still in the CRD (`crd_generator.py` walks the types), but has no description.
"""

import msgspec

from grove.api.types import clustertopologybinding, podclique, podcliquescalinggroup, podcliqueset, podgang
from grove.api.types.meta import Condition, JsonObject, LastError, NamespacedName
from grove.api.types.podcliqueset import SharingScope, StartupType, UpdateType, WorkloadType
from grove.api.types.podgang import GangPhase


class Notes(msgspec.Struct, frozen=True):
    """Description and markers of one field."""

    description: str
    is_required: bool = False
    schema: JsonObject = {}
    # The Kubernetes type of this field, or of each item of this list.
    kubernetes: str = ""


def _notes(description: str, **schema: object) -> Notes:
    return Notes(description, schema=dict(schema))


def _must(description: str, **schema: object) -> Notes:
    return Notes(description, is_required=True, schema=dict(schema))


_DOMAIN = {"minLength": 1, "maxLength": 63, "pattern": "^[a-z][a-z0-9-]*$"}
_KEY_PREFIX = r"([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?"
_KEY_NAME = r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?"
_LABEL_KEY = {"minLength": 1, "maxLength": 63, "pattern": f"^{_KEY_PREFIX}{_KEY_NAME}$"}
_BY_NAME = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}
_BY_TYPE = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]}
_SCOPES = [str(scope) for scope in SharingScope]

_CONDITIONS = _notes("Current conditions of this object.", **_BY_TYPE)
_LAST_ERRORS = _notes("Errors that keep the operator from reconciling this object; empty if there are none.")
_OBSERVED_GENERATION = _notes("The generation of the spec that this status describes.")
_STARTED = _notes("When the update began.")
_ENDED = _notes("When the update ended; absent while it runs.")
_TOPOLOGY = _notes("Topology domains into which the pods of this level are packed.")
_SHARING_NAME = _must("Name of a resource claim template.")
_SHARING_NAMESPACE = _notes("Namespace of the template; absent for a template of this set.")
_SHARING_SCOPE = _must("One claim for all replicas, or one for each.", enum=_SCOPES)
_SHARING_FILTER = _notes("Children that get the claim; absent: all.")
_CHILD_CLIQUES = _notes("Names of cliques that get the claim.")

FIELDS: dict[type[msgspec.Struct], dict[str, Notes]] = {
    Condition: {
        "type": _notes("Type of the condition."),
        "status": _notes("Status of the condition.", enum=["True", "False", "Unknown"]),
        "reason": _notes("Reason for the status, as one word."),
        "message": _notes("Details for users."),
        "lastTransitionTime": _notes("When the status last changed."),
        "observedGeneration": _notes("The generation of the spec that the condition describes."),
    },
    LastError: {
        "code": _notes("Stable code of the error."),
        "description": _notes("What went wrong, and what to do."),
        "observedAt": _notes("When the error was last observed."),
    },
    NamespacedName: {
        "namespace": _must("Namespace of the object."),
        "name": _must("Name of the object."),
    },
    podclique.AutoScalingConfig: {
        "minReplicas": _notes("Lower limit of the autoscaler, at least minAvailable. Absent: replicas."),
        "maxReplicas": _must("Upper limit of the autoscaler, at least minReplicas and replicas."),
        "metrics": Notes(
            "Metrics to scale on (autoscaling/v2). Absent: 80 % of the requested CPU.",
            schema={"x-kubernetes-list-type": "atomic"},
            kubernetes="MetricSpec",
        ),
        "behavior": Notes(
            "How fast to scale in and out (autoscaling/v2). Absent: that of the HorizontalPodAutoscaler stays.",
            kubernetes="HorizontalPodAutoscalerBehavior",
        ),
    },
    podclique.PodCliqueSpec: {
        "roleName": _notes("Role of the pods; unique within the set. Absent: the name of the clique."),
        "podSpec": Notes("The pods of this clique: a core/v1 PodSpec.", is_required=True, kubernetes="PodSpec"),
        "replicas": _must("Number of pods: 0, or at least minAvailable."),
        "minAvailable": _notes("Minimum number of pods to schedule together, and to count as available."),
        "startsAfter": _notes("Cliques that must be available before this one starts."),
        "autoScalingConfig": _notes("Autoscaling of this clique; not for members of a scaling group."),
    },
    podclique.PodsSelectedToUpdate: {
        "current": _notes("The pod being replaced."),
        "completed": _notes("The pods replaced so far."),
        "readyBefore": _notes("Number of ready pods with the new template when `current` was selected."),
    },
    podclique.CliqueUpdateProgress: {
        "podCliqueSetGenerationHash": _notes("The set's templates that this update leads to."),
        "podTemplateHash": _notes("The pod template that this update leads to."),
        "updateStartedAt": _STARTED,
        "updateEndedAt": _ENDED,
        "readyPodsSelectedToUpdate": _notes("Ready pods that the update replaces."),
    },
    podclique.CliqueRollingUpdateProgress: {
        "updateStartedAt": _STARTED,
        "updateEndedAt": _ENDED,
        "readyPodsSelectedToUpdate": _notes("Ready pods that the update replaces."),
    },
    podclique.PodFailure: {
        "pod": _notes("Name of the pod."),
        "container": _notes("The container that failed; absent if the pod was lost."),
        "exitCode": _notes("Exit code of that container."),
        "reason": _notes("The kubelet's reason, such as OOMKilled, or why the pod was lost."),
        "message": _notes("Its termination message, at most 256 characters."),
        "finishedAt": _notes("When it failed or was lost."),
    },
    podclique.PodCliqueStatus: {
        "observedGeneration": _OBSERVED_GENERATION,
        "lastErrors": _LAST_ERRORS,
        "replicas": _notes("Pods that exist and are not terminating."),
        "readyReplicas": _must("Pods that are ready.", default=0),
        "updatedReplicas": _must("Pods with the newest template.", default=0),
        "scheduleGatedReplicas": _must("Pods held by a scheduling gate.", default=0),
        "scheduledReplicas": _must("Pods that have a node.", default=0),
        "wasAvailable": _notes("Whether the clique ever reached its minimum; stays true."),
        "succeededIndices": _notes("Indices of training pods that ended with exit code 0."),
        "failedIndices": _notes("Indices of training pods that failed 6 times and are not retried."),
        "firstFailure": _notes("The first failed pod of a training clique in breach."),
        "hpaPodSelector": _notes("Selects the pods of this clique, for autoscalers."),
        "conditions": _CONDITIONS,
        "currentPodCliqueSetGenerationHash": _notes("The set's templates that this clique has reached."),
        "currentPodTemplateHash": _notes("The pod template that all pods have."),
        "updateProgress": _notes("Progress of the last update."),
        "rollingUpdateProgress": _notes("State of the rolling update."),
    },
    podclique.PodClique: {
        "spec": _must("Pods of one role."),
        "status": _notes("Observed state."),
    },
    podcliqueset.UpdateStrategy: {
        "type": _notes(
            "RollingRecreate replaces pods one after the other; OnDelete replaces a pod only after a user deleted it.",
            enum=[str(t) for t in UpdateType],
            default=str(UpdateType.ROLLING_RECREATE),
        ),
    },
    podcliqueset.TrainingSpec: {
        "maxRuntime": _notes(
            "The longest time from the first start to the end, restarts included, such as 24h; no limit if absent."
        ),
        "maxRestarts": _notes("How many restarts all replicas together may use; 0 if absent.", minimum=0),
    },
    podcliqueset.HeadlessServiceConfig: {
        "publishNotReadyAddresses": _must("Whether pods have DNS names before they are ready.", default=True),
    },
    podcliqueset.PackConstraint: {
        "required": _notes("Domain that must hold all pods of this level.", **_DOMAIN),
        "preferred": _notes("Domain that should hold all pods of this level.", **_DOMAIN),
    },
    podcliqueset.TopologyConstraint: {
        "topologyName": _notes("The ClusterTopologyBinding that defines the domains."),
        "pack": _notes("Topology domains of the constraint."),
        "packDomain": _notes("Deprecated: write pack.required.", **_DOMAIN),
    },
    podcliqueset.ResourceClaimTemplate: {
        "name": _must("Name by which resourceSharing refers to it."),
        "templateSpec": Notes(
            "A resource.k8s.io/v1 ResourceClaimTemplateSpec.",
            is_required=True,
            kubernetes="ResourceClaimTemplateSpec",
        ),
    },
    podcliqueset.SetSharingFilter: {
        "childCliqueNames": _CHILD_CLIQUES,
        "childScalingGroupNames": _notes("Names of scaling groups that get the claim."),
    },
    podcliqueset.SetResourceSharing: {
        "name": _SHARING_NAME,
        "namespace": _SHARING_NAMESPACE,
        "scope": _SHARING_SCOPE,
        "filter": _SHARING_FILTER,
    },
    podcliqueset.GroupSharingFilter: {"childCliqueNames": _CHILD_CLIQUES},
    podcliqueset.GroupResourceSharing: {
        "name": _SHARING_NAME,
        "namespace": _SHARING_NAMESPACE,
        "scope": _SHARING_SCOPE,
        "filter": _SHARING_FILTER,
    },
    podcliqueset.CliqueResourceSharing: {
        "name": _SHARING_NAME,
        "namespace": _SHARING_NAMESPACE,
        "scope": _SHARING_SCOPE,
    },
    podcliqueset.CliqueTemplate: {
        "name": _must("Name of the clique, unique within the set; immutable."),
        "labels": _notes("Labels of the clique and its pods."),
        "annotations": _notes("Annotations of the clique and its pods."),
        "topologyConstraint": _TOPOLOGY,
        "resourceSharing": _notes("Resource claims shared by the pods of this clique."),
        "spec": _must("The pods of this clique."),
    },
    podcliqueset.GroupConfig: {
        "name": _must("Name of the group, unique within the set; immutable."),
        "cliqueNames": _must("Cliques that make up one group replica."),
        "annotations": _notes("Annotations of the group."),
        "replicas": _notes("Initial number of group replicas; scale the PodCliqueScalingGroup later.", default=1),
        "minAvailable": _notes("Minimum number of group replicas; they belong to the base gang.", default=1),
        "terminationDelay": _notes("Overrides the set's terminationDelay for this group."),
        "scaleConfig": _notes("Autoscaling of this group."),
        "resourceSharing": _notes("Resource claims shared within this group."),
        "topologyConstraint": _TOPOLOGY,
    },
    podcliqueset.SetTemplate: {
        "cliques": _must("The roles of one replica.", **_BY_NAME),
        "cliqueStartupType": _notes(
            "Order in which cliques start.",
            enum=[str(t) for t in StartupType],
            default=str(StartupType.ANY_ORDER),
        ),
        "priorityClassName": _notes("Priority class of every pod and gang of the set."),
        "headlessServiceConfig": _notes("The Service that gives pods their DNS names."),
        "topologyConstraint": _TOPOLOGY,
        "terminationDelay": _notes(
            "How long a gang may stay below its minimum before it is torn down; absent: no limit, in a training set 0s."
        ),
        "resourceClaimTemplates": _notes("Resource claim templates that resourceSharing may name."),
        "resourceSharing": _notes("Resource claims shared within the set."),
        "podCliqueScalingGroups": _notes("Cliques that scale together."),
    },
    podcliqueset.PodCliqueSetSpec: {
        "replicas": _notes("Number of copies of the template.", default=0),
        "workloadType": _notes(
            "Inference runs until it is deleted, Training runs to completion; immutable.",
            enum=[str(t) for t in WorkloadType],
            default=str(WorkloadType.INFERENCE),
        ),
        "trainingSpec": _notes("Limits of a training set."),
        "updateStrategy": _notes("How pods get a changed template."),
        "template": _must("Template of one replica."),
    },
    podcliqueset.GangStatus: {
        "name": _notes("Name of the PodGang."),
        "phase": _notes("Phase of the gang.", enum=[str(p) for p in GangPhase]),
        "conditions": _CONDITIONS,
    },
    podcliqueset.ReplicaUpdateProgress: {
        "replicaIndex": _notes("The replica that is being updated."),
        "updateStartedAt": _STARTED,
        "updateEndedAt": _ENDED,
    },
    podcliqueset.SetUpdateProgress: {
        "updateStartedAt": _STARTED,
        "updateEndedAt": _ENDED,
        "updatedPodCliquesCount": _notes("Standalone cliques that are updated and have their minimum.", default=0),
        "totalPodCliquesCount": _notes("Total of standalone cliques.", default=0),
        "updatedPodCliqueScalingGroupsCount": _notes(
            "Scaling groups that are updated and have their minimum.", default=0
        ),
        "totalPodCliqueScalingGroupsCount": _notes("Total of scaling groups.", default=0),
        "currentlyUpdating": _notes("The replicas that are being updated."),
    },
    podcliqueset.CurrentlyUpdating: {
        "replicaIndex": _notes("The replica that is being updated."),
        "updateStartedAt": _STARTED,
        "wasAvailable": _notes("Whether the replica was available when its update began."),
    },
    podcliqueset.SetRollingUpdateProgress: {
        "updateStartedAt": _STARTED,
        "updateEndedAt": _ENDED,
        "currentlyUpdating": _notes("The replica that is being updated."),
        "updatedPodCliques": _notes("Standalone cliques that are updated and have their minimum."),
        "updatedPodCliqueScalingGroups": _notes("Scaling groups that are updated and have their minimum."),
    },
    podcliqueset.PodCliqueSetStatus: {
        "observedGeneration": _OBSERVED_GENERATION,
        "conditions": _CONDITIONS,
        "lastErrors": _LAST_ERRORS,
        "replicas": _notes("Replicas in the spec."),
        "updatedReplicas": _must("Available replicas with the newest templates.", default=0),
        "availableReplicas": _must("Replicas with every minimum reached.", default=0),
        "hpaPodSelector": _notes("Selects the pods of this set, for autoscalers."),
        "podGangStatuses": _notes("Gangs that are not running yet; at most 100."),
        "currentGenerationHash": _notes("Hash of the newest templates."),
        "updateProgress": _notes("Progress of the last update, in numbers."),
        "rollingUpdateProgress": _notes("State of the rolling update."),
        "phase": _notes("Phase of the set.", enum=[str(p) for p in podcliqueset.SetPhase]),
        "restartCount": _notes("Restarts used by a training set."),
        "replicaRestarts": _notes("Restarts of each replica."),
        "startTime": _notes("When the first replica of a training set ran."),
    },
    podcliqueset.ReplicaRestarts: {
        "replicaIndex": _notes("The replica that was restarted."),
        "count": _notes("Number of restarts."),
    },
    podcliqueset.PodCliqueSet: {
        "spec": _must("Desired state."),
        "status": _notes("Observed state."),
    },
    podcliquescalinggroup.ScalingGroupSpec: {
        "replicas": _must("Number of group replicas: 0, or at least minAvailable.", default=1),
        "minAvailable": _notes("Minimum number of group replicas.", default=1),
        "cliqueNames": _must("Cliques that make up one group replica."),
    },
    podcliquescalinggroup.ReplicasSelectedToUpdate: {
        "current": _notes("Index of the group replica being replaced."),
        "completed": _notes("Indices of the group replicas replaced so far."),
        "readyBefore": _notes("Number of available replicas with the new template when `current` was selected."),
    },
    podcliquescalinggroup.GroupUpdateProgress: {
        "updateStartedAt": _STARTED,
        "updateEndedAt": _ENDED,
        "podCliqueSetGenerationHash": _notes("The set's templates that this update leads to."),
        "updatedPodCliquesCount": _notes("Cliques of the group that are updated and have their minimum.", default=0),
        "totalPodCliquesCount": _notes("Total of cliques of the group.", default=0),
        "readyReplicaIndicesSelectedToUpdate": _notes("Ready group replicas that the update replaces."),
    },
    podcliquescalinggroup.GroupRollingUpdateProgress: {
        "updateStartedAt": _STARTED,
        "updateEndedAt": _ENDED,
        "readyReplicaIndicesSelectedToUpdate": _notes("Ready group replicas that the update replaces."),
    },
    podcliquescalinggroup.ScalingGroupStatus: {
        "replicas": _notes("Group replicas in the spec."),
        "scheduledReplicas": _must("Group replicas with every clique scheduled.", default=0),
        "availableReplicas": _must("Group replicas with every clique's minimum ready.", default=0),
        "updatedReplicas": _must("Available group replicas with the newest templates.", default=0),
        "selector": _notes("Selects the pods of this group, for autoscalers."),
        "observedGeneration": _OBSERVED_GENERATION,
        "lastErrors": _LAST_ERRORS,
        "conditions": _CONDITIONS,
        "currentPodCliqueSetGenerationHash": _notes("The set's templates that this group has reached."),
        "updateProgress": _notes("Progress of the last update."),
        "rollingUpdateProgress": _notes("State of the rolling update."),
    },
    podcliquescalinggroup.PodCliqueScalingGroup: {
        "spec": _must("Cliques that scale together."),
        "status": _notes("Observed state."),
    },
    podgang.GangPackConstraint: {
        "required": _notes("Node label key: all pods must have nodes with one value of it."),
        "preferred": _notes("Node label key: all pods should have nodes with one value of it."),
    },
    podgang.GangTopologyConstraint: {
        "packConstraint": _notes("Topology domains of the constraint, as node label keys."),
    },
    podgang.PodGroup: {
        "name": _must("Name of the PodClique."),
        "podReferences": _must("The pods of this group; the operator adds a pod here before it creates it."),
        "minReplicas": _must("Minimum number of pods to place together."),
        "topologyConstraint": _TOPOLOGY,
    },
    podgang.TopologyGroupConfig: {
        "name": _must("Name of the group replica."),
        "podGroupNames": _must("Pod groups that belong to it."),
        "topologyConstraint": _TOPOLOGY,
    },
    podgang.PodGangSpec: {
        "podgroups": _must("Pods of one role each, with their minima."),
        "topologyConstraint": _TOPOLOGY,
        "topologyConstraintGroupConfigs": _notes("Constraints on several pod groups together."),
        "priorityClassName": _notes("Priority class of the gang."),
        "reuseReservationRef": _notes("A gang whose reservation this one reuses."),
    },
    podgang.PodGangStatus: {
        "phase": _must("Phase of the gang.", enum=[str(p) for p in GangPhase]),
        "conditions": _CONDITIONS,
        "placementScore": _notes("Quality of the placement, from 0 to 1 (all pods close together)."),
        "placedIncarnation": _notes("The incarnation in which every podgroup had its minimum on nodes."),
    },
    podgang.PodGang: {
        "spec": _must("Pods that are scheduled all or nothing."),
        "status": _notes("Observed state."),
    },
    clustertopologybinding.TopologyLevel: {
        "domain": _must("Name of the domain, such as zone or rack.", **_DOMAIN),
        "key": _must("Node label whose values are the domains.", **_LABEL_KEY),
    },
    clustertopologybinding.SchedulerTopologyBinding: {
        "schedulerName": _must("The scheduler that has a topology of its own."),
        "topologyReference": _must("Name of that topology."),
    },
    clustertopologybinding.TopologyBindingSpec: {
        "levels": _must("The levels of the topology, from broad to narrow.", minItems=1),
        "schedulerTopologyBindings": _notes("Topologies that schedulers manage themselves."),
    },
    clustertopologybinding.SchedulerTopologyStatus: {
        "schedulerName": _notes("The scheduler."),
        "topologyReference": _notes("Name of its topology."),
        "inSync": _notes("Whether the topology equals this binding."),
        "schedulerBackendTopologyObservedGeneration": _notes("The generation of its topology that was compared."),
        "message": _notes("Differences."),
    },
    clustertopologybinding.TopologyBindingStatus: {
        "observedGeneration": _OBSERVED_GENERATION,
        "conditions": _CONDITIONS,
        "schedulerTopologyStatuses": _notes("Each scheduler's topology compared with this binding."),
    },
    clustertopologybinding.ClusterTopologyBinding: {
        "spec": _must("The topology domains of the cluster."),
        "status": _notes("Observed state."),
    },
}

_PACK_DOMAIN = ".topologyConstraint.packDomain"
_ON_CREATE = "packDomain is deprecated and rejected in new sets: write pack.required"


def _rejected_on_create(field_path: str, holds_without: str) -> JsonObject:
    """Return a CEL rule that rejects the deprecated field in new objects and allows it in stored ones."""
    return {
        "rule": f"oldSelf.hasValue() || {holds_without}",
        "optionalOldSelf": True,
        "message": _ON_CREATE,
        "reason": "FieldValueForbidden",
        "fieldPath": field_path,
    }


def _without_pack_domain(at: str) -> str:
    return f"!has({at}.topologyConstraint) || !has({at}.topologyConstraint.packDomain)"


# Rules over several fields, in CEL; admission checks the same in Python (`validation/`).
RULES: dict[type[msgspec.Struct], list[JsonObject]] = {
    podcliqueset.PodCliqueSet: [
        # Items of this list have no key: a rule on an item has no oldSelf, and a path cannot point at an item.
        _rejected_on_create(
            ".spec.template.podCliqueScalingGroups",
            "!has(self.spec.template.podCliqueScalingGroups) || "
            f"self.spec.template.podCliqueScalingGroups.all(g, {_without_pack_domain('g')})",
        ),
    ],
    podcliqueset.SetTemplate: [_rejected_on_create(_PACK_DOMAIN, _without_pack_domain("self"))],
    podcliqueset.CliqueTemplate: [_rejected_on_create(_PACK_DOMAIN, _without_pack_domain("self"))],
    podcliqueset.TopologyConstraint: [
        {
            "rule": "has(self.pack) || has(self.packDomain)",
            "message": "write pack.required or pack.preferred",
            "reason": "FieldValueRequired",
            "fieldPath": ".pack",
        },
        {
            "rule": "!(has(self.packDomain) && has(self.pack) && has(self.pack.required))",
            "message": "packDomain is a deprecated alias of pack.required: write only pack.required",
            "fieldPath": ".packDomain",
        },
    ],
    podcliqueset.PackConstraint: [
        {
            "rule": "has(self.required) || has(self.preferred)",
            "message": "write required, preferred, or both",
        }
    ],
}
