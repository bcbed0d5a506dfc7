"""A write that keeps failing, with whatever code, is reported within 90 s, and not any more when its cause is over."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import yaml
from structlog.testing import capture_logs

from grove.api.resources import EVENTS, GROUPS, PODCLIQUES, PODCLIQUESETS, PODS, Resource
from grove.api.types.meta import JsonObject, find_condition
from grove.controller.feature_discovery import GANG_SCHEDULER_PATH
from grove.kube.api_errors import ApiError, ConnectionLost
from grove.kube.request_info import summarize
from grove.kube.transport import Request
from grove.sim.simulation import World
from grove.sim.virtual_clock import run_virtual
from tests.simulation.failing_writes import FailingWorld, Seen
from tests.simulation.stories import WORKLOAD1, find_set

WEBHOOK_DOWN = ApiError(
    500,
    "InternalError",
    'Internal error occurred: failed calling webhook "guard.example.com": failed to call webhook: Post '
    '"https://guard.example.svc:443/check?timeout=10s": dial tcp 10.0.0.1:443: connect: connection refused',
)
NO_RIGHT = ApiError(
    403,
    "Forbidden",
    'pods "a" is forbidden: User "system:serviceaccount:grove-system:grove-operator" cannot patch resource "pods" in '
    'API group "" in the namespace "default"',
)
TOO_LARGE = ApiError(500, "InternalError", "etcdserver: request is too large")
MUCH_TOO_LARGE = ApiError(
    500,
    "InternalError",
    "rpc error: code = ResourceExhausted desc = trying to send message larger than max (2149832 vs. 2097152)",
)


def run(story: Callable[[FailingWorld], Awaitable[None]], *, nodes: int = 30) -> None:
    async def main() -> None:
        failing = FailingWorld(nodes=nodes)
        async with failing.world:
            await story(failing)
            failing.world.check()

    run_virtual(main())


@pytest.mark.parametrize(
    ("verb", "resource", "error", "reason", "what", "advice"),
    [
        ("create", "pods", WEBHOOK_DOWN, "ServerError", "cannot create Pod default/workload1-0-", "admission webhook"),
        ("patch", "pods", NO_RIGHT, "WriteRejected", "cannot patch Pod default/workload1-0-", "grove manifests"),
        ("create", "podgangs", TOO_LARGE, "TooLarge", "cannot create PodGang default/workload1-0 ", "fewer pods"),
        ("create", "podgangs", MUCH_TOO_LARGE, "TooLarge", "cannot create PodGang default/workload1-0 ", "fewer pods"),
        (
            "create", "podcliques", ApiError(413, "RequestEntityTooLarge", "limit is 3145728"), "TooLarge",
            "cannot create PodClique default/workload1-0-", "fewer pods",
        ),
        (
            "patch", "podcliques/status", ApiError(422, "Invalid", "status is not what it was"), "WriteRejected",
            "cannot patch PodClique default/workload1-0-", "change the set",
        ),
        (
            "create", "services", ApiError(429, "TooManyRequests", "slow down", 1.0), "Throttled",
            "cannot create Service default/workload1-0 ", "check the api server",
        ),
        (
            "create", "controllerrevisions", ConnectionLost("POST: no answer"), "NoAnswer",
            "cannot create ControllerRevision default/workload1-", "check the api server",
        ),
        (
            "patch", "podcliquesets", ApiError(409, "Conflict", "the object has been modified"), "WriteConflict",
            "cannot patch PodCliqueSet default/workload1 ", "find the other writer",
        ),
    ],
)  # fmt: skip
def test_a_write_that_keeps_failing_is_reported_within_90_seconds_and_not_any_more_when_it_succeeds(
    verb: str, resource: str, error: ApiError, reason: str, what: str, advice: str
) -> None:
    async def story(failing: FailingWorld) -> None:
        world = failing.world
        refusal = failing.fail(verb, resource, error)
        await world.apply(WORKLOAD1)
        seen = await failing.until_reported()
        assert seen.condition is not None
        assert (seen.condition.status, seen.condition.reason) == ("True", reason)
        for words in (seen.condition.message, seen.events[0], seen.why):
            assert words.startswith(what.rstrip())
            assert (str(error.code) if error.code else "no answer") in words
            assert " since 2026-01-01T00:00:0" in words
            assert advice in words.lower()
        assert seen.failing >= 1
        assert failing.value("grove_writes_failing", reason=reason) == seen.failing
        assert f"writes: {what.rstrip()}" in seen.ready
        # It is reported once: while nothing changes, nothing is written.
        began = world.clock.monotonic()
        await world.clock.sleep(1200)
        assert failing.writes_since(began) == 0
        # And tried on, at an even pace.
        assert failing.attempts[-1] >= world.clock.monotonic() - 31
        assert len([at for at in failing.attempts if at >= began]) <= 64 * 1200 / 29
        world.operator.lift(refusal)
        await world.clock.sleep(60)
        after = await failing.look()
        assert (after.condition, after.failing) == (None, 0)
        assert "writes:" not in after.ready
        assert not after.why.startswith("cannot")
        await world.settle()
        assert len(world.running_pods()) == 10

    run(story)


def test_what_passes_within_a_minute_is_not_told() -> None:
    async def story(failing: FailingWorld) -> None:
        refusal = failing.fail("create", "pods", WEBHOOK_DOWN)
        await failing.world.apply(WORKLOAD1)
        await failing.world.clock.sleep(55)
        assert failing.failing() > 0
        failing.world.operator.lift(refusal)
        await failing.world.settle()
        seen = await failing.look()
        assert (seen.condition, seen.events, seen.failing) == (None, (), 0)
        assert len(failing.world.running_pods()) == 10

    run(story)


def test_a_failure_is_not_told_any_more_when_its_object_is_not_wanted_any_more() -> None:
    async def story(failing: FailingWorld) -> None:
        world = failing.world
        await world.apply(WORKLOAD1)
        await world.settle()
        failing.fail("create", "pods", WEBHOOK_DOWN)
        await world.scale(PODCLIQUES, "workload1-0-pc-a", 3)
        assert (await failing.until_reported()).condition is not None
        await world.scale(PODCLIQUES, "workload1-0-pc-a", 2)
        await world.clock.sleep(5)
        seen = await failing.look()
        assert (seen.condition, seen.failing) == (None, 0)

    run(story)


REJECTED = ApiError(403, "Forbidden", "exceeded quota: few")


def test_rejected_pods_are_not_counted_any_more_when_they_are_not_wanted_any_more() -> None:
    async def story(failing: FailingWorld) -> None:
        world = failing.world
        await world.apply(WORKLOAD1)
        await world.settle()
        failing.fail("create", "pods", REJECTED)
        await world.scale(PODCLIQUES, "workload1-0-pc-a", 3)
        seen = await failing.until_reported()
        assert seen.condition is not None
        assert failing.value("grove_writes_failing", reason="CreateRejected") == 1
        await world.scale(PODCLIQUES, "workload1-0-pc-a", 2)
        await world.clock.sleep(5)
        after = await failing.look()
        assert (after.condition, after.failing) == (None, 0)

    run(story)


def test_a_rejected_revision_is_not_reported_any_more_when_its_template_is_taken_back() -> None:
    async def story(failing: FailingWorld) -> None:
        world = failing.world
        await world.apply(WORKLOAD1)
        await world.settle()
        failing.fail("create", "controllerrevisions", REJECTED)
        changed = yaml.safe_load(WORKLOAD1.read_text())
        for clique in changed["spec"]["template"]["cliques"]:
            clique["spec"]["podSpec"]["containers"][0]["image"] = "registry.example/better:2"
        await world.apply(changed)
        seen = await failing.until_reported()
        assert seen.condition is not None
        assert seen.condition.message.startswith("cannot create ControllerRevision default/workload1-")
        await world.apply(WORKLOAD1)
        await world.clock.sleep(5)
        after = await failing.look()
        assert (after.condition, after.failing, after.why) == (None, 0, "Nothing: 10 of 10 pods are ready.")

    run(story)


def test_why_names_the_rejected_revision_of_a_new_set_and_not_an_operator_that_does_nothing() -> None:
    async def story(failing: FailingWorld) -> None:
        failing.fail("create", "controllerrevisions", REJECTED)
        await failing.world.apply(WORKLOAD1)
        seen = await failing.until_reported()
        assert seen.why.startswith("cannot create ControllerRevision default/workload1-")
        assert "403 exceeded quota: few." in seen.why
        assert "Raise the quota" in seen.why

    run(story)


@pytest.mark.parametrize(
    ("verb", "resource"), [("create", "controllerrevisions"), ("patch", "podcliques/status")]
)  # fmt: skip
def test_a_write_without_a_clear_answer_does_not_hold_back_the_report_about_it(verb: str, resource: str) -> None:
    """While it is not known whether it was made, no status is written: it is read before the next one."""

    async def story(failing: FailingWorld) -> None:
        await begin(failing.world)
        await failing.world.settle()
        failing.fail(verb, resource, ApiError(500, "InternalError", "etcd is away"))
        await update(failing.world)
        seen = await failing.until_reported()
        assert seen.condition is not None
        assert seen.events
        assert "500 etcd is away" in seen.why

    run(story)


Step = Callable[[World], Awaitable[None]]


async def begin(world: World) -> None:
    await world.apply(WORKLOAD1)


async def scale_out(world: World) -> None:
    await world.scale(GROUPS, "workload1-0-sg-x", 4)


async def scale_in(world: World) -> None:
    await world.scale(PODCLIQUESETS, "workload1", 0)


async def update(world: World) -> None:
    changed = yaml.safe_load(WORKLOAD1.read_text())
    for clique in changed["spec"]["template"]["cliques"]:
        clique["spec"]["podSpec"]["containers"][0]["image"] = "registry.example/better:2"
    await world.apply(changed)


async def delete(world: World) -> None:
    await world.delete(PODCLIQUESETS, "workload1")


@pytest.mark.deep(reason="the quick tier has nine chosen writes; here is every write of each step in the life of a set")
@pytest.mark.parametrize("step", [begin, scale_out, scale_in, update, delete])
def test_every_write_of_a_step_is_reported_when_it_keeps_failing(step: Step) -> None:
    """Whatever the code. Some writes have another way to the same end: then nothing fails for a minute."""
    writes = writes_of(step)
    failures = [
        Failure(step, verb, resource, error)
        for verb, resource in writes
        for error in (WEBHOOK_DOWN, ConnectionLost("no answer"))
    ]
    for failure in failures:
        run(failure.tell)
    reported = {(one.verb, one.resource) for one in failures if one.is_reported}
    assert len(reported) >= len(writes) / 2


def writes_of(step: Step) -> list[tuple[str, str]]:
    """Verb and resource of all writes of the operator in this step, without events."""
    found: dict[tuple[str, str], None] = {}

    async def story(failing: FailingWorld) -> None:
        world = failing.world
        began = await before(step, world)
        await step(world)
        await world.settle()
        targets = (write.target for write in world.writes_by("operator") if write.at >= began and write.status < 300)
        found.update(dict.fromkeys((target.verb, target.resource) for target in targets))

    run(story)
    return [write for write in found if write[1] != "events"]


async def before(step: Step, world: World) -> float:
    if step is not begin:
        await begin(world)
        await world.settle()
    return world.clock.monotonic()


class Failure:
    """One write that fails during a step, until it is repaired."""

    def __init__(self, step: Step, verb: str, resource: str, error: ApiError) -> None:
        self.step = step
        self.verb = verb
        self.resource = resource
        self.error = error
        self.is_reported = False

    async def tell(self, failing: FailingWorld) -> None:
        world, what = failing.world, (self.verb, self.resource, self.error)
        await before(self.step, world)
        refusal = failing.fail(self.verb, self.resource, self.error)
        await self.step(world)
        await world.clock.sleep(200)
        # A write that is still needed is tried at least every 30 s.
        if failing.attempts and failing.attempts[-1] > world.clock.monotonic() - 31:
            self.check_reports(await failing.look())
            self.is_reported = True
        world.operator.lift(refusal)
        await world.clock.sleep(400)
        assert failing.failing() == 0, what
        if world.objects(PODCLIQUESETS):
            after = await failing.look()
            assert (after.condition, after.why.startswith("cannot")) == (None, False), what

    def check_reports(self, seen: Seen) -> None:
        what, is_status = (self.verb, self.resource, self.error), self.resource == "podcliquesets/status"
        assert (seen.condition is None) == is_status, what
        assert seen.events, what
        assert seen.failing, what
        assert "writes: cannot" in seen.ready, what
        # Where the status was written before, its managedFields tell; an in-process server has none.
        assert seen.why.startswith("cannot") or (is_status and self.step is not begin), what


def test_a_deletion_that_cannot_go_on_is_reported_on_the_set_that_is_being_deleted() -> None:
    async def story(failing: FailingWorld) -> None:
        world = failing.world
        await world.apply(WORKLOAD1)
        await world.settle()
        error = ApiError(403, "Forbidden", 'pods is forbidden: User "operator" cannot deletecollection resource "pods"')
        refusal = failing.fail("deletecollection", "pods", error)
        await world.delete(PODCLIQUESETS, "workload1")
        seen = await failing.until_reported()
        assert seen.condition is not None
        assert seen.condition.message.startswith("cannot delete Pods of namespace default labelled ")
        assert seen.events
        assert seen.why.startswith("cannot delete Pods of namespace default labelled ")
        world.operator.lift(refusal)
        await world.settle()
        assert world.objects(PODCLIQUESETS) == ()
        assert failing.failing() == 0

    run(story)


def test_where_the_status_itself_cannot_be_written_events_metrics_probes_and_the_log_tell() -> None:
    async def story(failing: FailingWorld) -> None:
        world = failing.world
        error = ApiError(403, "Forbidden", 'User "operator" cannot patch resource "podcliquesets/status"')
        refusal = failing.fail("patch", "podcliquesets/status", error)
        await world.apply(WORKLOAD1)
        seen = await failing.until_reported()
        assert seen.condition is None
        assert [message.partition(" since ")[0] for message in seen.events] == [
            "cannot patch PodCliqueSet default/workload1"
        ]
        assert seen.failing == 1
        assert "writes: cannot patch PodCliqueSet default/workload1" in seen.ready
        assert seen.why.startswith("cannot patch PodCliqueSet default/workload1: 403 ")
        assert " since 2026-01-01T00:00:0" in seen.why
        assert "grove manifests" in seen.why
        # The work itself goes on.
        assert len(world.running_pods()) == 10
        await world.clock.sleep(600)
        assert len((await failing.look()).events) == 1
        world.operator.lift(refusal)
        await world.settle()
        after = await failing.look()
        assert (after.condition, after.failing) == (None, 0)
        assert after.why == "Nothing: 10 of 10 pods are ready."
        assert find_set(world, "workload1").status.available_replicas == 1

    run(story)


def test_after_a_restart_the_condition_stays_and_goes_only_when_the_write_succeeds() -> None:
    async def story(failing: FailingWorld) -> None:
        world = failing.world
        failing.fail("create", "pods", WEBHOOK_DOWN)
        await world.apply(WORKLOAD1)
        before = (await failing.until_reported()).condition
        assert before is not None
        seen: list[object] = []
        world.server.store.subscribe(
            lambda *_: seen.append(find_condition(find_set(world, "workload1").status.conditions, "ReconcileFailed"))
        )
        for _ in range(3):
            await world.restart_controller()
            failing.first_failure = None
            failing.fail("create", "pods", WEBHOOK_DOWN)
            await world.clock.sleep(40)
        await world.clock.sleep(60)
        assert (await failing.look()).condition == before
        assert all(condition == before for condition in seen)
        await world.restart_controller()
        await world.clock.sleep(30)
        assert (await failing.look()).condition is None
        await world.settle()
        assert len(world.running_pods()) == 10

    run(story)


def test_conditions_of_former_names_are_removed() -> None:
    async def story(failing: FailingWorld) -> None:
        world = failing.world
        await world.apply(WORKLOAD1)
        await world.settle()
        await world.crash_controller()
        clique = world.objects(PODCLIQUES)[0].metadata.name
        former: tuple[tuple[Resource[Any], str, str], ...] = (
            (PODCLIQUESETS, "workload1", "CannotBeCarriedOut"),
            (PODCLIQUESETS, "workload1", "FieldsNotCarriedOut"),
            (PODCLIQUES, clique, "PodsRefused"),
        )
        for resource, name, type_ in former:
            old = {"type": type_, "status": "True", "reason": "CreateRefused", "message": "no"}
            patch: JsonObject = {"status": {"conditions": [{**old, "lastTransitionTime": "2026-01-01T00:00:00Z"}]}}
            await world.client.patch(resource, "default", name, patch, subresource="status")
        await world.restart_controller()
        await world.clock.sleep(5)
        types = sorted(one.type for one in find_set(world, "workload1").status.conditions)
        assert types == ["Available", "Progressing", "TopologyLevelsUnavailable"]
        of_clique = next(one for one in world.objects(PODCLIQUES) if one.metadata.name == clique).status.conditions
        assert sorted(one.type for one in of_clique) == ["MinAvailableBreached", "PodCliqueScheduled"]

    run(story)


def test_a_look_that_fails_holds_up_a_teardown_and_is_reported() -> None:
    async def story(failing: FailingWorld) -> None:
        world = failing.world
        manifest = yaml.safe_load(WORKLOAD1.read_text())
        manifest["spec"]["template"]["terminationDelay"] = "30s"
        await world.apply(manifest)
        await world.settle()

        def is_look(request: object) -> bool:
            return "grove.io/podclique=" in str(getattr(request, "query", {}).get("labelSelector", "")).replace(
                "%3D", "="
            )

        refusal = world.operator.refuse(is_look, ApiError(500, "InternalError", "the list failed"))
        pods = [pod.metadata.name for pod in world.pods() if pod.metadata.name.startswith("workload1-0-pc-a-")]
        failing.fail("create", "pods", ApiError(500, "InternalError", "no new pods"))
        for name in pods:
            await world.client.delete(PODS, "default", name)
        await world.clock.sleep(30 + 90)
        seen = await failing.look()
        assert seen.condition is not None
        assert "writes: cannot list" in seen.ready
        world.operator.lift(refusal)

    run(story)


def test_answers_that_alternate_are_told_once() -> None:
    async def story(failing: FailingWorld) -> None:
        world = failing.world
        answers = [ApiError(500, "InternalError", "etcd is away"), ApiError(503, "ServiceUnavailable", "overloaded")]
        count = 0

        def applies_now(number: int) -> Callable[[object], bool]:
            def applies(request: object) -> bool:
                nonlocal count
                target = summarize(request)  # type: ignore[arg-type]
                if (target.verb, target.resource) != ("create", "podgangs") or count % 2 != number:
                    return False
                count += 1
                return True

            return applies

        for number, answer in enumerate(answers):
            world.operator.refuse(applies_now(number), answer)
        await world.apply(WORKLOAD1)
        await world.clock.sleep(120)
        began = world.clock.monotonic()
        await world.clock.sleep(600)
        assert failing.writes_since(began) == 0
        assert len([event for event in world.objects(EVENTS) if event.reason == "ReconcileFailed"]) == 1

    run(story)


def test_a_failure_that_waits_behind_another_one_costs_no_visits() -> None:
    async def story(failing: FailingWorld) -> None:
        world = failing.world
        broken = ApiError(500, "InternalError", "broken")
        failing.fail("create", "podgangs", broken)
        await world.apply(WORKLOAD1)
        await world.clock.sleep(100)
        # Cliques are made before gangs: the gang is not retried.
        failing.fail("create", "podcliques", broken)
        await world.scale(GROUPS, "workload1-0-sg-x", 3)
        await world.clock.sleep(100)
        controller = failing.health.controller
        assert controller is not None
        before = controller.loop.reconcile_count
        await world.clock.sleep(600)
        assert controller.loop.reconcile_count - before < 60

    run(story)


def test_a_message_holds_no_object_and_is_not_long() -> None:
    async def story(failing: FailingWorld) -> None:
        body = '{"spec":{"containers":[{"env":[{"name":"KEY","value":"hunter2"}]}]}}' * 500
        failing.fail("create", "podgangs", ApiError(500, "InternalError", f"spec: Invalid value: {body}: is odd"))
        await failing.world.apply(WORKLOAD1)
        seen = await failing.until_reported()
        assert seen.condition is not None
        for words in (seen.condition.message, seen.events[0], seen.why, seen.ready):
            assert "hunter2" not in words
            assert len(words) < 2000
        assert "Invalid value: {...}" in seen.condition.message

    with capture_logs() as logged:
        run(story)
    assert "hunter2" not in str(logged)


def test_a_cache_that_hears_nothing_is_reported() -> None:
    async def story(failing: FailingWorld) -> None:
        world = failing.world
        await world.apply(WORKLOAD1)
        await world.settle()
        assert failing.value("grove_cache_stale_seconds", resource="pods") == 0
        world.freeze_watch("pods")
        await world.scale(PODCLIQUES, "workload1-0-pc-a", 3)
        await world.clock.sleep(70)
        assert (failing.value("grove_cache_stale_seconds", resource="pods") or 0) >= 60
        assert "pods: the cache is stale: no event for " in (await failing.look()).ready
        world.thaw_watch("pods")
        await world.clock.sleep(1)
        assert failing.value("grove_cache_stale_seconds", resource="pods") == 0
        assert "stale" not in (await failing.look()).ready

    run(story)


@pytest.mark.parametrize(("error", "code"), [(ApiError(403, "Forbidden", "no"), "403"), (ConnectionLost("no"), "none")])
def test_a_kind_that_cannot_be_listed_is_counted_with_its_code(error: ApiError, code: str) -> None:
    async def story(failing: FailingWorld) -> None:
        world = failing.world
        refusal = world.operator.refuse(lambda request: summarize(request).resource == "podgangs", error)
        await world.clock.sleep(100)
        assert failing.value("grove_watch_failing", resource="podgangs", verb="list", code=code) == 1
        assert (failing.value("grove_cache_stale_seconds", resource="podgangs") or 0) >= 99
        world.operator.lift(refusal)
        await world.clock.sleep(60)
        assert failing.value("grove_watch_failing", resource="podgangs", verb="list", code=code) is None
        assert failing.value("grove_cache_stale_seconds", resource="podgangs") == 0

    run(story, nodes=0)


@pytest.mark.parametrize(
    "error", [ApiError(403, "Forbidden", "no"), WEBHOOK_DOWN, ConnectionLost("no answer")], ids=lambda one: one.code
)
def test_a_set_that_cannot_be_read_again_is_reported(error: ApiError) -> None:
    """After every watch was cut the server may be another one: nothing is written for a set before it was read."""

    async def story(failing: FailingWorld) -> None:
        world = failing.world
        await world.apply(WORKLOAD1)
        await world.settle()

        def reads_the_set(request: Request) -> bool:
            target = summarize(request)
            is_read = not request.is_write and (target.resource, target.name) == ("podcliquesets", "workload1")
            if is_read and failing.first_failure is None:
                failing.first_failure = world.clock.monotonic()
            return is_read

        refusal = world.operator.refuse(reads_the_set, error)
        for table in world.server.store.tables():
            table.retire()
        await world.scale(PODCLIQUES, "workload1-0-pc-a", 3)
        seen = await failing.until_reported()
        what = "cannot get PodCliqueSet default/workload1 since "
        assert [message.startswith(what) for message in seen.events] == [True]
        assert seen.failing == 1
        assert f"writes: {what.rstrip()}" in seen.ready
        world.operator.lift(refusal)
        await world.clock.sleep(60)
        after = await failing.look()
        assert (after.condition, after.failing) == (None, 0)
        assert "writes:" not in after.ready
        assert len(world.running_pods()) == 11

    run(story)


@pytest.mark.parametrize(("error", "code"), [(WEBHOOK_DOWN, "500"), (ConnectionLost("no"), "none")])
def test_a_server_that_does_not_say_what_it_offers_is_reported(error: ApiError, code: str) -> None:
    """No set is planned for before that is known."""

    async def story(failing: FailingWorld) -> None:
        world = failing.world
        refusal = world.operator.refuse(lambda request: request.path == GANG_SCHEDULER_PATH, error)
        await world.add_nodes(10)
        await world.apply(WORKLOAD1)
        await world.clock.sleep(60)
        page = await failing.health.pages()["/readyz"]({})
        assert page.status == 503
        assert "not ready: the features of the API server are not discovered yet\n" in page.body.decode()
        assert f"discovery: cannot discover the features of the API server: {error}\n" in page.body.decode()
        assert failing.value("grove_watch_failing", resource="discovery", verb="get", code=code) == 1
        world.operator.lift(refusal)
        await world.settle()
        page = await failing.health.pages()["/readyz"]({})
        assert (page.status, "discovery" in page.body.decode()) == (200, False)
        assert failing.value("grove_watch_failing", resource="discovery", verb="get", code=code) is None
        assert len(world.running_pods()) == 10

    run(story, nodes=0)
