"""The seed of every random test: derived from the commit, so that the same commit always draws the same cases.

A failure can therefore always be repeated, and each commit tries cases that the one before did not.
`GROVE_TEST_SEED=N` replays the draw of another commit. `make storm` and `make fuzz` cover more.
"""

import os
import subprocess
from functools import cache
from pathlib import Path

from hypothesis import settings

SEED_VARIABLE = "GROVE_TEST_SEED"
_ROOT = Path(__file__).parent.parent
# Seeds of neighbouring commits must not overlap: a slice takes fewer than this many consecutive numbers.
_STRIDE = 100_000


@cache
def commit_seed() -> int:
    """Return the number in `GROVE_TEST_SEED`, else one derived from the commit, else 0 outside a Git checkout."""
    given = os.environ.get(SEED_VARIABLE)
    if given:
        return int(given)
    asked = subprocess.run(["git", "rev-parse", "HEAD"], cwd=_ROOT, capture_output=True, text=True, check=False)
    return int(asked.stdout[:8], 16) % 10_000 * _STRIDE if asked.returncode == 0 else 0


def examples(count: int) -> int:
    """Return how many examples a large test tries: `count` in `make test-all`, a tenth in the quick tier."""
    return max(1, count * settings().max_examples // 100)


def is_deep() -> bool:
    """Tell whether this run includes the tests marked `deep`."""
    return settings().max_examples >= 100
