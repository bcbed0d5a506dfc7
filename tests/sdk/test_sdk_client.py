"""The async client on an embedded cluster, in virtual time."""

import asyncio
from collections.abc import Awaitable, Callable

import msgspec
import pytest

from grove.clock import LoopClock
from grove.sdk import (
    AsyncClient,
    GroveError,
    PodCliqueSet,
    SetDeleted,
    SetFailed,
    SetNotFound,
    SetRejected,
    TrainingSpec,
    WaitTimeout,
    clique,
    group,
    local,
    pod_clique_set,
    to_dict,
)
from grove.sim.virtual_clock import run_virtual

Story = Callable[[AsyncClient], Awaitable[None]]


def chat(image: str = "example/router:1.0", *, gpus: int = 0) -> PodCliqueSet:
    return pod_clique_set("chat", [clique("router", image=image, replicas=2, min_available=1, gpus=gpus)])


def job(exit_code: int) -> PodCliqueSet:
    ending = {"simulation.grove.io/exit-after": "10s", "simulation.grove.io/exit-code": str(exit_code)}
    worker = clique("worker", image="example/train:1.0", replicas=2, annotations=ending)
    return pod_clique_set("job", [worker], training=TrainingSpec(max_restarts=0))


def play(story: Story, *, nodes: int = 1, ready_after: float = 0.0) -> None:
    async def run() -> None:
        async with local(nodes=nodes, ready_after=ready_after) as client:
            await story(client)

    run_virtual(run())


# --- submit, get, list, delete ---------------------------------------------------------------------------------------


def test_a_set_is_created_then_unchanged_then_configured() -> None:
    async def story(client: AsyncClient) -> None:
        first = await client.submit(chat())
        assert (first.action, first.stored.metadata.name, first.warnings) == ("created", "chat", ())
        await client.wait("chat", "ready")
        assert (await client.submit(chat())).action == "unchanged"
        assert (await client.submit(to_dict(chat("example/router:2.0")))).action == "configured"

    play(story)


def test_a_set_that_was_read_can_be_changed_and_submitted() -> None:
    async def story(client: AsyncClient) -> None:
        await client.submit(chat())
        found = await client.wait("chat", "ready")
        more = msgspec.structs.replace(found, spec=msgspec.structs.replace(found.spec, replicas=2))
        assert (await client.submit(more)).action == "configured"
        assert (await client.wait(more, "ready")).status.available_replicas == 2

    play(story)


def test_sets_are_listed_by_namespace_and_label() -> None:
    async def story(client: AsyncClient) -> None:
        await client.submit(chat())
        labelled = pod_clique_set("other", [clique("a", image="i")], labels={"team": "search"}, namespace="kube-system")
        await client.submit(labelled)

        async def names(found: Awaitable[tuple[PodCliqueSet, ...]]) -> list[str]:
            return [one.metadata.name for one in await found]

        assert await names(client.list()) == ["chat"]
        assert await names(client.list(all_namespaces=True)) == ["chat", "other"]
        assert await names(client.list(selector="team=search", all_namespaces=True)) == ["other"]
        assert await names(client.in_namespace("kube-system").list()) == ["other"]
        # An object knows its namespace, a name does not.
        assert (await client.get(labelled)).metadata.namespace == "kube-system"
        with pytest.raises(SetNotFound, match=r"no podcliqueset/other in namespace 'default'"):
            await client.get("other")

    play(story)


def test_a_deleted_set_is_gone_with_its_pods_when_the_call_returns() -> None:
    async def story(client: AsyncClient) -> None:
        await client.submit(chat())
        await client.wait("chat", "ready")
        await client.delete("chat", timeout=120)
        assert await client.list() == ()
        with pytest.raises(SetNotFound):
            await client.delete("chat")

    play(story)


def test_a_delete_without_waiting_can_be_waited_for() -> None:
    async def story(client: AsyncClient) -> None:
        await client.submit(chat())
        await client.wait("chat", "ready")
        await client.delete("chat", wait=False)
        await client.wait("chat", "deleted", timeout=120)
        assert await client.list() == ()

    play(story)


def test_a_rejection_names_the_field() -> None:
    async def story(client: AsyncClient) -> None:
        wrong = to_dict(chat())
        wrong["spec"]["template"]["cliques"][0]["spec"]["minAvailable"] = 3
        with pytest.raises(SetRejected, match=r"PodCliqueSet chat was rejected: .*cliques\[0\]\.spec\.minAvailable"):
            await client.submit(wrong)

    play(story)


# --- wait ------------------------------------------------------------------------------------------------------------


def test_waiting_reports_each_step_once_and_returns_the_set() -> None:
    async def story(client: AsyncClient) -> None:
        await client.submit(chat())
        reported: list[str] = []
        found = await client.wait("chat", "ready", timeout=60, on_progress=lambda one: reported.append(str(one)))
        assert found.status.available_replicas == 1
        assert reported[-1].startswith("chat: 2/2 pods ready, 1/1 replicas available")
        assert len(reported) == len(dict.fromkeys(reported)) > 1

    play(story, ready_after=5)


def test_a_set_that_does_not_become_available_in_time_is_explained() -> None:
    async def story(client: AsyncClient) -> None:
        await client.submit(chat(gpus=16))
        clock = asyncio.get_running_loop()
        began_at = clock.time()
        with pytest.raises(WaitTimeout, match=r"waited 30 s for 'available' of chat: 0/2 pods ready.*gpu") as caught:
            await client.wait("chat", timeout=30)
        assert 30 <= clock.time() - began_at < 40
        assert isinstance(caught.value, TimeoutError)
        assert caught.value.progress.available_replicas == 0
        assert caught.value.why[0].kind == "cause"

    play(story)


