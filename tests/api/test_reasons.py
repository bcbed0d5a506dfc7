"""Every word of the wire has one meaning."""

import pytest

from grove.api.reasons import ConditionType, Documented, EventReason, Reason


@pytest.mark.parametrize("words", [ConditionType, Reason, EventReason])
def test_every_word_is_written_in_camel_case_and_has_a_meaning(words: type[Documented]) -> None:
    without = [word.name for word in words if not word.meaning or not word.isalpha() or not word[0].isupper()]
    assert without == []


@pytest.mark.parametrize("words", [ConditionType, Reason, EventReason])
def test_no_word_is_defined_twice(words: type[Documented]) -> None:
    assert len(list(words)) == len(words.__members__)


def test_a_reason_travels_as_its_plain_word() -> None:
    assert f"{Reason.NEVER_AVAILABLE}" == "NeverAvailable"
