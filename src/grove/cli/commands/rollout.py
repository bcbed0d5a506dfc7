"""`grove rollout status|history|undo|restart pcs/NAME`: follow and steer updates."""

from contextlib import nullcontext
from enum import StrEnum
from typing import TYPE_CHECKING

import click

from grove.cli.command_registry import OrderedGroup
from grove.cli.common.name_completion import complete_names
from grove.cli.common.options import (
    BoolFlag,
    ChoiceOf,
    ClusterOptions,
    UsageError,
    cluster_options,
    output_option,
    parse_set_name,
    parse_timeout,
    yes_option,
)
from grove.cli.common.output import (
    Format,
    is_terminal,
    print_error,
    print_json,
    print_line,
    print_rows,
    print_text,
    width,
)
from grove.errors import UserError
from grove.operations.hints import hint, name_with_namespace

if TYPE_CHECKING:
    from grove.api.template_revision import Revision
    from grove.cli.rollout.follow import FollowOptions, FollowResult
    from grove.cli.rollout.progress import Rollout
    from grove.operations.connection import Connection
    from grove.operations.rollout.restart import RestartResult
    from grove.operations.rollout.undo import StoredSet, UndoResult


class RolloutFormat(StrEnum):
    TEXT = "text"
    JSON = "json"
    YAML = "yaml"


name_argument = click.argument(
    "name",
    nargs=-1,
    required=True,
    help="The set, such as pcs/chat.",
    metavar="pcs/NAME",
    shell_complete=complete_names(has_bare_names=False),
)
timeout_option = click.option(
    "--timeout", default="", help="Give up after this duration, such as 10m. Default: no limit.", metavar="DURATION"
)


@click.group(cls=OrderedGroup, no_args_is_help=True)
def rollout() -> None:
    """Follow, list, undo and start updates."""


@rollout.command()
@name_argument
@click.option(
    "--watch",
    type=ChoiceOf(BoolFlag),
    default=BoolFlag.YES.value,
    show_default=True,
    help="Follow the update until it ends.",
)
@click.option("--no-watch", is_flag=True, help="Print the state once; the same as --watch=false.")
@timeout_option
@click.option(
    "--revision",
    type=click.IntRange(min=1),
    help="Follow the update to this revision; fail if the set has a newer one.",
    metavar="N",
)
@cluster_options
@output_option
def status(
    name: tuple[str, ...],
    watch: BoolFlag,
    no_watch: bool,
    timeout: str,
    revision: int | None,
    cluster: ClusterOptions,
    output: Format,
) -> None:
    """Follow the update of a set until it is complete."""
    from grove.cli.common.connection import run_connected
    from grove.cli.rollout.follow import FollowOptions

    options = FollowOptions(
        is_watching=watch is BoolFlag.YES and not no_watch,
        timeout_seconds=parse_timeout(timeout),
        revision=revision,
    )
    set_name = _parse_set_name(name)
    result = run_connected(cluster, lambda connection: _follow(connection, set_name, options, output))
    if output is Format.JSON:
        print_json(result.rollout)
    _check_is_complete(result, options)


@rollout.command()
@name_argument
@click.option("--revision", type=click.IntRange(min=1), help="Print the pod templates of this revision.", metavar="N")
@cluster_options
@click.option(
    "--output",
    "-o",
    type=ChoiceOf(RolloutFormat),
    default=RolloutFormat.TEXT.value,
    show_default=True,
    help="Output format: `text` for people, `json` and `yaml` for programs.",
)
def history(name: tuple[str, ...], revision: int | None, cluster: ClusterOptions, output: RolloutFormat) -> None:
    """List the revisions of a set.

    Prints what each revision changed and how many replicas run it.
    """
    from grove.cli.common.connection import run_connected

    set_name = _parse_set_name(name)
    run_connected(cluster, lambda connection: _show_history(connection, set_name, revision, output))


@rollout.command()
@name_argument
@click.option(
    "--to-revision",
    type=click.IntRange(min=1),
    help="The revision to go back to. Default: the last one with other pod templates.",
    metavar="N",
)
@click.option("--dry-run", is_flag=True, help="Print what would change, and change nothing.")
@click.option("--wait", is_flag=True, help="Follow the update until it ends.")
@timeout_option
@yes_option
@cluster_options
@output_option
def undo(
    name: tuple[str, ...],
    to_revision: int | None,
    dry_run: bool,
    wait: bool,
    timeout: str,
    yes: bool,
    cluster: ClusterOptions,
    output: Format,
) -> None:
    """Roll a set back to an earlier revision.

    Writes the pod templates of that revision into the set. The operator then updates the pods.
    """
    from grove.cli.common.connection import run_writing
    from grove.cli.rollout.follow import FollowOptions
    from grove.operations.rollout.undo import undo

    if dry_run and wait:
        raise UsageError("--wait: a dry run changes nothing, so there is no update to wait for; omit one of the two")
    if timeout and not wait:
        raise UsageError("--timeout: has an effect only with --wait; add --wait, or omit --timeout")
    options = FollowOptions(timeout_seconds=parse_timeout(timeout))
    set_name = _parse_set_name(name)

    async def undo_and_follow(connection: "Connection") -> "tuple[UndoResult, FollowResult | None]":
        undone = await undo(connection, set_name, to_revision, is_dry_run=dry_run)
        if output is Format.TEXT:
            _print_undone(undone)
        return undone, await _follow(connection, set_name, options, output) if wait else None

    action = f"roll back pcs/{set_name}"
    undone, followed = run_writing(cluster, undo_and_follow, action=action, is_confirmed=yes or dry_run)
    if output is Format.JSON:
        print_json({"undo": undone, **({"rollout": followed.rollout} if followed else {})})
    if followed is not None:
        _check_is_complete(followed, options)


