"""Every command and every option has its line in the reference."""

import typer

from grove.cli.main import app
from tests.cli.console import ROOT

PAGE = (ROOT / "docs" / "reference" / "commands.md").read_text()


def test_every_command_has_its_chapter() -> None:
    chapters = [line.removeprefix("## grove ") for line in PAGE.splitlines() if line.startswith("## grove ")]
    assert chapters == list(typer.main.get_group(app).commands)


def test_every_option_is_explained() -> None:
    options = [
        option
        for command in typer.main.get_group(app).commands.values()
        for parameter in command.params
        for option in parameter.opts
        if option.startswith("--") and option != "--help"
    ]
    assert len(options) > 20
    assert [option for option in options if f"`{option}" not in PAGE] == []
