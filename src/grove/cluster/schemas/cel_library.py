"""CEL functions that Kubernetes adds: lists, regular expressions, quantities, IP addresses, URLs and versions.

A value that is not JSON is a map with one key, its type. Equal values are equal maps. The types for checking are
stricter than those for evaluation: there a quantity is not a map.
Not included: functions of the CEL library itself (sets, most of lists), and functions that return optionals (`format`),
which cannot be added.
"""

import ipaddress
import re
from collections.abc import Callable
from datetime import datetime, timedelta
from enum import Enum
from fractions import Fraction
from itertools import pairwise
from typing import Any

import msgspec
from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from grove.api.values.quantities import QuantityError, parse_milli
from grove.cluster.schemas.regex_translate import PatternError, compile_pattern
from grove.cluster.schemas.urls import Url, parse_url


class CelType(Enum):
    """The type of a parameter or result."""

    ANY = "any"
    BOOL = "bool"
    INT = "int"
    DOUBLE = "double"
    STRING = "string"
    LIST = "list"
    STRINGS = "strings"
    MAP = "map"
    QUANTITY = "Quantity"
    URL = "URL"
    IP = "IP"
    CIDR = "CIDR"
    SEMVER = "Semver"


class Overload(msgspec.Struct, frozen=True):
    parameters: tuple[CelType, ...]
    result: CelType
    function: Callable[..., Any]
    is_member: bool = True


Boxed = dict[str, Any]


def _box(kind: CelType, value: Any) -> Boxed:
    return {kind.value: value}


def _kind_of(boxed: Any) -> str:
    return next(iter(boxed), "") if isinstance(boxed, dict) else ""


def _is(parse: Callable[[str], Any]) -> Callable[[str], bool]:
    def check(text: str) -> bool:
        try:
            parse(text)
        except ValueError:
            return False
        return True

    return check


# Lists


def _is_sorted(items: list[Any]) -> bool:
    return all(not before > after for before, after in pairwise(items))


def _total(items: list[Any]) -> Any:
    """Return the sum of numbers or durations; 0 for an empty list."""
    return _to_protobuf(sum(items[1:], items[0])) if items else 0


def _to_protobuf(value: Any) -> Any:
    """Convert times for CEL: functions receive datetime objects but must return protobuf messages."""
    message: Duration | Timestamp
    match value:
        case timedelta():
            message = Duration()
            message.FromTimedelta(value)
            return message
        case datetime():
            message = Timestamp()
            message.FromDatetime(value)
            return message
        case _:
            return value


def _smallest(items: list[Any]) -> Any:
    if not items:
        raise ValueError("min called on empty list")
    return _to_protobuf(min(items))


def _largest(items: list[Any]) -> Any:
    if not items:
        raise ValueError("max called on empty list")
    return _to_protobuf(max(items))


def _last_index(items: list[Any], wanted: Any) -> int:
    return next((index for index in range(len(items) - 1, -1, -1) if items[index] == wanted), -1)


def _first_index(items: list[Any], wanted: Any) -> int:
    return next((index for index, item in enumerate(items) if item == wanted), -1)


# Patterns


def _pattern(text: str) -> re.Pattern[str]:
    try:
        return compile_pattern(text)
    except PatternError as error:
        raise ValueError(f"Illegal regex: {error}") from None


def _find(text: str, pattern: str) -> str:
    match = _pattern(pattern).search(text)
    return match[0] if match else ""


def _find_all(text: str, pattern: str, limit: int = -1) -> list[str]:
    found = [match[0] for match in _pattern(pattern).finditer(text)]
    return found if limit < 0 else found[:limit]


# Quantities


def _quantity(text: str) -> Boxed:
    return _box(CelType.QUANTITY, str(_amount(text)))


def _amount(text: str) -> Fraction:
    try:
        return Fraction(parse_milli(text), 1000)
    except QuantityError as error:
        raise ValueError(str(error)) from None


def _number(value: Any) -> Fraction:
    return Fraction(value[CelType.QUANTITY.value]) if isinstance(value, dict) else Fraction(value)


def _whole(value: Boxed) -> int:
    number = _number(value)
    if number.denominator != 1:
        raise ValueError("cannot convert value to integer")
    return int(number)


# Versions

_SEMVER = re.compile(
    r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)"
    r"(?:-((?:0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)(?:\.(?:0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*))*))?"
    r"(?:\+([0-9a-zA-Z-]+(?:\.[0-9a-zA-Z-]+)*))?"
)


