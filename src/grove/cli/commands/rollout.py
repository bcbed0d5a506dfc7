"""`grove rollout status|history|undo pcs/NAME`: follow, list and undo updates."""

from contextlib import nullcontext
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

import click

from grove.cli.command_registry import OrderedGroup
from grove.cli.common.options import (
    ChoiceOf,
    UsageError,
    bare_name,
    context_option,
    kubeconfig_option,
    namespace_option,
    output_option,
    parse_timeout,
)
from grove.cli.common.output import Format, is_terminal, say, say_error, say_json, say_part, say_rows, screen, width
from grove.errors import UserError

if TYPE_CHECKING:
    from grove.api.template_revision import Revision
    from grove.cli.common.connection import Connection
    from grove.cli.rollout.follow import FollowOptions, FollowResult
    from grove.cli.rollout.progress import Rollout
    from grove.cli.rollout.undo import Stored, Undone


class Watch(StrEnum):
    YES = "true"
    NO = "false"


class RolloutFormat(StrEnum):
    TEXT = "text"
    JSON = "json"
    YAML = "yaml"


name_argument = click.argument("name", help="The set, such as pcs/chat.", metavar="pcs/NAME")
timeout_option = click.option("--timeout", default="", help="Give up after, such as 10m.", metavar="DURATION")


@click.group(cls=OrderedGroup, no_args_is_help=True)
def rollout() -> None:
    """Follow, list and undo updates."""


@rollout.command()
@name_argument
@click.option(
    "--watch", type=ChoiceOf(Watch), default=Watch.YES.value, show_default=True, help="Go on until the update is over."
)
@click.option("--no-watch", is_flag=True, help="Look once; the same as --watch=false.")
@timeout_option
@click.option("--revision", type=click.IntRange(min=1), help="End when another one is newer.", metavar="N")
@namespace_option
@kubeconfig_option
@context_option
@output_option
def status(
    name: str,
    watch: Watch,
    no_watch: bool,
    timeout: str,
    revision: int | None,
    namespace: str,
    kubeconfig: Path | None,
    context: str,
    output: Format,
) -> None:
    """Follow the update of a set until it is complete."""
    from grove.cli.common.connection import run
    from grove.cli.rollout.follow import FollowOptions

    wishes = FollowOptions(
        is_watching=watch is Watch.YES and not no_watch,
        timeout_seconds=parse_timeout(timeout),
        revision=revision,
    )
    run(_status(_set_name(name), wishes, namespace, kubeconfig, context, output))


@rollout.command()
@name_argument
@click.option("--revision", type=click.IntRange(min=1), help="Its pod templates.", metavar="N")
@namespace_option
@kubeconfig_option
@context_option
@click.option(
    "--output",
    "-o",
    type=ChoiceOf(RolloutFormat),
    default=RolloutFormat.TEXT.value,
    show_default=True,
    help="`text` for people; `json`, `yaml`.",
)
def history(
    name: str,
    revision: int | None,
    namespace: str,
    kubeconfig: Path | None,
    context: str,
    output: RolloutFormat,
) -> None:
    """List the revisions of a set.

    Prints what each revision changed and how many replicas run it.
    """
    from grove.cli.common.connection import run

    run(_history(_set_name(name), revision, namespace, kubeconfig, context, output))


@rollout.command()
@name_argument
@click.option("--to-revision", type=click.IntRange(min=1), help="Default: the one before.", metavar="N")
@click.option("--dry-run", is_flag=True, help="Say what would change, and change nothing.")
@click.option("--wait", is_flag=True, help="Then follow the update until it is over.")
@timeout_option
@namespace_option
@kubeconfig_option
@context_option
@output_option
def undo(
    name: str,
    to_revision: int | None,
    dry_run: bool,
    wait: bool,
    timeout: str,
    namespace: str,
    kubeconfig: Path | None,
    context: str,
    output: Format,
) -> None:
    """Roll a set back to an earlier revision.

    Writes the pod templates of that revision into the set. The operator then updates the pods.
    """
    from grove.cli.common.connection import run
    from grove.cli.rollout.follow import FollowOptions

    if dry_run and wait:
        raise UsageError("--wait: a dry run changes nothing, so there is nothing to wait for; leave one out")
    if timeout and not wait:
        raise UsageError("--timeout: says how long to --wait; add that, or leave this out")
    wishes = FollowOptions(timeout_seconds=parse_timeout(timeout)) if wait else None
    run(_undo(_set_name(name), to_revision, dry_run, wishes, namespace, kubeconfig, context, output))


