"""Size limits of the CRDs: every `maxItems`, `maxLength` and `maximum`, each with its reason.

etcd accepts requests of at most 1.5 MiB, so no object is larger, and an API server reads bodies of at most 3 MiB. Each
limit is far above what users write, and low enough that an object at all of its limits can be stored, validated and
created. `docs/reference/validation.md` shows this table, and a test compares it.

Kubernetes does not limit the lists inside a podSpec; only the size of the whole object limits them.
"""

import msgspec

from grove.api.types import clustertopologybinding, podclique, podcliquescalinggroup, podcliqueset, podgang
from grove.api.types.meta import JsonObject, NamespacedName

# The default --max-request-bytes of etcd; a larger object cannot be stored.
LARGEST_OBJECT = 1536 * 1024
# How many replaced pods or replicas a status lists, newest first, so that its size does not grow with the set.
LISTED_AS_UPDATED = 1_000
# Pods of a clique, replicas of a group, replicas of a set.
LARGEST_COUNT = 100_000
# Objects of one set, including pods; the default of limits.objectsPerSet in the operator configuration.
OBJECTS_PER_SET = 100_000

# PodCliques that one PodClique starts after: one for every base replica of a group, each an argument of a container.
MOST_DEPENDENCIES = 1_000


class Limit(msgspec.Struct, frozen=True):
    """A limit of `most` items, characters or units. `each` is the maximum length of an item in a list of names."""

    most: int
    why: str
    each: int = 0

    def schema(self, type_: str) -> JsonObject:
        """Return the OpenAPI keywords for a field of this type."""
        match type_:
            case "array" if self.each:
                return {"maxItems": self.most, "items": {"type": "string", "maxLength": self.each}}
            case "array":
                return {"maxItems": self.most}
            case "string":
                return {"maxLength": self.most}
            case _:
                return {"maximum": self.most}


_NAME = 253
_KEY = 317

_COUNT = Limit(LARGEST_COUNT, "no cluster runs more pods than about 150,000")
_OBJECT_NAME = Limit(_NAME, "names of objects have at most 253 characters")
_NAMESPACE = Limit(63, "names of namespaces have at most 63 characters")
_NODE_LABEL = Limit(_KEY, "a label key has a prefix of 253 characters, a slash and 63 characters")
_DURATION = Limit(64, "the longest duration that Go prints has 24 characters")

_CLIQUES = Limit(1_000, "with a podSpec of 1.5 KB each, 1,000 cliques fill the 1.5 MiB of a set")
_GROUPS = Limit(1_000, "a group has a clique of its own, so there are no more groups than cliques")
_CLIQUE_NAMES = Limit(1_000, "no more than there are cliques", each=_NAME)
_DEPENDENCIES = Limit(MOST_DEPENDENCIES, "each is an argument of the init container", each=_NAME)
_GROUP_NAMES = Limit(1_000, "no more than there are groups", each=_NAME)
_CLAIMS = Limit(1_000, "one for every clique")
_METRICS = Limit(100, "an autoscaler reads all of them every 15 seconds")
_LEVELS = Limit(64, "the known levels, from region to NUMA node, are seven")
_SCHEDULERS = Limit(64, "one for every scheduler of a cluster")
# A podgroup with one short reference has 110 bytes.
_POD_GROUPS = Limit(16_384, "one for every PodClique of the gang; more do not fit into 1.5 MiB")
_REFERENCES = Limit(40_000, "a reference has at least 40 bytes; more do not fit into 1.5 MiB")
_CONDITIONS = Limit(256, "the operator writes about ten types, others may add theirs")
_ERRORS = Limit(100, "the operator lists 20")
_GANGS = Limit(1_000, "the operator lists 100")
_CURRENT_REPLICAS = Limit(100, "one at a time")
_UPDATED = Limit(1_000, "the operator lists 100", each=_NAME)
_UPDATED_PODS = Limit(LARGEST_COUNT, "no more than a clique has pods", each=_NAME)
_INDICES = Limit(LARGEST_COUNT, "no more than there are pods or replicas")

