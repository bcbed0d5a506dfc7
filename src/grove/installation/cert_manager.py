"""The certificate of the webhooks, if cert-manager creates it."""

from grove.api.types.meta import JsonObject
from grove.installation.install_options import NAME, Installation
from grove.installation.labels import object_metadata

CERTIFICATE = "grove-webhook"
_INJECT = "cert-manager.io/inject-ca-from"


def certificate_objects(installation: Installation) -> tuple[JsonObject, ...]:
    issuer = installation.optional.issuer
    if issuer is None:
        return ()
    host = f"{NAME}.{installation.namespace}.svc"
    return (
        {
            "apiVersion": "cert-manager.io/v1",
            "kind": "Certificate",
            "metadata": object_metadata(CERTIFICATE, installation.namespace),
            "spec": {
                "secretName": installation.configuration.server.webhooks.secret_name,
                "dnsNames": [host, f"{host}.cluster.local"],
                "issuerRef": {"group": "cert-manager.io", "kind": issuer.kind, "name": issuer.name},
            },
        },
    )


def injection_annotations(installation: Installation) -> JsonObject:
    """Return the annotation by which cert-manager writes its CA into a webhook configuration."""
    if installation.optional.issuer is None:
        return {}
    return {_INJECT: f"{installation.namespace}/{CERTIFICATE}"}
