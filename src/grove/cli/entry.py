"""Where the `grove` command begins: loaded in no time, so that Ctrl-C is understood from the first moment."""


def main() -> int:
    try:
        from grove.cli.main import main as run

        return run()
    except KeyboardInterrupt:
        return 130
