"""A connection to one cluster, as operations use it."""

import msgspec

from grove.clock import Clock
from grove.kube.client import Client
from grove.kube.transport import Transport


class Connection(msgspec.Struct, frozen=True, kw_only=True):
    """A client of the selected cluster, with the namespace to use."""

    client: Client
    transport: Transport
    clock: Clock
    # The one that the user names, or that of the context.
    namespace: str
