"""Sanitize messages of servers for log lines, events and conditions: one line, short, without objects and secrets.

An API server quotes what it rejects: a 422 may contain the whole object, including environment variables.
"""

import re

# Maximum length of a quoted server message in a condition, an event or a log line.
MAX_SERVER_MESSAGE = 512
# Maximum length of a whole message that contains the quote.
MAX_MESSAGE = 1024

# Of a huge text only the beginning (what is wrong) and the end (why) are read.
_HEAD, _TAIL = 8192, 1024
_ELLIPSIS = "..."
_OBJECT = "{...}"
# Longer texts in braces are objects; shorter ones may be a name such as `${NODE}`.
_SHORT_BRACES = 40
_LONG_QUOTE = 200
_SHOWN_OF_QUOTE = 40

_OBJECTS = re.compile(r"\{\.\.\.\}(?:[\s,]*\{\.\.\.\})+")
_QUOTES = re.compile(rf'"([^"]{{{_LONG_QUOTE},}})"')
_SECRETS = (
    (re.compile(r"(?i)\b(bearer|basic)\s+[\w.~+/=-]{8,}"), r"\1 [hidden]"),
    # A JWT, such as the token of a service account: three parts in base64.
    (re.compile(r"\beyJ[\w-]+\.[\w-]+\.[\w-]*"), "[hidden]"),
    (re.compile(r"(?i)\b(password|passwd|token|secret|apikey|api_key)=[^\s&\"']+"), r"\1=[hidden]"),
    (re.compile(r"://[^/\s@\"']+@"), "://[hidden]@"),
)


def sanitize_message(text: str, limit: int = MAX_SERVER_MESSAGE) -> str:
    """Return the text on one line, without embedded objects and secrets, at most `limit` characters long."""
    if len(text) > _HEAD + _TAIL:
        # The tail may start inside an object; drop the rest of that object.
        text = f"{_without_objects(text[:_HEAD])} {_ELLIPSIS} {text[-_TAIL:].rpartition('}')[2]}"
    else:
        text = _without_objects(text)
    for pattern, replacement in _SECRETS:
        text = pattern.sub(replacement, text)
    text = _QUOTES.sub(lambda found: f'"{found[1][:_SHOWN_OF_QUOTE]}{_ELLIPSIS}"', text)
    return truncate(" ".join(text.split()), limit)


def truncate(text: str, limit: int = MAX_MESSAGE) -> str:
    """Return the text on one line, shortened to `limit` characters with `...` at the end."""
    text = to_line(text)
    return text if len(text) <= limit else text[: limit - len(_ELLIPSIS)].rstrip() + _ELLIPSIS


def to_line(text: str) -> str:
    """Return the text on one line, without characters that control a terminal or the direction of writing."""
    if text.isprintable():
        return text
    return " ".join("".join(letter if letter.isprintable() else " " for letter in text).split())


def _without_objects(text: str) -> str:
    """Replace objects in braces by `{...}`. Without a closing brace, replace everything after the opening one."""
    if "{" not in text:
        return text
    pieces: list[str] = []
    depth, start = 0, 0
    for place, letter in enumerate(text):
        if letter == "{":
            if depth == 0:
                pieces.append(text[start:place])
                start = place
            depth += 1
        elif letter == "}" and depth:
            depth -= 1
            if depth == 0:
                pieces.append(_hide_object(text[start : place + 1]))
                start = place + 1
    pieces.append(text[start:] if depth == 0 else _OBJECT)
    return _OBJECTS.sub(_OBJECT, "".join(pieces))


def _hide_object(text: str) -> str:
    return text if len(text) <= _SHORT_BRACES and ":" not in text else _OBJECT
