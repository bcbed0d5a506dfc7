"""The embedded API server: one verb per file, `routes.py` finds the verb of a request."""

from grove.cluster.server.routes import ApiServer, Observer, Stream, is_stream

__all__ = ["ApiServer", "Observer", "Stream", "is_stream"]
