"""Descriptions and validation rules of CRD fields, as kubebuilder markers in Go.

A field without an entry is still in the CRD (`crd_generator.py` walks the types), but has no description.
"""

import msgspec

from grove.api.types import clustertopologybinding, podclique, podcliquescalinggroup, podcliqueset, podgang
from grove.api.types.meta import Condition, JsonObject, LastError, NamespacedName
from grove.api.types.podcliqueset import SharingScope, StartupType, UpdateType, WorkloadType
from grove.api.types.podgang import GangPhase


class Notes(msgspec.Struct, frozen=True):
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

_CONDITIONS = _notes("What holds for this object right now, and since when.", **_BY_TYPE)
_LAST_ERRORS = _notes("Why the object is not carried out; empty when it is.")
_OBSERVED_GENERATION = _notes("The generation of the spec that this status answers for.")
_STARTED = _notes("When the update began.")
_ENDED = _notes("When the update ended; absent while it runs.")
_TOPOLOGY = _notes("Where the pods of this level must or should be close together.")
_SHARING_NAME = _must("Name of a resource claim template.")
_SHARING_NAMESPACE = _notes("Namespace of the template, if it is not one of this set.")
_SHARING_SCOPE = _must("One claim for all replicas, or one for each.", enum=_SCOPES)
_SHARING_FILTER = _notes("Limits the claim to these children.")
_CHILD_CLIQUES = _notes("Names of cliques that get the claim.")

