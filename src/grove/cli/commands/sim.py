"""`grove sim SCENARIO.yaml`: run a scenario on virtual time."""

from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from grove.cli.common.options import FILE, UsageError, output_option, parse_seconds
from grove.cli.common.output import (
    Cell,
    Format,
    Tone,
    line_width,
    print_error,
    print_json_line,
    print_line,
    print_rows,
)
from grove.errors import UserError
from grove.operations.object_ref import ObjectRef

if TYPE_CHECKING:
    from grove.api.types.meta import JsonObject
    from grove.cli.status.tree import SetNode
    from grove.planner.explain.text import Explanation
    from grove.sim.scenario.narrator import NarratedLine
    from grove.sim.scenario.runner import Played
    from grove.sim.scenario.scenario_file import Scenario
    from grove.sim.simulation import World


@click.command()
@click.argument("scenario", type=FILE, help="The scenario: nodes, manifests and a timeline of steps.")
@click.option("--seed", default=0, show_default=True, help="Seed of all random choices.", metavar="N")
@click.option(
    "--until",
    default="",
    help="Virtual time at which the run ends, such as 8h. Default: from the file.",
    metavar="DURATION",
)
@output_option
def sim(scenario: Path, seed: int, until: str, output: Format) -> int:
    """Run a scenario on virtual time.

    Prints the decisions in order, then every set at the end and what it waits for. Needs no cluster.
    """
    from grove.sim.scenario.runner import play
    from grove.sim.scenario.scenario_file import ScenarioError
    from grove.sim.virtual_clock import run_virtual

    read = _read_scenario(scenario)
    ends_at = _parse_until(until)
    try:
        played = run_virtual(play(read, seed=seed, until=ends_at, at_end=_collect_sets))
    except ScenarioError as error:
        raise UsageError(f"{scenario}: {error}") from error
    if output is Format.JSON:
        _print_json_lines(played)
    else:
        _print_report(played)
    for failure in played.failures:
        print_error(f"grove: {scenario}: {failure}")
    return 1 if played.failures else 0


def _read_scenario(path: Path) -> "Scenario":
    from grove.operations.apply.manifest_reader import read_content, read_documents
    from grove.sim.scenario.scenario_file import ScenarioError, read_scenario

    def load(name: str) -> "tuple[JsonObject, ...]":
        return tuple(document.body for document in read_documents(path.parent / name))

    try:
        return read_scenario(read_content(path), load)
    except ScenarioError as error:
        raise UsageError(f"{path}: {error}") from error
    except UserError as error:
        raise UsageError(str(error)) from error


def _parse_until(text: str) -> float | None:
    if not text:
        return None
    seconds = parse_seconds("--until", text)
    if seconds < 0:
        raise UsageError(f"--until: {text} is negative; write for example 8h")
    return seconds


class SetEndState(msgspec.Struct, frozen=True, kw_only=True):
    """One set at the end of the scenario, and what it waits for."""

    tree: "SetNode"
    sentences: "tuple[Explanation, ...]"


async def _collect_sets(world: "World") -> list[SetEndState]:
    from random import Random

    from grove.cli.status.set_watcher import SetWatcher
    from grove.cli.status.tree import is_settled, without_pods
    from grove.operations.why.runner import explain

    found = []
    for tree in await SetWatcher(world.client, world.clock, Random(0)).list_once():
        target = ObjectRef("podcliqueset", tree.name)
        sentences = () if is_settled(tree) else await explain(world.client, world.clock.now(), tree.namespace, target)
        found.append(SetEndState(tree=without_pods(tree), sentences=sentences))
    return found


def _print_json_lines(played: "Played[list[SetEndState]]") -> None:
    for line in played.lines:
        print_json_line(line)
    for ending in played.ending:
        print_json_line({"at": played.ends_at, "set": ending.tree, "sentences": ending.sentences})


def _print_report(played: "Played[list[SetEndState]]") -> None:
    from datetime import timedelta

    from grove.cli.commands.why import why_rows
    from grove.cli.status.tree_view import tree_rows
    from grove.sim.scenario.narrator import clock_time
    from grove.sim.simulation import EPOCH

    print_rows([(Cell(str(line), _tone(line)),) for line in played.lines])
    print_line()
    print_line(f"At {clock_time(played.ends_at)}:")
    for ending in played.ending:
        print_rows(tree_rows(ending.tree, EPOCH + timedelta(seconds=played.ends_at), has_hint=False))
        print_rows(why_rows(ending.sentences, line_width()))
    if not played.ending:
        print_line("no PodCliqueSets")


def _tone(line: "NarratedLine") -> Tone:
    from grove.sim.scenario.narrator import SCENARIO

    return Tone.STRONG if line.who == SCENARIO else Tone.PLAIN
