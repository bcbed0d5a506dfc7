"""The list of known differences names tests that exist, and users can read it."""

from importlib import import_module
from pathlib import Path

import pytest

from tests.conformance.known_differences import KNOWN_DIFFERENCES

DOCUMENT = Path(__file__).parents[2] / "docs" / "reference" / "embedded-cluster.md"


@pytest.mark.parametrize("test", KNOWN_DIFFERENCES)
def test_a_known_difference_is_a_test(test: str) -> None:
    module, _, name = test.partition("::")
    assert hasattr(import_module(f"tests.conformance.{module}"), name.partition("[")[0])


@pytest.mark.parametrize("reason", dict.fromkeys(KNOWN_DIFFERENCES.values()))
def test_a_known_difference_is_documented(reason: str) -> None:
    assert f"* {reason}.\n" in DOCUMENT.read_text()
