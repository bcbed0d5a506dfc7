"""`grove completion SHELL`."""

import click
from click.shell_completion import get_completion_class

from grove.cli.command_registry import COMPLETE_VARIABLE, app
from grove.cli.common.output import say_part


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]), help="Your shell.")
def completion(shell: str) -> None:
    """Print the completion script of a shell.

    It completes commands and options. For the current shell: source <(grove completion bash)
    """
    kind = get_completion_class(shell)
    assert kind is not None, shell
    say_part(kind(app, {}, "grove", COMPLETE_VARIABLE).source())
