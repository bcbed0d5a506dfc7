"""Options that several commands share, and parsers of kinds and names on the command line."""

import re
from enum import StrEnum
from pathlib import Path

import click
import msgspec

from grove.cli.common.output import Format
from grove.errors import UserError


class ChoiceOf(click.Choice[StrEnum]):
    """A choice of the members of an enum by value. Defaults are values too, because the help prints them."""

    def normalize_choice(self, choice: object, ctx: click.Context | None) -> str:
        return str(choice)


FILE = click.Path(path_type=Path)

output_option = click.option(
    "--output",
    "-o",
    type=ChoiceOf(Format),
    default=Format.TEXT.value,
    show_default=True,
    help="`text` for people, `json` for programs.",
)
kubeconfig_option = click.option(
    "--kubeconfig", type=FILE, help="Default: .grove/kubeconfig if present, else as kubectl.", metavar="PATH"
)
context_option = click.option("--context", default="", help="The context of the kubeconfig to use.", metavar="NAME")
namespace_option = click.option("--namespace", "-n", default="", help="Default: that of the context.", metavar="NAME")

KINDS: dict[str, tuple[str, ...]] = {
    "podcliqueset": ("pcs", "podcliquesets"),
    "podclique": ("pclq", "podcliques"),
    "podcliquescalinggroup": ("pcsg", "podcliquescalinggroups"),
    "podgang": ("pg", "podgangs"),
    "pod": ("po", "pods"),
}
# A superset of what any kind allows. It has no character with a meaning in a URL or a selector.
_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
_SINGULAR = {word: kind for kind, others in KINDS.items() for word in (kind, *others)}


class ObjectRef(msgspec.Struct, frozen=True):
    """A reference to an object, as the user writes it."""

    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind}/{self.name}"


class UsageError(UserError):
    """The command was used wrongly: exit code 2."""


def parse_target(text: str) -> ObjectRef:
    """Parse `pcs/NAME` or a longer form of the kind. Raises `UsageError`."""
    kind_word, _, name = text.partition("/")
    kind = _SINGULAR.get(kind_word.lower())
    if kind is None or not name or "/" in name:
        words = ", ".join((others or (kind,))[0] for kind, others in KINDS.items())
        raise UsageError(f"{text!r}: expected KIND/NAME, such as pcs/chat; kinds: {words}, or their full names")
    return ObjectRef(kind, checked_name(name))


def bare_name(text: str, kind: str, *, otherwise: str) -> str:
    """The name of one object of this kind: `pcs/chat` is what we print, `chat` what is meant.

    `otherwise` tells what to do with an object of another kind.
    """
    if "/" not in text:
        return checked_name(text)
    target = parse_target(text)
    if target.kind != kind:
        raise UsageError(f"{text!r}: {otherwise}")
    return target.name


def checked_name(text: str) -> str:
    """Return the name of an object or a namespace unchanged. Raises `UsageError` if it is not a valid name."""
    if not _NAME.fullmatch(text):
        raise UsageError(f"{text!r} cannot be a name: names are lower case letters, digits, '-' and '.'; check it")
    return text


def parse_timeout(text: str) -> float | None:
    """Parse `--timeout` and return seconds; empty means no limit. Raises `UsageError`."""
    from grove.api.values.durations import DurationError, parse_duration

    if not text:
        return None
    try:
        seconds = parse_duration(text).total_seconds()
    except DurationError as error:
        raise UsageError(f"--timeout: {error}") from error
    if seconds <= 0:
        raise UsageError(f"--timeout: {text} is no time at all; write for example 10m, or leave it out")
    return seconds
