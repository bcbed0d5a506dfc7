"""The table of mutants does not rot: every fault still has its place in the source, and every test its name."""

import pytest

from tests.mutants.__main__ import ROOT, mutate
from tests.mutants.table import MUTANTS, Mutant


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.fault)
def test_a_mutant_changes_one_place_of_the_source_and_the_result_is_python(mutant: Mutant) -> None:
    path = ROOT / "src" / "grove" / mutant.file
    text = path.read_text()
    changed = mutate(text, mutant)
    assert changed != text
    assert compile(changed, path, "exec")


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.fault)
def test_the_test_that_catches_a_mutant_exists(mutant: Mutant) -> None:
    path, _, name = mutant.test.partition("::")
    assert f"def {name.partition('[')[0]}" in (ROOT / path).read_text()


def test_every_mutant_has_a_name_of_its_own() -> None:
    faults = [mutant.fault for mutant in MUTANTS]
    assert sorted(faults) == sorted(frozenset(faults))


@pytest.mark.parametrize(("text", "count"), [("", 0), ("a gate, a gate", 2)])
def test_a_fault_without_a_clear_place_is_not_applied(text: str, count: int) -> None:
    mutant = Mutant("open", "gates", "planner/gangs/scheduling_gates.py", "a gate", "no gate", "tests")
    with pytest.raises(SystemExit, match=f"occurs {count} times in planner/gangs/scheduling_gates.py"):
        mutate(text, mutant)
