"""A hostile tenant among the actors of a storm: forged parts of sets in a namespace of its own, and objects in the
namespace of the sets that only carry their labels, at random moments. Nothing of it may ever matter.
"""

from collections.abc import Iterator
from random import Random
from typing import Any, TypeVar

from grove.api.resources import PODS, Resource
from grove.api.types.meta import HasMetadata, Uid
from grove.api.types.pod import Pod
from grove.kube.api_errors import ApiError
from grove.sim.simulation import World
from tests.hostile_tenant import PARTS, Attack, Claim, Raw, forge

T = TypeVar("T", bound=HasMetadata)

HOME = "evil"
IN_EVERY = 3
ACTS_PER_STEP = 0.5


class HostileTenant:
    """Is there in every third storm, or `always`. Every act draws from `random` and says in words what was done."""

    def __init__(self, random: Random, *, always: bool = False) -> None:
        self._random = random
        self.is_here = random.random() < 1 / IN_EVERY or always
        # What carries only labels, in the namespace of the sets: it stays, whatever becomes of them.
        self.labelled: dict[Uid, tuple[Resource[Any], str]] = {}

    async def move_in(self, world: World) -> None:
        if self.is_here:
            await world.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": HOME}})

    async def act(self, view: "OwnView") -> str | None:
        if not self.is_here or self._random.random() >= ACTS_PER_STEP:
            return None
        resource = self._random.choice(PARTS)
        originals = view.objects(resource.viewed_as(Raw))
        if not originals:
            return None
        original = self._random.choice(originals)
        is_foreign = self._random.random() < 0.7
        claim = self._random.choice(tuple(Claim)) if is_foreign else Claim.LABELS_ONLY
        attack = Attack(resource=resource, claim=claim, is_held=is_foreign and self._random.random() < 0.7)
        try:
            name = await forge(view.world.client, attack, original, HOME if is_foreign else "default")
        except ApiError as error:
            # It made the same thing before, or a quota is in its way.
            if not error.is_already_exists and not error.is_refusal:
                raise
            return None
        if not is_foreign:
            (made,) = (one for one in view.everything(resource) if one.metadata.name == name)
            self.labelled[made.metadata.uid] = (resource, name)
        return f"a hostile tenant forged {name} in {HOME if is_foreign else 'default'}: {attack}"

    def missed(self, world: World) -> Iterator[str]:
        """Yield what was the tenant's own and is gone, in words."""
        for uid, (resource, name) in self.labelled.items():
            if uid not in {one.metadata.uid for one in world.objects(resource, namespace="default")}:
                yield f"{resource.plural} {name} of another tenant is gone; it only carried the labels of a set"


class OwnView:
    """The namespace of the sets without what is the hostile tenant's; implements `tests.scene.Seen`."""

    def __init__(self, world: World, tenant: HostileTenant) -> None:
        self.world = world
        self._tenant = tenant

    def objects(self, resource: Resource[T], *, label_selector: str = "") -> tuple[T, ...]:
        found = self.everything(resource, label_selector=label_selector)
        return tuple(one for one in found if one.metadata.uid not in self._tenant.labelled)

    def everything(self, resource: Resource[T], *, label_selector: str = "") -> tuple[T, ...]:
        namespace = "default" if resource.namespaced else ""
        return self.world.objects(resource, namespace=namespace, label_selector=label_selector)

    def running_pods(self) -> tuple[Pod, ...]:
        """Pods that run and stay."""
        return tuple(
            pod for pod in self.objects(PODS) if pod.status.phase == "Running" and not pod.metadata.is_terminating
        )
