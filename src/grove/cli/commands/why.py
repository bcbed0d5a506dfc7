"""`grove why KIND/NAME`."""

from typing import TYPE_CHECKING

import click

from grove.cli.common.data_format import DataFormat, data_output_option, print_data
from grove.cli.common.name_completion import complete_names
from grove.cli.common.options import ClusterOptions, cluster_options, parse_one_ref
from grove.cli.common.output import Cell, Row, Tone, line_width, print_rows, wrap_line
from grove.errors import UserError
from grove.operations.object_ref import ObjectRef

if TYPE_CHECKING:
    from grove.operations.connection import Connection
    from grove.planner.explain.text import Explanation

INDENT = "  "


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
        print_rows(why_rows(sentences, columns=line_width()))


async def _explain(connection: "Connection", wanted: ObjectRef) -> "tuple[ObjectRef, tuple[Explanation, ...]]":
    from grove.operations.resource_args import find_kind
    from grove.operations.why.runner import explain

    try:
        target = await find_kind(connection.client, connection.namespace, wanted)
    except UserError:
        # A set that is deleted may have left objects behind, which are explained.
        target = ObjectRef("podcliqueset", wanted.name)
    return target, await explain(connection.client, connection.clock.now(), connection.namespace, target)


def why_rows(sentences: "tuple[Explanation, ...]", columns: int | None = None) -> list[Row]:
    """Return the rows of the texts, each followed by its details, indented. `columns`: wrap longer lines.

    Causes are highlighted; effects start with `So`, next steps with `Next:`.
    """
    tones = {"cause": Tone.WAITING, "effect": Tone.PLAIN, "next": Tone.PLAIN, "note": Tone.FAINT}
    cells: dict[Cell, None] = {}
    for one in sentences:
        cells.update({Cell(line, tones[one.kind]): None for line in wrap_line(_line(one), columns)})
        lines = [line for detail in one.details for line in _wrap_detail(detail, columns)]
        cells.update({Cell(f"{INDENT}{line}", tones[one.kind]): None for line in lines})
    return [(cell,) for cell in cells]


def _wrap_detail(detail: str, columns: int | None) -> list[str]:
    # A command is never wrapped, so that it can be pasted.
    is_command = detail.startswith(("grove ", "kubectl "))
    return wrap_line(detail, None if is_command or columns is None else columns - len(INDENT))


def _line(sentence: "Explanation") -> str:
    if sentence.kind == "next":
        return f"Next: {sentence.text}"
    if sentence.kind == "effect":
        return f"So {sentence.text}"
    # An object name is not capitalized.
    is_word = sentence.text.split(" ", 1)[0].isalpha()
    return sentence.text[0].upper() + sentence.text[1:] if is_word else sentence.text
