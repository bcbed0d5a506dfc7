"""Whether the server is still the one that is known: when that is in doubt, and how it is made sure of."""

import pytest

from grove.api.resources import PODCLIQUESETS
from grove.api.types.meta import Uid
from grove.controller.restore_detection import NewHistoryError
from grove.kube.api_errors import ApiError
from grove.sim.virtual_clock import run_virtual
from tests.controller.small_operator import SmallOperator, run

KINDS = ("pods", "podcliques")


def cut_all(operator: SmallOperator) -> None:
    for kind in KINDS:
        operator.history.note_watch(kind, is_open=True)
    for kind in KINDS:
        operator.history.note_watch(kind, is_open=False)


async def resolve_uncertain_writes(operator: SmallOperator) -> None:
    await operator.history.resolve_uncertain_writes(operator.pcs.metadata.uid, operator.client, operator.caches)


def test_one_cut_watch_of_many_puts_nothing_in_doubt() -> None:
    async def story(operator: SmallOperator) -> None:
        for kind in KINDS:
            operator.history.note_watch(kind, is_open=True)
        operator.history.note_watch("pods", is_open=False)
        assert operator.history.is_sure(operator.pcs.metadata.uid)
        operator.history.note_watch("podcliques", is_open=False)
        assert not operator.history.is_sure(operator.pcs.metadata.uid)

    run(story)


def test_while_in_doubt_nothing_is_written() -> None:
    async def story(operator: SmallOperator) -> None:
        cut_all(operator)
        outcome = await operator.execute((operator.clique("p-0-a"),))
        assert (outcome.write_count, outcome.is_cut_short, operator.writes()) == (0, True, [])

    run(story)


def test_a_set_that_is_as_it_was_or_newer_is_sure_again() -> None:
    async def story(operator: SmallOperator) -> None:
        operator.caches.sets.observe(operator.pcs)
        cut_all(operator)
        await operator.user.patch(PODCLIQUESETS, "default", "p", {"spec": {"replicas": 5}})
        await resolve_uncertain_writes(operator)
        assert operator.history.is_sure(operator.pcs.metadata.uid)
        held = operator.caches.sets.get(operator.pcs.metadata.uid)
        assert held is not None
        assert held.spec.replicas == 5

    run(story)


@pytest.mark.parametrize("is_another_there", [False, True])
def test_a_set_that_is_gone_is_forgotten(is_another_there: bool) -> None:
    async def story(operator: SmallOperator) -> None:
        operator.caches.sets.observe(operator.pcs)
        cut_all(operator)
        await operator.user.delete(PODCLIQUESETS, "default", "p")
        if is_another_there:
            await operator.start()
        gone = next(iter(operator.caches.sets.values())).metadata.uid
        await operator.history.resolve_uncertain_writes(gone, operator.client, operator.caches)
        assert operator.caches.sets.get(gone) is None
        assert not operator.history.is_over

    run(story)


def test_a_set_that_is_older_than_before_ends_the_history() -> None:
    async def main() -> None:
        operator = SmallOperator()
        await operator.start()
        backup = operator.server.store.back_up()
        changed = await operator.user.patch(PODCLIQUESETS, "default", "p", {"spec": {"replicas": 5}})
        operator.caches.sets.observe(changed)
        cut_all(operator)
        operator.server.store.restore_backup(backup, bump=1000)
        with pytest.raises(ApiError, match="an older version than before"):
            await resolve_uncertain_writes(operator)
        assert operator.history.is_over
        with pytest.raises(NewHistoryError):
            await operator.history.watch_over()

    run_virtual(main())


def test_a_set_that_cannot_be_read_stays_in_doubt() -> None:
    async def story(operator: SmallOperator) -> None:
        operator.caches.sets.observe(operator.pcs)
        cut_all(operator)
        operator.transport.refuse(lambda request: request.method == "GET", ApiError(503, "Unavailable", "away"))
        with pytest.raises(ApiError, match="away"):
            await resolve_uncertain_writes(operator)
        assert not operator.history.is_sure(operator.pcs.metadata.uid)

    run(story)


def test_what_is_no_set_has_nothing_to_be_read() -> None:
    async def story(operator: SmallOperator) -> None:
        cut_all(operator)
        binding = Uid("a-topology-binding")
        await operator.history.resolve_uncertain_writes(binding, operator.client, operator.caches)
        assert operator.history.is_sure(binding)

    run(story)