LIMITS: dict[type[msgspec.Struct], dict[str, Limit]] = {
    NamespacedName: {"namespace": _NAMESPACE, "name": _OBJECT_NAME},
    podclique.AutoScalingConfig: {"metrics": _METRICS},
    podclique.PodCliqueSpec: {"roleName": _OBJECT_NAME, "replicas": _COUNT, "startsAfter": _DEPENDENCIES},
    podclique.PodsSelectedToUpdate: {"completed": _UPDATED_PODS},
    podclique.PodCliqueStatus: {
        "lastErrors": _ERRORS,
        "conditions": _CONDITIONS,
        "succeededIndices": _INDICES,
        "failedIndices": _INDICES,
    },
    podcliqueset.TrainingSpec: {"maxRuntime": _DURATION},
    podcliqueset.TopologyConstraint: {"topologyName": _OBJECT_NAME},
    podcliqueset.ResourceClaimTemplate: {"name": _OBJECT_NAME},
    podcliqueset.SetSharingFilter: {"childCliqueNames": _CLIQUE_NAMES, "childScalingGroupNames": _GROUP_NAMES},
    podcliqueset.GroupSharingFilter: {"childCliqueNames": _CLIQUE_NAMES},
    podcliqueset.SetResourceSharing: {"name": _OBJECT_NAME, "namespace": _NAMESPACE},
    podcliqueset.GroupResourceSharing: {"name": _OBJECT_NAME, "namespace": _NAMESPACE},
    podcliqueset.CliqueResourceSharing: {"name": _OBJECT_NAME, "namespace": _NAMESPACE},
    podcliqueset.CliqueTemplate: {"name": _OBJECT_NAME, "resourceSharing": _CLAIMS},
    podcliqueset.GroupConfig: {
        "name": _OBJECT_NAME,
        "cliqueNames": _CLIQUE_NAMES,
        "replicas": _COUNT,
        "terminationDelay": _DURATION,
        "resourceSharing": _CLAIMS,
    },
    podcliqueset.SetTemplate: {
        "cliques": _CLIQUES,
        "priorityClassName": _OBJECT_NAME,
        "terminationDelay": _DURATION,
        "resourceClaimTemplates": _CLAIMS,
        "resourceSharing": _CLAIMS,
        "podCliqueScalingGroups": _GROUPS,
    },
    podcliqueset.PodCliqueSetSpec: {"replicas": _COUNT},
    podcliqueset.GangStatus: {"conditions": _CONDITIONS},
    podcliqueset.SetUpdateProgress: {"currentlyUpdating": _CURRENT_REPLICAS},
    podcliqueset.SetRollingUpdateProgress: {
        "updatedPodCliques": _UPDATED,
        "updatedPodCliqueScalingGroups": _UPDATED,
    },
    podcliqueset.PodCliqueSetStatus: {
        "conditions": _CONDITIONS,
        "lastErrors": _ERRORS,
        "podGangStatuses": _GANGS,
        "replicaRestarts": _INDICES,
    },
    podcliquescalinggroup.ScalingGroupSpec: {"replicas": _COUNT, "cliqueNames": _CLIQUE_NAMES},
    podcliquescalinggroup.ReplicasSelectedToUpdate: {"completed": _INDICES},
    podcliquescalinggroup.ScalingGroupStatus: {"lastErrors": _ERRORS, "conditions": _CONDITIONS},
    podgang.GangPackConstraint: {"required": _NODE_LABEL, "preferred": _NODE_LABEL},
    podgang.PodGroup: {"name": _OBJECT_NAME, "podReferences": _REFERENCES},
    podgang.TopologyGroupConfig: {"name": _OBJECT_NAME, "podGroupNames": _CLIQUE_NAMES},
    podgang.PodGangSpec: {
        "podgroups": _POD_GROUPS,
        "topologyConstraintGroupConfigs": _POD_GROUPS,
        "priorityClassName": _OBJECT_NAME,
    },
    podgang.PodGangStatus: {"conditions": _CONDITIONS},
    clustertopologybinding.SchedulerTopologyBinding: {"schedulerName": _OBJECT_NAME, "topologyReference": _OBJECT_NAME},
    clustertopologybinding.TopologyBindingSpec: {"levels": _LEVELS, "schedulerTopologyBindings": _SCHEDULERS},
    clustertopologybinding.TopologyBindingStatus: {"conditions": _CONDITIONS, "schedulerTopologyStatuses": _SCHEDULERS},
}
