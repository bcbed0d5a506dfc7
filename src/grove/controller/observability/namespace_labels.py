"""The label `namespace` of metrics, with a bounded number of values."""

MAX_NAMESPACES = 200
OTHER = "_other"


class NamespaceLabels:
    """The namespaces that have series of their own: the first `limit` in which a set was seen.

    Others share the value `_other`, which is no valid name of a namespace. A namespace keeps its value until the
    process ends, because a counter must not move from one series to another.
    """

    def __init__(self, limit: int = MAX_NAMESPACES) -> None:
        self._limit = limit
        self._known: set[str] = set()

    def label(self, namespace: str) -> str:
        if namespace not in self._known:
            if len(self._known) >= self._limit:
                return OTHER
            self._known.add(namespace)
        return namespace