def test_a_training_set_completes_or_fails_with_its_reason() -> None:
    async def story(client: AsyncClient) -> None:
        await client.submit(job(0))
        assert (await client.wait("job", "complete")).status.phase == "Succeeded"
        await client.delete("job")
        await client.submit(job(3))
        with pytest.raises(SetFailed, match="pcs/job failed: ") as caught:
            await client.wait("job", "complete")
        assert caught.value.reason == "MaxRestartsExceeded"

    play(story)


def test_an_inference_set_never_completes() -> None:
    async def story(client: AsyncClient) -> None:
        await client.submit(chat())
        with pytest.raises(GroveError, match="is no training set"):
            await client.wait("chat", "complete")

    play(story)


def test_a_stalled_update_fails_and_can_be_undone() -> None:
    async def story(client: AsyncClient) -> None:
        await client.submit(chat())
        await client.wait("chat", "ready")
        await client.submit(chat("example/router:pull-error"))
        with pytest.raises(SetFailed) as caught:
            await client.wait("chat", "updated", timeout=600)
        assert caught.value.reason == "UpdateStalled"
        undone = await client.undo("chat")
        assert (undone.is_changed, undone.from_revision, undone.to_revision) == (True, 2, 1)
        found = await client.wait("chat", "ready", timeout=600)
        assert found.spec.template.cliques[0].spec.pod_spec["containers"][0]["image"] == "example/router:1.0"

    play(story)


def test_a_set_that_is_deleted_or_missing_is_not_waited_for() -> None:
    async def story(client: AsyncClient) -> None:
        with pytest.raises(SetNotFound):
            await client.wait("chat")
        await client.submit(chat(gpus=16))
        async with asyncio.TaskGroup() as tasks:
            waiting = tasks.create_task(_wait_for_deletion(client))
            await LoopClock.starting_now().sleep(1)
            await client.delete("chat", wait=False)
            await waiting

    play(story)


async def _wait_for_deletion(client: AsyncClient) -> None:
    with pytest.raises(SetDeleted, match="pcs/chat was deleted"):
        await client.wait("chat")


def test_a_function_may_say_when_to_stop() -> None:
    async def story(client: AsyncClient) -> None:
        await client.submit(chat())
        found = await client.wait("chat", lambda pcs: pcs.status.observed_generation is not None, timeout=60)
        assert found.status.observed_generation == 1

    play(story)


# --- scale, restart, why, logs ---------------------------------------------------------------------------------------


def test_sets_and_groups_are_scaled_and_waited_for() -> None:
    async def story(client: AsyncClient) -> None:
        await client.submit(
            pod_clique_set("chat", [clique("worker", image="example/engine:1.0")], groups=[group("decode", ["worker"])])
        )
        await client.wait("chat", "ready")
        scaled = await client.scale("pcsg/chat-0-decode", 3)
        assert (scaled.before, scaled.replicas) == (1, 3)
        counts: list[int] = []
        await client.wait("chat", "ready", on_progress=lambda one: counts.append(one.ready_pods))
        assert counts[-1] == 3
        await client.scale("chat", 2)
        assert (await client.wait("chat", "ready")).status.available_replicas == 2
        with pytest.raises(GroveError, match="expected the name of a set, or KIND/NAME"):
            await client.scale("pod/x", 1)

    play(story)


def test_a_restart_replaces_every_pod() -> None:
    async def story(client: AsyncClient) -> None:
        async def pods() -> set[str]:
            return {line.pod async for line in client.logs("chat")}

        await client.submit(chat())
        await client.wait("chat", "ready")
        before = await pods()
        await client.restart("chat")
        await client.wait("chat", "ready", timeout=600)
        after = await pods()
        assert len(before) == len(after) == 2
        assert not before & after

    play(story)


def test_why_explains_a_set_and_its_objects() -> None:
    async def story(client: AsyncClient) -> None:
        await client.submit(chat(gpus=16))
        await LoopClock.starting_now().sleep(5)
        about_set = await client.why("chat")
        about_gang = await client.why("pg/chat-0")
        assert "nvidia.com/gpu" in about_set[0].text
        assert about_set[0].text == about_gang[0].text
        with pytest.raises(SetNotFound, match="no podgang/chat-7"):
            await client.why("pg/chat-7")

    play(story)


def test_logs_of_a_set_have_the_names_of_their_pods() -> None:
    async def story(client: AsyncClient) -> None:
        await client.submit(chat())
        await client.wait("chat", "ready")
        lines = [line async for line in client.logs("chat", tail=1)]
        assert [line.text for line in lines] == ["container router is ready"] * 2
        assert len({line.pod for line in lines}) == 2
        assert str(lines[0]) == f"{lines[0].pod} | container router is ready"

    play(story)


def test_followed_logs_include_later_pods_and_end_with_the_set() -> None:
    async def story(client: AsyncClient) -> None:
        await client.submit(job(0))
        lines = [line async for line in client.logs("job", follow=True)]
        assert (
            sorted(line.text for line in lines if "ended" in line.text)
            == ["container worker ended with exit code 0"] * 2
        )

    play(story)


def test_a_reader_of_followed_logs_may_stop_early() -> None:
    async def story(client: AsyncClient) -> None:
        await client.submit(chat())
        await client.wait("chat", "ready")
        before = len(asyncio.all_tasks())
        lines = client.logs("chat", follow=True)
        assert "started" in (await anext(lines)).text
        assert len(asyncio.all_tasks()) > before
        await lines.aclose()
        assert len(asyncio.all_tasks()) == before

    play(story)