def _semver(text: str) -> Boxed:
    match = _SEMVER.fullmatch(text)
    if match is None:
        raise ValueError(f"{text} is not a semantic version")
    return _box(CelType.SEMVER, [int(match[1]), int(match[2]), int(match[3]), match[4] or ""])


def _lenient_semver(text: str, is_lenient: bool) -> Boxed:
    if not is_lenient:
        return _semver(text)
    parts = text.removeprefix("v").split(".")
    padded = [*(str(int(part)) if part.isdigit() else part for part in parts), "0", "0"][: max(3, len(parts))]
    return _semver(".".join(padded))


def _version_key(boxed: Boxed) -> tuple[Any, ...]:
    """Return a sort key for versions: a pre-release sorts before its release."""
    major, minor, patch, suffix = boxed[CelType.SEMVER.value]
    parts = [(0, int(part), "") if part.isdigit() else (1, 0, part) for part in suffix.split(".")] if suffix else []
    return major, minor, patch, not suffix, parts


# Comparisons of several types


def _key(boxed: Any) -> Any:
    return _version_key(boxed) if _kind_of(boxed) == CelType.SEMVER.value else _number(boxed)


def _compare(left: Any, right: Any) -> int:
    return int(_key(left) > _key(right)) - int(_key(left) < _key(right))


def _is_less(left: Any, right: Any) -> bool:
    return bool(_key(left) < _key(right))


def _is_greater(left: Any, right: Any) -> bool:
    return bool(_key(left) > _key(right))


# Addresses


def _ip(text: str) -> Boxed:
    return _box(CelType.IP, str(_address(text)))


def _address(value: Any) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    text = value[CelType.IP.value] if isinstance(value, dict) else value
    found = ipaddress.ip_address(text)
    if isinstance(found, ipaddress.IPv6Address) and found.ipv4_mapped:
        raise ValueError(f"IPv4-mapped IPv6 address {text!r} is not allowed")
    return found


def _cidr(text: str) -> Boxed:
    if "/" not in text:
        raise ValueError(f"network address parse error during conversion from string: {text!r}")
    return _box(CelType.CIDR, str(ipaddress.ip_interface(text)))


def _interface(value: Any) -> ipaddress.IPv4Interface | ipaddress.IPv6Interface:
    return ipaddress.ip_interface(value[CelType.CIDR.value] if isinstance(value, dict) else value)


def _contains_ip(cidr: Boxed, ip: Any) -> bool:
    return _address(ip) in _interface(cidr).network


def _contains_cidr(cidr: Boxed, other: Any) -> bool:
    outer, inner = _interface(cidr).network, _interface(other).network
    return inner.network_address in outer and inner.broadcast_address in outer


def _is_canonical(text: str) -> bool:
    return str(_address(text)) == text


# URLs


def _url(text: str) -> Boxed:
    parse_url(text)
    return _box(CelType.URL, text)


def _of_url(read: Callable[[Url], Any]) -> Callable[[Boxed], Any]:
    return lambda boxed: read(parse_url(boxed[CelType.URL.value]))


def _members(kind: CelType, result: CelType, functions: dict[str, Callable[..., Any]]) -> dict[str, list[Overload]]:
    return {name: [Overload((kind,), result, function)] for name, function in functions.items()}


def _tables(*tables: dict[str, list[Overload]]) -> dict[str, list[Overload]]:
    merged: dict[str, list[Overload]] = {}
    for table in tables:
        for name, overloads in table.items():
            merged.setdefault(name, []).extend(overloads)
    return merged


