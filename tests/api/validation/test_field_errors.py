"""A field error reads as Kubernetes writes it."""

import pytest

from grove.api.validation.field_errors import (
    FieldError,
    duplicate,
    forbidden,
    invalid,
    not_found,
    not_supported,
    required,
    type_invalid,
)


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (required("spec.a", "write it"), "spec.a: Required value: write it"),
        (invalid("spec.a", 0, "must be greater than 0"), "spec.a: Invalid value: 0: must be greater than 0"),
        (duplicate("spec.a[1]", "x", "remove one"), 'spec.a[1]: Duplicate value: "x": remove one'),
        (forbidden("spec.a", "never changes"), "spec.a: Forbidden: never changes"),
        (not_supported("spec.a", "z", ("x", "y")), 'spec.a: Unsupported value: "z": supported values: "x", "y"'),
        (not_found("spec.a", "x", "define it"), 'spec.a: Not found: "x": define it'),
        (type_invalid("spec.a", {}, "must be of type array"), "spec.a: Invalid value: {}: must be of type array"),
        (invalid("spec.a", "y" * 200, "shorten it"), f'spec.a: Invalid value: "{"y" * 96}...: shorten it'),
    ],
)
def test_an_error_says_where_what_and_what_to_do(error: FieldError, text: str) -> None:
    assert str(error) == text
