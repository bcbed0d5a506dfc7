"""The documents are true: their code runs, their links lead somewhere, and every word of the wire has its line.

`test_field_reference.py` compares the generated pages of docs/reference.
"""

import io
import re
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import pytest

from grove.api import labels, names
from grove.api.reasons import ConditionType, Documented, EventReason, FindingReason, Reason
from grove.api.resources import GROUPS, PODCLIQUES, PODCLIQUESETS, TOPOLOGY_BINDINGS, Resource
from grove.api.schema.crd_generator import object_schema
from grove.api.types.meta import JsonObject
from grove.api.validation.field_errors import ErrorKind
from grove.cluster.kubelet.simulated.pod_state_machine import SIM_STOPS_AFTER
from grove.planner.status.set_status import ERROR_CODES, SCHEDULER_ERROR_CODE
from tests.markdown import PAGES, ROOT, code, fences, links, page_name, tables, without_fences
from tests.reference import placed_words

DOCS = ROOT / "docs"
# Pages whose sentences come from here. The words of the generated ones are in src/, next to what they describe.
GENERATED = ("conditions", "podclique", "podcliqueset", "podcliquescalinggroup", "podgang", "clustertopologybinding")
WRAPPED_PAGES = tuple(path for path in PAGES if path.name != "CHANGELOG.md")
PLAIN_PAGES = tuple(path for path in WRAPPED_PAGES if path.stem not in GENERATED)
WITH_CODE = tuple(path for path in PAGES if any(f.language == "python" for f in fences(path.read_text())))


