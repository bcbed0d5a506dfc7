"""Entry point of the `grove` command. One file per command as they arrive; so far there is `version`."""

import argparse
import sys
from collections.abc import Sequence
from importlib.metadata import version


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit codes: 0 done, 2 wrong usage (argparse exits itself, with one line that says what to do)."""
    parser = argparse.ArgumentParser(prog="grove", description="Gangs of pods on Kubernetes, all or nothing.")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    commands.add_parser("version", help="print the version")
    parser.parse_args(arguments)
    sys.stdout.write(f"grove {version('grove')}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