def _set_name(text: str) -> str:
    otherwise = "sets are updated, and their parts with them; give the name of its set"
    return bare_name(text, "podcliqueset", otherwise=otherwise)


# --- status ----------------------------------------------------------------------------------------------------------


async def _status(
    name: str, wishes: "FollowOptions", namespace: str, kubeconfig: Path | None, context: str, output: Format
) -> None:
    from grove.cli.common.connection import connect

    async with connect(kubeconfig, context, namespace) as connection:
        outcome = await _follow(connection, name, wishes, output)
    if output is Format.JSON:
        say_json(outcome.rollout)
    _check(outcome, wishes)


async def _follow(connection: "Connection", name: str, wishes: "FollowOptions", output: Format) -> "FollowResult":
    from grove.cli.common.random_source import fresh_random
    from grove.cli.rollout.follow import FollowedRollout, FollowEnd, LiveProgress, ProgressLines, Show, follow
    from grove.cli.rollout.undo import no_such_set

    client, clock = connection.client, connection.clock
    followed = FollowedRollout(client, clock, fresh_random(), namespace=connection.namespace, name=name)
    # The first read fails at once where a watch would retry forever: no such set, no such cluster.
    first = await followed.look_once()
    if first is None:
        raise no_such_set(name, connection.namespace)
    is_moving = wishes.is_watching and not first.is_over and not followed.is_terminating
    is_drawn = is_moving and output is Format.TEXT and is_terminal()
    with screen() if is_drawn else nullcontext() as draw:
        show = (
            LiveProgress(clock, draw)
            if draw
            else ProgressLines(clock)
            if is_moving and output is Format.TEXT
            else Show()
        )
        outcome = await follow(followed, first, clock, wishes, show)
    if output is Format.TEXT and outcome.ending in (FollowEnd.OVER, FollowEnd.LOOKED) and not is_drawn:
        _say_look(outcome.rollout, connection)
    return outcome


def _say_look(rollout: "Rollout", connection: "Connection") -> None:
    from grove.cli.rollout.view import progress_line, progress_rows

    if is_terminal() and not rollout.is_over:
        say_rows(progress_rows(rollout, connection.clock.now(), width()))
    else:
        _say_text(progress_line(rollout))


def _check(outcome: "FollowResult", wishes: "FollowOptions") -> None:
    """Raise `UserError` if the update did not complete."""
    from datetime import timedelta

    from grove.api.values.durations import format_duration
    from grove.cli.rollout.follow import FollowEnd
    from grove.cli.rollout.view import waits_for

    rollout = outcome.rollout
    what = f"pcs/{rollout.name}"
    match outcome.ending:
        case FollowEnd.TIMED_OUT:
            waited = format_duration(timedelta(seconds=wishes.timeout_seconds or 0))
            raise UserError(f"not done after {waited}: {waits_for(rollout)}")
        case FollowEnd.SUPERSEDED:
            raise UserError(
                f"{what} is at revision {rollout.revision}, not {wishes.revision}; leave --revision out to follow it"
            )
        case FollowEnd.LEAVING:
            raise UserError(f"{what} is being deleted, so its update does not go on; `grove status` shows what is left")
        case FollowEnd.GONE:
            raise UserError(f"{what} was deleted, so its update does not go on; `grove status` lists what there is")
        case _:
            return


# --- history ---------------------------------------------------------------------------------------------------------


async def _history(
    name: str, number: int | None, namespace: str, kubeconfig: Path | None, context: str, output: RolloutFormat
) -> None:
    from grove.cli.common.connection import connect
    from grove.cli.rollout.undo import find_revision, read_stored

    async with connect(kubeconfig, context, namespace) as connection:
        stored = await read_stored(connection, name)
        if number is not None:
            _say_revision(name, find_revision(name, stored.revisions, number), output)
        else:
            await _say_history(connection, stored, output)


