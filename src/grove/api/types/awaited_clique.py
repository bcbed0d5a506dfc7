"""PodClique, with only the fields that decide whether it has started: what an init container waits for."""

from grove.api.types.meta import ObjectMeta, WireStruct


class AwaitedSpec(WireStruct):
    replicas: int = 0


class AwaitedStatus(WireStruct):
    ready_replicas: int = 0
    succeeded_indices: tuple[int, ...] = ()


class AwaitedClique(WireStruct):
    metadata: ObjectMeta
    spec: AwaitedSpec = AwaitedSpec()
    status: AwaitedStatus = AwaitedStatus()

    @property
    def started_count(self) -> int:
        """Return how many of its pods are ready, or succeeded."""
        return self.status.ready_replicas + len(self.status.succeeded_indices)

    def has_started(self, count: int) -> bool:
        """Return whether enough pods have started. A clique that is scaled to zero holds up no other."""
        return self.spec.replicas == 0 or self.started_count >= count
