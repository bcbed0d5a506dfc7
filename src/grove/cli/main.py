"""Run a `grove` command and turn its result or error into an exit code.

Start-up must be fast: `command_registry.py` imports only the module of the command that runs, and that module imports
its dependencies inside its functions.
"""

import errno
import os
import sys
from collections.abc import Sequence

import click
from click.exceptions import Exit, NoArgsIsHelpError

from grove.cli.command_registry import COMPLETE_VARIABLE, app
from grove.cli.common.options import UsageError
from grove.cli.common.output import prepare_output, print_error
from grove.errors import UserError

DEBUG = "GROVE_DEBUG"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code: 0 success, 1 failure, 2 wrong usage, 130 interrupted.

    An error is printed as one line that ends with what to do.
    """
    prepare_output()
    try:
        if request := os.environ.get(COMPLETE_VARIABLE):
            return _complete(request)
        return _run(sys.argv[1:] if arguments is None else list(arguments))
    except KeyboardInterrupt:
        return 130
    except Exception as error:
        if os.environ.get(DEBUG):
            _show_trace()
        return _exit_code(_first_error(error))


def _run(arguments: list[str]) -> int:
    # Not `app.main`: it prints an empty line after Ctrl-C, and handles a closed pipe differently.
    try:
        with app.make_context("grove", arguments) as context:
            result = app.invoke(context)
    except Exit as done:
        return done.exit_code
    return result if isinstance(result, int) else 0


def _complete(request: str) -> int:
    """Print completions for the shell. The request is in an environment variable."""
    from click.shell_completion import shell_complete

    return shell_complete(app, {}, "grove", COMPLETE_VARIABLE, request)


def _first_error(error: BaseException) -> BaseException:
    """Return the first error of an exception group, which is what a TaskGroup raises."""
    return _first_error(error.exceptions[0]) if isinstance(error, BaseExceptionGroup) else error


def _exit_code(error: BaseException) -> int:
    match error:
        case UsageError():
            return _fail(str(error), 2)
        case UserError():
            return _fail(str(error), 1)
        case BrokenPipeError():
            # The reader, such as `head`, closed the pipe. Python must not print an error when it flushes at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 0
        case OSError(errno=errno.ENOSPC):
            what = error.filename or "the output"
            return _fail(f"{what} cannot be written ({error.strerror}); free some disk space and try again", 1)
        case click.ClickException():
            return _fail_usage(error)
        case ModuleNotFoundError(name="cel_expr_python" | "google" | "google.protobuf"):
            return _fail("the embedded cluster is not installed; `pip install 'grove-operator[local]'` adds it", 1)
        case _:
            what = f"{type(error).__name__}: {error}"
            return _fail(f"{what}; this is a bug, please report it ({DEBUG}=1 shows the details)", 1)


def _fail(message: str, code: int) -> int:
    print_error(f"grove: {message}")
    return code


def _fail_usage(error: click.ClickException) -> int:
    if isinstance(error, NoArgsIsHelpError):
        print_error(error.format_message().rstrip())
    else:
        _fail(f"{' '.join(error.format_message().split())} (see {_command_of(error)} --help)", error.exit_code)
    return error.exit_code


def _command_of(error: click.ClickException) -> str:
    """Return the full path of the command that was used wrongly."""
    context = error.ctx if isinstance(error, click.UsageError) else None
    return "grove" if context is None else context.command_path


def _show_trace() -> None:
    import traceback

    print_error(traceback.format_exc())


if __name__ == "__main__":
    sys.exit(main())
