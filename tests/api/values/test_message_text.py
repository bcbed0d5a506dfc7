"""Texts of others on their way into logs, events and conditions."""

import pytest

from grove.api.values.message_text import MAX_MESSAGE, MAX_SERVER_MESSAGE, sanitize_message, to_line, truncate


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ('pods "a" is forbidden: exceeded quota: few', 'pods "a" is forbidden: exceeded quota: few'),
        ("spec.replicas: Invalid value: -1: must be positive", "spec.replicas: Invalid value: -1: must be positive"),
        (
            'Pod "a" is invalid: spec: Invalid value: {"env":[{"name":"KEY","value":"hunter2"}]}: is immutable',
            'Pod "a" is invalid: spec: Invalid value: {...}: is immutable',
        ),
        (
            "spec: Forbidden: may not change\n  core.PodSpec{\n  Volumes: nil,\n  Env: {Name: 1}}\n",
            "spec: Forbidden: may not change core.PodSpec{...}",
        ),
        ('x: Invalid value: [{"a":1}, {"b":2},{"c":3}]: no', "x: Invalid value: [{...}]: no"),
        ("the host name ${NODE} is unknown", "the host name ${NODE} is unknown"),
        ('x: Invalid value: {"spec":{"env":"hunt', "x: Invalid value: {...}"),
        ("one }: stray", "one }: stray"),
        ("line one\n\tline two\x00\x1b[31m red", "line one line two [31m red"),
        (f'"{"x" * 300}" is too long', f'"{"x" * 40}..." is too long'),
    ],
)
def test_an_object_inside_an_error_text_is_left_out_and_the_words_around_it_stay(text: str, kept: str) -> None:
    assert sanitize_message(text) == kept


@pytest.mark.parametrize(
    "text",
    [
        "Authorization: Bearer abcdefghijklmnop rejected",
        "user eyJhbGciOi.eyJzdWIiOi.c2lnbmF0dXJl is unknown",
        "Get https://user:abcdefghijklmnop@host/x failed",
        "Get https://host/x?token=abcdefghijklmnop&y=1 failed",
        "password=abcdefghijklmnop",
    ],
)
def test_a_secret_inside_an_error_text_is_hidden(text: str) -> None:
    reported = sanitize_message(text)
    assert "[hidden]" in reported
    assert "abcdefghijklmnop" not in reported
    assert "c2lnbmF0dXJl" not in reported


@pytest.mark.parametrize("length", [MAX_SERVER_MESSAGE - 1, MAX_SERVER_MESSAGE, MAX_SERVER_MESSAGE + 1])
def test_a_long_text_is_cut(length: int) -> None:
    reported = sanitize_message("x" * length)
    assert len(reported) == min(length, MAX_SERVER_MESSAGE)
    assert reported.endswith("...") is (length > MAX_SERVER_MESSAGE)
    assert len(truncate("y" * 5000)) == MAX_MESSAGE


@pytest.mark.parametrize("odd", ["\n", "\x1b[31m", "\u202e", "\u2066", "\u200b", "\ufeff", "\u2028", "\x9b", "\x00"])
def test_characters_that_control_a_terminal_are_left_out(odd: str) -> None:
    for reported in (sanitize_message(f"a{odd}b"), truncate(f"a{odd}b"), to_line(f"a{odd}b")):
        assert reported.isprintable()
        assert reported.startswith("a ")


def test_of_a_huge_object_the_words_before_and_after_it_stay() -> None:
    text = 'Pod "a" is invalid: spec: Invalid value: {"env":"' + "secret," * 500_000 + '"}: field is immutable'
    assert sanitize_message(text) == 'Pod "a" is invalid: spec: Invalid value: {...} ... : field is immutable'