@rollout.command()
@name_argument
@click.option("--wait", is_flag=True, help="Follow the update until it ends.")
@timeout_option
@yes_option
@cluster_options
@output_option
def restart(
    name: tuple[str, ...], wait: bool, timeout: str, yes: bool, cluster: ClusterOptions, output: Format
) -> None:
    """Replace all pods of a set with a rolling update.

    Writes the time into an annotation of every pod template, as kubectl does. Otherwise the templates stay the same.
    """
    from grove.cli.common.connection import run_writing
    from grove.cli.rollout.follow import FollowOptions
    from grove.operations.rollout.restart import restart

    if timeout and not wait:
        raise UsageError("--timeout: has an effect only with --wait; add --wait, or omit --timeout")
    options = FollowOptions(timeout_seconds=parse_timeout(timeout))
    set_name = _parse_set_name(name)

    async def restart_and_follow(connection: "Connection") -> "tuple[RestartResult, FollowResult | None]":
        restarted = await restart(connection, set_name)
        if output is Format.TEXT:
            _print_restarted(restarted)
        return restarted, await _follow(connection, set_name, options, output) if wait else None

    restarted, followed = run_writing(cluster, restart_and_follow, action=f"restart pcs/{set_name}", is_confirmed=yes)
    if output is Format.JSON:
        print_json({"restart": restarted, **({"rollout": followed.rollout} if followed else {})})
    if followed is not None:
        _check_is_complete(followed, options)


def _parse_set_name(words: tuple[str, ...]) -> str:
    return parse_set_name(words, hint="only a set has a rollout; give the name of its set, such as pcs/chat")


# --- status ----------------------------------------------------------------------------------------------------------


async def _follow(connection: "Connection", name: str, options: "FollowOptions", output: Format) -> "FollowResult":
    from grove.cli.rollout.follow import (
        FollowEnd,
        LiveProgress,
        ProgressLines,
        ProgressRenderer,
        RolloutWatcher,
        follow,
    )
    from grove.operations.random_source import fresh_random
    from grove.operations.resource_args import no_such_set

    client, clock = connection.client, connection.clock
    watcher = RolloutWatcher(client, clock, fresh_random(), namespace=connection.namespace, name=name)
    # The first read fails at once where a watch would retry forever: no such set, no such cluster.
    first = await watcher.list_once()
    if first is None:
        raise no_such_set(name, connection.namespace)
    is_moving = options.is_watching and not first.is_over and not watcher.is_terminating
    is_drawn = is_moving and output is Format.TEXT and is_terminal()
    from grove.cli.common.live_display import open_live_draw

    with open_live_draw() if is_drawn else nullcontext() as draw:
        renderer = ProgressRenderer()
        if draw is not None:
            renderer = LiveProgress(clock, draw)
        elif is_moving and output is Format.TEXT:
            renderer = ProgressLines(clock)
        result = await follow(watcher, first, clock, options, renderer)
    if output is Format.TEXT and result.ending in (FollowEnd.OVER, FollowEnd.READ_ONCE) and not is_drawn:
        _print_progress(result.rollout, connection)
    return result


def _print_progress(rollout: "Rollout", connection: "Connection") -> None:
    from grove.cli.rollout.view import progress_line, progress_rows

    if is_terminal() and not rollout.is_over:
        print_rows(progress_rows(rollout, connection.clock.now(), width()))
    else:
        _print_wrapped(progress_line(rollout))


