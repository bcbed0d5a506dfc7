"""Options that several commands share, and parsers of kinds and names on the command line."""

import re
from collections.abc import Callable, Sequence
from enum import StrEnum
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar

import click
import msgspec

from grove.cli.common.output import Format
from grove.errors import UserError
from grove.operations.object_ref import KINDS, ObjectRef, parse_kind


class ChoiceOf(click.Choice[StrEnum]):
    """A choice of the members of an enum by value. Defaults are values too, because the help prints them."""

    def normalize_choice(self, choice: object, ctx: click.Context | None) -> str:
        return str(choice)


R = TypeVar("R")

FILE = click.Path(path_type=Path)

output_option = click.option(
    "--output",
    "-o",
    type=ChoiceOf(Format),
    default=Format.TEXT.value,
    show_default=True,
    help="Output format: `text` for people, `json` for programs.",
)
kubeconfig_option = click.option(
    "--kubeconfig",
    type=FILE,
    help="The kubeconfig file. Default: KUBECONFIG; a running `grove up` of this directory; ~/.kube/config.",
    metavar="PATH",
)
context_option = click.option(
    "--context", default="", help="The context of the kubeconfig. Default: its current context.", metavar="NAME"
)
yes_option = click.option(
    "--yes",
    "-y",
    is_flag=True,
    help="Do not ask for confirmation, even if the local cluster has ended and the command uses another cluster.",
)
_namespace_option = click.option(
    "--namespace", "-n", default="", help="The namespace. Default: that of the context.", metavar="NAME"
)


class ClusterOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options that select a cluster and a namespace. Empty values mean the default."""

    namespace: str
    kubeconfig: Path | None
    context: str


def cluster_options(command: Callable[..., R]) -> Callable[..., R]:
    """Add `--namespace`, `--kubeconfig` and `--context` to a command, which gets them as one argument `cluster`."""

    @wraps(command)
    def with_cluster(*, namespace: str, kubeconfig: Path | None, context: str, **others: Any) -> R:
        cluster = ClusterOptions(namespace=namespace, kubeconfig=kubeconfig, context=context)
        return command(cluster=cluster, **others)

    return _namespace_option(kubeconfig_option(context_option(with_cluster)))


class BoolFlag(StrEnum):
    """The values of an option that takes `true` or `false`, as some options of kubectl do."""

    YES = "true"
    NO = "false"


# A superset of what any kind allows. It has no character with a meaning in a URL or a selector.
_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")


class UsageError(UserError):
    """The command was used wrongly: exit code 2."""


def parse_object_ref(text: str) -> ObjectRef:
    """Parse `pcs/NAME` or a longer form of the kind. Raises `UsageError`."""
    kind_word, _, name = text.partition("/")
    kind = parse_kind(kind_word)
    if kind is None or not name or "/" in name:
        words = ", ".join((others or (kind,))[0] for kind, others in KINDS.items())
        raise UsageError(f"{text!r}: expected KIND/NAME, such as pcs/chat; kinds: {words}, or their full names")
    return ObjectRef(kind, check_name(name))


def parse_object_refs(words: Sequence[str]) -> list[ObjectRef]:
    """Parse `KIND/NAME...` or `KIND NAME...`, as kubectl does. Raises `UsageError`."""
    if len(words) > 1 and "/" not in words[0] and parse_kind(words[0]) is not None:
        return [parse_object_ref(name if "/" in name else f"{words[0]}/{name}") for name in words[1:]]
    return [parse_object_ref(word) for word in words]


def parse_object_names(words: Sequence[str]) -> list[ObjectRef]:
    """Parse `KIND/NAME...`, `KIND NAME...` or `NAME...`; the kind of a bare name is empty. Raises `UsageError`."""
    if len(words) > 1 and parse_kind(words[0]) is not None:
        return parse_object_refs(words)
    return [parse_one_ref([word]) for word in words]


def parse_one_ref(words: Sequence[str]) -> ObjectRef:
    """Parse `KIND/NAME`, `KIND NAME` or `NAME`; for the last the kind is empty. Raises `UsageError`."""
    if len(words) == 1 and "/" not in words[0] and parse_kind(words[0]) is None:
        return ObjectRef("", check_name(words[0]))
    found = parse_object_refs(words)
    if len(found) != 1:
        raise UsageError(f"{' '.join(words)!r}: expected one object, such as pcs/chat")
    return found[0]


def parse_set_name(words: Sequence[str], *, hint: str) -> str:
    """Return the name of a set, from `NAME`, `pcs/NAME` or `pcs NAME`.

    Raises `UsageError`: with `hint`, which says what to do, for an object of another kind.
    """
    target = parse_one_ref(words)
    if target.kind not in ("", "podcliqueset"):
        raise UsageError(f"{' '.join(words)!r}: {hint}")
    return target.name


def parse_name(text: str, kind: str, *, hint: str) -> str:
    """Return the name of an object of this kind, from `NAME` or `KIND/NAME`.

    Raises `UsageError`: with `hint`, which says what to do, for an object of another kind.
    """
    if "/" not in text:
        return check_name(text)
    target = parse_object_ref(text)
    if target.kind != kind:
        raise UsageError(f"{text!r}: {hint}")
    return target.name


def check_name(text: str) -> str:
    """Return the name of an object or a namespace unchanged. Raises `UsageError` if it is not a valid name."""
    if not _NAME.fullmatch(text):
        raise UsageError(
            f"{text!r} is not a valid name: use lowercase letters, digits, '-' and '.', "
            "with a letter or digit at both ends"
        )
    return text


def parse_timeout(text: str) -> float | None:
    """Parse `--timeout` and return seconds; empty means no limit. Raises `UsageError`."""
    if not text:
        return None
    seconds = parse_seconds("--timeout", text)
    if seconds <= 0:
        raise UsageError(f"--timeout: {text} is not greater than zero; write for example 10m, or omit --timeout")
    return seconds


def parse_seconds(option: str, text: str) -> float:
    """Parse the duration that an option has, and return seconds. Raises `UsageError`."""
    from grove.api.values.durations import DurationError, parse_duration

    try:
        return parse_duration(text).total_seconds()
    except DurationError as error:
        raise UsageError(f"{option}: {error}") from error
