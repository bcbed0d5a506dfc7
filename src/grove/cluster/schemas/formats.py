"""String formats of schemas. Unknown formats are not checked."""

import base64
import binascii
import ipaddress
import re
from collections.abc import Callable
from datetime import date, datetime

import msgspec

from grove.cluster.schemas.urls import parse_url

_NAME = r"[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_HOSTNAME = re.compile(rf"{_NAME}(\.{_NAME})*\.?")
_EMAIL = re.compile(r"[^@\s<>]+@[^@\s<>]+")
_MAC = re.compile(r"([0-9A-Fa-f]{2}[:-]){5}([0-9A-Fa-f]{2})|([0-9A-Fa-f]{4}\.){2}[0-9A-Fa-f]{4}")
_UUID = r"[0-9a-f]{{8}}-?[0-9a-f]{{4}}-?{version}[0-9a-f]{{3}}-?{variant}[0-9a-f]{{3}}-?[0-9a-f]{{12}}"
_ISO_DURATION = re.compile(r"P(\d+W|(\d+Y)?(\d+M)?(\d+D)?(T(\d+H)?(\d+M)?(\d+(\.\d+)?S)?)?)")
_GO_DURATION = re.compile(r"[-+]?(0|(\d+(\.\d*)?|\.\d+)(ns|us|µs|ms|s|m|h)((\d+(\.\d*)?|\.\d+)(ns|us|µs|ms|s|m|h))*)")
_WORD_DURATION = re.compile(r"(\d+\s*(ns|nano|us|µs|micro|ms|milli|s|sec|m|min|h|hr|hour|d|day|w|week|wk)s?\s*)+")
_COLOUR_HEX = re.compile(r"#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})")
_COLOUR_RGB = re.compile(r"rgb\(\s*(\d{1,3}%?)\s*,\s*(\d{1,3}%?)\s*,\s*(\d{1,3}%?)\s*\)")
_DIGITS = re.compile(r"[0-9- ]{10,17}")
_SSN = re.compile(r"\d{3}[- ]?\d{2}[- ]?\d{4}")


def is_format(form: str, text: str) -> bool:
    """Return whether the text has this format. Unknown formats accept every text."""
    check = _CHECKS.get(form.replace("-", ""))
    return check is None or check(text)


def is_known_format(form: str) -> bool:
    return form.replace("-", "") in _CHECKS or form in _NUMBER_FORMATS or form in _UNCHECKED


def _is_time(text: str) -> bool:
    try:
        msgspec.convert(text, datetime)
    except msgspec.ValidationError:
        return False
    return True


def _is_date(text: str) -> bool:
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return len(text) == len("2026-01-01")


def _is_address(kind: Callable[[str], object]) -> Callable[[str], bool]:
    def check(text: str) -> bool:
        try:
            kind(text)
        except ValueError:
            return False
        return True

    return check


def _is_network(text: str) -> bool:
    return "/" in text and _is_address(ipaddress.ip_interface)(text)


def _is_base64(text: str) -> bool:
    try:
        base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return False
    return True


def _is_uri(text: str) -> bool:
    try:
        parse_url(text)
    except ValueError:
        return False
    return True


def _is_uuid(version: str, variant: str) -> Callable[[str], bool]:
    pattern = re.compile(_UUID.format(version=version, variant=variant), re.IGNORECASE)
    return lambda text: pattern.fullmatch(text) is not None


def is_duration(text: str) -> bool:
    return any(form.fullmatch(text) for form in (_GO_DURATION, _WORD_DURATION)) or (
        len(text) > 1 and _ISO_DURATION.fullmatch(text) is not None
    )


def _matches(pattern: re.Pattern[str]) -> Callable[[str], bool]:
    return lambda text: pattern.fullmatch(text) is not None


_CHECKS: dict[str, Callable[[str], bool]] = {
    "byte": _is_base64,
    "cidr": _is_network,
    "creditcard": _matches(_DIGITS),
    "date": _is_date,
    "datetime": _is_time,
    "duration": is_duration,
    "email": _matches(_EMAIL),
    "hexcolor": _matches(_COLOUR_HEX),
    "hostname": _matches(_HOSTNAME),
    "ipv4": _is_address(ipaddress.IPv4Address),
    "ipv6": _is_address(ipaddress.IPv6Address),
    "isbn10": _matches(_DIGITS),
    "isbn13": _matches(_DIGITS),
    "isbn": _matches(_DIGITS),
    "mac": _matches(_MAC),
    "rgbcolor": _matches(_COLOUR_RGB),
    "ssn": _matches(_SSN),
    "uri": _is_uri,
    "uuid": _is_uuid("[0-9a-f]", "[0-9a-f]"),
    "uuid3": _is_uuid("3", "[0-9a-f]"),
    "uuid4": _is_uuid("4", "[89ab]"),
    "uuid5": _is_uuid("5", "[89ab]"),
}
_NUMBER_FORMATS = ("int32", "int64", "float", "double")
_UNCHECKED = ("password", "bsonobjectid", "k8s-short-name", "k8s-long-name")
