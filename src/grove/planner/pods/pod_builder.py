"""Build the manifest of a pod from its PodClique alone."""

from grove.api import labels, names
from grove.api.labels import GATE
from grove.api.resources import PODCLIQUES
from grove.api.types.meta import JsonObject
from grove.api.types.podclique import PodClique
from grove.api.types.podgang import PodGang
from grove.api.values.clique_counts import CliqueCount
from grove.backends.base import Backend
from grove.backends.native import DEFAULT_SCHEDULER, PlainBackend
from grove.planner.actions import subject_of
from grove.planner.child_manifests import build_owner, build_pod_env, prepend_env
from grove.planner.gangs.scheduler_objects import build_pod_input
from grove.planner.startup.init_container import add_init_container
from grove.planner.views import CliqueView

_ANY_SCHEDULER = PlainBackend(DEFAULT_SCHEDULER, reads_gangs=True)


class PodBuilder:
    """A builder of the pods of one clique. Shared parts are prepared once."""

    def __init__(
        self,
        view: CliqueView,
        gang: PodGang | None = None,
        backend: Backend = _ANY_SCHEDULER,
        *,
        awaited: tuple[CliqueCount, ...] = (),
        init_image: str = "",
    ) -> None:
        """`awaited`: what its pods wait for in an init container, whose image is `init_image`."""
        clique = view.clique
        metadata = clique.metadata
        self._view = view
        self._gang = gang
        self._backend = backend
        self._clique_name = metadata.name
        self._namespace = metadata.namespace
        self._labels = {**metadata.labels, labels.PODCLIQUE: metadata.name}
        self._annotations = metadata.annotations
        self._owners = [build_owner(subject_of(PODCLIQUES, metadata))]
        self._spec = _shared_spec(clique, backend.name)
        if awaited:
            add_init_container(self._spec, awaited, init_image)

    def build(self, name: str, index: int, failures: int) -> JsonObject:
        annotations = {**self._annotations, labels.FAILURES: str(failures)} if failures else self._annotations
        pod: JsonObject = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": name,
                "namespace": self._namespace,
                "labels": {**self._labels, labels.POD_INDEX: str(index)},
                "annotations": annotations,
                "ownerReferences": self._owners,
            },
            "spec": {**self._spec, "hostname": names.pod_hostname(self._clique_name, index)},
        }
        if self._gang is not None:
            self._backend.prepare_pod(pod, build_pod_input(self._gang, self._view, index))
        return pod


def _shared_spec(clique: PodClique, scheduler_name: str) -> JsonObject:
    metadata = clique.metadata
    pcs_name = metadata.labels.get(labels.PART_OF, "")
    replica_index = metadata.labels.get(labels.SET_REPLICA_INDEX, "0")
    spec = dict(clique.spec.pod_spec)
    # Gates of the user stay: their controllers remove them.
    spec["schedulingGates"] = [
        {"name": GATE},
        *(gate for gate in spec.get("schedulingGates") or () if gate.get("name") != GATE),
    ]
    spec["schedulerName"] = spec.get("schedulerName") or scheduler_name
    spec["subdomain"] = names.replica_name(pcs_name, int(replica_index))
    prepend_env(spec, build_pod_env(pcs_name, metadata.namespace, replica_index, metadata.name))
    return spec
