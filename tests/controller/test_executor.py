"""Carrying a plan out against a server that has its own mind."""

import asyncio

import msgspec
import pytest

from grove.api import labels
from grove.api.reasons import Reason
from grove.api.resources import PODCLIQUES, PODCLIQUESETS, PODS
from grove.api.types.meta import Uid
from grove.controller.controller_options import ControllerOptions
from grove.controller.executor import Rejected
from grove.kube.api_errors import ApiError
from grove.planner.actions import Chain, Delete, DeleteMany, LiveRead, Patch, StatusPriority, StatusWrite
from grove.sim.faults import FaultPlan
from tests.controller.small_operator import LANE, SmallOperator, creates_of, run

FORBIDDEN = ApiError(403, "Forbidden", "exceeded quota")


class TestCreate:
    def test_what_was_created_is_in_the_cache_at_once(self) -> None:
        async def story(operator: SmallOperator) -> None:
            outcome = await operator.execute((operator.clique("p-0-a"),))
            cached = operator.caches.cliques.by_name("default", "p-0-a")
            assert cached == await operator.user.get(PODCLIQUES, "default", "p-0-a")
            assert outcome.created == [(0, "podcliques/p-0-a")]
            assert outcome.emits == [operator.emit("p-0-a")]
            assert (outcome.rejected, outcome.errors, outcome.finished) == ([], [], ["p-0"])

        run(story)

    def test_our_own_object_under_the_name_is_as_good_as_created(self) -> None:
        async def story(operator: SmallOperator) -> None:
            action = operator.clique("p-0-a")
            await operator.user.create(PODCLIQUES, "default", action.body)
            outcome = await operator.execute((action,), (operator.clique("p-0-b"),))
            assert (outcome.created, outcome.rejected, outcome.errors) == ([(0, "podcliques/p-0-a")], [], [])
            assert operator.caches.cliques.by_name("default", "p-0-a") is not None
            # It may differ from what was planned: the rest waits for a plan that has seen it.
            assert (outcome.finished, outcome.is_cut_short) == ([], True)
            assert not await operator.exists(PODCLIQUES, "p-0-b")

        run(story)

    def test_what_was_not_answered_is_read_before_anything_else_is_done(self) -> None:
        async def story(operator: SmallOperator) -> None:
            operator.transport.plan = FaultPlan(lost_answer=1.0)
            first = await operator.execute((operator.clique("p-0-a"),))
            assert [error.reason for error in first.errors] == ["ConnectionLost"]
            await operator.executor.resolve_uncertain_writes(LANE)
            second = await operator.execute((operator.clique("p-0-b"),))
            assert [error.reason for error in second.errors] == ["ConnectionLost"]
            assert not await operator.exists(PODCLIQUES, "p-0-b")
            operator.transport.plan = FaultPlan()
            await operator.executor.resolve_uncertain_writes(LANE)
            assert operator.caches.cliques.by_name("default", "p-0-a") is not None
            third = await operator.execute((operator.clique("p-0-b"),))
            assert (third.created, third.errors) == ([(0, "podcliques/p-0-b")], [])

        run(story)

    def test_what_was_not_answered_holds_up_only_its_own_replica(self) -> None:
        async def story(operator: SmallOperator) -> None:
            operator.transport.plan = FaultPlan(lost_answer=1.0)
            await operator.execute((operator.clique("p-0-a"),))
            operator.transport.plan = FaultPlan()
            other = Chain(key="p-1", replica_index=1, stages=((operator.clique("p-1-a"),),))
            outcome = await operator.executor.execute([other], LANE)
            assert outcome.created == [(1, "podcliques/p-1-a")]

        run(story)

    def test_a_status_that_was_not_answered_is_read_before_the_next_plan(self) -> None:
        async def story(operator: SmallOperator) -> None:
            await operator.execute((operator.clique("p-0-a"),))
            (clique,) = operator.caches.cliques.values()
            status = StatusWrite(
                resource=PODCLIQUES,
                namespace="default",
                name="p-0-a",
                uid=clique.metadata.uid,
                resource_version=clique.metadata.resource_version,
                patch={"updatedReplicas": 1},
                priority=StatusPriority.COUNTS,
            )
            operator.transport.plan = FaultPlan(lost_answer=1.0)
            await operator.executor.write_statuses((status,), LANE)
            operator.transport.plan = FaultPlan()
            await operator.executor.resolve_uncertain_writes(LANE)
            (clique,) = operator.caches.cliques.values()
            assert clique.status.updated_replicas == 1

        run(story)

    def test_a_strangers_object_is_not_taken_for_what_was_not_answered(self) -> None:
        async def story(operator: SmallOperator) -> None:
            operator.transport.plan = FaultPlan(lost_request=1.0)
            await operator.execute((operator.clique("p-0-a"),))
            operator.transport.plan = FaultPlan()
            stranger = operator.clique("p-0-a", owner=Uid("somebody-else"))
            await operator.user.create(PODCLIQUES, "default", stranger.body)
            await operator.executor.resolve_uncertain_writes(LANE)
            assert operator.caches.cliques.by_name("default", "p-0-a") is None

        run(story)

    def test_a_strangers_object_under_the_name_is_said_and_kept_out_of_the_cache(self) -> None:
        async def story(operator: SmallOperator) -> None:
            stranger = operator.clique("p-0-a", owner=Uid("somebody-else"))
            await operator.user.create(PODCLIQUES, "default", stranger.body)
            outcome = await operator.execute((operator.clique("p-0-a"),), (operator.clique("p-0-b"),))
            assert outcome.rejected == [
                Rejected(
                    replica_index=0,
                    key="podcliques/p-0-a",
                    code=Reason.NAME_TAKEN,
                    message="PodClique p-0-a exists already and belongs to another owner; rename the set, "
                    "or delete that PodClique",
                    target="PodClique default/p-0-a",
                    status_code=409,
                )
            ]
            assert (outcome.created, outcome.emits, outcome.errors) == ([], [], [])
            assert operator.caches.cliques.by_name("default", "p-0-a") is None
            # What builds on it waits.
            assert not await operator.exists(PODCLIQUES, "p-0-b")

        run(story)

    def test_a_refusal_carries_the_servers_words(self) -> None:
        async def story(operator: SmallOperator) -> None:
            operator.transport.refuse(creates_of("pods"), FORBIDDEN)
            outcome = await operator.execute((operator.pod("x"),))
            assert outcome.rejected == [
                Rejected(
                    replica_index=0,
                    key="pods/x",
                    code=Reason.CREATE_REJECTED,
                    message="exceeded quota",
                    target="Pod default/x",
                    status_code=403,
                )
            ]
            assert (outcome.errors, outcome.finished) == ([], [])

        run(story)

    @pytest.mark.parametrize("error", [ApiError(500, "InternalError", "broken"), ApiError(429, "Slow", "later", 3.0)])
    def test_trouble_of_the_server_is_no_refusal(self, error: ApiError) -> None:
        async def story(operator: SmallOperator) -> None:
            operator.transport.refuse(creates_of("pods"), error)
            outcome = await operator.execute((operator.pod("x"),))
            assert (outcome.rejected, [one.code for one in outcome.errors]) == ([], [error.code])
            assert outcome.retry_after == error.retry_after

        run(story)


