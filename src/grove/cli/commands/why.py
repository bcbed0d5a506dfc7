"""`grove why KIND/NAME`."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from grove.cli.common.options import (
    ObjectRef,
    context_option,
    kubeconfig_option,
    namespace_option,
    output_option,
    parse_target,
)
from grove.cli.common.output import Cell, Format, Row, Tone, say_json, say_rows

if TYPE_CHECKING:
    from grove.planner.explain.text import Explanation


@click.command()
@click.argument("what", help="Such as pcs/chat, pg/chat-0, pod/NAME.", metavar="KIND/NAME")
@namespace_option
@kubeconfig_option
@context_option
@output_option
def why(what: str, namespace: str, kubeconfig: Path | None, context: str, output: Format) -> None:
    """Explain what an object waits for and what happens next.

    The most important reason comes first.
    """
    from grove.cli.common.connection import run

    target = parse_target(what)
    sentences = run(_why(target, namespace, kubeconfig, context))
    if output is Format.JSON:
        say_json({"about": str(target), "sentences": sentences})
    else:
        say_rows(why_rows(sentences))


def why_rows(sentences: "tuple[Explanation, ...]") -> list[Row]:
    """Return one row per explanation. Causes are highlighted, next steps start with `Next:`."""
    tones = {"cause": Tone.WAITING, "next": Tone.PLAIN, "note": Tone.FAINT}
    return [(Cell(_line(sentence), tones[sentence.kind]),) for sentence in sentences]


def _line(sentence: "Explanation") -> str:
    if sentence.kind == "next":
        return f"Next: {sentence.text}"
    # An object name is not capitalized.
    is_word = sentence.text.split(" ", 1)[0].isalpha()
    return sentence.text[0].upper() + sentence.text[1:] if is_word else sentence.text


async def _why(target: ObjectRef, namespace: str, kubeconfig: Path | None, context: str) -> "tuple[Explanation, ...]":
    from grove.cli.common.connection import connect
    from grove.cli.why.runner import explain

    async with connect(kubeconfig, context, namespace) as connection:
        return await explain(connection.client, connection.clock.now(), connection.namespace, target)
