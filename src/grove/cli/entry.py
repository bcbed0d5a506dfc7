"""Entry point of the `grove` script. It imports nothing at first, so that Ctrl-C works while the program loads."""


def main() -> int:
    try:
        from grove.cli.main import main as run

        return run()
    except KeyboardInterrupt:
        return 130
