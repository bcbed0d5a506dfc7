"""`grove plan`: what is said of a change before it is made, on a cluster that runs and in words."""

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
import yaml

from grove.api.types.meta import JsonObject
from grove.cli.common.output import plain_lines
from grove.cli.plan.runner import PlannedSet, PlanResult
from grove.cli.plan.view import plan_rows
from grove.operations.apply.apply_merge import Verb
from grove.sim.rehearsal.downtime import Down
from grove.sim.rehearsal.prediction import (
    Block,
    Counts,
    Objects,
    PendingPods,
    PredictedOutcome,
    PredictedPart,
    Prediction,
    ReplacementStep,
    ReplicaUpdate,
    Scaled,
    UnitKind,
    UntouchedPods,
)
from tests.cli.console import ROOT, Up

QUICKSTART = ROOT / "examples" / "quickstart.yaml"


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    """One cluster for all tests of this file."""
    with Up(tmp_path_factory.mktemp("cluster"), str(QUICKSTART)) as up:
        up.read_until("1/1 replicas available, 10/10 pods ready")
        yield up


def quickstart(**spec: object) -> JsonObject:
    body: JsonObject = yaml.safe_load(QUICKSTART.read_text())
    body["spec"].update(spec)
    return body


def with_image(image: str) -> str:
    """The frontend of the quickstart runs another image."""
    body = quickstart()
    body["spec"]["template"]["cliques"][0]["spec"]["podSpec"]["containers"][0]["image"] = image
    return yaml.safe_dump(body)


def pods(up: Up) -> dict[str, str]:
    """Uids by name."""
    found = up.read("/api/v1/namespaces/default/pods")["items"]
    return {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in found}


# --- on a cluster ----------------------------------------------------------------------------------------------------


def test_what_the_plan_says_comes_true_and_only_when_it_is_applied(up: Up) -> None:
    before = pods(up)
    said = up.grove("plan", "-f", "-", given=with_image("example/router:2.0"))
    assert (said.code, said.err) == (0, "")
    assert said.out.splitlines()[0] == "pcs/chat: 3 of 10 pods are replaced, one at a time; 7 stay."
    assert pods(up) == before
    told = up.grove("plan", "-f", "-", "-o", "json", given=with_image("example/router:2.0")).json()
    (part,) = told["sets"][0]["prediction"]["order"][0]["parts"]
    names = [name for step in part["steps"] for name in step["pods"]]
    assert all(name in before for name in names)
    up.grove("apply", "-f", "-", given=with_image("example/router:2.0"))
    done = up.grove("rollout", "status", "chat")
    assert done.code == 0, done
    after = pods(up)
    assert sorted(name for name in before if name not in after) == sorted(names)
    assert up.grove("plan", "-f", "-", given=with_image("example/router:2.0")).out.startswith(
        "pcs/chat: nothing changes; its 10 pods stay.\n"
    )


def test_a_new_set_is_told_whether_it_fits(up: Up) -> None:
    body = quickstart(replicas=3)
    body["metadata"]["name"] = "other"
    said = up.grove("plan", "-f", "-", given=yaml.safe_dump(body))
    lines = said.out.splitlines()
    assert (said.code, lines[0]) == (0, "pcs/other is new: 15 of 30 pods would run now, 15 would stay Pending.")
    assert lines[1] == "It would not complete:"
    assert lines[2].endswith("would stay Pending")
    assert any("64 of 64 nvidia.com/gpu in use: other 36, chat 28; " in line for line in lines), lines
    assert len(lines) == len(frozenset(lines))
    assert not any("about " in line for line in lines)
    assert not any(name.startswith("other-") for name in pods(up))


def test_the_note_about_ready_pods_excepts_images_that_cannot_be_pulled(up: Up) -> None:
    body = quickstart(replicas=1)
    for clique in body["spec"]["template"]["cliques"][1:]:
        clique["spec"]["podSpec"]["containers"][0]["image"] = "example/engine:pull-error"
    lines = up.grove("plan", "-f", "-", given=yaml.safe_dump(body)).out.splitlines()
    assert lines[-1] == (
        "Note: the prediction assumes that new pods become ready, except those whose containers cannot start; "
        "it does not predict durations."
    )
    assert sum("ImagePullBackOff" in line for line in lines) == 1, lines
    assert max(len(line) for line in lines) <= 140, lines


