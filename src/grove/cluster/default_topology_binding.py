"""The default ClusterTopologyBinding of an embedded cluster: the levels of its node labels (`nodes.py`)."""

from grove.api.resources import TOPOLOGY_BINDINGS
from grove.api.types.meta import JsonObject
from grove.cluster.nodes import BLOCK, HOSTNAME, RACK, ZONE
from grove.kube.client import Client

TOPOLOGY = "grove-topology"
# Broad to narrow.
LEVELS = {"zone": ZONE, "block": BLOCK, "rack": RACK, "host": HOSTNAME}


async def create_topology(client: Client) -> None:
    await client.create(TOPOLOGY_BINDINGS, "", build_topology())


def build_topology() -> JsonObject:
    return {
        "apiVersion": TOPOLOGY_BINDINGS.api_version,
        "kind": TOPOLOGY_BINDINGS.kind,
        "metadata": {"name": TOPOLOGY},
        "spec": {"levels": [{"domain": domain, "key": key} for domain, key in LEVELS.items()]},
    }
