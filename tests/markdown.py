"""Reading our own documents: the code in them, their links and tables."""

import re
from collections.abc import Iterator
from pathlib import Path

import msgspec

ROOT = Path(__file__).parent.parent
PAGES = (ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md")))

_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_INLINE_CODE = re.compile(r"`([^`\n]+)`")
_LINK = re.compile(r"(?<!!)\[[^\]]+\]\(([^)\s]+)\)")


class Fence(msgspec.Struct, frozen=True, kw_only=True):
    """A fenced block; `line` is where its content begins."""

    language: str
    text: str
    line: int


def page_name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def fences(text: str) -> tuple[Fence, ...]:
    return tuple(
        Fence(language=found[1], text=found[2], line=text.count("\n", 0, found.start(2)) + 1)
        for found in _FENCE.finditer(text)
    )


def code(text: str) -> tuple[str, ...]:
    """Everything that a reader may take for a command or a name: blocks and inline code."""
    return (*(fence.text for fence in fences(text)), *_INLINE_CODE.findall(without_fences(text)))


def links(text: str) -> tuple[str, ...]:
    return tuple(_LINK.findall(without_fences(text)))


def without_fences(text: str) -> str:
    return _FENCE.sub("", text)


def tables(text: str) -> Iterator[tuple[tuple[str, ...], ...]]:
    """The rows of each table, without its head."""
    rows: list[tuple[str, ...]] = []
    for line in (*without_fences(text).splitlines(), ""):
        if line.startswith("|"):
            rows.append(tuple(cell.strip() for cell in line.strip("|").split("|")))
        elif rows:
            yield tuple(rows[2:])
            rows = []