def _check_is_complete(result: "FollowResult", options: "FollowOptions") -> None:
    """Raise `UserError` if the update did not complete."""
    from datetime import timedelta

    from grove.api.values.durations import format_duration
    from grove.cli.rollout.follow import FollowEnd
    from grove.cli.rollout.view import describe_wait

    rollout = result.rollout
    what = name_with_namespace(f"pcs/{rollout.name}", rollout.namespace)
    sets = hint("status", rollout.namespace)
    match result.ending:
        case FollowEnd.TIMED_OUT:
            waited = format_duration(timedelta(seconds=options.timeout_seconds or 0))
            raise UserError(f"the update is not complete after {waited}: {describe_wait(rollout)}")
        case FollowEnd.SUPERSEDED:
            raise UserError(
                f"{what} is at revision {rollout.revision}, not {options.revision}; omit --revision to follow it"
            )
        case FollowEnd.TERMINATING:
            raise UserError(f"{what} is being deleted, so its update stopped; `{sets}` shows what is left")
        case FollowEnd.GONE:
            raise UserError(f"{what} was deleted, so its update stopped; `{sets}` lists the sets that exist")
        case _:
            return


# --- history ---------------------------------------------------------------------------------------------------------


async def _show_history(connection: "Connection", name: str, number: int | None, output: RolloutFormat) -> None:
    from grove.operations.rollout.undo import find_revision, read_stored

    stored = await read_stored(connection, name)
    if number is not None:
        _print_revision(name, find_revision(stored, number), output)
    else:
        await _print_history(connection, stored, output)


def _print_revision(name: str, revision: "Revision", output: RolloutFormat) -> None:
    from grove.api.types.meta import to_wire
    from grove.api.values.yaml_text import expanded_yaml

    template = to_wire(revision.template)
    if output is RolloutFormat.JSON:
        print_json({"revision": revision.number, **template})
    else:
        print_text(f"# pcs/{name} revision {revision.number}\n{expanded_yaml(template)}")


async def _print_history(connection: "Connection", stored: "StoredSet", output: RolloutFormat) -> None:
    from grove.api import labels
    from grove.api.resources import PODGANGS
    from grove.api.types.meta import to_wire
    from grove.api.values.yaml_text import expanded_yaml
    from grove.cli.rollout.history import RevisionList, build_history
    from grove.cli.rollout.progress import running_revisions
    from grove.cli.rollout.view import history_rows
    from grove.operations.rollout.revisions import find_matching_revision, template_with_defaults

    pcs = stored.pcs
    selector = labels.selector(labels.default_labels(pcs.metadata.name))
    gangs = await connection.client.list(PODGANGS, namespace=pcs.metadata.namespace, label_selector=selector)
    current = find_matching_revision(template_with_defaults(pcs), stored.revisions)
    entries = build_history(stored.revisions, current, running_revisions(pcs, gangs.items))
    found = RevisionList(name=pcs.metadata.name, namespace=pcs.metadata.namespace, revisions=entries)
    if output is RolloutFormat.JSON:
        print_json(found)
    elif output is RolloutFormat.YAML:
        print_text(expanded_yaml(to_wire(found)))
    elif entries:
        print_rows(history_rows(entries, connection.clock.now(), width() if is_terminal() else None))
        if current is None:
            print_line("The templates of the set changed; the operator has not stored them as a revision yet.")
    else:
        what = f"pcs/{found.name}"
        why = hint(f"why {what}", found.namespace)
        print_line(f"{what} has no revisions yet: no operator has reconciled it; `{why}` explains more")


# --- undo ------------------------------------------------------------------------------------------------------------


def _print_undone(undone: "UndoResult") -> None:
    for warning in undone.warnings:
        print_error(f"Warning: {warning}")
    for text in _describe_undo(undone):
        _print_wrapped(text)


def _describe_undo(undone: "UndoResult") -> list[str]:
    from grove.operations.rollout.template_diff import describe_changes

    what = name_with_namespace(f"pcs/{undone.name}", undone.namespace)
    if not undone.is_changed:
        return [f"{what} already has the templates of revision {undone.to_revision}, so nothing changes"]
    would = "would go back" if undone.is_dry_run else "goes back"
    origin = f" from revision {undone.from_revision}" if undone.from_revision is not None else ""
    is_renamed = undone.becomes_revision != undone.to_revision
    renamed = f", which becomes revision {undone.becomes_revision}" if is_renamed else ""
    summary = f"{what} {would}{origin} to revision {undone.to_revision}{renamed}"
    return [summary, *(f"  {text}" for text in describe_changes(undone.changes))]


# --- restart ---------------------------------------------------------------------------------------------------------


def _print_restarted(restarted: "RestartResult") -> None:
    for warning in restarted.warnings:
        print_error(f"Warning: {warning}")
    what = name_with_namespace(f"podcliqueset/{restarted.name}", restarted.namespace)
    on_delete = "; updateStrategy is OnDelete: delete its pods to replace them" if restarted.is_on_delete else ""
    print_line(f"{what} restarted{on_delete}")


def _print_wrapped(text: str) -> None:
    """Print a text, wrapped between words on a terminal."""
    from grove.cli.rollout.view import wrap

    for line in wrap(text, width()) if is_terminal() else [text]:
        print_line(line)
