"""`grove sim SCENARIO.yaml`: run a scenario on virtual time."""

from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from grove.cli.common.options import FILE, ObjectRef, UsageError, output_option
from grove.cli.common.output import Cell, Format, Tone, say, say_error, say_json_line, say_rows
from grove.errors import UserError

if TYPE_CHECKING:
    from grove.api.types.meta import JsonObject
    from grove.cli.status.tree import SetNode
    from grove.planner.explain.text import Explanation
    from grove.sim.scenario.narrator import Told
    from grove.sim.scenario.runner import Played
    from grove.sim.scenario.scenario_file import Scenario
    from grove.sim.simulation import World


@click.command()
@click.argument("scenario", type=FILE, help="Nodes, manifests, and what happens when.")
@click.option("--seed", default=0, show_default=True, help="Decides everything that is left to chance.", metavar="N")
@click.option("--until", default="", help="When it ends, such as 8h. Default: what the file says.", metavar="DURATION")
@output_option
def sim(scenario: Path, seed: int, until: str, output: Format) -> int:
    """Run a scenario on virtual time.

    Prints the decisions in order, then every set at the end and what it waits for. Needs no cluster.
    """
    from grove.sim.scenario.runner import play
    from grove.sim.scenario.scenario_file import ScenarioError
    from grove.sim.virtual_clock import run_virtual

    read = _read(scenario)
    ends_at = _seconds(until) if until else None
    try:
        played = run_virtual(play(read, seed=seed, until=ends_at, at_end=_ending))
    except ScenarioError as error:
        raise UsageError(f"{scenario}: {error}") from error
    if output is Format.JSON:
        _say_json(played)
    else:
        _say_text(played)
    for failure in played.failures:
        say_error(f"grove: {scenario}: {failure}")
    return 1 if played.failures else 0


def _read(path: Path) -> "Scenario":
    from grove.cli.common.manifest_reader import read_content, read_documents
    from grove.sim.scenario.scenario_file import ScenarioError, read_scenario

    def load(name: str) -> "tuple[JsonObject, ...]":
        return tuple(document.body for document in read_documents(path.parent / name))

    try:
        return read_scenario(read_content(path), load)
    except ScenarioError as error:
        raise UsageError(f"{path}: {error}") from error
    except UserError as error:
        raise UsageError(str(error)) from error


def _seconds(text: str) -> float:
    from grove.api.values.durations import DurationError, parse_duration

    try:
        seconds = parse_duration(text).total_seconds()
    except DurationError as error:
        raise UsageError(f"--until: {error}") from error
    if seconds < 0:
        raise UsageError(f"--until: {text} is before the beginning; write for example 8h")
    return seconds


class SetEndState(msgspec.Struct, frozen=True, kw_only=True):
    """One set at the end of the scenario, and what it waits for."""

    tree: "SetNode"
    sentences: "tuple[Explanation, ...]"


async def _ending(world: "World") -> list[SetEndState]:
    from random import Random

    from grove.cli.status.set_watcher import Followed
    from grove.cli.status.tree import is_settled, without_pods
    from grove.cli.why.runner import explain

    found = []
    for tree in await Followed(world.client, world.clock, Random(0)).look_once():
        target = ObjectRef("podcliqueset", tree.name)
        said = () if is_settled(tree) else await explain(world.client, world.clock.now(), tree.namespace, target)
        found.append(SetEndState(tree=without_pods(tree), sentences=said))
    return found


def _say_json(played: "Played[list[SetEndState]]") -> None:
    for line in played.lines:
        say_json_line(line)
    for ending in played.ending:
        say_json_line({"at": played.ends_at, "set": ending.tree, "sentences": ending.sentences})


def _say_text(played: "Played[list[SetEndState]]") -> None:
    from datetime import timedelta

    from grove.cli.commands.why import why_rows
    from grove.cli.status.tree_view import tree_rows
    from grove.sim.scenario.narrator import clock_time
    from grove.sim.simulation import EPOCH

    say_rows([(Cell(str(line), _tone(line)),) for line in played.lines])
    say()
    say(f"At {clock_time(played.ends_at)}:")
    for ending in played.ending:
        say_rows(tree_rows(ending.tree, EPOCH + timedelta(seconds=played.ends_at), has_hint=False))
        say_rows(why_rows(ending.sentences))
    if not played.ending:
        say("no PodCliqueSets")


def _tone(line: "Told") -> Tone:
    from grove.sim.scenario.narrator import SCENARIO

    return Tone.STRONG if line.who == SCENARIO else Tone.PLAIN
