"""Every command and every option has its line in the reference."""

from collections.abc import Iterator
from typing import Any

import typer
from typer.core import TyperGroup

from grove.cli.main import app
from tests.cli.console import ROOT

PAGE = (ROOT / "docs" / "reference" / "commands.md").read_text()


def test_every_command_has_its_chapter() -> None:
    chapters = [line.removeprefix("## grove ") for line in PAGE.splitlines() if line.startswith("## grove ")]
    assert chapters == list(typer.main.get_group(app).commands)


def test_every_option_is_explained() -> None:
    options = [
        option
        for command in _commands(typer.main.get_group(app))
        for parameter in command.params
        for option in parameter.opts
        if option.startswith("--") and option != "--help"
    ]
    assert len(options) > 20
    assert [option for option in options if f"`{option}" not in PAGE] == []


def test_every_command_of_a_command_is_named() -> None:
    groups = {
        name: command for name, command in typer.main.get_group(app).commands.items() if isinstance(command, TyperGroup)
    }
    inner = [f"grove {name} {one}" for name, group in groups.items() for one in group.commands]
    assert len(inner) >= 3
    assert [words for words in inner if f"`{words}" not in PAGE] == []


def _commands(group: TyperGroup) -> Iterator[Any]:
    """Also those that are commands of a command."""
    for command in group.commands.values():
        yield command
        if isinstance(command, TyperGroup):
            yield from _commands(command)