class TestPatch:
    def patch(self, operator: SmallOperator, **fields: object) -> Patch:
        patch = Patch(
            resource=PODCLIQUESETS,
            namespace="default",
            name="p",
            uid=operator.pcs.metadata.uid,
            patch={"metadata": {"annotations": {"note": "x"}}},
            reason="a test wants it",
            resource_version=operator.pcs.metadata.resource_version,
        )
        return msgspec.structs.replace(patch, **fields)

    def test_the_answer_is_in_the_cache_at_once(self) -> None:
        async def story(operator: SmallOperator) -> None:
            outcome = await operator.execute((self.patch(operator),))
            cached = operator.caches.sets.get(operator.pcs.metadata.uid)
            assert cached is not None
            assert cached.metadata.annotations == {"note": "x"}
            assert outcome.finished == ["p-0"]

        run(story)

    def test_a_conflict_ends_the_chain_and_what_is_there_is_read(self) -> None:
        async def story(operator: SmallOperator) -> None:
            changed = await operator.user.patch(PODCLIQUESETS, "default", "p", {"spec": {"replicas": 5}})
            outcome = await operator.execute((self.patch(operator),), (operator.clique("p-0-a"),))
            assert operator.caches.sets.get(operator.pcs.metadata.uid) == changed
            assert [error.reason for error in outcome.errors] == ["Conflict"]
            assert outcome.finished == []
            assert not await operator.exists(PODCLIQUES, "p-0-a")

        run(story)

    def test_a_conflict_without_a_change_is_an_error_too_so_that_it_is_tried_again(self) -> None:
        async def story(operator: SmallOperator) -> None:
            operator.caches.sets.observe(operator.pcs)
            operator.transport.plan = FaultPlan(conflict=1.0)
            outcome = await operator.execute((self.patch(operator),))
            assert [error.reason for error in outcome.errors] == ["Conflict"]

        run(story)

    def test_an_object_that_is_gone_leaves_the_cache(self) -> None:
        async def story(operator: SmallOperator) -> None:
            operator.caches.sets.observe(operator.pcs)
            await operator.user.delete(PODCLIQUESETS, "default", "p")
            outcome = await operator.execute((self.patch(operator),))
            assert operator.caches.sets.get(operator.pcs.metadata.uid) is None
            assert [error.code for error in outcome.errors] == [404]

        run(story)

    def test_another_object_of_the_same_name_is_not_touched(self) -> None:
        async def story(operator: SmallOperator) -> None:
            operator.caches.sets.observe(operator.pcs)
            await operator.user.delete(PODCLIQUESETS, "default", "p")
            old = operator.pcs
            await operator.start()
            outcome = await operator.execute((self.patch(operator, uid=old.metadata.uid, resource_version=""),))
            assert [error.is_conflict for error in outcome.errors] == [True]
            assert operator.caches.sets.get(old.metadata.uid) is None
            assert operator.caches.sets.get(operator.pcs.metadata.uid) == operator.pcs

        run(story)


