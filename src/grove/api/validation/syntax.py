"""Check the syntax of names, labels and environment variables. Each check returns an error message or None."""

import re
from collections.abc import Iterator, Mapping

from grove.api.validation.field_errors import FieldError, invalid

_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_DNS_LABEL = re.compile(_LABEL)
_DNS_SUBDOMAIN = re.compile(rf"{_LABEL}(\.{_LABEL})*")
_QUALIFIED = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")
_ENV_NAME = re.compile(r"[-._a-zA-Z][-._a-zA-Z0-9]*")
_GREATEST_ANNOTATIONS = 256 * 1024
LONGEST_LABEL = 63


def check_dns_label(text: str) -> str | None:
    if len(text) <= LONGEST_LABEL and _DNS_LABEL.fullmatch(text):
        return None
    return "must have at most 63 characters a-z, 0-9 and -, and begin and end with a letter or digit"


def check_dns_subdomain(text: str) -> str | None:
    if len(text) <= 253 and _DNS_SUBDOMAIN.fullmatch(text):
        return None
    return "must have at most 253 characters a-z, 0-9, - and ., and begin and end with a letter or digit"


def check_qualified_name(text: str) -> str | None:
    """Check a label or annotation key: a name with an optional DNS prefix."""
    prefix, slash, name = text.rpartition("/")
    is_good_prefix = not slash or check_dns_subdomain(prefix) is None
    if is_good_prefix and len(name) <= 63 and _QUALIFIED.fullmatch(name):
        return None
    return "must have at most 63 letters, digits and -_., after an optional prefix such as example.com/"


def check_label_value(text: str) -> str | None:
    if not text or (len(text) <= 63 and _QUALIFIED.fullmatch(text)):
        return None
    return "must have at most 63 letters, digits and -_., and begin and end with a letter or digit"


def check_env_name(text: str) -> str | None:
    if _ENV_NAME.fullmatch(text) and text != "." and not text.startswith(".."):
        return None
    return "must have letters, digits and -_. only, and not begin with a digit or two dots"


def label_errors(labels: Mapping[str, str], path: str) -> Iterator[FieldError]:
    for key, value in labels.items():
        if error_message := check_qualified_name(key):
            yield invalid(path, key, error_message)
        if error_message := check_label_value(value):
            yield invalid(f"{path}[{key}]", value, error_message)


def annotation_errors(annotations: Mapping[str, str], path: str) -> Iterator[FieldError]:
    for key in annotations:
        # Annotation keys may have capital letters in their prefix; label keys may not.
        if error_message := check_qualified_name(key.lower()):
            yield invalid(path, key, error_message)
    size = sum(len(key.encode()) + len(value.encode()) for key, value in annotations.items())
    if size > _GREATEST_ANNOTATIONS:
        yield invalid(
            path, size, f"all annotations together must have at most {_GREATEST_ANNOTATIONS} bytes: shorten them"
        )