def _say_revision(name: str, revision: "Revision", output: RolloutFormat) -> None:
    from grove.api.types.meta import to_wire
    from grove.api.values.yaml_text import spread_text

    template = to_wire(revision.template)
    if output is RolloutFormat.JSON:
        say_json({"revision": revision.number, **template})
    else:
        say_part(f"# pcs/{name} revision {revision.number}\n{spread_text(template)}")


async def _say_history(connection: "Connection", stored: "Stored", output: RolloutFormat) -> None:
    from grove.api import labels
    from grove.api.resources import PODGANGS
    from grove.api.types.meta import to_wire
    from grove.api.values.yaml_text import spread_text
    from grove.cli.rollout.history import RevisionList, build_history
    from grove.cli.rollout.progress import running_revisions
    from grove.cli.rollout.revisions import asked_revision, asked_template
    from grove.cli.rollout.view import history_rows

    pcs = stored.pcs
    selector = labels.selector(labels.default_labels(pcs.metadata.name))
    gangs = await connection.client.list(PODGANGS, namespace=pcs.metadata.namespace, label_selector=selector)
    current = asked_revision(asked_template(pcs), stored.revisions)
    entries = build_history(stored.revisions, current, running_revisions(pcs, gangs.items))
    found = RevisionList(name=pcs.metadata.name, namespace=pcs.metadata.namespace, revisions=entries)
    if output is RolloutFormat.JSON:
        say_json(found)
    elif output is RolloutFormat.YAML:
        say_part(spread_text(to_wire(found)))
    elif entries:
        say_rows(history_rows(entries, connection.clock.now(), width() if is_terminal() else None))
        if current is None:
            say("The set asks for other templates since; the operator has not stored them yet.")
    else:
        what = f"pcs/{found.name}"
        say(f"{what} has no revisions yet: no operator has looked at it; `grove why {what}` says more")


# --- undo ------------------------------------------------------------------------------------------------------------


async def _undo(
    name: str,
    to_revision: int | None,
    is_dry_run: bool,
    wishes: "FollowOptions | None",
    namespace: str,
    kubeconfig: Path | None,
    context: str,
    output: Format,
) -> None:
    from grove.cli.common.connection import connect
    from grove.cli.rollout.undo import undo

    async with connect(kubeconfig, context, namespace) as connection:
        undone = await undo(connection, name, to_revision, is_dry_run=is_dry_run)
        if output is Format.TEXT:
            _say_undone(undone)
        outcome = None if wishes is None else await _follow(connection, name, wishes, output)
    if output is Format.JSON:
        say_json({"undo": undone, **({"rollout": outcome.rollout} if outcome else {})})
    if outcome is not None and wishes is not None:
        _check(outcome, wishes)


def _say_undone(undone: "Undone") -> None:
    for warning in undone.warnings:
        say_error(f"Warning: {warning}")
    for text in _undone(undone):
        _say_text(text)


def _undone(undone: "Undone") -> list[str]:
    from grove.cli.rollout.template_diff import told_changes

    what = f"pcs/{undone.name}"
    if not undone.is_changed:
        return [f"{what} already asks for revision {undone.to_revision}, nothing to change"]
    would = "would go back" if undone.is_dry_run else "goes back"
    origin = f" from revision {undone.from_revision}" if undone.from_revision is not None else ""
    is_renamed = undone.becomes_revision != undone.to_revision
    renamed = f", which becomes revision {undone.becomes_revision}" if is_renamed else ""
    told = f"{what} {would}{origin} to revision {undone.to_revision}{renamed}"
    return [told, *(f"  {text}" for text in told_changes(undone.changes))]


def _say_text(text: str) -> None:
    """Print a text, wrapped between words on a terminal."""
    from grove.cli.rollout.view import wrapped

    for line in wrapped(text, width()) if is_terminal() else [text]:
        say(line)