def test_pods_of_a_training_set_that_succeed_do_not_wait(up: Up) -> None:
    said = up.grove("plan", "-f", "-", given=up.grove("init", "training").out)
    assert (said.code, said.out.splitlines()[0]) == (
        0, "pcs/training is new: 4 pods are created, and all of them fit now.",
    )  # fmt: skip


def test_a_set_that_would_be_refused_is_refused_as_apply_would(up: Up) -> None:
    body = quickstart()
    body["spec"]["template"]["cliques"][0]["spec"]["minAvailable"] = 9
    answers = [up.grove(command, "-f", "-", given=yaml.safe_dump(body)) for command in ("plan", "apply")]
    assert answers[0] == answers[1]
    assert (answers[0].code, answers[0].out) == (1, "")
    assert "minAvailable: Invalid value: 9" in answers[0].err


def test_what_is_no_set_is_not_looked_at(up: Up) -> None:
    config: JsonObject = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "mine"}}
    alone = up.grove("plan", "-f", "-", given=yaml.safe_dump(config))
    assert (alone.code, alone.err) == (
        1, "grove: standard input, document 1: has no PodCliqueSet; `grove plan` predicts only changes of sets\n",
    )  # fmt: skip
    both = up.grove("plan", "-f", "-", given=yaml.safe_dump_all([config, quickstart()]))
    assert "Ignored: configmap/mine" in both.out.splitlines()


def test_every_field_for_programs_is_documented() -> None:
    page = (ROOT / "docs" / "reference" / "commands.md").read_text()
    chapter = page.partition("## grove plan")[2].partition("\n## ")[0]
    kinds = (
        PlanResult,
        PlannedSet,
        Prediction,
        Counts,
        ReplicaUpdate,
        PredictedPart,
        ReplacementStep,
        Block,
        Down,
        UntouchedPods,
        Objects,
        Scaled,
        PendingPods,
    )
    fields = [field.encode_name for kind in kinds for field in msgspec.structs.fields(kind)]
    assert [field for field in fields if f"`{field}`" not in chapter and f'"{field}"' not in chapter] == []
    assert [word for kind in (PredictedOutcome, UnitKind) for word in kind if f"`{word}`" not in chapter] == []


# --- in words --------------------------------------------------------------------------------------------------------


def words(action: Verb = Verb.CONFIGURED, **fields: Any) -> list[str]:
    counts = Counts(before=0, after=0, kept=0, kept_unready=0, replaced=0, created=0, removed=0)
    found = {"namespace": "default", "name": "p", "outcome": PredictedOutcome.DONE, "pods": counts, **fields}
    planned = PlannedSet(action=action, prediction=Prediction(**found))
    return plain_lines(plan_rows(PlanResult(sets=(planned,), notes=())))[:-1]


def counts(**numbers: int) -> Counts:
    return Counts(**{**dict.fromkeys(Counts.__struct_fields__, 0), **numbers})


def turn(replica: int, *parts: PredictedPart) -> ReplicaUpdate:
    return ReplicaUpdate(set_replica=replica, parts=parts)


def steps(name: str, *pods: str, at_once: int = 1) -> PredictedPart:
    return PredictedPart(
        kind="podclique", name=name, at_once=at_once, steps=tuple(ReplacementStep(pods=(pod,)) for pod in pods)
    )


def test_turns_that_look_alike_are_told_once() -> None:
    order = tuple(turn(index, steps(f"p-{index}-a", f"p-{index}-a-0", f"p-{index}-a-1")) for index in (3, 2, 1, 0))
    lines = words(order=order, replicas_at_once=1, pods=counts(before=8, after=8, replaced=8))
    assert lines == [
        "pcs/p: 8 of 8 pods are replaced, one at a time.",
        "Order:",
        "  set replica 3: 2 pods of p-3-a, one at a time: p-3-a-0, then p-3-a-1",
        "  then the same in set replicas 2, 1, 0, one after the other",
        "Down at the same time, at most:",
        "  no set replica: each keeps its minimum",
    ]


