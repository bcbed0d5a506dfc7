"""A hostile tenant among the actors of a storm: forged parts of sets, and whole sets, in a namespace of its own, and
objects in the namespace of the sets that are no part of them, at random moments. Nothing of it may ever matter.

`OwnershipJournal` checks after every reconcile of the operator that it acted for its set in the namespace of that set
only, and that no object of others is a fact of it.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from random import Random
from typing import Any, TypeVar

from grove.api.resources import PODCLIQUESETS, PODS, Resource
from grove.api.types.meta import HasMetadata, Uid
from grove.api.types.pod import Pod
from grove.controller.manager import Controller
from grove.controller.observability.decision_log import Done, NoDecisionLog
from grove.errors import Bug
from grove.kube.api_errors import ApiError
from grove.planner.actions import EventRecord
from grove.sim.invariants.ownership import foreign_facts
from grove.sim.simulation import World
from tests.hostile_tenant import KINDS, PARTS, Attack, Claim, Raw, forge, release, retarget

T = TypeVar("T", bound=HasMetadata)

HOME = "evil"
IN_EVERY = 3
ACTS_PER_STEP = 0.5
# In the namespace of the sets: what is no part of a set, whatever else it says.
INERT = tuple(claim for claim in Claim if claim is not Claim.CONTROLLER)


class HostileTenant:
    """Is there in every third storm, or `always`. Every act draws from `random` and says in words what was done."""

    def __init__(self, random: Random, *, always: bool = False) -> None:
        self._random = random
        self.is_here = random.random() < 1 / IN_EVERY or always
        # What it made in the namespace of the sets.
        self.own: set[Uid] = set()
        # Of these, what carries only labels: it stays, whatever becomes of the sets.
        self.labelled: dict[Uid, tuple[Resource[Any], str]] = {}

    async def move_in(self, world: World) -> None:
        if self.is_here:
            await world.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": HOME}})

    async def move_out(self, world: World) -> None:
        """Delete its sets, which might never come to rest. The parts that it forged stay."""
        if self.is_here:
            for pcs in world.objects(PODCLIQUESETS, namespace=HOME):
                with suppress(ApiError):
                    await world.client.delete(PODCLIQUESETS, HOME, pcs.metadata.name)
            await release(world.client, PODCLIQUESETS, HOME)

    async def act(self, view: "OwnView") -> str | None:
        if not self.is_here or self._random.random() >= ACTS_PER_STEP:
            return None
        is_foreign = self._random.random() < 0.7
        resource = self._random.choice(KINDS if is_foreign else PARTS)
        originals = view.objects(resource.viewed_as(Raw))
        if not originals:
            return None
        original = self._random.choice(originals)
        claim = self._random.choice(tuple(Claim) if is_foreign else INERT)
        attack = Attack(resource=resource, claim=claim, is_held=self._random.random() < (0.7 if is_foreign else 0.3))
        try:
            if is_foreign and self._random.random() < 0.3:
                return await self._turn(view, attack, original)
            return await self._forge(view, attack, original, HOME if is_foreign else "default")
        except ApiError as error:
            # It made the same thing before, a quota is in its way, or the garbage collector was faster.
            if not (error.is_already_exists or error.is_rejection or error.is_not_found):
                raise
            return None

    async def _forge(self, view: "OwnView", attack: Attack, original: Raw, namespace: str) -> str:
        name = await forge(view.world.client, attack, original, namespace)
        if namespace == "default":
            for made in view.everything(attack.resource):
                if made.metadata.name == name:
                    self.own.add(made.metadata.uid)
                    if attack.claim is Claim.LABELS_ONLY and not attack.is_held:
                        self.labelled[made.metadata.uid] = (attack.resource, name)
        return f"a hostile tenant forged {name} in {namespace}: {attack}"

    async def _turn(self, view: "OwnView", attack: Attack, original: Raw) -> str | None:
        """Let an object of its own claim another owner, with the labels of another part."""
        mine = view.world.objects(attack.resource.viewed_as(Raw), namespace=HOME)
        if not mine:
            return None
        chosen = self._random.choice(mine)
        await retarget(view.world.client, attack, chosen.metadata.name, original, HOME)
        return f"a hostile tenant let {chosen.metadata.name} claim to be {original.metadata.name}: {attack}"

    def missed(self, world: World) -> Iterator[str]:
        """Yield what was the tenant's own and is gone, in words."""
        for uid, (resource, name) in self.labelled.items():
            if uid not in {one.metadata.uid for one in world.objects(resource, namespace="default")}:
                yield f"{resource.plural} {name} of another tenant is gone; it only carried the labels of a set"


class OwnershipJournal(NoDecisionLog):
    """A decision log that raises `Bug` if a reconcile read, wrote or deleted anything outside of its set's namespace.

    It sees every write that succeeded, with the set that it was made for. `ownership.py` judges whose object it was.
    """

    def __init__(self) -> None:
        self._controller: Controller | None = None
        # Of sets that may be gone: their last writes are reported after the deletion.
        self._namespaces: dict[Uid, str] = {}
        self.checked_count = 0

    def follow(self, controller: Controller) -> Controller:
        self._controller = controller
        controller.caches.sets.subscribe(self._set_changed)
        return controller

    def _set_changed(self, _old: HasMetadata | None, new: HasMetadata | None) -> None:
        if new is not None:
            self._namespaces[new.metadata.uid] = new.metadata.namespace

    def decided(self, key: Uid, done: Sequence[Done], emits: Sequence[EventRecord]) -> None:
        namespace = self._namespaces.get(key)
        if namespace is None or self._controller is None:
            # A topology binding, which is in no namespace.
            return
        self.checked_count += len(done)
        for _, action in done:
            if action.namespace != namespace:
                raise Bug(f"a write to {action.namespace} was made for a set in {namespace}: {action}")
        for emit in emits:
            if emit.subject.namespace != namespace:
                raise Bug(f"an event about {emit.subject.namespace} was recorded for a set in {namespace}: {emit}")
        snapshot = self._controller.observer.snapshot(key)
        for fact in foreign_facts(snapshot) if snapshot is not None else ():
            raise Bug(fact)


class OwnView:
    """The namespace of the sets without what is the hostile tenant's; implements `tests.scene.Seen`."""

    def __init__(self, world: World, tenant: HostileTenant) -> None:
        self.world = world
        self._tenant = tenant

    def objects(self, resource: Resource[T], *, label_selector: str = "") -> tuple[T, ...]:
        found = self.everything(resource, label_selector=label_selector)
        return tuple(one for one in found if one.metadata.uid not in self._tenant.own)

    def everything(self, resource: Resource[T], *, label_selector: str = "") -> tuple[T, ...]:
        namespace = "default" if resource.namespaced else ""
        return self.world.objects(resource, namespace=namespace, label_selector=label_selector)

    def running_pods(self) -> tuple[Pod, ...]:
        """Pods that run and stay."""
        return tuple(
            pod for pod in self.objects(PODS) if pod.status.phase == "Running" and not pod.metadata.is_terminating
        )