class TestDelete:
    def delete(self, name: str, uid: Uid) -> Delete:
        return Delete(resource=PODCLIQUES, namespace="default", name=name, uid=uid, reason="a test wants it")

    async def made(self, operator: SmallOperator, name: str) -> Uid:
        await operator.execute((operator.clique(name),))
        found = operator.caches.cliques.by_name("default", name)
        assert found is not None
        return found.metadata.uid

    def test_what_is_gone_leaves_the_cache_at_once(self) -> None:
        async def story(operator: SmallOperator) -> None:
            uid = await self.made(operator, "p-0-a")
            outcome = await operator.execute((self.delete("p-0-a", uid),))
            assert operator.caches.cliques.get(uid) is None
            assert outcome.finished == ["p-0"]

        run(story)

    def test_what_has_a_finalizer_is_seen_leaving(self) -> None:
        async def story(operator: SmallOperator) -> None:
            uid = await self.made(operator, "p-0-a")
            held = {"metadata": {"finalizers": ["example.com/hold"]}}
            await operator.user.patch(PODCLIQUES, "default", "p-0-a", held)
            await operator.execute((self.delete("p-0-a", uid),))
            cached = operator.caches.cliques.get(uid)
            assert cached is not None
            assert cached.metadata.is_terminating

        run(story)

    def test_what_is_gone_already_is_as_good_as_deleted(self) -> None:
        async def story(operator: SmallOperator) -> None:
            uid = await self.made(operator, "p-0-a")
            await operator.user.delete(PODCLIQUES, "default", "p-0-a")
            outcome = await operator.execute((self.delete("p-0-a", uid),))
            assert (outcome.errors, operator.caches.cliques.get(uid)) == ([], None)

        run(story)

    def test_another_object_of_the_same_name_is_not_deleted(self) -> None:
        async def story(operator: SmallOperator) -> None:
            uid = await self.made(operator, "p-0-a")
            await operator.user.delete(PODCLIQUES, "default", "p-0-a")
            successor = await operator.user.create(PODCLIQUES, "default", operator.clique("p-0-a").body)
            outcome = await operator.execute((self.delete("p-0-a", uid),))
            assert await operator.exists(PODCLIQUES, "p-0-a")
            assert operator.caches.cliques.get(uid) is None
            assert operator.caches.cliques.by_name("default", "p-0-a") == successor
            assert outcome.emits == []

        run(story)

    def test_a_bulk_delete_marks_what_was_seen_as_leaving_until_the_watch_tells(self) -> None:
        async def story(operator: SmallOperator) -> None:
            await operator.execute((operator.pod("x"), operator.pod("y")))
            x, y = (operator.caches.pods.by_name("default", name) for name in ("x", "y"))
            assert x is not None
            assert y is not None
            action = self.delete_all_pods(operator, x.metadata.uid, y.metadata.uid)
            before = len(operator.writes())
            await operator.execute((action,))
            assert operator.writes()[before:] == ["DELETE pods"]
            assert (await operator.user.list(PODS, namespace="default")).items == ()
            assert [pod.metadata.is_terminating for pod in operator.caches.pods.values()] == [True, True]

        run(story)

    def test_what_ended_before_a_bulk_delete_of_running_pods_arrives_is_not_marked_as_leaving(self) -> None:
        async def story(operator: SmallOperator) -> None:
            await operator.execute((operator.pod("x"), operator.pod("y")))
            uids = [pod.metadata.uid for pod in operator.caches.pods.values()]
            await operator.user.patch(PODS, "default", "x", {"status": {"phase": "Succeeded"}}, subresource="status")
            action = self.delete_all_pods(operator, *uids)
            await operator.execute((msgspec.structs.replace(action, field_selector="status.phase!=Succeeded"),))
            assert [pod.metadata.name for pod in (await operator.user.list(PODS, namespace="default")).items] == ["x"]
            leaving = {pod.metadata.name: pod.metadata.is_terminating for pod in operator.caches.pods.values()}
            assert leaving == {"x": False, "y": True}

        run(story)

    def test_a_bulk_delete_hits_nothing_of_others_that_carries_its_labels(self) -> None:
        async def story(operator: SmallOperator) -> None:
            await operator.execute((operator.pod("x"), operator.pod("y")))
            foreign = operator.pod("foreign", owner=Uid("somebody-else"))
            ownerless = operator.pod("ownerless")
            del ownerless.body["metadata"]["ownerReferences"]
            for stranger in (foreign, ownerless):
                await operator.user.create(PODS, "default", stranger.body)
            before = len(operator.writes())
            outcome = await operator.execute((self.delete_all_pods(operator),))
            assert operator.writes()[before:] == ["DELETE x", "DELETE y"]
            left = (await operator.user.list(PODS, namespace="default")).items
            assert [pod.metadata.name for pod in left] == ["foreign", "ownerless"]
            assert (outcome.finished, outcome.errors, list(operator.caches.pods.values())) == (["p-0"], [], [])

        run(story)

    def test_what_gets_our_labels_after_the_look_is_not_hit_by_a_bulk_delete(self) -> None:
        async def story(operator: SmallOperator) -> None:
            await operator.execute((operator.pod("x"),))
            ownerless = operator.pod("ownerless")
            del ownerless.body["metadata"]["ownerReferences"]
            # Created when the list was answered, and before the request that deletes arrives.
            operator.transport.plan = FaultPlan(latency=(0.5, 0.5))
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(operator.execute((self.delete_all_pods(operator),)))
                await operator.clock.sleep(1.2)
                await operator.user.create(PODS, "default", ownerless.body)
            assert operator.writes()[-1] == "DELETE pods"
            left = (await operator.user.list(PODS, namespace="default")).items
            assert [pod.metadata.name for pod in left] == ["ownerless"]

        run(story)

    def test_many_single_deletes_stop_when_the_pass_is_spent_and_go_on_in_the_next(self) -> None:
        async def story(operator: SmallOperator) -> None:
            await operator.user.create(PODS, "default", operator.pod("foreign", owner=Uid("somebody-else")).body)
            for index in range(5):
                await operator.user.create(PODS, "default", operator.pod(f"x{index}").body)
            action = self.delete_all_pods(operator)
            counts = []
            for _ in range(3):
                outcome = await operator.execute((action,))
                left = len((await operator.user.list(PODS, namespace="default")).items)
                counts.append((left, outcome.is_cut_short, outcome.finished))
            assert counts == [(4, True, []), (2, True, []), (1, False, ["p-0"])]

        run(story, ControllerOptions(pass_writes=3, chains_at_once=2))

    def delete_all_pods(self, operator: SmallOperator, *uids: Uid) -> DeleteMany:
        return DeleteMany(
            resource=PODS,
            namespace="default",
            selector=f"{labels.MANAGED_BY}={labels.MANAGED_BY_VALUE}",
            owners=(PODCLIQUESETS.owner_key(operator.pcs.metadata),),
            uids=uids,
            reason="a test wants it",
        )


