"""The cluster of `grove up` and `grove run`: what it accepts is what its operator can carry out."""

from pathlib import Path

import pytest
import yaml

from grove.api.resources import PODCLIQUESETS
from grove.cli.common.embedded_cluster import new_cluster
from grove.clock import LoopClock
from grove.cluster.embedded_cluster import KubeletKind
from grove.kube.api_errors import ApiError
from grove.sim.virtual_clock import run_virtual

EXAMPLES = Path(__file__).parents[3] / "examples" / "schedulers"


def create(example: str, *, has_operator: bool) -> None:
    async def story() -> None:
        cluster = new_cluster(LoopClock.starting_now(), KubeletKind.NONE, has_operator=has_operator)
        await cluster.client().create(PODCLIQUESETS, "default", yaml.safe_load((EXAMPLES / example).read_text()))

    run_virtual(story())


def test_a_set_for_a_scheduler_that_does_not_run_here_is_refused() -> None:
    create("native.yaml", has_operator=True)
    with pytest.raises(ApiError, match=r"schedulerName.*volcano.*default-scheduler"):
        create("volcano.yaml", has_operator=True)


def test_without_an_operator_of_its_own_it_is_up_to_the_one_beside_it() -> None:
    create("volcano.yaml", has_operator=False)
