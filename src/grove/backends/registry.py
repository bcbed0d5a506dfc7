"""Backends of an installation: the enabled schedulers, and the default."""

from functools import cache, lru_cache

from grove.api.types.podcliqueset import PodCliqueSetSpec
from grove.backends.base import Backend, Value
from grove.backends.kai import KAI, KaiBackend
from grove.backends.lpx import LPX, LpxBackend
from grove.backends.native import DEFAULT_SCHEDULER, NativeBackend, PlainBackend
from grove.backends.native_podgroups import NativeFeatures
from grove.backends.volcano import VOLCANO, VolcanoBackend

_BACKENDS: dict[str, Backend] = {KAI: KaiBackend(), VOLCANO: VolcanoBackend(), LPX: LpxBackend()}

# All supported schedulers; an installation enables some.
SCHEDULERS = (DEFAULT_SCHEDULER, *_BACKENDS)


class Backends(Value):
    enabled: tuple[str, ...] = (DEFAULT_SCHEDULER,)
    default: str = DEFAULT_SCHEDULER
    features: NativeFeatures = NativeFeatures()

    def name_for(self, spec: PodCliqueSetSpec) -> str:
        """Return the scheduler of a set: the first that a clique names, or the default."""
        requested = (clique.spec.pod_spec.get("schedulerName") for clique in spec.template.cliques)
        return next((str(name) for name in requested if name), self.default)

    def get(self, name: str) -> Backend:
        """Return the backend of a scheduler. The backend of a scheduler that is not enabled writes no objects."""
        if name == DEFAULT_SCHEDULER:
            return _default_backend(self.features)
        return _BACKENDS[name] if name in _BACKENDS and name in self.enabled else _plain_backend(name)

    def all(self) -> tuple[Backend, ...]:
        return tuple(self.get(name) for name in self.enabled)


@cache
def _default_backend(features: NativeFeatures) -> Backend:
    if features.groups and not features.reads_gangs:
        return NativeBackend(features)
    return PlainBackend(DEFAULT_SCHEDULER, reads_gangs=features.reads_gangs, why=features.why)


# Limited, because users choose the names.
@lru_cache(maxsize=16)
def _plain_backend(name: str) -> Backend:
    return PlainBackend(name, reads_gangs=False)