_K = CelType
FUNCTIONS: dict[str, list[Overload]] = _tables(
    _members(_K.LIST, _K.ANY, {"sum": _total, "min": _smallest, "max": _largest}),
    _members(_K.LIST, _K.BOOL, {"isSorted": _is_sorted}),
    {
        "indexOf": [Overload((_K.LIST, _K.ANY), _K.INT, _first_index)],
        "lastIndexOf": [Overload((_K.LIST, _K.ANY), _K.INT, _last_index)],
        "find": [Overload((_K.STRING, _K.STRING), _K.STRING, _find)],
        "findAll": [
            Overload((_K.STRING, _K.STRING), _K.STRINGS, _find_all),
            Overload((_K.STRING, _K.STRING, _K.INT), _K.STRINGS, _find_all),
        ],
    },
    # Quantities and versions
    {
        "quantity": [Overload((_K.STRING,), _K.QUANTITY, _quantity, is_member=False)],
        "sign": [Overload((_K.QUANTITY,), _K.INT, lambda q: (_number(q) > 0) - (_number(q) < 0), is_member=False)],
        "isQuantity": [Overload((_K.STRING,), _K.BOOL, _is(_amount), is_member=False)],
        "semver": [
            Overload((_K.STRING,), _K.SEMVER, _semver, is_member=False),
            Overload((_K.STRING, _K.BOOL), _K.SEMVER, _lenient_semver, is_member=False),
        ],
        "isSemver": [Overload((_K.STRING,), _K.BOOL, _is(_semver), is_member=False)],
        "compareTo": [Overload((kind, kind), _K.INT, _compare) for kind in (_K.QUANTITY, _K.SEMVER)],
        "isLessThan": [Overload((kind, kind), _K.BOOL, _is_less) for kind in (_K.QUANTITY, _K.SEMVER)],
        "isGreaterThan": [Overload((kind, kind), _K.BOOL, _is_greater) for kind in (_K.QUANTITY, _K.SEMVER)],
        "add": [
            Overload((_K.QUANTITY, kind), _K.QUANTITY, lambda a, b: _box(_K.QUANTITY, str(_number(a) + _number(b))))
            for kind in (_K.QUANTITY, _K.INT)
        ],
        "sub": [
            Overload((_K.QUANTITY, kind), _K.QUANTITY, lambda a, b: _box(_K.QUANTITY, str(_number(a) - _number(b))))
            for kind in (_K.QUANTITY, _K.INT)
        ],
    },
    _members(_K.QUANTITY, _K.INT, {"asInteger": _whole}),
    _members(_K.QUANTITY, _K.BOOL, {"isInteger": lambda q: _number(q).denominator == 1}),
    _members(_K.QUANTITY, _K.DOUBLE, {"asApproximateFloat": lambda q: float(_number(q))}),
    _members(
        _K.SEMVER,
        _K.INT,
        {
            "major": lambda v: v[_K.SEMVER.value][0],
            "minor": lambda v: v[_K.SEMVER.value][1],
            "patch": lambda v: v[_K.SEMVER.value][2],
        },
    ),
    # Addresses
    {
        "ip": [
            Overload((_K.STRING,), _K.IP, _ip, is_member=False),
            Overload((_K.CIDR,), _K.IP, lambda cidr: _box(_K.IP, str(_interface(cidr).ip))),
        ],
        "isIP": [Overload((_K.STRING,), _K.BOOL, _is(_address), is_member=False)],
        "ip.isCanonical": [Overload((_K.STRING,), _K.BOOL, _is_canonical, is_member=False)],
        "cidr": [Overload((_K.STRING,), _K.CIDR, _cidr, is_member=False)],
        "isCIDR": [Overload((_K.STRING,), _K.BOOL, _is(_cidr), is_member=False)],
        "containsIP": [Overload((_K.CIDR, kind), _K.BOOL, _contains_ip) for kind in (_K.STRING, _K.IP)],
        "containsCIDR": [Overload((_K.CIDR, kind), _K.BOOL, _contains_cidr) for kind in (_K.STRING, _K.CIDR)],
    },
    _members(_K.IP, _K.INT, {"family": lambda ip: _address(ip).version}),
    _members(
        _K.IP,
        _K.BOOL,
        {
            "isUnspecified": lambda ip: _address(ip).is_unspecified,
            "isLoopback": lambda ip: _address(ip).is_loopback,
            "isLinkLocalMulticast": lambda ip: _address(ip).is_multicast and _address(ip).is_link_local,
            "isLinkLocalUnicast": lambda ip: _address(ip).is_link_local,
            "isGlobalUnicast": lambda ip: not (_address(ip).is_multicast or _address(ip).is_loopback),
        },
    ),
    _members(_K.CIDR, _K.INT, {"prefixLength": lambda cidr: _interface(cidr).network.prefixlen}),
    _members(_K.CIDR, _K.CIDR, {"masked": lambda cidr: _box(_K.CIDR, str(_interface(cidr).network))}),
    # URLs
    {
        "url": [Overload((_K.STRING,), _K.URL, _url, is_member=False)],
        "isURL": [Overload((_K.STRING,), _K.BOOL, _is(_url), is_member=False)],
    },
    _members(
        _K.URL,
        _K.STRING,
        {
            "getScheme": _of_url(lambda url: url.scheme),
            "getHost": _of_url(lambda url: url.host),
            "getHostname": _of_url(lambda url: url.hostname),
            "getPort": _of_url(lambda url: url.port),
            "getEscapedPath": _of_url(lambda url: url.path),
        },
    ),
    _members(_K.URL, _K.MAP, {"getQuery": _of_url(lambda url: url.values)}),
)
