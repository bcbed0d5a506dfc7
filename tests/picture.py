"""The terminal picture of the README: a real run on a virtual clock, drawn by the command line's own code.

`python -m tests.picture` writes it anew.
"""

import html
import io
import re
from random import Random

from rich.console import Console
from rich.text import Text

from grove.api.resources import GROUPS
from grove.cli.commands.why import why_rows
from grove.cli.common.options import ObjectRef
from grove.cli.common.output import Row, rich_text
from grove.cli.status.set_watcher import Followed
from grove.cli.status.tree_view import tree_rows
from grove.cli.why.runner import explain
from grove.sim.simulation import World
from grove.sim.virtual_clock import run_virtual
from tests.markdown import ROOT

PICTURE = ROOT / "docs" / "status.svg"
WIDTH = 128
_PIECE = re.compile(r'<text (class="[^"]+") x="([\d.]+)" (y="[\d.]+") textLength="([\d.]+)" ([^>]*)>([^<]*)</text>')
WAITING = "chat-0-decode-1"


def drawn() -> str:
    """The quickstart on four nodes, with one decode instance more than fits."""
    tree, why = run_virtual(_looked())
    console = Console(width=WIDTH, record=True, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    _type(console, "grove status chat", tree)
    console.print()
    _type(console, f"grove why pg/{WAITING}", why)
    svg = console.export_svg(title="grove", unique_id="grove")
    # No font from the network: a picture in a README may not load any, and nobody should learn who reads it.
    svg = re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL)
    svg = _PIECE.sub(_without_margins, svg)
    return re.sub(r"[ \t]+$", "", svg, flags=re.MULTILINE).strip() + "\n"


def _without_margins(piece: re.Match[str]) -> str:
    """A piece of text without the blanks around it, where it stands: some programs drop those at the beginning."""
    style, x, y, length, more, content = piece.groups()
    letters = html.unescape(content)
    shown = letters.strip()
    if not shown:
        return ""
    width = float(length) / len(letters.removesuffix("\n"))
    left = float(x) + (len(letters) - len(letters.lstrip())) * width
    inner = html.escape(shown).replace("\xa0", "&#160;")
    return f'<text {style} x="{left:.1f}" {y} textLength="{len(shown) * width:.1f}" {more}>{inner}</text>\n'


async def _looked() -> tuple[list[Row], list[Row]]:
    async with World(seed=1, nodes=4) as world:
        await world.apply(ROOT / "examples" / "quickstart.yaml")
        await world.settle()
        await world.scale(GROUPS, "chat-0-decode", 3)
        await world.settle()
        now = world.clock.now()
        (node,) = await Followed(world.client, world.clock, Random(1), name="chat").look_once()
        why = await explain(world.client, now, "default", ObjectRef("podgang", WAITING))
        return tree_rows(node, now), why_rows(why)


def _type(console: Console, command: str, rows: list[Row]) -> None:
    console.print(Text.assemble(("$ ", "dim"), (command, "bold")))
    console.print(rich_text(rows), highlight=False)


if __name__ == "__main__":
    PICTURE.write_text(drawn())
