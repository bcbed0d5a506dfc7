"""Regular expression matching in linear time, as in Go, for any pattern.

Python's engine backtracks, and some patterns take exponential time. It is used only for patterns that cannot backtrack
catastrophically; the engine of CEL (`cel.py`) matches all others. `regex_translate.py` translates patterns.
"""

import re
from functools import cache, lru_cache
from typing import Any

import msgspec

from grove.api.schema.crd_generator import custom_resource_definitions
from grove.cluster.schemas.cel import CelProgram, EvaluationError, Variables
from grove.cluster.schemas.regex_translate import PatternError, compile_pattern

# A character, a class, the end of a group, or a repetition.
_PIECE = re.compile(r"\\.|\[(?:\\.|\[:[^\]]*:\]|\]|)(?:\\.|\[:[^\]]*:\]|[^\]\\])*\]|[*+]|\{\d*,?\d*\}|.", re.DOTALL)


_NO_PATTERN = "invalid regular expression: "
# Error texts of Go, by those of the engine.
_MESSAGES = {
    "bad repetition operator": "invalid nested repetition operator",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "invalid repetition size": "invalid repeat count",
    "missing )": "missing closing )",
    "missing ]": "missing closing ]",
    "no argument for repetition operator": "missing argument to repetition operator",
    "trailing \\": "trailing backslash at end of expression",
}


def is_match(pattern: str, text: str) -> bool:
    """Return whether the text matches a valid pattern."""
    if is_linear(pattern):
        return compile_pattern(pattern).search(text) is not None
    try:
        return bool(_program(pattern).run(Variables(text)))
    except EvaluationError:
        return False


def find_pattern_error(pattern: str) -> str:
    """Return why the pattern is invalid, in Go's words, or an empty string. Go and Python accept different patterns."""
    try:
        _program(pattern).run(Variables(""))
    except EvaluationError as error:
        what, _, where = str(error).removeprefix(_NO_PATTERN).partition(": ")
        return f"{_MESSAGES.get(what, what)}: `{where or pattern}`"
    return ""


@lru_cache(maxsize=4096)
def is_linear(pattern: str) -> bool:
    """Return whether Python matches it in linear time: anchored, and at most one repetition, of one character."""
    if pattern in _own_patterns():
        return True
    repetitions = 0
    before = ""
    for match in _PIECE.finditer(pattern):
        piece = match[0]
        if piece in ("*", "+") or (piece[0] == "{" and len(piece) > 1 and "," in piece):
            repetitions += 1
            if before == ")":
                return False
        elif before == ")" and piece[0] == "{" and len(piece) > 1:
            return False
        before = piece
    is_single = repetitions == 0 or (repetitions == 1 and pattern.startswith("^") and "|" not in pattern)
    return is_single and _is_python_pattern(pattern)


def _is_python_pattern(pattern: str) -> bool:
    try:
        compile_pattern(pattern)
    except PatternError:
        return False
    return True


@cache
def _own_patterns() -> frozenset[str]:
    """Return the patterns of Grove's CRDs. They were reviewed: each character can match only one part of them."""
    found: list[str] = []
    parts: list[Any] = [custom_resource_definitions()]
    while parts:
        part = parts.pop()
        if isinstance(part, dict):
            found += [part["pattern"]] if isinstance(part.get("pattern"), str) else []
            parts += part.values()
        elif isinstance(part, list | tuple):
            parts += part
    return frozenset(found)


@lru_cache(maxsize=4096)
def _program(pattern: str) -> CelProgram:
    return CelProgram(f"self.matches({msgspec.json.encode(pattern).decode()})")
