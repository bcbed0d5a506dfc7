"""Which pods an autoscaler measures: as many as there are replicas."""

import pytest

from grove.api import labels
from grove.api.types.podcliqueset import PodCliqueSet
from grove.planner.status.scale_selectors import group_selector, set_selector
from tests.dsl import context, pcs, role, scaling

OURS = labels.selector(labels.default_labels("p"))
FIRST = f"{OURS},grove.io/podclique-pod-index=0"
FIRST_OF_GROUP = f"{FIRST},grove.io/podcliquescalinggroup-replica-index=0"


@pytest.mark.parametrize(
    ("observed", "selector"),
    [
        pytest.param(pcs(role("a", 3), replicas=2), FIRST, id="one clique"),
        pytest.param(
            pcs(role("a", 3), role("b"), replicas=2), f"{FIRST},grove.io/podclique in (p-0-a,p-1-a)", id="two cliques"
        ),
        pytest.param(
            pcs(role("a"), groups=(scaling("g", "a", replicas=3),), replicas=2), FIRST_OF_GROUP, id="one group"
        ),
        pytest.param(
            pcs(role("b"), role("a"), groups=(scaling("g", "b", replicas=3),), replicas=2),
            f"{FIRST_OF_GROUP},grove.io/podclique in (p-0-g-0-b,p-1-g-0-b)",
            id="a group, and a clique",
        ),
        pytest.param(pcs(role("a"), role("b"), replicas=0), FIRST, id="at zero"),
        pytest.param(pcs(role("a"), role("b"), replicas=501), FIRST, id="too many to list"),
    ],
)
def test_of_each_set_replica_the_first_pod_of_the_first_clique_is_measured(
    observed: PodCliqueSet, selector: str
) -> None:
    assert set_selector(context(observed)) == selector


@pytest.mark.parametrize(
    ("members", "replicas", "rest"),
    [
        pytest.param(("a",), 3, "", id="one clique"),
        pytest.param(("b", "a"), 2, ",grove.io/podclique in (p-0-g-0-b,p-0-g-1-b)", id="two cliques"),
        pytest.param(("a", "b"), 0, "", id="at zero"),
        pytest.param(("a", "b"), 501, "", id="too many to list"),
    ],
)
def test_of_each_group_replica_the_first_pod_of_the_first_clique_is_measured(
    members: tuple[str, ...], replicas: int, rest: str
) -> None:
    observed = pcs(role("a", 2), role("b"), groups=(scaling("g", *members),))
    config = observed.spec.template.pod_clique_scaling_groups[0]
    expected = f"{FIRST},grove.io/podcliquescalinggroup=p-0-g{rest}"
    assert group_selector(context(observed), config, "p-0-g", replicas) == expected