class TestStages:
    def test_a_stage_begins_when_the_one_before_is_done(self) -> None:
        async def story(operator: SmallOperator) -> None:
            operator.transport.plan = FaultPlan(latency=(0.01, 0.5))
            await operator.execute((operator.clique("a"), operator.clique("b")), (operator.pod("x"),))
            assert operator.writes() == ["POST podcliques", "POST podcliques", "POST pods"]

        run(story)

    def test_actions_of_a_stage_go_together_and_one_that_fails_does_not_stop_its_siblings(self) -> None:
        async def story(operator: SmallOperator) -> None:
            operator.transport.refuse(creates_of("pods"), FORBIDDEN)
            outcome = await operator.execute(
                (operator.clique("a"), operator.pod("x"), operator.clique("b")), (operator.clique("c"),)
            )
            assert outcome.created == [(0, "podcliques/a"), (0, "podcliques/b")]
            assert [refused.key for refused in outcome.rejected] == ["pods/x"]
            assert not await operator.exists(PODCLIQUES, "c")

        run(story)

    def test_a_failing_chain_holds_up_no_other(self) -> None:
        async def story(operator: SmallOperator) -> None:
            operator.transport.refuse(creates_of("pods"), ApiError(500, "InternalError", "broken"))
            chains = [
                Chain(key="p-0", replica_index=0, stages=((operator.pod("x"),), (operator.clique("never"),))),
                Chain(key="p-1", replica_index=1, stages=((operator.clique("a"),), (operator.clique("b"),))),
            ]
            outcome = await operator.executor.execute(chains, LANE)
            assert outcome.created == [(1, "podcliques/a"), (1, "podcliques/b")]
            assert outcome.finished == ["p-1"]
            assert [error.code for error in outcome.errors] == [500]

        run(story)

    def test_nothing_to_do_is_nothing_done(self) -> None:
        async def story(operator: SmallOperator) -> None:
            outcome = await operator.executor.execute([], LANE)
            assert (outcome.write_count, outcome.is_cut_short, operator.writes()) == (0, False, [])

        run(story)


