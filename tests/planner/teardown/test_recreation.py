"""Units that are torn down to come back: what goes, what is created again, and when the intent is dropped."""

from typing import Any

import msgspec
import pytest

from grove.api import labels
from grove.api.resources import PODCLIQUES, PODGANGS
from grove.api.types.meta import JsonObject
from grove.api.types.pod import Pod
from grove.planner.actions import Create, DeleteMany, Patch, Plan
from grove.planner.plan import plan
from grove.planner.teardown.recreation import Record, Recreation
from grove.planner.views import CliqueView, ReplicaView
from tests.dsl import actions, at, clique, gang, group, pcs, pod, replica, role, scaling, service, snapshot

SET = pcs(role("a", 2), role("b", 2), groups=(scaling("g", "b", replicas=2, needs=2),))
WHOLE = Recreation(incarnation="1.1", reason="below the minimum for too long")
PART = Recreation(group="p-0-g", index=0, incarnation="1.1", reason="the same")
A, FIRST, SECOND = "p-0-a", "p-0-g-0-b", "p-0-g-1-b"


def of_life(life: str, name: str, **fields: Any) -> CliqueView:
    """A clique of this incarnation with two ready pods."""
    place = {labels.GROUP: "p-0-g", labels.GROUP_REPLICA_INDEX: name[6]} if name != A else {}
    own = {
        **labels.default_labels("p"), **place, labels.SET_REPLICA_INDEX: "0", labels.PODGANG: "p-0",
        labels.TEMPLATE_HASH: "new", labels.INCARNATION: life,
    }  # fmt: skip
    return clique(*(_placed(pod(i, clique=name, life=life), place) for i in (0, 1)), name=name, labels=own, **fields)


def _placed(one: Pod, place: dict[str, str]) -> Pod:
    metadata = msgspec.structs.replace(one.metadata, labels={**one.metadata.labels, **place})
    return msgspec.structs.replace(one, metadata=metadata)


def seen(intent: Recreation, *cliques: CliqueView, gang_incarnation: str = "1") -> ReplicaView:
    record = msgspec.json.encode(Record(count=1, open=(intent,))).decode()
    base = gang(*cliques, annotations={labels.RECREATION: record}, labels={labels.INCARNATION: gang_incarnation})
    return replica(*cliques, groups=(group("p-0-g", "b", replicas=2, needs=2),), gangs=(base,), services=(service(),))


def decide(view: ReplicaView) -> Plan:
    return plan(snapshot(SET, view), at(60))


def written_records(decided: Plan) -> list[Record]:
    found = [action.patch for action in actions(decided) if isinstance(action, Patch) and action.resource is PODGANGS]
    texts = [patch.get("metadata", {}).get("annotations", {}).get(labels.RECREATION) for patch in found]
    return [msgspec.json.decode(text, type=Record) for text in texts if text]


OLD = (of_life("1", A), of_life("1", FIRST), of_life("1", SECOND))
NEW = (of_life("1.1", A), of_life("1.1", FIRST), of_life("1.1", SECOND))


@pytest.mark.parametrize(
    ("intent", "gone", "own_terms"),
    [
        pytest.param(WHOLE, OLD, set(), id="a set replica"),
        pytest.param(
            PART, OLD[1:2], {f"{labels.GROUP}=p-0-g", f"{labels.GROUP_REPLICA_INDEX}=0"}, id="a group replica"
        ),
    ],
)
def test_a_bulk_delete_selects_the_unit_and_the_incarnation_that_goes(
    intent: Recreation, gone: tuple[CliqueView, ...], own_terms: set[str]
) -> None:
    found = [action for action in actions(decide(seen(intent, *OLD))) if isinstance(action, DeleteMany)]
    assert [action.uids for action in found] == [
        tuple(one.metadata.uid for view in gone for one in view.active),
        tuple(view.uid for view in gone),
    ]
    usual = {f"{key}={value}" for key, value in labels.default_labels("p").items()}
    terms = {*usual, f"{labels.SET_REPLICA_INDEX}=0", f"{labels.INCARNATION} in (1)", *own_terms}
    assert [set(action.selector.split(",")) for action in found] == [terms, terms]


@pytest.mark.parametrize(
    ("intent", "left", "scale", "counts"),
    [
        pytest.param(WHOLE, (), {A: 3}, {A: 3, FIRST: 2, SECOND: 2}, id="a set replica"),
        pytest.param(PART, (OLD[0], OLD[2]), {FIRST: 4}, {FIRST: 4}, id="a group replica"),
    ],
)
def test_what_was_scaled_at_run_time_comes_back_with_that_count_and_the_rest_with_its_templates(
    intent: Recreation, left: tuple[CliqueView, ...], scale: dict[str, int], counts: dict[str, int]
) -> None:
    decided = decide(seen(msgspec.structs.replace(intent, scale=scale), *left))
    bodies: dict[str, JsonObject] = {
        action.name: action.body
        for action in actions(decided)
        if isinstance(action, Create) and action.resource is PODCLIQUES
    }
    assert {name: body["spec"]["replicas"] for name, body in bodies.items()} == counts
    assert {body["metadata"]["labels"][labels.INCARNATION] for body in bodies.values()} == {"1.1"}


@pytest.mark.parametrize(
    ("view", "is_dropped"),
    [
        pytest.param(seen(WHOLE, *NEW, gang_incarnation="1.1"), True, id="a set replica is back"),
        pytest.param(seen(WHOLE, *NEW, gang_incarnation="1"), False, id="its gang is still the old one"),
        pytest.param(seen(WHOLE, *NEW[:2], gang_incarnation="1.1"), False, id="one of its cliques is missing"),
        pytest.param(
            seen(WHOLE, *NEW[:2], OLD[2], gang_incarnation="1.1"), False, id="one of its cliques is the old one"
        ),
        pytest.param(
            seen(WHOLE, *NEW[:2], of_life("1.1", SECOND, terminating=True), gang_incarnation="1.1"),
            False,
            id="one is leaving",
        ),
        pytest.param(seen(PART, OLD[0], NEW[1], OLD[2]), True, id="a group replica is back"),
        pytest.param(seen(PART, OLD[0], OLD[2]), False, id="it is missing"),
        pytest.param(seen(PART, *OLD), False, id="it is still the old one"),
        pytest.param(
            seen(PART, OLD[0], of_life("1.1", FIRST, terminating=True), OLD[2]), False, id="it is leaving again"
        ),
    ],
)
def test_an_intent_is_dropped_when_every_replacement_was_seen_and_not_before(
    view: ReplicaView, is_dropped: bool
) -> None:
    assert [record.open for record in written_records(decide(view))] == ([()] if is_dropped else [])
