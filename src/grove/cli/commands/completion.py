"""`grove completion SHELL`."""

import click
from click.shell_completion import get_completion_class

from grove.cli.command_registry import COMPLETE_VARIABLE, app
from grove.cli.common.output import print_text


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]), help="The shell.")
def completion(shell: str) -> None:
    """Print the completion script of a shell.

    It completes commands, options and names of objects. For the current shell: source <(grove completion bash)
    """
    kind = get_completion_class(shell)
    assert kind is not None, shell
    print_text(kind(app, {}, "grove", COMPLETE_VARIABLE).source())
