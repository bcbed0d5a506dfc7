"""`grove version`."""

import click

from grove import __version__
from grove.cli.common.options import output_option
from grove.cli.common.output import Format, print_json, print_line


@click.command()
@output_option
def version(output: Format) -> None:
    """Print the version."""
    if output is Format.JSON:
        print_json({"version": __version__})
    else:
        print_line(f"grove {__version__}")
