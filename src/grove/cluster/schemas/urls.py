"""URL parsing for CEL rules and formats."""

import re

import msgspec

# RFC 3986, appendix B.
_PARTS = re.compile(r"(?:([^:/?#]+):)?(?://([^/?#]*))?([^?#]*)(?:\?([^#]*))?(?:#.*)?", re.DOTALL)
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*")
_PORT = re.compile(r"(?::(\d*))?")
_ESCAPED = re.compile(rb"%([0-9A-Fa-f]{2})")


class Url(msgspec.Struct, frozen=True, kw_only=True):
    scheme: str
    # Including the port, if any.
    host: str
    path: str
    query: str

    @property
    def hostname(self) -> str:
        if self.host.startswith("["):
            return self.host[1:].partition("]")[0]
        return self.host.partition(":")[0]

    @property
    def port(self) -> str:
        return self.host.rpartition("]")[2].partition(":")[2]

    @property
    def values(self) -> dict[str, list[str]]:
        """The query parameters by name."""
        found: dict[str, list[str]] = {}
        for pair in filter(None, self.query.split("&")):
            name, _, value = pair.partition("=")
            found.setdefault(_unescape(name), []).append(_unescape(value))
        return found


def parse_url(text: str) -> Url:
    """Parse a URL. Raises ValueError unless it is absolute or a path from the root."""
    match = _PARTS.fullmatch(text)
    scheme = (match[1] or "") if match else ""
    host = ((match[2] or "") if match else "").rpartition("@")[2]
    rest = host.rpartition("]")[2] if host.startswith("[") else host[len(host.partition(":")[0]) :]
    is_bad = any(letter <= " " or letter == "\x7f" for letter in text) or not _PORT.fullmatch(rest)
    if match is None or is_bad or not (_SCHEME.fullmatch(scheme) or (not scheme and text.startswith("/"))):
        raise ValueError(f'URL parse error during conversion from string: parse "{text}": invalid URI for request')
    return Url(scheme=scheme, host=host, path=match[3], query=match[4] or "")


def _unescape(text: str) -> str:
    plain = text.replace("+", " ").encode()
    return _ESCAPED.sub(lambda match: bytes.fromhex(match[1].decode()), plain).decode("utf-8", "replace")
