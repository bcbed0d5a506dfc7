"""What `grove rollout history` tells: what each revision changed, who runs it, and which one the set asks for."""

from datetime import timedelta

import msgspec
import pytest

from grove.api.template_revision import CliqueRevision, RevisionTemplate
from grove.api.types.meta import JsonObject
from grove.cli.common.output import plain_lines
from grove.cli.rollout.history import HistoryEntry, build_history
from grove.cli.rollout.view import history_rows
from grove.operations.rollout.revisions import find_matching_revision, format_revision_numbers, template_with_defaults
from grove.operations.rollout.template_diff import CliqueChange, ImageChange, describe_changes, template_changes
from tests.cli.rollouts import NOW, pcs, revisions

MAIN: JsonObject = {"name": "main", "image": "m:1"}
SIDE: JsonObject = {"name": "side", "image": "s:1"}


def template(*containers: JsonObject, priority: str = "", annotation: str = "", **spec: object) -> RevisionTemplate:
    clique = CliqueRevision(
        name="a",
        template_hash="x",
        annotations={"note": annotation} if annotation else {},
        pod_spec={"containers": list(containers or (MAIN,)), **spec},
    )
    return RevisionTemplate(generation_hash="h", priority_class_name=priority, cliques=(clique,))


@pytest.mark.parametrize(
    ("new", "text"),
    [
        pytest.param(template(MAIN | {"image": "m:2"}), "a: image m:1 -> m:2", id="one image"),
        pytest.param(
            template(MAIN | {"image": "m:2", "env": [{"name": "K", "value": "v"}]}, nodeSelector={"zone": "x"}),
            "a: image m:1 -> m:2, main.env, nodeSelector",
            id="an image and more",
        ),
        pytest.param(template(MAIN, SIDE), "a: side added", id="a container more"),
        pytest.param(template(annotation="x"), "a: annotations", id="an annotation"),
        pytest.param(template(priority="high"), "a: priorityClassName", id="the priority class of the set"),
        pytest.param(
            template(initContainers=[SIDE]), "a: side added", id="an init container"
        ),
    ],
)  # fmt: skip
def test_a_change_is_told_by_its_images_first(new: RevisionTemplate, text: str) -> None:
    assert describe_changes(template_changes(template(), new)) == [text]


def test_images_of_several_containers_are_told_by_name() -> None:
    old, new = template(MAIN, SIDE), template(MAIN | {"image": "m:2"}, SIDE | {"image": "s:2"})
    assert describe_changes(template_changes(old, new)) == ["a: image of main m:1 -> m:2, image of side s:1 -> s:2"]
    assert describe_changes(template_changes(new, template(MAIN | {"image": "m:2"}))) == ["a: side removed"]


def test_what_makes_the_same_pods_is_no_change() -> None:
    reordered = template({"image": "m:1", "name": "main"}, nodeSelector=None)
    assert template_changes(template(), reordered) == ()


def test_cliques_of_which_the_same_is_to_be_said_share_a_text() -> None:
    image = ImageChange(container="main", before="m:1", after="m:2")
    changes = [CliqueChange(clique=name, images=(image,)) for name in ("a", "c")]
    changes.insert(1, CliqueChange(clique="b", fields=("labels",)))
    assert describe_changes(changes) == ["a, c: image m:1 -> m:2", "b: labels"]


def test_the_order_of_init_containers_is_a_change() -> None:
    one, other = template(initContainers=[MAIN, SIDE]), template(initContainers=[SIDE, MAIN])
    assert describe_changes(template_changes(one, other)) == ["a: order of initContainers"]


def test_a_clique_that_was_not_there_is_new() -> None:
    empty = RevisionTemplate(generation_hash="h")
    assert template_changes(empty, template()) == (CliqueChange(clique="a", fields=("new",)),)


# --- the table -------------------------------------------------------------------------------------------------------


def history() -> tuple[HistoryEntry, ...]:
    first, second = revisions()
    return build_history((first, second), second, {"h1": 1, "h2": 2})


def test_each_entry_is_compared_with_the_one_before() -> None:
    first, second = history()
    assert (first.revision, first.is_current, first.replicas, first.change_cause, first.changes) == (
        1, False, 1, "first", (),
    )  # fmt: skip
    assert (second.revision, second.is_current, second.replicas, second.change_cause) == (2, True, 2, "")
    assert second.changes == (
        CliqueChange(clique="a", images=(ImageChange(container="main", before="a:1", after="a:2"),)),
        CliqueChange(clique="b", images=(ImageChange(container="main", before="b:1", after="b:2"),)),
    )


def test_the_table_has_one_line_per_revision() -> None:
    assert plain_lines(history_rows(history(), NOW, None)) == [
        "REVISION  CURRENT  REPLICAS  AGE   HASH  CHANGE-CAUSE  CHANGED",
        "1                  1         100s  h1    first",
        "2         *        2         100s  h2    -             a: image a:1 -> a:2; b: image b:1 -> b:2",
    ]


def test_on_a_narrow_terminal_changes_stand_below_their_revision() -> None:
    assert plain_lines(history_rows(history(), NOW + timedelta(hours=4), 60)) == [
        "REVISION  CURRENT  REPLICAS  AGE  HASH  CHANGE-CAUSE",
        "1                  1         4h   h1    first",
        "2         *        2         4h   h2    -",
        "  a: image a:1 -> a:2",
        "  b: image b:1 -> b:2",
    ]


def test_the_current_one_is_what_the_set_asks_for_not_what_is_newest() -> None:
    first, second = revisions()
    assert find_matching_revision(template_with_defaults(pcs()), (first, second)) is second
    assert find_matching_revision(template_with_defaults(pcs(a="a:1", b="b:1")), (first, second)) is first
    assert find_matching_revision(template_with_defaults(pcs(a="a:3")), (first, second)) is None


@pytest.mark.parametrize(
    ("count", "text"), [(0, "none"), (1, "revision 1"), (2, "revisions 1 and 2"), (3, "revisions 1, 2 and 3")]
)
def test_numbers_are_listed_as_people_do(count: int, text: str) -> None:
    first = revisions()[0]
    listed = tuple(msgspec.structs.replace(first, number=number) for number in range(1, count + 1))
    assert format_revision_numbers(listed) == text
