"""Check the tests: put one deliberate fault at a time into the source, and see that the quick tier notices it.

`python -m tests.mutants` runs all mutants of `table.py`; with a word, those that have it in their fault or capability.
A fault goes into a copy of src/, never into the tree, and only the test that the table names for it runs. Without a
fault all these tests must pass. Running out of time counts as caught only if the test finishes in that time without
the fault. Exit code 1: a mutant survived, or could not be judged.
"""

import argparse
import os
import subprocess
import sys
from enum import StrEnum
from importlib.util import cache_from_source
from pathlib import Path
from shutil import copytree, ignore_patterns
from tempfile import TemporaryDirectory
from time import perf_counter

import msgspec

from tests.mutants.table import MUTANTS, Mutant

ROOT = Path(__file__).parent.parent.parent
QUICK = "not deep and not kube and not kubectl"
LIMIT_SECONDS = 120.0
LIMIT_OF_ALL_SECONDS = 900.0


class Outcome(StrEnum):
    PASSED = "passed"
    FAILED = "failed"
    OUT_OF_TIME = "out of time"
    # The source does not load, or there is no such test.
    NOT_RUN = "not run"


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """A run of tests. `words`: the first test that failed, else what pytest said last."""

    outcome: Outcome
    words: str
    seconds: float


def main() -> int:
    parser = argparse.ArgumentParser(description="Check that the tests notice deliberate faults.")
    parser.add_argument("word", nargs="?", default="", help="only mutants with this word in their fault or capability")
    word = parser.parse_args().word
    mutants = [mutant for mutant in MUTANTS if word in mutant.fault or word in mutant.capability]
    if not mutants:
        parser.error(f"no mutant has {word!r} in its fault or capability")
    with TemporaryDirectory() as folder:
        source = Path(folder) / "src"
        copytree(ROOT / "src", source, ignore=ignore_patterns("__pycache__"))
        unchanged = run_tests(source, [mutant.test for mutant in mutants], LIMIT_OF_ALL_SECONDS)
        print(f"without a fault: {unchanged.outcome}, {unchanged.seconds:.1f} s", flush=True)
        if unchanged.outcome is not Outcome.PASSED:
            return 1
        missed_count = sum(not is_caught(source, mutant) for mutant in mutants)
    print(f"{len(mutants)} mutants, {missed_count} not caught")
    return 1 if missed_count else 0


def is_caught(source: Path, mutant: Mutant) -> bool:
    """Run the test of one mutant on the source with the fault in it, and print what came of it."""
    path = source / "grove" / mutant.file
    before = path.read_text()
    _write(path, mutate(before, mutant))
    run = run_tests(source, [mutant.test], LIMIT_SECONDS)
    _write(path, before)
    found, words = run.outcome is Outcome.FAILED, run.words
    if run.outcome is Outcome.OUT_OF_TIME:
        unchanged = run_tests(source, [mutant.test], LIMIT_SECONDS)
        found, words = unchanged.outcome is Outcome.PASSED, f"{run.outcome}; without the fault: {unchanged.outcome}"
    if not found:
        words = f"NOT CAUGHT ({run.outcome}): {mutant.test}: {words}"
    print(f"{mutant.capability:16}  {mutant.fault:59}  {run.seconds:5.1f} s  {words}", flush=True)
    return found


def mutate(text: str, mutant: Mutant) -> str:
    """Return the text with the fault in it; ends the program if its place is not clear."""
    count = text.count(mutant.old)
    if count != 1:
        raise SystemExit(f"{mutant.fault}: its old text occurs {count} times in {mutant.file}: correct the table")
    return text.replace(mutant.old, mutant.new)


def _write(path: Path, text: str) -> None:
    path.write_text(text)
    # Python compares size and second only: compiled code of the text before could pass for that of this one.
    Path(cache_from_source(str(path))).unlink(missing_ok=True)


def run_tests(source: Path, tests: list[str], limit: float) -> Run:
    """Run tests of the quick tier on this source, up to the first that fails."""
    path = os.pathsep.join(filter(None, (str(source), os.environ.get("PYTHONPATH"))))
    options = ("-x", "-n", "0", "--tb=no", "-rfE", "-p", "no:cacheprovider", "-m", QUICK)
    started_at = perf_counter()
    try:
        done = subprocess.run(
            [sys.executable, "-m", "pytest", *options, *dict.fromkeys(tests)],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": path},
            capture_output=True,
            text=True,
            timeout=limit,
        )
    except subprocess.TimeoutExpired:
        return Run(outcome=Outcome.OUT_OF_TIME, words="", seconds=limit)
    lines = [line for line in (done.stdout + done.stderr).splitlines() if line]
    failed = [line.partition(" ")[2].partition(" - ")[0] for line in lines if line.startswith(("FAILED ", "ERROR "))]
    outcome = {0: Outcome.PASSED, 1: Outcome.FAILED}.get(done.returncode, Outcome.NOT_RUN)
    return Run(outcome=outcome, words=(*failed, *lines[-1:])[0], seconds=perf_counter() - started_at)


if __name__ == "__main__":
    sys.exit(main())