class TestAPassIsBounded:
    @pytest.mark.parametrize(("writes", "done"), [(1, 1), (4, 4), (5, 5), (6, 5)])
    def test_by_its_writes(self, writes: int, done: int) -> None:
        async def story(operator: SmallOperator) -> None:
            chains = [Chain(key=f"p-{i}", replica_index=i, stages=((operator.clique(f"p-{i}-a"),),)) for i in range(5)]
            outcome = await operator.executor.execute(chains, LANE)
            assert (outcome.write_count, len(operator.writes())) == (done, done)
            assert outcome.is_cut_short is (done < 5)

        run(story, ControllerOptions(pass_writes=writes, chains_at_once=1))

    def test_by_its_time(self) -> None:
        async def story(operator: SmallOperator) -> None:
            operator.transport.plan = FaultPlan(latency=(0.2, 0.2))
            stages = tuple((operator.clique(f"p-0-{i}"),) for i in range(10))
            outcome = await operator.execute(*stages)
            # 0.4 s there and back each: the third began before the second was over.
            assert (outcome.write_count, outcome.is_cut_short, outcome.finished) == (3, True, [])

        run(story, ControllerOptions(pass_seconds=1.0))

    def test_a_large_stage_is_cut_into_pieces_too(self) -> None:
        async def story(operator: SmallOperator) -> None:
            stage = tuple(operator.clique(f"p-0-{i}") for i in range(10))
            outcome = await operator.execute(stage)
            assert (outcome.write_count, outcome.is_cut_short) == (8, True)

        run(story, ControllerOptions(pass_writes=5, chains_at_once=4))


