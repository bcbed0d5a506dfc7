"""`grove version`."""

from grove.cli.options import Output
from grove.cli.output import Format, say, say_json


def version(output: Output = Format.TEXT) -> None:
    """Print the version."""
    from importlib.metadata import version as version_of

    if output is Format.JSON:
        say_json({"version": version_of("grove")})
    else:
        say(f"grove {version_of('grove')}")