def test_parts_of_a_replica_go_side_by_side() -> None:
    group = PredictedPart(
        kind="podcliquescalinggroup", name="p-0-g", at_once=1,
        steps=tuple(ReplacementStep(pods=("b", "c"), group_replica=index) for index in (0, 1)),
    )  # fmt: skip
    down = (
        Down(kind="pods", name="p", at_most=3, of=7),
        Down(kind="podcliqueset", name="p", at_most=1, of=1),
        Down(kind="podcliquescalinggroup", name="p-0-g", at_most=1, of=2),
        Down(kind="podclique", name="p-0-a", at_most=1, of=3),
        # Told with its group.
        Down(kind="podclique", name="p-0-g-0-b", at_most=1, of=1, group="p-0-g"),
    )
    kept = (
        UntouchedPods(kind="podclique", name="p-0-d", pods=1),
        UntouchedPods(kind="podcliquescalinggroup", name="p-0-h", pods=2),
    )
    order = (turn(0, steps("p-0-a", "a-0"), group),)
    lines = words(order=order, replicas_at_once=1, down=down, kept=kept, pods=counts(before=8, replaced=5, kept=3))
    assert lines == [
        "pcs/p: 5 of 8 pods are replaced; 3 stay.",
        "Order:",
        "  set replica 0: side by side",
        "    1 pod of p-0-a: a-0",
        "    group p-0-g: replica 0 as a whole (2 pods), then replica 1 as a whole (2 pods)",
        "Down at the same time, at most:",
        "  3 of 7 pods of pcs/p",
        "  1 of 1 set replica (below its minimum)",
        "  1 of 2 replicas of group p-0-g",
        "  1 of 3 pods of p-0-a",
        "Stays:",
        "  1 pod of p-0-d, 2 pods of group p-0-h",
    ]


def test_what_is_down_in_many_cliques_is_one_line() -> None:
    down = tuple(Down(kind="podclique", name=f"p-{index}-a", at_most=1, of=3) for index in range(7))
    assert words(down=down)[-1] == "  1 of 3 pods of each of 7 cliques"


def test_what_comes_and_goes_is_told_in_the_largest_units() -> None:
    created = (
        Block(unit=UnitKind.SET_REPLICA, set_replica=2, name="", pods=9, ready=9),
        Block(unit=UnitKind.GROUP_REPLICA, set_replica=0, name="p-0-g", group_replica=3, pods=2, ready=1),
    )
    removed = (Block(unit=UnitKind.POD, set_replica=0, name="p-0-a", pods=1, names=("p-0-a-2-xyz",)),)
    objects = Objects(
        created=("podgang/p-2", "podclique/p-2-a", "podclique/p-2-b"),
        scaled=(Scaled(kind="podcliqueset", name="p", before=2, after=3),),
    )
    lines = words(created=created, removed=removed, objects=objects, pods=counts(created=11, removed=1, kept=1))
    assert lines == [
        "pcs/p: 1 pod is removed; 11 pods are created; 1 stays.",
        "Created:",
        "  set replica 2 (9 pods)",
        "  replica 3 of group p-0-g (2 pods), 1 of which does not run at the end",
        "Removed:",
        "  1 pod of p-0-a: p-0-a-2-xyz",
        "Scaled:",
        "  podcliqueset/p from 2 to 3",
        "Objects:",
        "  1 podgang, 2 podcliques created",
    ]


def test_a_stall_is_told_before_the_order_and_its_reason_once() -> None:
    lines = words(
        outcome=PredictedOutcome.STALLED,
        stalled="replica 0: pod p-0-a-0 has no node: 8 are cordoned",
        stalled_reason="NoCapacity",
        waiting=(PendingPods(pods=1, cliques=("p-0-a",), waits_for="8 are cordoned"),),
        outdated_pods=2,
        pods=counts(before=3, replaced=1, kept=2),
    )
    assert lines == [
        "pcs/p: 1 of 3 pods is replaced; 2 stay; 2 pods keep the old template.",
        "It would not complete: replica 0: pod p-0-a-0 has no node: 8 are cordoned (NoCapacity)",
    ]


def test_pods_that_are_not_ready_are_marked() -> None:
    part = PredictedPart(
        kind="podclique", name="p-0-a", at_once=2,
        steps=(ReplacementStep(pods=("p-0-a-1", "p-0-a-2"), unready_pods=2), ReplacementStep(pods=("p-0-a-0",))),
    )  # fmt: skip
    lines = words(order=(turn(0, part),), replicas_at_once=1, pods=counts(before=3, replaced=3))
    assert lines[2] == (
        "  set replica 0: 3 pods of p-0-a, up to 2 at the same time: p-0-a-1, p-0-a-2 (not ready), then p-0-a-0"
    )


def test_on_delete_says_until_when_pods_keep_their_template() -> None:
    assert words(outcome=PredictedOutcome.NOTHING, outdated_pods=3, pods=counts(kept=10)) == [
        "pcs/p: only the set itself changes; its 10 pods stay; 3 pods keep the old template until they are deleted.",
    ]
