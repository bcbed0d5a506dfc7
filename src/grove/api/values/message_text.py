"""Sanitize messages of servers for log lines, events and conditions: one line, short, without objects and secrets.

An API server quotes what it rejects: a 422 may contain the whole object, including environment variables.
"""

import re

# Maximum length of a quoted server message in a condition, an event or a log line.
SERVER_WORDS = 512
# Maximum length of a whole message that contains the quote.
MESSAGE = 1024

# Of a huge text only the beginning (what is wrong) and the end (why) are read.
_HEAD, _TAIL = 8192, 1024
_ELLIPSIS = "..."
_OBJECT = "{...}"
# Longer texts in braces are objects; shorter ones may be a name such as `${NODE}`.
_SHORT_BRACES = 40
_LONG_QUOTE = 200
_SHOWN_OF_QUOTE = 40

_CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]+")
_OBJECTS = re.compile(r"\{\.\.\.\}(?:[\s,]*\{\.\.\.\})+")
_QUOTES = re.compile(rf'"([^"]{{{_LONG_QUOTE},}})"')
_SECRETS = (
    (re.compile(r"(?i)\b(bearer|basic)\s+[\w.~+/=-]{8,}"), r"\1 [hidden]"),
    # A JWT, such as the token of a service account: three parts in base64.
    (re.compile(r"\beyJ[\w-]+\.[\w-]+\.[\w-]*"), "[hidden]"),
    (re.compile(r"(?i)\b(password|passwd|token|secret|apikey|api_key)=[^\s&\"']+"), r"\1=[hidden]"),
    (re.compile(r"://[^/\s@\"']+@"), "://[hidden]@"),
)


def brief(text: str, limit: int = SERVER_WORDS) -> str:
    """Return the text on one line, without embedded objects and secrets, at most `limit` characters long."""
    if len(text) > _HEAD + _TAIL:
        # The tail may start inside an object; drop the rest of that object.
        text = f"{_without_objects(text[:_HEAD])} {_ELLIPSIS} {text[-_TAIL:].rpartition('}')[2]}"
    else:
        text = _without_objects(text)
    for pattern, replacement in _SECRETS:
        text = pattern.sub(replacement, text)
    text = _QUOTES.sub(lambda found: f'"{found[1][:_SHOWN_OF_QUOTE]}{_ELLIPSIS}"', text)
    return cut(" ".join(_CONTROLS.sub(" ", text).split()), limit)


def cut(text: str, limit: int = MESSAGE) -> str:
    return text if len(text) <= limit else text[: limit - len(_ELLIPSIS)].rstrip() + _ELLIPSIS


def _without_objects(text: str) -> str:
    """Replace objects in braces by `{...}`. Without a closing brace, replace everything after the opening one."""
    if "{" not in text:
        return text
    kept: list[str] = []
    depth, start = 0, 0
    for place, letter in enumerate(text):
        if letter == "{":
            if depth == 0:
                kept.append(text[start:place])
                start = place
            depth += 1
        elif letter == "}" and depth:
            depth -= 1
            if depth == 0:
                kept.append(_in_braces(text[start : place + 1]))
                start = place + 1
    kept.append(text[start:] if depth == 0 else _OBJECT)
    return _OBJECTS.sub(_OBJECT, "".join(kept))


def _in_braces(text: str) -> str:
    return text if len(text) <= _SHORT_BRACES and ":" not in text else _OBJECT
