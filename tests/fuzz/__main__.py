"""Hostile requests, as many as you like: `python -m tests.fuzz --requests 200000 --start 0`.

It goes on after a failure. Each is told with the first seed of its round: `--requests 50 --start SEED` shows it again.
"""

import argparse
import sys
import traceback

from tests.fuzz.rounds import HostilityWon, TooLong, play

PER_ROUND = 50
_TOLD_EVERY = 5_000
_LONGEST_WORDS = 3_000


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=100_000)
    parser.add_argument("--start", type=int, default=0)
    arguments = parser.parse_args()
    failures = 0
    for first in range(arguments.start, arguments.start + arguments.requests, PER_ROUND):
        words = _played(first)
        if words:
            failures += 1
            print(f"--- round {first}: {words[:_LONGEST_WORDS]}", flush=True)
        sent = first - arguments.start + PER_ROUND
        if sent % _TOLD_EVERY == 0:
            print(f"{sent} requests, {failures} rounds failed", flush=True)
    return 1 if failures else 0


def _played(first: int) -> str:
    """What went wrong; empty: nothing."""
    try:
        play(range(first, first + PER_ROUND))
    except HostilityWon as won:
        return str(won)
    except (TooLong, Exception):
        return traceback.format_exc()
    return ""


if __name__ == "__main__":
    sys.exit(main())
