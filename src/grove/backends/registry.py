"""The schedulers of an installation: which are enabled, which one a set gets when it names none."""

from functools import cache, lru_cache

from grove.api.types.podcliqueset import PodCliqueSetSpec
from grove.backends.base import Backend, Value
from grove.backends.kai import KAI, KaiBackend
from grove.backends.lpx import LPX, LpxBackend
from grove.backends.native import DEFAULT_SCHEDULER, NativeBackend, PlainBackend
from grove.backends.native_podgroups import NativeFeatures
from grove.backends.volcano import VOLCANO, VolcanoBackend

_QUEUED: dict[str, Backend] = {KAI: KaiBackend(), VOLCANO: VolcanoBackend(), LPX: LpxBackend()}

# All that are known; an installation enables some.
SCHEDULERS = (DEFAULT_SCHEDULER, *_QUEUED)


class Backends(Value):
    enabled: tuple[str, ...] = (DEFAULT_SCHEDULER,)
    default: str = DEFAULT_SCHEDULER
    features: NativeFeatures = NativeFeatures()

    def name_for(self, spec: PodCliqueSetSpec) -> str:
        """One scheduler per set: the first that a clique names."""
        asked = (clique.spec.pod_spec.get("schedulerName") for clique in spec.template.cliques)
        return next((str(name) for name in asked if name), self.default)

    def named(self, name: str) -> Backend:
        """One that is not enabled is taken as it is: its pods name it, and nothing is written for it."""
        if name == DEFAULT_SCHEDULER:
            return _default_backend(self.features)
        return _QUEUED[name] if name in _QUEUED and name in self.enabled else _plain_backend(name)

    def all(self) -> tuple[Backend, ...]:
        return tuple(self.named(name) for name in self.enabled)


@cache
def _default_backend(features: NativeFeatures) -> Backend:
    if features.groups and not features.reads_gangs:
        return NativeBackend(features)
    return PlainBackend(DEFAULT_SCHEDULER, reads_gangs=features.reads_gangs, why=features.why)


# By names that users choose: not kept for ever.
@lru_cache(maxsize=16)
def _plain_backend(name: str) -> Backend:
    return PlainBackend(name, reads_gangs=False)
