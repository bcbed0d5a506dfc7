"""At least 2,000 storms: whatever happens in them, no rule is broken, and when it is over all is as it was asked for.

`GROVE_STORM_SEED` moves the seeds; without it every run is the same. A failure tells how to replay it.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.simulation.storms import Storm

ROOT = Path(__file__).parent.parent.parent
BASE = int(os.environ.get("GROVE_STORM_SEED", "0"))
PART_COUNT = 25
SEEDS_PER_PART = 80


@pytest.mark.parametrize("part", range(PART_COUNT))
def test_after_every_storm_all_is_as_it_was_asked_for(part: int) -> None:
    first = BASE + part * SEEDS_PER_PART
    print(f"storms {first} to {first + SEEDS_PER_PART - 1} (GROVE_STORM_SEED={BASE})")
    for seed in range(first, first + SEEDS_PER_PART):
        Storm(seed).run()


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_storm_goes_the_same_way_whatever_the_hash_seed(seed: int) -> None:
    assert told(seed, hash_seed="1") == told(seed, hash_seed="2")


def told(seed: int, *, hash_seed: str) -> str:
    """The whole timeline of a storm, in a process of its own."""
    command = [sys.executable, "-m", "tests.simulation.storms", "--seed", str(seed)]
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    run = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    assert "create podcliquesets" in run.stdout
    return run.stdout
