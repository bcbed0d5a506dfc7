"""All objects of an installation, in the order in which they are applied."""

from grove.api.schema.crd_generator import custom_resource_definitions
from grove.api.types.meta import JsonObject
from grove.installation.cert_manager import certificate_objects, injection_annotations
from grove.installation.deployment import WEBHOOK_PORT, workload_objects
from grove.installation.install_options import NAME, Installation
from grove.installation.labels import object_metadata
from grove.installation.monitoring import monitoring_objects
from grove.installation.network_policy import network_policy_objects
from grove.installation.rbac import rbac_objects
from grove.installation.webhook_configurations import ServiceTarget, webhook_configurations

# The operator needs no more rights than this standard allows.
_POD_SECURITY = {"pod-security.kubernetes.io/enforce": "restricted"}


def installation_objects(installation: Installation) -> tuple[JsonObject, ...]:
    """Return all objects. Webhooks come last, so that they do not block the installation before the operator runs."""
    return (
        _namespace(installation),
        *custom_resource_definitions(),
        *rbac_objects(installation),
        *workload_objects(installation),
        *network_policy_objects(installation),
        *certificate_objects(installation),
        *monitoring_objects(installation),
        *webhook_configurations(
            ServiceTarget(namespace=installation.namespace, name=NAME, port=WEBHOOK_PORT),
            ca_bundle=installation.ca_bundle,
            has_authorizer=installation.configuration.authorizer.enabled,
            operator_user=installation.user,
            namespaces=installation.watch_namespaces,
            annotations=injection_annotations(installation),
        ),
    )


def _namespace(installation: Installation) -> JsonObject:
    metadata = object_metadata(installation.namespace)
    return {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {**metadata, "labels": {**metadata["labels"], **_POD_SECURITY}},
    }
