"""How an update stands, in sentences."""

import pytest

from grove.api.reasons import FindingReason
from grove.api.types.podcliqueset import CurrentlyUpdating, PodCliqueSet, PodCliqueSetStatus, SetRollingUpdateProgress
from grove.planner.actions import Finding
from grove.planner.explain.updates import explain_update
from grove.planner.plan import plan
from tests.dsl import NOW, World, at, pcs, role, run_to_rest, visit

ABOUT = "podcliqueset/p"
DONE = "1 of 3 replicas run the newest templates"


def updated(progress: SetRollingUpdateProgress | None) -> PodCliqueSet:
    status = PodCliqueSetStatus(rolling_update_progress=progress, updated_replicas=1)
    return pcs(replicas=3, status=status)


ROLLING = SetRollingUpdateProgress(
    update_started_at=NOW, currently_updating=CurrentlyUpdating(replica_index=2, update_started_at=NOW)
)


def finding(reason: FindingReason, message: str) -> Finding:
    return Finding(about=ABOUT, reason=reason, message=message)


@pytest.mark.parametrize(
    "progress", [None, SetRollingUpdateProgress(update_started_at=NOW, update_ended_at=NOW)], ids=["never", "ended"]
)
def test_without_an_update_there_is_nothing_to_tell(progress: SetRollingUpdateProgress | None) -> None:
    findings = [finding(FindingReason.UPDATING, "replica 2 is being updated")]
    assert explain_update(ABOUT, updated(progress), findings) == ()


@pytest.mark.parametrize(
    ("findings", "texts"),
    [
        pytest.param(
            [finding(FindingReason.GANG_INCOMPLETE, "1 of 2 pods exist")],
            [f"an update is in progress: {DONE}."],
            id="nobody has a turn",
        ),
        pytest.param(
            [finding(FindingReason.UPDATING, "replica 2 is being updated: pod x is not ready yet")],
            [f"an update is in progress: replica 2 is being updated: pod x is not ready yet; {DONE}."],
            id="it goes on",
        ),
        pytest.param(
            [finding(FindingReason.UPDATE_STALLED, "replica 2: pod x has no node: no room.")],
            [
                "the update is stalled at replica 2: pod x has no node: no room.",
                f"the update continues when that is fixed ({DONE}).",
                "or undo the update: grove rollout undo pcs/p.",
            ],
            id="it does not",
        ),
    ],
)
def test_the_sentences_of_an_update(findings: list[Finding], texts: list[str]) -> None:
    assert [sentence.text for sentence in explain_update(ABOUT, updated(ROLLING), findings)] == texts


def test_the_plan_of_an_update_finds_what_the_sentences_are_made_of() -> None:
    world = World(pcs(role("a", 2, needs=1), replicas=2))
    run_to_rest(world)
    world.now = at(3600)
    world.broken_images = frozenset({"v2"})
    world.change("a", "v2")
    for _ in range(8):
        visit(world)
        world.live()
    assert said(world)[0].startswith("an update is in progress: replica 1 is being updated: pod p-1-a-")
    world.now = at(3661)
    assert said(world)[0].startswith("the update is stalled at replica 1: pod p-1-a-")
    world.change("a", "v3")
    run_to_rest(world)
    assert said(world) == []


def said(world: World) -> list[str]:
    assert world.pcs is not None
    decided = plan(world.snapshot(), world.now)
    return [sentence.text for sentence in explain_update(ABOUT, world.pcs, decided.findings)]
