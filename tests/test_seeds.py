"""The seed of random tests: the commit's, or the one that was given."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.seeds import SEED_VARIABLE

ROOT = Path(__file__).parent.parent
ASK = "from tests.seeds import commit_seed; print(commit_seed())"


def seed_in(folder: Path, **variables: str) -> int:
    """Return the seed that a new process computes in this copy of the tests."""
    environment = {name: value for name, value in os.environ.items() if name != SEED_VARIABLE}
    command = [sys.executable, "-c", ASK]
    asked = subprocess.run(
        command, cwd=folder, env={**environment, **variables}, capture_output=True, text=True, check=True
    )
    return int(asked.stdout)


def test_a_given_seed_wins() -> None:
    assert seed_in(ROOT, **{SEED_VARIABLE: "4242"}) == 4242


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy of the module, in no Git repository yet."""
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "seeds.py").write_text((ROOT / "tests" / "seeds.py").read_text())
    return tmp_path


def test_two_commits_draw_different_cases_and_one_commit_always_the_same(checkout: Path) -> None:
    seeds = []
    git = ("git", "-c", "user.name=t", "-c", "user.email=t@example.com")
    # The same commits in every run, so that their seeds differ in every run.
    day = {**os.environ, "GIT_AUTHOR_DATE": "2026-01-01T00:00:00Z", "GIT_COMMITTER_DATE": "2026-01-01T00:00:00Z"}
    subprocess.run([*git, "init", "--quiet"], cwd=checkout, check=True)
    for message in ("one", "two"):
        subprocess.run([*git, "commit", "--quiet", "--allow-empty", "-m", message], cwd=checkout, env=day, check=True)
        seeds.append((seed_in(checkout), seed_in(checkout)))
    assert [first for first, _ in seeds] == [again for _, again in seeds]
    assert seeds[0] != seeds[1]


def test_outside_a_checkout_the_seed_is_zero(checkout: Path) -> None:
    assert seed_in(checkout, GIT_CEILING_DIRECTORIES=str(checkout.parent)) == 0
