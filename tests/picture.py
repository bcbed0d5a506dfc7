"""The terminal pictures of the documentation: real runs on a virtual clock, drawn by the command line's own code.

`python -m tests.picture` draws them again.
"""

import html
import io
import re
from random import Random

import yaml
from rich.console import Console
from rich.text import Text

from grove.api.resources import GROUPS, NODES, PODS
from grove.api.types.meta import JsonObject
from grove.cli.commands.status import FOOTER
from grove.cli.commands.why import why_rows
from grove.cli.common.output import Row, rich_text
from grove.cli.status.set_watcher import SetWatcher
from grove.cli.status.tree_view import PageSize, page_rows, tree_rows
from grove.cli.top.usage import TopNode, TopPod, compute_usage
from grove.cli.top.view import top_tables
from grove.operations.object_ref import ObjectRef
from grove.operations.why.runner import explain
from grove.sim.simulation import World
from grove.sim.virtual_clock import run_virtual
from tests.markdown import ROOT

PICTURE = ROOT / "docs" / "status.svg"
LARGE_PICTURE = ROOT / "docs" / "large-set.svg"
WIDTH = 128
NARROW = 80
_PIECE = re.compile(r'<text (class="[^"]+") x="([\d.]+)" (y="[\d.]+") textLength="([\d.]+)" ([^>]*)>([^<]*)</text>')
WAITING = "chat-0-decode-1"


def drawn() -> str:
    """The quickstart on four nodes, with one decode instance more than fits."""
    tree, why = run_virtual(_looked())
    return _draw(WIDTH, ("grove status chat", tree), (f"grove why pg/{WAITING}", why))


def drawn_large() -> str:
    """Six replicas of the quickstart on a terminal of 80 columns, one of which finds no nodes, and who holds those."""
    tree, *tables = run_virtual(_looked_at_many())
    return _draw(NARROW, ("grove status chat", tree), ("grove top", *tables))


def _draw(width: int, *commands: tuple[str | list[Row], ...]) -> str:
    """Draw commands, each with the tables that it prints."""
    console = Console(width=width, record=True, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    for number, (command, *tables) in enumerate(commands):
        if number:
            console.print()
        console.print(Text.assemble(("$ ", "dim"), (str(command), "bold")))
        for table in tables:
            assert isinstance(table, list)
            console.print(rich_text(table), highlight=False)
    svg = console.export_svg(title="grove", unique_id="grove")
    # No font from the network: a picture must not load anything that tells who reads it.
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
        (node,) = await SetWatcher(world.client, world.clock, Random(1), name="chat").list_once()
        why = await explain(world.client, now, "default", ObjectRef("podgang", WAITING))
        return tree_rows(node, now), why_rows(why, 120)


async def _looked_at_many() -> list[list[Row]]:
    manifest: JsonObject = yaml.safe_load((ROOT / "examples" / "quickstart.yaml").read_text())
    manifest["spec"]["replicas"] = 6
    async with World(seed=1, nodes=20) as world:
        await world.apply(manifest)
        await world.settle()
        now = world.clock.now()
        trees = await SetWatcher(world.client, world.clock, Random(1), name="chat").list_once()
        nodes = await world.client.list(NODES.viewed_as(TopNode))
        pods = await world.client.list(PODS.viewed_as(TopPod))
        tree = page_rows(trees, now, PageSize(width=NARROW, height=22), footer=FOOTER)
        return [tree, *top_tables(compute_usage(nodes.items, pods.items), NARROW, 22)]


if __name__ == "__main__":
    PICTURE.write_text(drawn())
    LARGE_PICTURE.write_text(drawn_large())
