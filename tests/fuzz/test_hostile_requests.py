"""Requests that nobody would send, in process and in virtual time: each is answered, and nothing is left half done.

More of them: `python -m tests.fuzz --requests 200000`. On sockets: `test_hostile_wire.py`.
"""

from collections.abc import Sequence

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from tests.fuzz.counts import IN_PROCESS, IN_PROCESS_RUNS
from tests.fuzz.rounds import play

_PER_ROUND = 50
# Rounds of one run; Hypothesis shortens the list of a round that fails to the requests that matter.
_SEEDS = st.lists(st.integers(0, 2**32 - 1), min_size=_PER_ROUND, max_size=_PER_ROUND, unique=True)


_DEEP = pytest.mark.deep(reason="more hostile requests of the same kind, from other seeds")


@pytest.mark.parametrize("run", [0, *(pytest.param(run, marks=_DEEP) for run in range(1, IN_PROCESS_RUNS))])
def test_every_request_is_answered_and_the_store_stays_consistent(run: int) -> None:
    count = 0

    @settings(
        max_examples=IN_PROCESS // IN_PROCESS_RUNS // _PER_ROUND,
        deadline=None,
        database=None,
        phases=(Phase.generate, Phase.shrink),
    )
    @given(seeds=_SEEDS)
    def play_rounds(seeds: Sequence[int]) -> None:
        nonlocal count
        count += play(run * 2**32 + seed for seed in seeds)

    play_rounds()
    assert count >= IN_PROCESS // IN_PROCESS_RUNS
