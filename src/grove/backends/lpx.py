"""LPX: pods only name it as their scheduler. It uses objects of its own."""

from collections.abc import Iterator

from grove.api.types.meta import JsonObject
from grove.api.types.podcliqueset import PodCliqueSet
from grove.api.validation.field_errors import FieldError, forbidden
from grove.backends.base import PodInput
from grove.backends.native import PlainBackend
from grove.backends.podgroup_sync import topology_paths

LPX = "lpx-scheduler"


class LpxBackend(PlainBackend):
    def __init__(self) -> None:
        super().__init__(LPX, reads_gangs=False)

    def errors(self, pcs: PodCliqueSet) -> Iterator[FieldError]:
        for path in topology_paths(pcs.spec):
            detail = (
                "lpx-scheduler does not support topology constraints: remove the constraint, "
                "or choose another scheduler"
            )
            yield forbidden(path, detail)

    def prepare_pod(self, pod: JsonObject, inputs: PodInput) -> None:
        pod["spec"] = {**pod["spec"], "schedulerName": self.name}