@pytest.mark.parametrize("path", WITH_CODE, ids=page_name)
def test_the_code_of_a_page_runs_and_prints_what_the_page_says(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One after the other, as a reader would type them; what a block prints stands in the `text` block after it."""
    monkeypatch.chdir(ROOT)
    names_of_page: dict[str, Any] = {"__name__": page_name(path)}
    blocks = fences(path.read_text())
    for block, following in zip(blocks, (*blocks[1:], None), strict=True):
        if block.language != "python":
            continue
        printed = io.StringIO()
        with redirect_stdout(printed):
            # Blank lines first, so that a traceback names the line of the page.
            exec(compile("\n" * (block.line - 1) + block.text, path, "exec"), names_of_page)
        expected = following.text if following is not None and following.language == "text" else ""
        assert printed.getvalue() == expected, f"{page_name(path)}:{block.line}"


@pytest.mark.parametrize("path", PAGES, ids=page_name)
def test_a_link_between_documents_leads_somewhere(path: Path) -> None:
    inner = [link.partition("#")[0] for link in links(path.read_text()) if "://" not in link]
    assert [link for link in inner if not (path.parent / link).exists()] == []


@pytest.mark.parametrize("path", PAGES, ids=page_name)
def test_a_link_to_a_section_names_a_heading(path: Path) -> None:
    inner = [link.partition("#") for link in links(path.read_text()) if "://" not in link and "#" in link]
    assert [f"{file}#{at}" for file, _, at in inner if at not in _anchors((path.parent / file) if file else path)] == []


def _anchors(path: Path) -> list[str]:
    """Return the headings of a page as GitHub makes them into anchors."""
    headings = re.findall(r"^#+ (.*)$", without_fences(path.read_text()), re.MULTILINE)
    return [re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings]


@pytest.mark.parametrize("path", PAGES, ids=page_name)
def test_a_command_of_make_in_a_document_exists(path: Path) -> None:
    targets = re.findall(r"^([a-z][a-z-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    named = [target for text in code(path.read_text()) for target in re.findall(r"\bmake ([a-z][a-z-]*)", text)]
    assert [target for target in named if target not in targets] == []


@pytest.mark.parametrize("path", PAGES, ids=page_name)
def test_a_file_named_in_a_document_exists(path: Path) -> None:
    pattern = re.compile(r"\b((?:src|tests|docs|bench|examples)/[\w/.-]+\.(?:py|md|yaml))\b")
    named = [file for text in code(path.read_text()) for file in pattern.findall(text)]
    assert [file for file in named if not (ROOT / file).exists()] == []


def test_the_index_leads_to_every_document() -> None:
    index = DOCS / "README.md"
    led = [(DOCS / link.partition("#")[0]).resolve() for link in links(index.read_text()) if "://" not in link]
    pages = [page for page in sorted(DOCS.rglob("*.md")) if page != index and page.parent.name != "decisions"]
    assert [page_name(page) for page in pages if page.resolve() not in led] == []


def test_the_decisions_are_numbered_and_listed_in_order() -> None:
    folder = DOCS / "decisions"
    pages = [page.name for page in sorted(folder.glob("*.md")) if page.name != "README.md"]
    assert [int(page.partition("-")[0]) for page in pages] == list(range(1, len(pages) + 1))
    assert list(links((folder / "README.md").read_text())) == pages


def test_the_readme_is_short_and_leads_to_the_index() -> None:
    text = (ROOT / "README.md").read_text()
    assert len(text.splitlines()) < 150
    assert "docs/README.md" in links(text)


@pytest.mark.parametrize("path", [*WRAPPED_PAGES, ROOT / "CONTRIBUTING.md"], ids=page_name)
def test_lines_are_wrapped_at_120_characters(path: Path) -> None:
    """Except tables, blocks and links, which cannot be wrapped."""
    lines = without_fences(path.read_text()).splitlines()
    unbreakable = re.compile(r"\||\[[\w-]+\]: |\s*\S+$")
    assert [line for line in lines if len(line) > 120 and not unbreakable.match(line)] == []


PRIVATE_WORDS = re.compile(
    r"\b(?:nobody|whoever|somebody|told|anew|carried out|goes on|for ever|refus(?:e|es|ed|al)|comes to rest)\b",
    re.IGNORECASE,
)


@pytest.mark.parametrize("path", PLAIN_PAGES, ids=page_name)
def test_pages_use_plain_words(path: Path) -> None:
    """Names of the wire stand in code, and what a program prints in blocks: neither is read here."""
    text = re.sub(r"`[^`]*`", "", without_fences(path.read_text()))
    found = [line for line in text.splitlines() if PRIVATE_WORDS.search(line)]
    assert found == []


def test_the_changelog_begins_with_what_is_not_released_yet() -> None:
    headings = re.findall(r"^#+ .*$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    kinds = {"### Added", "### Changed", "### Fixed", "### Removed"}
    assert headings[:2] == ["# Changelog", "## Unreleased"]
    assert [heading for heading in headings if heading.startswith("###") and heading not in kinds] == []


def test_the_glossary_has_at_most_15_words_each_with_its_neighbour_in_kubernetes() -> None:
    (rows,) = tables((DOCS / "reference" / "glossary.md").read_text())
    words = [word for word, _, _ in rows]
    assert [word for word in words if not re.fullmatch(r"\*\*[a-z ]+\*\*", word)] == []
    assert len(words) == len(frozenset(words))
    assert 10 <= len(words) <= 15
    assert [word for word, meaning, neighbour in rows if not meaning.endswith(".") or not neighbour] == []


# --- reference -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("words", [ConditionType, Reason, EventReason, FindingReason])
def test_every_reason_has_a_place_in_the_reference(words: type[Documented]) -> None:
    placed = [(type(word), word.name) for word in placed_words()]
    assert [word.name for word in words if (words, word.name) not in placed] == []


def test_every_key_of_the_wire_is_documented() -> None:
    page = (DOCS / "reference" / "wire.md").read_text()
    keys = [value for name, value in vars(labels).items() if name.isupper() and isinstance(value, str)]
    keys += [SIM_STOPS_AFTER, *ERROR_CODES.values(), SCHEDULER_ERROR_CODE]
    assert [key for key in keys if f"`{key}`" not in page] == []


def test_the_examples_of_names_are_what_we_build() -> None:
    examples = {row[0]: row[2] for row in next(tables((DOCS / "reference" / "wire.md").read_text()))}
    pod = names.pod("p-0-a", "a-uid", 1, "")
    assert examples == {
        "PodClique, standalone": f"`{names.standalone_clique('p', 0, 'a')}`",
        "PodCliqueScalingGroup": f"`{names.group('p', 0, 'g')}`",
        "PodClique, member of a group": f"`{names.member_clique('p-0-g', 1, 'b')}`",
        "PodGang, base": f"`{names.replica_name('p', 0)}`",
        "PodGang, scaled, of group replica `j`": f"`{names.scaled_gang('p-0-g', 0)}`",
        "ControllerRevision": f"`{names.revision('p', 'vwj95rr6gtpl')}`",
        "Service, headless; also the pods' subdomain": f"`{names.replica_name('p', 0)}`",
        "address of the Service": f"`{names.service_address('p', 0, 'default')}`",
        "Pod": f"`{pod[: -names.SUFFIX_LENGTH]}` and five characters",
        "host name of a pod": f"`{names.pod_hostname('p-0-a', 1)}`",
    }


def test_every_variable_of_a_pod_is_documented_and_no_other() -> None:
    source = (ROOT / "src" / "grove" / "planner" / "child_manifests.py").read_text()
    page = (DOCS / "reference" / "wire.md").read_text()
    documented = [row[0].strip("`") for table in tables(page) for row in table if row[0].startswith("`GROVE_")]
    assert sorted(documented) == sorted(re.findall(r'"(GROVE_\w+)"', source))


def test_every_rule_is_about_a_field_that_exists_and_names_a_kind_of_error() -> None:
    schemas = [object_schema(kind) for kind in _judged_kinds()]
    kinds = {kind.removeprefix("FieldValue") for kind in ErrorKind}
    rules = [row for table in tables((DOCS / "reference" / "validation.md").read_text()) for row in table]
    assert len(rules) > 80
    for row in rules:
        steps = [step for step in re.split(r"\.(?![^\[]*\])|(?=\[)", row[0].strip("`")) if step]
        assert any(_has_field(schema, steps) for schema in schemas), row[0]
        assert len(row) != 3 or not frozenset(row[2].split(", ")) - kinds, row


def _judged_kinds() -> tuple[Resource[Any], ...]:
    return (PODCLIQUESETS, PODCLIQUES, GROUPS, TOPOLOGY_BINDINGS)


def _has_field(schema: JsonObject, steps: list[str]) -> bool:
    """Does the path lead through the schema? Metadata and what a user may write freely are not judged."""
    if not steps or steps[0] == "metadata" or schema.get("x-kubernetes-preserve-unknown-fields"):
        return True
    if steps[0] == "[]":
        return "items" in schema and _has_field(schema["items"], steps[1:])
    return steps[0] in schema.get("properties", {}) and _has_field(schema["properties"][steps[0]], steps[1:])
