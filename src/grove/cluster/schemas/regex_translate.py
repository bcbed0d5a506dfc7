"""Translation of regular expressions from Go's syntax to Python's."""

import re
from functools import lru_cache

_CLASSES = {
    "alnum": "0-9A-Za-z", "alpha": "A-Za-z", "ascii": r"\x00-\x7f", "blank": r"\t ", "cntrl": r"\x00-\x1f\x7f",
    "digit": "0-9", "graph": "!-~", "lower": "a-z", "print": " -~", "punct": r"!-/:-@\[-`{-~", "space": r"\t\n\v\f\r ",
    "upper": "A-Z", "word": "0-9A-Za-z_", "xdigit": "0-9A-Fa-f",
}  # fmt: skip
_PIECE = re.compile(r"\\z|\\.|\[:\^?[a-z]+:\]|\[\^?\]?|\]|\$|\(\?P?<|.", re.DOTALL)


# Error texts of Go, by those of Python.
_MESSAGES = {
    "missing ), unterminated subpattern": "missing closing )",
    "nothing to repeat": "missing argument to repetition operator",
    "unbalanced parenthesis": "unexpected )",
    "unterminated character set": "missing closing ]",
}


class PatternError(ValueError):
    """The pattern is not a regular expression."""


@lru_cache(maxsize=4096)
def compile_pattern(pattern: str) -> re.Pattern[str]:
    """Compile a pattern in Go's syntax. Raises `PatternError`."""
    try:
        return re.compile(translate_pattern(pattern), re.ASCII)
    except (re.error, OverflowError, RecursionError) as error:
        raise PatternError(f"{_MESSAGES.get(getattr(error, 'msg', ''), error)}: `{pattern}`") from None


@lru_cache(maxsize=4096)
def translate_pattern(pattern: str) -> str:
    """Translate a pattern: in Python the end of a text is `\\Z`, and classes have no names."""
    pieces, is_in_class = [], False
    for match in _PIECE.finditer(pattern):
        piece = match[0]
        if is_in_class and piece.startswith("[:"):
            piece = _CLASSES.get(piece[2:-2], piece)
        elif is_in_class:
            is_in_class = piece != "]"
            piece = "\\[" if piece == "[" else piece
        elif piece.startswith("["):
            is_in_class = True
        elif piece in ("$", "\\z"):
            piece = r"\Z"
        pieces.append(piece)
    return "".join(pieces)
