"""The NetworkPolicy of the operator's pods: which connections they accept and open."""

from grove.api.types.meta import JsonObject
from grove.installation.install_options import NAME, Installation
from grove.installation.labels import SELECTOR, object_metadata

# The API server has no pods that a policy could select, so only its ports are named: that of the Service, and that of
# the server behind it.
API_PORTS = (443, 6443)
_DNS_PORT = 53


def network_policy_objects(installation: Installation) -> tuple[JsonObject, ...]:
    if not installation.optional.has_network_policy:
        return ()
    outgoing = [
        {"protocol": "UDP", "port": _DNS_PORT},
        {"protocol": "TCP", "port": _DNS_PORT},
        *({"protocol": "TCP", "port": port} for port in API_PORTS),
    ]
    # By name, so that the policy follows the ports of the configuration.
    incoming = [{"protocol": "TCP", "port": name} for name in ("webhooks", "health", "metrics")]
    return (
        {
            "apiVersion": "networking.k8s.io/v1",
            "kind": "NetworkPolicy",
            "metadata": object_metadata(NAME, installation.namespace),
            "spec": {
                "podSelector": {"matchLabels": dict(SELECTOR)},
                "policyTypes": ["Ingress", "Egress"],
                "ingress": [{"ports": incoming}],
                "egress": [{"ports": outgoing}],
            },
        },
    )