FIELDS: dict[type[msgspec.Struct], dict[str, Notes]] = {
    Condition: {
        "type": _notes("What the condition is about."),
        "status": _notes("Whether it holds.", enum=["True", "False", "Unknown"]),
        "reason": _notes("One word why."),
        "message": _notes("Why, in a sentence."),
        "lastTransitionTime": _notes("When the status last changed."),
        "observedGeneration": _notes("The generation of the spec that was judged."),
    },
    LastError: {
        "code": _notes("A stable word for the error."),
        "description": _notes("What went wrong, and what to do."),
        "observedAt": _notes("When it was last seen."),
    },
    NamespacedName: {
        "namespace": _must("Namespace of the object."),
        "name": _must("Name of the object."),
    },
    podclique.AutoScalingConfig: {
        "minReplicas": _notes("The autoscaler never goes below this."),
        "maxReplicas": _must("The autoscaler never goes above this."),
        "metrics": Notes(
            "What to scale on: autoscaling/v2 metrics.",
            schema={"x-kubernetes-list-type": "atomic"},
            kubernetes="MetricSpec",
        ),
    },
    podclique.PodCliqueSpec: {
        "roleName": _notes("What the pods of this clique do; unique within the set. Absent: the clique's name."),
        "podSpec": Notes("The pods of this clique: a core/v1 PodSpec.", is_required=True, kubernetes="PodSpec"),
        "replicas": _must("How many pods: 0, or at least minAvailable."),
        "minAvailable": _notes("How many of them it takes: to be scheduled at all, and to count as available."),
        "startsAfter": _notes("Cliques that must be up before this one starts."),
        "autoScalingConfig": _notes("Scales this clique by metrics; only outside of scaling groups."),
    },
    podclique.PodsSelectedToUpdate: {
        "current": _notes("The pod being replaced."),
        "completed": _notes("The pods replaced so far."),
        "readyBefore": _notes("How many pods of the new template were ready when this one was taken."),
    },
    podclique.CliqueUpdateProgress: {
        "podCliqueSetGenerationHash": _notes("The set's templates that this update leads to."),
        "podTemplateHash": _notes("The pod template that this update leads to."),
        "updateStartedAt": _STARTED,
        "updateEndedAt": _ENDED,
        "readyPodsSelectedToUpdate": _notes("Ready pods taken by the update."),
    },
    podclique.CliqueRollingUpdateProgress: {
        "updateStartedAt": _STARTED,
        "updateEndedAt": _ENDED,
        "readyPodsSelectedToUpdate": _notes("Ready pods taken by the update."),
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
        "replicas": _notes("Pods that exist and are not leaving."),
        "readyReplicas": _must("Pods that are ready.", default=0),
        "updatedReplicas": _must("Pods with the newest template.", default=0),
        "scheduleGatedReplicas": _must("Pods held by a scheduling gate.", default=0),
        "scheduledReplicas": _must("Pods that have a node.", default=0),
        "wasAvailable": _notes("Whether the clique ever reached its minimum; never turns false again."),
        "succeededIndices": _notes("Indices of training pods that ended with exit code 0."),
        "failedIndices": _notes("Indices of training pods that failed 6 times and are not tried any more."),
        "firstFailure": _notes("The first pod that broke a training clique, while it is in breach."),
        "hpaPodSelector": _notes("Selects the pods of this clique, for autoscalers."),
        "conditions": _CONDITIONS,
        "currentPodCliqueSetGenerationHash": _notes("The set's templates that this clique has reached."),
        "currentPodTemplateHash": _notes("The pod template that all pods have."),
        "updateProgress": _notes("How far the last update got."),
        "rollingUpdateProgress": _notes("What the rolling update is doing."),
    },
    podclique.PodClique: {
        "spec": _must("Pods of one role."),
        "status": _notes("What is observed."),
    },
    podcliqueset.UpdateStrategy: {
        "type": _notes(
            "Replace pods in turn, or only when somebody deletes them.",
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
        "pack": _notes("How close together."),
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
        "name": _must("Name of the clique, unique within the set; never changes."),
        "labels": _notes("Labels of the clique and its pods."),
        "annotations": _notes("Annotations of the clique and its pods."),
        "topologyConstraint": _TOPOLOGY,
        "resourceSharing": _notes("Resource claims shared by the pods of this clique."),
        "spec": _must("The pods of this clique."),
    },
    podcliqueset.GroupConfig: {
        "name": _must("Name of the group, unique within the set; never changes."),
        "cliqueNames": _must("Cliques that make up one group replica."),
        "annotations": _notes("Annotations of the group."),
        "replicas": _notes("How many group replicas, at first; scale the group later.", default=1),
        "minAvailable": _notes("How many group replicas it takes; these belong to the base gang.", default=1),
        "terminationDelay": _notes("Overrides the set's terminationDelay for this group."),
        "scaleConfig": _notes("Scales this group by metrics."),
        "resourceSharing": _notes("Resource claims shared within this group."),
        "topologyConstraint": _TOPOLOGY,
    },
    podcliqueset.SetTemplate: {
        "cliques": _must("The roles of one replica.", **_BY_NAME),
        "cliqueStartupType": _notes(
            "In which order cliques start.",
            enum=[str(t) for t in StartupType],
            default=str(StartupType.ANY_ORDER),
        ),
        "priorityClassName": _notes("Priority class of every pod and gang of the set."),
        "headlessServiceConfig": _notes("The Service that gives pods their DNS names."),
        "topologyConstraint": _TOPOLOGY,
        "terminationDelay": _notes(
            "How long a gang may stay below its minimum before it is torn down; absent: for ever, in training 0s."
        ),
        "resourceClaimTemplates": _notes("Resource claim templates that resourceSharing may name."),
        "resourceSharing": _notes("Resource claims shared within the set."),
        "podCliqueScalingGroups": _notes("Cliques that scale together."),
    },
    podcliqueset.PodCliqueSetSpec: {
        "replicas": _notes("How many copies of the whole template.", default=0),
        "workloadType": _notes(
            "Runs for ever, or to completion; never changes.",
            enum=[str(t) for t in WorkloadType],
            default=str(WorkloadType.INFERENCE),
        ),
        "trainingSpec": _notes("Limits of a training set."),
        "updateStrategy": _notes("How changed templates reach running pods."),
        "template": _must("What one replica is made of."),
    },
    podcliqueset.GangStatus: {
        "name": _notes("Name of the PodGang."),
        "phase": _notes("How far the gang is.", enum=[str(p) for p in GangPhase]),
        "conditions": _CONDITIONS,
    },
    podcliqueset.ReplicaUpdateProgress: {
        "replicaIndex": _notes("The replica whose turn it is."),
        "updateStartedAt": _STARTED,
        "updateEndedAt": _ENDED,
    },
    podcliqueset.SetUpdateProgress: {
        "updateStartedAt": _STARTED,
        "updateEndedAt": _ENDED,
        "updatedPodCliquesCount": _notes("Standalone cliques that are updated and have their minimum.", default=0),
        "totalPodCliquesCount": _notes("Standalone cliques in all.", default=0),
        "updatedPodCliqueScalingGroupsCount": _notes(
            "Scaling groups that are updated and have their minimum.", default=0
        ),
        "totalPodCliqueScalingGroupsCount": _notes("Scaling groups in all.", default=0),
        "currentlyUpdating": _notes("The replicas whose turn it is."),
    },
    podcliqueset.CurrentlyUpdating: {
        "replicaIndex": _notes("The replica whose turn it is."),
        "updateStartedAt": _STARTED,
        "wasAvailable": _notes("The replica was available when its turn began."),
    },
    podcliqueset.SetRollingUpdateProgress: {
        "updateStartedAt": _STARTED,
        "updateEndedAt": _ENDED,
        "currentlyUpdating": _notes("The replica whose turn it is."),
        "updatedPodCliques": _notes("Standalone cliques that are updated and have their minimum."),
        "updatedPodCliqueScalingGroups": _notes("Scaling groups that are updated and have their minimum."),
    },
    podcliqueset.PodCliqueSetStatus: {
        "observedGeneration": _OBSERVED_GENERATION,
        "conditions": _CONDITIONS,
        "lastErrors": _LAST_ERRORS,
        "replicas": _notes("Replicas asked for."),
        "updatedReplicas": _must("Available replicas with the newest templates.", default=0),
        "availableReplicas": _must("Replicas with every minimum reached.", default=0),
        "hpaPodSelector": _notes("Selects the pods of this set, for autoscalers."),
        "podGangStatuses": _notes("Gangs that are not running yet; at most 100."),
        "currentGenerationHash": _notes("Identity of the newest templates."),
        "updateProgress": _notes("How far the last update got, in numbers."),
        "rollingUpdateProgress": _notes("What the rolling update is doing."),
        "phase": _notes("How far the set is.", enum=[str(p) for p in podcliqueset.SetPhase]),
        "restartCount": _notes("Restarts used by a training set."),
        "replicaRestarts": _notes("The restarts by replica."),
        "startTime": _notes("When the first replica of a training set ran."),
    },
    podcliqueset.ReplicaRestarts: {
        "replicaIndex": _notes("The replica that was restarted."),
        "count": _notes("How often."),
    },
    podcliqueset.PodCliqueSet: {
        "spec": _must("What the user wants."),
        "status": _notes("What is observed."),
    },
    podcliquescalinggroup.ScalingGroupSpec: {
        "replicas": _must("How many group replicas: 0, or at least minAvailable.", default=1),
        "minAvailable": _notes("How many group replicas it takes.", default=1),
        "cliqueNames": _must("Cliques that make up one group replica."),
    },
    podcliquescalinggroup.ReplicasSelectedToUpdate: {
        "current": _notes("Index of the group replica being replaced."),
        "completed": _notes("Indices of the group replicas replaced so far."),
        "readyBefore": _notes("How many replicas of the new template were available when this one was taken."),
    },
    podcliquescalinggroup.GroupUpdateProgress: {
        "updateStartedAt": _STARTED,
        "updateEndedAt": _ENDED,
        "podCliqueSetGenerationHash": _notes("The set's templates that this update leads to."),
        "updatedPodCliquesCount": _notes("Cliques of the group that are updated and have their minimum.", default=0),
        "totalPodCliquesCount": _notes("Cliques of the group in all.", default=0),
        "readyReplicaIndicesSelectedToUpdate": _notes("Ready group replicas taken by the update."),
    },
    podcliquescalinggroup.GroupRollingUpdateProgress: {
        "updateStartedAt": _STARTED,
        "updateEndedAt": _ENDED,
        "readyReplicaIndicesSelectedToUpdate": _notes("Ready group replicas taken by the update."),
    },
    podcliquescalinggroup.ScalingGroupStatus: {
        "replicas": _notes("Group replicas asked for."),
        "scheduledReplicas": _must("Group replicas with every clique scheduled.", default=0),
        "availableReplicas": _must("Group replicas with every clique's minimum ready.", default=0),
        "updatedReplicas": _must("Available group replicas with the newest templates.", default=0),
        "selector": _notes("Selects the pods of this group, for autoscalers."),
        "observedGeneration": _OBSERVED_GENERATION,
        "lastErrors": _LAST_ERRORS,
        "conditions": _CONDITIONS,
        "currentPodCliqueSetGenerationHash": _notes("The set's templates that this group has reached."),
        "updateProgress": _notes("How far the last update got."),
        "rollingUpdateProgress": _notes("What the rolling update is doing."),
    },
    podcliquescalinggroup.PodCliqueScalingGroup: {
        "spec": _must("Cliques that scale together."),
        "status": _notes("What is observed."),
    },
    podgang.GangPackConstraint: {
        "required": _notes("Node label key: all pods must have nodes with one value of it."),
        "preferred": _notes("Node label key: all pods should have nodes with one value of it."),
    },
    podgang.GangTopologyConstraint: {
        "packConstraint": _notes("How close together, as node label keys."),
    },
    podgang.PodGroup: {
        "name": _must("Name of the PodClique."),
        "podReferences": _must("The pods of this group; a pod is named here before it is created."),
        "minReplicas": _must("How many of them it takes."),
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
        "reuseReservationRef": _notes("A gang whose reserved place this one takes over."),
    },
    podgang.PodGangStatus: {
        "phase": _must("How far the gang is.", enum=[str(p) for p in GangPhase]),
        "conditions": _CONDITIONS,
        "placementScore": _notes("How close together the pods are, from 0 to 1."),
        "placedIncarnation": _notes("The incarnation in which every podgroup had its minimum on nodes."),
    },
    podgang.PodGang: {
        "spec": _must("Pods that are scheduled all or nothing."),
        "status": _notes("What is observed."),
    },
    clustertopologybinding.TopologyLevel: {
        "domain": _must("Name of the domain, such as zone or rack.", **_DOMAIN),
        "key": _must("Node label whose values tell the domains apart.", **_LABEL_KEY),
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
        "inSync": _notes("Whether it equals this binding."),
        "schedulerBackendTopologyObservedGeneration": _notes("The generation of its topology that was compared."),
        "message": _notes("How it differs."),
    },
    clustertopologybinding.TopologyBindingStatus: {
        "observedGeneration": _OBSERVED_GENERATION,
        "conditions": _CONDITIONS,
        "schedulerTopologyStatuses": _notes("Each scheduler's topology compared with this binding."),
    },
    clustertopologybinding.ClusterTopologyBinding: {
        "spec": _must("The topology domains of the cluster."),
        "status": _notes("What is observed."),
    },
}

_PACK_DOMAIN = ".topologyConstraint.packDomain"
_ON_CREATE = "packDomain is deprecated and refused in new sets: write pack.required"


def _refused_on_create(field_path: str, holds_without: str) -> JsonObject:
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
        _refused_on_create(
            ".spec.template.podCliqueScalingGroups",
            "!has(self.spec.template.podCliqueScalingGroups) || "
            f"self.spec.template.podCliqueScalingGroups.all(g, {_without_pack_domain('g')})",
        ),
    ],
    podcliqueset.SetTemplate: [_refused_on_create(_PACK_DOMAIN, _without_pack_domain("self"))],
    podcliqueset.CliqueTemplate: [_refused_on_create(_PACK_DOMAIN, _without_pack_domain("self"))],
    podcliqueset.TopologyConstraint: [
        {
            "rule": "has(self.pack) || has(self.packDomain)",
            "message": "say how close together: write pack.required or pack.preferred",
            "reason": "FieldValueRequired",
            "fieldPath": ".pack",
        },
        {
            "rule": "!(has(self.packDomain) && has(self.pack) && has(self.pack.required))",
            "message": "packDomain is the old name of pack.required: write only pack.required",
            "fieldPath": ".packDomain",
        },
    ],
    podcliqueset.PackConstraint: [
        {
            "rule": "has(self.required) || has(self.preferred)",
            "message": "name a domain: write required, preferred, or both",
        }
    ],
}
