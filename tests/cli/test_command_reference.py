"""Every command and every option has its line in the reference, and every command its line in the help."""

from collections.abc import Iterator

import click

from grove.cli.command_registry import COMMANDS, load_command
from tests.cli.console import ROOT

PAGE = (ROOT / "docs" / "reference" / "commands.md").read_text()


def test_every_command_has_its_chapter() -> None:
    chapters = [line.removeprefix("## grove ") for line in PAGE.splitlines() if line.startswith("## grove ")]
    assert chapters == list(COMMANDS)


def test_the_list_of_commands_says_of_each_what_its_own_help_says_first() -> None:
    own = {name: (load_command(name).help or "").partition("\n\n")[0] for name in COMMANDS}
    assert own == COMMANDS


def test_every_option_is_explained() -> None:
    options = [
        option
        for command in _commands(load_command(name) for name in COMMANDS)
        for parameter in command.params
        for option in parameter.opts
        if option.startswith("--")
    ]
    assert len(options) > 20
    assert [option for option in options if f"`{option}" not in PAGE] == []


def test_every_command_of_a_command_is_named() -> None:
    groups = [command for name in COMMANDS if isinstance(command := load_command(name), click.Group)]
    inner = [f"grove {group.name} {one}" for group in groups for one in group.commands]
    assert len(inner) >= 3
    assert [words for words in inner if f"`{words}" not in PAGE] == []


def _commands(some: Iterator[click.Command]) -> Iterator[click.Command]:
    """Yield also those that are commands of a command."""
    for command in some:
        yield command
        if isinstance(command, click.Group):
            yield from _commands(iter(command.commands.values()))
