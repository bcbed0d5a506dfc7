"""Quantities are exact integers in thousandths."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grove.api.values.quantities import QuantityError, format_binary, format_decimal, format_resource, parse_milli
from grove.errors import UserError


@pytest.mark.parametrize(
    ("quantity", "milli"),
    [
        pytest.param("0", 0, id="zero"),
        pytest.param("2", 2_000, id="a whole"),
        pytest.param(2, 2_000, id="a JSON integer"),
        pytest.param(0.5, 500, id="a JSON number"),
        pytest.param("500m", 500, id="thousandths"),
        pytest.param("1.5", 1_500, id="a fraction"),
        pytest.param(".5", 500, id="a fraction without a whole"),
        pytest.param("1.", 1_000, id="a point without a fraction"),
        pytest.param("-2", -2_000, id="negative"),
        pytest.param("+2", 2_000, id="with a plus"),
        pytest.param("1k", 1_000_000, id="kilo"),
        pytest.param("1M", 10**9, id="mega"),
        pytest.param("1G", 10**12, id="giga"),
        pytest.param("1T", 10**15, id="tera"),
        pytest.param("1P", 10**18, id="peta"),
        pytest.param("1E", 10**21, id="exa, not an exponent"),
        pytest.param("1Ki", 1024 * 1000, id="kibi"),
        pytest.param("80Mi", 80 * 1024**2 * 1000, id="mebi"),
        pytest.param("1.5Gi", 3 * 1024**3 * 500, id="gibi with a fraction"),
        pytest.param("1Ei", 1024**6 * 1000, id="exbi"),
        pytest.param("1e3", 1_000_000, id="an exponent"),
        pytest.param("1E3", 1_000_000, id="an exponent in capitals"),
        pytest.param("12e-1", 1_200, id="a negative exponent"),
        pytest.param("1000u", 1, id="micro"),
        pytest.param("1u", 1, id="less than a thousandth is rounded up: a request never becomes free"),
        pytest.param("1n", 1, id="nano"),
        pytest.param("-1n", -1, id="rounded away from zero"),
        pytest.param("1001u", 2, id="more than a thousandth is rounded up"),
    ],
)
def test_a_quantity_is_read_in_thousandths(quantity: str | int | float, milli: int) -> None:
    assert parse_milli(quantity) == milli


@pytest.mark.parametrize(
    "text", ["", ".", "Mi", "1 Mi", "1mi", "1K", "1KiB", "--1", "e3", "1e", "0x1", "1_000", "1e1000", "\u0661"]
)
def test_what_is_not_a_quantity_is_refused_with_what_to_write_instead(text: str) -> None:
    with pytest.raises(QuantityError) as caught:
        parse_milli(text)
    assert isinstance(caught.value, UserError)
    assert str(caught.value) == f'"{text}" is not a quantity: write a number such as 2, 500m, 80Mi or 1.5Gi'


@pytest.mark.parametrize("text", ["1e19", "1e-19"])
def test_an_exponent_out_of_range_is_refused(text: str) -> None:
    with pytest.raises(QuantityError, match="between -18 and 18"):
        parse_milli(text)


@pytest.mark.parametrize(
    ("resource", "milli", "text"),
    [
        ("cpu", 500, "500m"),
        ("cpu", 32_000, "32"),
        ("cpu", 1_024_000, "1024"),
        ("nvidia.com/gpu", 8_000, "8"),
        ("pods", 1_000_000, "1k"),
        ("memory", 80 * 1024**2 * 1000, "80Mi"),
        ("memory", 1_000_000, "1000"),
        ("memory", 1_024_000, "1Ki"),
        ("memory", 0, "0"),
        ("requests.memory", 256 * 1024**3 * 1000, "256Gi"),
        ("limits.ephemeral-storage", 1024**4 * 1000, "1Ti"),
        ("hugepages-2Mi", 2 * 1024**2 * 1000, "2Mi"),
    ],
)
def test_an_amount_is_shown_as_people_write_it_for_that_resource(resource: str, milli: int, text: str) -> None:
    assert format_resource(resource, milli) == text


@settings(deadline=None)
@given(st.integers(min_value=-(10**30), max_value=10**30))
def test_what_is_written_is_read_back_the_same(milli: int) -> None:
    assert (parse_milli(format_decimal(milli)), parse_milli(format_binary(milli))) == (milli, milli)


@settings(deadline=None)
@given(st.integers(0, 10**12), st.integers(0, 10**12))
def test_amounts_keep_their_order(one: int, other: int) -> None:
    assert (parse_milli(f"{one}m") < parse_milli(f"{other}m")) == (one < other)
