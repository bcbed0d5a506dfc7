"""Everything that an installation consists of, in the order in which it is applied."""

from grove.api.schema.crd_generator import custom_resource_definitions
from grove.api.types.meta import JsonObject
from grove.installation.deployment import WEBHOOK_PORT, workload_objects
from grove.installation.install_options import NAME, Installation
from grove.installation.labels import object_metadata
from grove.installation.rbac import rbac_objects
from grove.installation.webhook_configurations import ServiceTarget, webhook_configurations

# Nothing that runs there needs more rights than these, and nothing else shall get them.
_POD_SECURITY = {"pod-security.kubernetes.io/enforce": "restricted"}


def installation_objects(installation: Installation) -> tuple[JsonObject, ...]:
    """Webhooks come last: nothing of the installation itself is held up by an operator that is not there yet."""
    return (
        _namespace(installation),
        *custom_resource_definitions(),
        *rbac_objects(installation),
        *workload_objects(installation),
        *webhook_configurations(
            ServiceTarget(namespace=installation.namespace, name=NAME, port=WEBHOOK_PORT),
            ca_bundle=installation.ca_bundle,
            has_authorizer=installation.configuration.authorizer.enabled,
            operator_user=installation.user,
        ),
    )


def _namespace(installation: Installation) -> JsonObject:
    metadata = object_metadata(installation.namespace)
    return {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {**metadata, "labels": {**metadata["labels"], **_POD_SECURITY}},
    }
