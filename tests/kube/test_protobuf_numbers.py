"""The field numbers that are checked in are those of the Go types, and so are the samples that tests read."""

import pytest

from tests.kube.controlplane.numbers import NUMBERS, SAMPLES, numbers_text, text_of, told_by_go

pytestmark = pytest.mark.kube


def test_the_numbers_are_those_of_the_go_types() -> None:
    assert numbers_text(told_by_go("numbers")) == NUMBERS.read_text()


def test_the_samples_are_made_by_the_go_types() -> None:
    assert text_of(told_by_go("samples")) == SAMPLES.read_text()
