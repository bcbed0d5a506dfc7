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


def dns_label_complaint(text: str) -> str | None:
    if len(text) <= LONGEST_LABEL and _DNS_LABEL.fullmatch(text):
        return None
    return "write up to 63 of a-z, 0-9 and -, beginning and ending with a letter or digit"


def dns_subdomain_complaint(text: str) -> str | None:
    if len(text) <= 253 and _DNS_SUBDOMAIN.fullmatch(text):
        return None
    return "write up to 253 of a-z, 0-9, - and ., beginning and ending with a letter or digit"


def qualified_name_complaint(text: str) -> str | None:
    """Check a label or annotation key: a name with an optional DNS prefix."""
    prefix, slash, name = text.rpartition("/")
    is_good_prefix = not slash or dns_subdomain_complaint(prefix) is None
    if is_good_prefix and len(name) <= 63 and _QUALIFIED.fullmatch(name):
        return None
    return "write up to 63 letters, digits and -_., after a prefix such as example.com/ if need be"


def label_value_complaint(text: str) -> str | None:
    if not text or (len(text) <= 63 and _QUALIFIED.fullmatch(text)):
        return None
    return "write up to 63 letters, digits and -_., beginning and ending with a letter or digit"


def env_name_complaint(text: str) -> str | None:
    if _ENV_NAME.fullmatch(text) and text != "." and not text.startswith(".."):
        return None
    return "write letters, digits and -_. not beginning with a digit or two dots"


def label_errors(labels: Mapping[str, str], path: str) -> Iterator[FieldError]:
    for key, value in labels.items():
        if error_message := qualified_name_complaint(key):
            yield invalid(path, key, error_message)
        if error_message := label_value_complaint(value):
            yield invalid(f"{path}[{key}]", value, error_message)


def annotation_errors(annotations: Mapping[str, str], path: str) -> Iterator[FieldError]:
    for key in annotations:
        # Annotation keys may have capital letters in their prefix; label keys may not.
        if error_message := qualified_name_complaint(key.lower()):
            yield invalid(path, key, error_message)
    size = sum(len(key.encode()) + len(value.encode()) for key, value in annotations.items())
    if size > _GREATEST_ANNOTATIONS:
        yield invalid(path, size, f"all annotations together may have {_GREATEST_ANNOTATIONS} bytes: shorten them")
