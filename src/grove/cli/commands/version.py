"""`grove version`."""

import click

from grove import __version__
from grove.cli.common.options import output_option
from grove.cli.common.output import Format, say, say_json


@click.command()
@output_option
def version(output: Format) -> None:
    """Print the version."""
    if output is Format.JSON:
        say_json({"version": __version__})
    else:
        say(f"grove {__version__}")
