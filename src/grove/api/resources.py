"""Resources that Grove reads or writes: their place in the Kubernetes API and the type that decodes them."""

from typing import Generic, TypeVar

import msgspec

from grove.api.types.clustertopologybinding import ClusterTopologyBinding
from grove.api.types.controllerrevision import ControllerRevision
from grove.api.types.event import Event
from grove.api.types.horizontalpodautoscaler import HorizontalPodAutoscaler
from grove.api.types.lease import Lease
from grove.api.types.meta import HasMetadata, ObjectMeta, OwnerKey, WireStruct
from grove.api.types.pod import Pod
from grove.api.types.podclique import AwaitedClique, PodClique
from grove.api.types.podcliquescalinggroup import PodCliqueScalingGroup
from grove.api.types.podcliqueset import PodCliqueSet
from grove.api.types.podgang import PodGang
from grove.api.types.rbac import Role, RoleBinding
from grove.api.types.scheduler_object import SchedulerObject
from grove.api.types.secret import Secret
from grove.api.types.service import Service
from grove.api.types.webhookconfiguration import WebhookConfiguration


class Object(WireStruct):
    """An object of any kind, decoded with its metadata only."""

    metadata: ObjectMeta


T = TypeVar("T", bound=HasMetadata)
V = TypeVar("V", bound=HasMetadata)


class Resource(msgspec.Struct, Generic[T], frozen=True, kw_only=True):
    """One kind of object: its place in the API, and the struct that decodes it (`view`)."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True
    view: type[T]

    @property
    def full_name(self) -> str:
        """Return the name of its CRD, such as `podgangs.scheduler.grove.io`; for a core kind, the plural."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    def owner_key(self, metadata: ObjectMeta) -> OwnerKey:
        """Return the key that the objects controlled by this one have as their `ObjectMeta.controller`."""
        return OwnerKey(
            namespace=metadata.namespace, group=self.group, kind=self.kind, name=metadata.name, uid=metadata.uid
        )

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """Return the URL path of the collection, of one object, or of its subresource."""
        parts = ["/apis", self.group, self.version] if self.group else ["/api", self.version]
        if self.namespaced and namespace:
            parts += ["namespaces", namespace]
        parts.append(self.plural)
        parts += [part for part in (name, subresource) if part]
        return "/".join(parts)

    def viewed_as(self, view: type[V]) -> "Resource[V]":
        """Return the same resource, decoded as another type."""
        return Resource(
            group=self.group, version=self.version, plural=self.plural,
            kind=self.kind, namespaced=self.namespaced, view=view,
        )  # fmt: skip


PODCLIQUESETS = Resource(
    group="grove.io", version="v1alpha1", plural="podcliquesets", kind="PodCliqueSet", view=PodCliqueSet
)
PODCLIQUES = Resource(group="grove.io", version="v1alpha1", plural="podcliques", kind="PodClique", view=PodClique)
GROUPS = Resource(
    group="grove.io", version="v1alpha1", plural="podcliquescalinggroups",
    kind="PodCliqueScalingGroup", view=PodCliqueScalingGroup,
)  # fmt: skip
PODGANGS = Resource(group="scheduler.grove.io", version="v1alpha1", plural="podgangs", kind="PodGang", view=PodGang)
TOPOLOGY_BINDINGS = Resource(
    group="grove.io", version="v1alpha1", plural="clustertopologybindings",
    kind="ClusterTopologyBinding", namespaced=False, view=ClusterTopologyBinding,
)  # fmt: skip
PODS = Resource(group="", version="v1", plural="pods", kind="Pod", view=Pod)
SERVICES = Resource(group="", version="v1", plural="services", kind="Service", view=Service)
AUTOSCALERS = Resource(
    group="autoscaling", version="v2", plural="horizontalpodautoscalers",
    kind="HorizontalPodAutoscaler", view=HorizontalPodAutoscaler,
)  # fmt: skip
NODES = Resource(group="", version="v1", plural="nodes", kind="Node", namespaced=False, view=Object)
NAMESPACES = Resource(group="", version="v1", plural="namespaces", kind="Namespace", namespaced=False, view=Object)
EVENTS = Resource(group="", version="v1", plural="events", kind="Event", view=Event)
RESOURCE_QUOTAS = Resource(group="", version="v1", plural="resourcequotas", kind="ResourceQuota", view=Object)
PRIORITY_CLASSES = Resource(
    group="scheduling.k8s.io", version="v1", plural="priorityclasses",
    kind="PriorityClass", namespaced=False, view=Object,
)  # fmt: skip
SECRETS = Resource(group="", version="v1", plural="secrets", kind="Secret", view=Secret)
MUTATING_WEBHOOKS = Resource(
    group="admissionregistration.k8s.io", version="v1", plural="mutatingwebhookconfigurations",
    kind="MutatingWebhookConfiguration", namespaced=False, view=WebhookConfiguration,
)  # fmt: skip
VALIDATING_WEBHOOKS = Resource(
    group="admissionregistration.k8s.io", version="v1", plural="validatingwebhookconfigurations",
    kind="ValidatingWebhookConfiguration", namespaced=False, view=WebhookConfiguration,
)  # fmt: skip
ROLES = Resource(group="rbac.authorization.k8s.io", version="v1", plural="roles", kind="Role", view=Role)
ROLE_BINDINGS = Resource(
    group="rbac.authorization.k8s.io", version="v1", plural="rolebindings", kind="RoleBinding", view=RoleBinding
)
LEASES = Resource(group="coordination.k8s.io", version="v1", plural="leases", kind="Lease", view=Lease)
CONTROLLER_REVISIONS = Resource(
    group="apps", version="v1", plural="controllerrevisions", kind="ControllerRevision", view=ControllerRevision
)

# What an init container reads of a PodClique.
AWAITED_CLIQUES = PODCLIQUES.viewed_as(AwaitedClique)

# Kinds of schedulers. An API server has them only where that scheduler is installed.
NATIVE_PODGROUPS = Resource(
    group="scheduling.k8s.io", version="v1beta1", plural="podgroups", kind="PodGroup", view=SchedulerObject
)
NATIVE_COMPOSITES = Resource(
    group="scheduling.k8s.io",
    version="v1alpha3",
    plural="compositepodgroups",
    kind="CompositePodGroup",
    view=SchedulerObject,
)
KAI_PODGROUPS = Resource(
    group="scheduling.run.ai", version="v2alpha2", plural="podgroups", kind="PodGroup", view=SchedulerObject
)
KAI_QUEUES = Resource(
    group="scheduling.run.ai", version="v2", plural="queues", kind="Queue", namespaced=False, view=SchedulerObject
)
KAI_TOPOLOGIES = Resource(
    group="kai.scheduler",
    version="v1alpha1",
    plural="topologies",
    kind="Topology",
    namespaced=False,
    view=SchedulerObject,
)
VOLCANO_PODGROUPS = Resource(
    group="scheduling.volcano.sh", version="v1beta1", plural="podgroups", kind="PodGroup", view=SchedulerObject
)
VOLCANO_QUEUES = Resource(
    group="scheduling.volcano.sh",
    version="v1beta1",
    plural="queues",
    kind="Queue",
    namespaced=False,
    view=SchedulerObject,
)
