"""Which placement stories the quick tier tells once more for each scheduler, and which only `make test-all` tells."""

from collections.abc import Iterable

import pytest
from _pytest.mark import ParameterSet

from tests.simulation.stories import STORIES, Story
from tests.simulation.zero_stories import ZERO_STORIES

# One story per kind of work that a scheduler's objects take part in: a gang that waits, minima before extras, a gang
# that is scaled, a pod that is replaced, a quota, a deletion, and zero at both levels.
QUICK = (
    "all or nothing",
    "minima first, then the rest",
    "scaling in and out again",
    "a deleted set leaves nothing",
    "a lost pod comes back",
    "quota for one of two replicas",
    "a_clique_goes_to_zero_and_comes_back",
    "a_group_goes_to_zero_and_comes_back",
    "zero_survives_a_gang_termination",
)
_DEEP = pytest.mark.deep(
    reason="the quick tier tells this story with the embedded scheduler, and other stories with this scheduler"
)
assert set(QUICK) <= {story.name for story in (*STORIES, *ZERO_STORIES)}


def in_tiers(stories: Iterable[Story]) -> list[ParameterSet]:
    """Return one parameter per story; those that are not in `QUICK` are marked deep."""
    return [pytest.param(one, id=one.name, marks=() if one.name in QUICK else _DEEP) for one in stories]
