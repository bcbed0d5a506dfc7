"""Resources that the embedded API server serves, and the properties of each. The verbs are in `apiserver/`.

Not here: the types that Grove's clients decode them into (`api/resources.py`).
"""

import msgspec

from grove.cluster.custom_resource import CustomVersion


class ResourceInfo(msgspec.Struct, frozen=True, kw_only=True):
    """One served version of one resource, as the API server sees it."""

    group: str = ""
    version: str = "v1"
    plural: str
    kind: str
    namespaced: bool = True
    # Custom resources are stricter than built-in kinds in some places and laxer in others, as on a real server.
    is_custom: bool = False
    has_status: bool = False
    has_scale: bool = False
    has_generation: bool = False
    # An immediate delete returns the object; for other resources it returns a Status.
    returns_deleted: bool = False
    # A PUT without a resourceVersion is accepted.
    allows_blind_update: bool = True
    # The compiled version of a custom resource. None for the Grove kinds in `SERVED`: a server adds its own.
    custom: CustomVersion | None = None

    # Derived from the fields above, once, because every request needs them.
    list_kind: str = ""
    qualified: str = ""
    api_version: str = ""
    head: bytes = b""

    def path(self, namespace: str, name: str) -> str:
        """Return the URL path of one object."""
        root = f"/apis/{self.api_version}" if self.group else f"/api/{self.api_version}"
        place = f"/namespaces/{namespace}" if self.namespaced else ""
        return f"{root}{place}/{self.plural}/{name}"


def with_derived_fields(resource_info: ResourceInfo) -> ResourceInfo:
    api_version = f"{resource_info.group}/{resource_info.version}" if resource_info.group else resource_info.version
    return msgspec.structs.replace(
        resource_info,
        list_kind=resource_info.list_kind or f"{resource_info.kind}List",
        qualified=f"{resource_info.plural}.{resource_info.group}" if resource_info.group else resource_info.plural,
        api_version=api_version,
        head=f'{{"kind":"{resource_info.kind}","apiVersion":"{api_version}",'.encode(),
    )


def _custom(
    plural: str, kind: str, *, group: str = "grove.io", namespaced: bool = True, has_scale: bool = False
) -> ResourceInfo:
    return ResourceInfo(
        group=group, version="v1alpha1", plural=plural, kind=kind, namespaced=namespaced, has_scale=has_scale,
        is_custom=True, has_status=True, has_generation=True, allows_blind_update=False,
    )  # fmt: skip


SERVED = tuple(
    with_derived_fields(resource_info)
    for resource_info in (
        ResourceInfo(plural="namespaces", kind="Namespace", namespaced=False, has_status=True),
        ResourceInfo(plural="nodes", kind="Node", namespaced=False, has_status=True),
        ResourceInfo(plural="pods", kind="Pod", has_status=True, has_generation=True, returns_deleted=True),
        ResourceInfo(plural="events", kind="Event"),
        ResourceInfo(plural="services", kind="Service", has_status=True, returns_deleted=True),
        ResourceInfo(plural="secrets", kind="Secret"),
        ResourceInfo(plural="configmaps", kind="ConfigMap"),
        ResourceInfo(plural="serviceaccounts", kind="ServiceAccount", returns_deleted=True),
        ResourceInfo(plural="resourcequotas", kind="ResourceQuota", has_status=True, returns_deleted=True),
        ResourceInfo(group="coordination.k8s.io", plural="leases", kind="Lease", allows_blind_update=False),
        ResourceInfo(
            group="autoscaling",
            version="v2",
            plural="horizontalpodautoscalers",
            kind="HorizontalPodAutoscaler",
            has_status=True,
            has_generation=True,
        ),
        ResourceInfo(group="apps", plural="controllerrevisions", kind="ControllerRevision"),
        ResourceInfo(
            group="policy",
            plural="poddisruptionbudgets",
            kind="PodDisruptionBudget",
            has_status=True,
            has_generation=True,
            allows_blind_update=False,
        ),
        ResourceInfo(
            group="scheduling.k8s.io",
            plural="priorityclasses",
            kind="PriorityClass",
            namespaced=False,
            has_generation=True,
        ),
        ResourceInfo(
            group="apiextensions.k8s.io",
            plural="customresourcedefinitions",
            kind="CustomResourceDefinition",
            namespaced=False,
            has_status=True,
            has_generation=True,
            allows_blind_update=False,
        ),
        ResourceInfo(
            group="admissionregistration.k8s.io",
            plural="mutatingwebhookconfigurations",
            kind="MutatingWebhookConfiguration",
            namespaced=False,
            has_generation=True,
        ),
        ResourceInfo(
            group="admissionregistration.k8s.io",
            plural="validatingwebhookconfigurations",
            kind="ValidatingWebhookConfiguration",
            namespaced=False,
            has_generation=True,
        ),
        ResourceInfo(group="rbac.authorization.k8s.io", plural="roles", kind="Role"),
        ResourceInfo(group="rbac.authorization.k8s.io", plural="rolebindings", kind="RoleBinding"),
        ResourceInfo(group="rbac.authorization.k8s.io", plural="clusterroles", kind="ClusterRole", namespaced=False),
        ResourceInfo(
            group="rbac.authorization.k8s.io", plural="clusterrolebindings", kind="ClusterRoleBinding", namespaced=False
        ),
        _custom("podcliquesets", "PodCliqueSet", has_scale=True),
        _custom("podcliques", "PodClique", has_scale=True),
        _custom("podcliquescalinggroups", "PodCliqueScalingGroup", has_scale=True),
        _custom("clustertopologybindings", "ClusterTopologyBinding", namespaced=False),
        _custom("podgangs", "PodGang", group="scheduler.grove.io"),
    )
)

# The scale subresource of every kind that has one.
SCALES = with_derived_fields(ResourceInfo(group="autoscaling", plural="scales", kind="Scale"))

BY_QUALIFIED = {resource_info.qualified: resource_info for resource_info in SERVED}

NAMESPACES = BY_QUALIFIED["namespaces"]
NODES = BY_QUALIFIED["nodes"]
EVENTS = BY_QUALIFIED["events"]
PODS = BY_QUALIFIED["pods"]
RESOURCE_QUOTAS = BY_QUALIFIED["resourcequotas"]
AUTOSCALERS = BY_QUALIFIED["horizontalpodautoscalers.autoscaling"]
BUDGETS = BY_QUALIFIED["poddisruptionbudgets.policy"]
PRIORITY_CLASSES = BY_QUALIFIED["priorityclasses.scheduling.k8s.io"]
DEFINITIONS = BY_QUALIFIED["customresourcedefinitions.apiextensions.k8s.io"]
