"""`grove why KIND/NAME`."""

from typing import TYPE_CHECKING

import click

from grove.cli.common.data_format import DataFormat, data_output_option, print_data
from grove.cli.common.name_completion import complete_names
from grove.cli.common.options import ClusterOptions, cluster_options, parse_one_ref
from grove.cli.common.output import Cell, Row, Tone, print_rows
from grove.operations.object_ref import ObjectRef

if TYPE_CHECKING:
    from grove.operations.connection import Connection
    from grove.planner.explain.text import Explanation


@click.command()
@click.argument(
    "what",
    nargs=-1,
    required=True,
    help="A set, group, clique, gang or pod: pcs/chat, pcs chat, or just chat.",
    metavar="KIND/NAME",
    shell_complete=complete_names(has_bare_names=True),
)
@cluster_options
@data_output_option(DataFormat.TEXT, DataFormat.JSON, DataFormat.YAML)
def why(what: tuple[str, ...], cluster: ClusterOptions, output: DataFormat) -> None:
    """Explain what an object waits for and what happens next.

    The most important reason comes first.
    """
    from grove.cli.common.connection import run_connected

    wanted = parse_one_ref(what)
    target, sentences = run_connected(cluster, lambda connection: _explain(connection, wanted))
    if not print_data({"about": str(target), "sentences": sentences}, output):
        print_rows(why_rows(sentences))


async def _explain(connection: "Connection", wanted: ObjectRef) -> "tuple[ObjectRef, tuple[Explanation, ...]]":
    from grove.operations.resource_args import find_kind
    from grove.operations.why.runner import explain

    target = await find_kind(connection.client, connection.namespace, wanted)
    return target, await explain(connection.client, connection.clock.now(), connection.namespace, target)


def why_rows(sentences: "tuple[Explanation, ...]") -> list[Row]:
    """Return one row per text. Causes are highlighted; effects start with `So`, next steps with `Next:`."""
    tones = {"cause": Tone.WAITING, "effect": Tone.PLAIN, "next": Tone.PLAIN, "note": Tone.FAINT}
    return [(cell,) for cell in dict.fromkeys(Cell(_line(one), tones[one.kind]) for one in sentences)]


def _line(sentence: "Explanation") -> str:
    if sentence.kind == "next":
        return f"Next: {sentence.text}"
    if sentence.kind == "effect":
        return f"So {sentence.text}"
    # An object name is not capitalized.
    is_word = sentence.text.split(" ", 1)[0].isalpha()
    return sentence.text[0].upper() + sentence.text[1:] if is_word else sentence.text
