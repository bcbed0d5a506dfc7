"""An operator for chosen namespaces: it sees, asks for and changes nothing elsewhere."""

from random import Random

import yaml

from grove.api.resources import NAMESPACES, PODCLIQUESETS
from grove.api.types.meta import JsonObject, ObjectMeta, Uid
from grove.api.types.pod import Pod
from grove.clock import Clock
from grove.controller.controller_options import ControllerOptions
from grove.controller.manager import Controller
from grove.kube.client import Client
from grove.kube.namespaced_store import NamespacedStore
from grove.kube.response_decoding import Listing
from grove.sim.simulation import SimulatedOperator, World
from grove.sim.virtual_clock import run_virtual
from tests.dsl import NOW
from tests.markdown import ROOT

MANIFEST: JsonObject = yaml.safe_load((ROOT / "examples" / "quickstart.yaml").read_text())


def scoped(client: Client, clock: Clock, random: Random) -> SimulatedOperator:
    return Controller(client, clock, random, ControllerOptions(watch_namespaces=("a", "b")))


def in_namespace(namespace: str) -> JsonObject:
    return {**MANIFEST, "metadata": {**MANIFEST["metadata"], "namespace": namespace}}


def test_sets_in_the_chosen_namespaces_live_and_others_are_left_alone() -> None:
    async def main() -> None:
        async with World(nodes=24, operator=scoped) as world:
            for name in ("a", "b", "c"):
                await world.client.create(NAMESPACES, "", {"metadata": {"name": name}})
                await world.apply(in_namespace(name))
            await world.settle()
            counts = [len(world.running_pods(namespace=name)) for name in ("a", "b", "c")]
            assert counts == [10, 10, 0]
            await world.scale(PODCLIQUESETS, "chat", 2, namespace="a")
            await world.settle()
            assert len(world.running_pods(namespace="a")) == 20
            assert {write.target.namespace for write in world.operator.writes} == {"a", "b"}
            await world.crash_controller()
            await world.restart_controller()
            await world.delete(PODCLIQUESETS, "chat", namespace="b")
            await world.settle()
            counts = [len(world.running_pods(namespace=name)) for name in ("a", "b", "c")]
            assert counts == [20, 0, 0]
            assert {write.target.namespace for write in world.operator.writes} == {"b"}

    run_virtual(main())


def pod(namespace: str, version: int) -> Pod:
    metadata = ObjectMeta(name="p", namespace=namespace, uid=Uid(namespace), resource_version=str(version))
    return Pod(metadata=metadata)


def test_each_namespace_has_its_own_versions_and_all_are_read_as_one() -> None:
    store: NamespacedStore[Pod] = NamespacedStore(("a", "b"))
    seen: list[str] = []
    store.subscribe(lambda _old, new: seen.append(new.metadata.namespace if new else ""))
    first, second = store.part("a"), store.part("b")
    first.apply_list(Listing(items=(pod("a", 5),), resource_version="100"), first.begin_list())
    # Older than what the watch of the other namespace has shown, and new all the same.
    second.apply_list(Listing(items=(pod("b", 6),), resource_version="90"), second.begin_list())
    store.observe(pod("b", 95))
    store.observe(pod("elsewhere", 96))
    assert [one.metadata.resource_version for one in store.values()] == ["5", "95"]
    assert (len(store), store.newest_version, seen) == (2, 100, ["a", "b", "b"])
    assert store.by_name("b", "p") == store.get(Uid("b"))
    assert store.by_name("elsewhere", "p") is None
    store.mark_terminating([Uid("a")], NOW)
    found = store.get(Uid("a"))
    assert found is not None
    assert found.metadata.is_terminating
    store.forget(Uid("b"))
    assert (len(store), store.tombstone_count) == (1, 1)