class TestStatuses:
    def status(self, operator: SmallOperator, version: str = "") -> StatusWrite:
        return StatusWrite(
            resource=PODCLIQUESETS,
            namespace="default",
            name="p",
            uid=operator.pcs.metadata.uid,
            resource_version=version or operator.pcs.metadata.resource_version,
            patch={"replicas": 1, "observedGeneration": 1},
            priority=StatusPriority.TRANSITION,
            on_success=(operator.emit("p"),),
        )

    def test_a_status_is_written_to_its_subresource_and_announced(self) -> None:
        async def story(operator: SmallOperator) -> None:
            outcome = await operator.executor.write_statuses([self.status(operator)], LANE)
            cached = operator.caches.sets.get(operator.pcs.metadata.uid)
            assert cached is not None
            assert (cached.status.replicas, cached.status.observed_generation) == (1, 1)
            assert operator.writes() == ["PATCH status"]
            assert outcome.emits == [operator.emit("p")]

        run(story)

    def test_a_status_that_was_not_written_is_not_announced(self) -> None:
        async def story(operator: SmallOperator) -> None:
            await operator.user.patch(PODCLIQUESETS, "default", "p", {"spec": {"replicas": 5}})
            outcome = await operator.executor.write_statuses([self.status(operator)], LANE)
            assert (outcome.emits, [error.reason for error in outcome.errors]) == ([], ["Conflict"])
            stored = await operator.user.get(PODCLIQUESETS, "default", "p")
            assert stored.status.observed_generation is None

        run(story)


class TestAFreshLook:
    def test_shows_what_a_cut_watch_hid(self) -> None:
        async def story(operator: SmallOperator) -> None:
            await operator.execute((operator.pod("gone"), operator.pod("other")))
            await operator.user.delete(PODS, "default", "gone", grace_period_seconds=0)
            await operator.user.create(PODS, "default", operator.pod("new").body)
            owner = PODCLIQUESETS.owner_key(operator.pcs.metadata)
            selector = f"{labels.MANAGED_BY}={labels.MANAGED_BY_VALUE}"
            await operator.executor.read_live(LiveRead(namespace="default", selector=selector, owners=(owner,)))
            assert [pod.metadata.name for pod in operator.caches.pods.values()] == ["other", "new"]

        run(story)
