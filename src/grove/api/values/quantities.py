"""Parse and format Kubernetes quantities (`500m`, `2`, `80Mi`, `1e3`) as integers in thousandths, for exact arithmetic.

Amounts finer than a thousandth are rounded away from zero, as in Kubernetes, so that a request never becomes zero.
"""

import re
from functools import lru_cache

from grove.errors import UserError

_QUANTITY = re.compile(r"([+-]?)([0-9]+)?(?:\.([0-9]*))?(?:([KMGTPE]i)|([numkMGTPE])|[eE]([+-]?[0-9]{1,3}))?")
_BINARY = {"Ki": 1, "Mi": 2, "Gi": 3, "Ti": 4, "Pi": 5, "Ei": 6}
_DECIMAL = {"n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_MAX_EXPONENT = 18
# Resources counted in bytes; all others are formatted with decimal suffixes.
_BYTES = ("memory", "storage", "ephemeral-storage", "hugepages-")


class QuantityError(UserError, ValueError):
    """An error for a text that is not a quantity."""


@lru_cache(maxsize=4096)
def parse_milli(quantity: str | int | float) -> int:
    """Return the quantity in thousandths: `500m` is 500, `2` is 2000, `1Ki` is 1,024,000. Raises `QuantityError`."""
    text = str(quantity)
    match = _QUANTITY.fullmatch(text)
    if match is None or not (match[2] or match[3]) or isinstance(quantity, bool):
        raise QuantityError(f'"{text}" is not a quantity: write a number such as 2, 500m, 80Mi or 1.5Gi')
    sign, whole, fraction, binary, decimal, exponent = match.groups()
    digits = int((whole or "") + (fraction or ""))
    power = _DECIMAL[decimal] if decimal else int(exponent or "0")
    if abs(power) > _MAX_EXPONENT:
        raise QuantityError(f'"{text}" is out of range: write an exponent between -18 and 18')
    scaled = digits * 1024 ** (_BINARY[binary] if binary else 0)
    milli = _times_power_of_ten(scaled, 3 + power - len(fraction or ""))
    return -milli if sign == "-" else milli


def format_decimal(milli: int) -> str:
    """Return the shortest exact form with decimal suffixes: `500m`, `2`, `3k`."""
    if milli % 1000:
        return f"{milli}m"
    return _shortest(milli // 1000, 1000, ("", "k", "M", "G", "T", "P", "E"))


def format_binary(milli: int) -> str:
    """Return the shortest exact form with binary suffixes: `80Mi`, `256Gi`, `1000`."""
    if milli % 1000:
        return f"{milli}m"
    return _shortest(milli // 1000, 1024, ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"))


def format_resource(resource: str, milli: int) -> str:
    """Return an amount of this resource: bytes with binary suffixes, all others with decimal suffixes."""
    plain = resource.removeprefix("requests.").removeprefix("limits.")
    return format_binary(milli) if plain.startswith(_BYTES) else format_decimal(milli)


def _times_power_of_ten(value: int, power: int) -> int:
    # Negated floor division rounds up.
    factor: int = 10 ** abs(power)
    return value * factor if power >= 0 else -(-value // factor)


def _shortest(value: int, step: int, suffixes: tuple[str, ...]) -> str:
    power = 0
    while value and value % step == 0 and power + 1 < len(suffixes):
        value //= step
        power += 1
    return f"{value}{suffixes[power]}"
