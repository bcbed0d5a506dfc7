"""Start-up order resolved to PodCliques: the table of grove-facts section 7."""

import pytest

from grove.api.startup_order import dependencies_by_clique
from grove.api.types.podcliqueset import PodCliqueSet, StartupType
from grove.planner.desired_state import build_desired_replica
from grove.planner.snapshot import build_context
from tests.dsl import pcs, role, scaling


def ordered(kind: StartupType, *, after: tuple[str, ...] = ()) -> PodCliqueSet:
    """A standalone clique, a group of two cliques with one scaled replica, and a standalone clique behind them."""
    cliques = (role("a"), role("l"), role("w", after=after), role("z", after=after))
    return pcs(*cliques, groups=(scaling("g", "l", "w", replicas=3, needs=2),), template={"clique_startup_type": kind})


def resolved(observed: PodCliqueSet) -> dict[str, tuple[str, ...]]:
    desired = build_desired_replica(build_context(observed), 1, {})
    return {clique.name: clique.starts_after for clique in desired.cliques if clique.starts_after}


def test_in_any_order_nothing_waits() -> None:
    assert resolved(ordered(StartupType.ANY_ORDER)) == {}


def test_in_order_each_clique_starts_after_the_one_before_it_in_the_template() -> None:
    assert resolved(ordered(StartupType.IN_ORDER)) == {
        "p-1-g-0-l": ("p-1-a",),
        "p-1-g-1-l": ("p-1-a",),
        # In the base gang: that clique in every group replica of the base gang, also of the own group.
        "p-1-g-0-w": ("p-1-g-0-l", "p-1-g-1-l"),
        "p-1-g-1-w": ("p-1-g-0-l", "p-1-g-1-l"),
        # In a scaled gang: only members of the same group replica.
        "p-1-g-2-w": ("p-1-g-2-l",),
        "p-1-z": ("p-1-g-0-w", "p-1-g-1-w"),
    }


def test_explicit_dependencies_are_resolved_one_by_one() -> None:
    assert resolved(ordered(StartupType.EXPLICIT, after=("a", "l"))) == {
        "p-1-g-0-w": ("p-1-a", "p-1-g-0-l", "p-1-g-1-l"),
        "p-1-g-1-w": ("p-1-a", "p-1-g-0-l", "p-1-g-1-l"),
        "p-1-g-2-w": ("p-1-g-2-l",),
        "p-1-z": ("p-1-a", "p-1-g-0-l", "p-1-g-1-l"),
    }


@pytest.mark.parametrize("kind", [StartupType.ANY_ORDER, StartupType.IN_ORDER])
def test_starts_after_counts_only_with_the_explicit_type(kind: StartupType) -> None:
    template = ordered(kind, after=("a",)).spec.template
    assert all(after != ("a",) or name == "l" for name, after in dependencies_by_clique(template).items())
