"""The embedded API server: one verb per file, `routes.py` finds the verb of a request."""

from grove.cluster.server.routes import ApiServer, Observer
from grove.cluster.server.watch import WatchStream

__all__ = ["ApiServer", "Observer", "WatchStream"]
