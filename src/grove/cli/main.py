"""Entry point of the `grove` command: the list of commands, and what becomes of errors. One file per command.

Starting must be quick, so a command's file imports what it works with only when the command runs.
"""

import errno
import os
import sys
from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import typer
from typer.core import TyperGroup

from grove.cli import (
    apply,
    crds,
    delete,
    logs,
    manifests,
    operator,
    plan,
    rollout,
    run,
    sim,
    status,
    up,
    version,
    webhook_certs,
    why,
)
from grove.cli.options import UsageError
from grove.cli.output import prepare_output, say_error
from grove.errors import UserError

DEBUG = "GROVE_DEBUG"


class InOurOrder(TyperGroup):
    """A command that has commands of its own stands where its reader looks for it; typer puts it last."""

    def __init__(self, *, commands: dict[str, Any], **settings: Any) -> None:
        names = [name for name in commands if name != rollout.NAME]
        names.insert(names.index("why") + 1, rollout.NAME)
        super().__init__(commands={name: commands[name] for name in names}, **settings)


app = typer.Typer(
    name="grove",
    cls=InOurOrder,
    help="Gangs of pods on Kubernetes: created, scheduled, repaired and updated all or nothing.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for command in (
    up.up,
    run.run,
    operator.operator,
    apply.apply,
    plan.plan,
    delete.delete,
    status.status,
    why.why,
    logs.logs,
    sim.sim,
    crds.crds,
    manifests.manifests,
    webhook_certs.webhook_certs,
    version.version,
):
    app.command()(command)
app.add_typer(rollout.app, name=rollout.NAME)


@runtime_checkable
class ClickError(Protocol):
    """What every error of the command line parser has; its classes are private to typer."""

    exit_code: int

    def format_message(self) -> str: ...


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit codes: 0 done, 1 failure, 2 wrong usage, 130 interrupted. Errors are one line that says what to do."""
    prepare_output()
    try:
        done = app(args=None if arguments is None else list(arguments), prog_name="grove", standalone_mode=False)
        return done if isinstance(done, int) else 0
    except KeyboardInterrupt:
        return 130
    except Exception as error:
        if os.environ.get(DEBUG):
            _show_trace()
        return _exit_code(_innermost(error))


def _innermost(error: BaseException) -> BaseException:
    """Tasks that run side by side fail as a group; its first error is the one to tell."""
    return _innermost(error.exceptions[0]) if isinstance(error, BaseExceptionGroup) else error


def _exit_code(error: BaseException) -> int:
    match error:
        case UsageError():
            return _fail(str(error), 2)
        case UserError():
            return _fail(str(error), 1)
        case typer.Abort():
            return 130
        case BrokenPipeError():
            # The reader, such as `head`, has seen enough. Python must not complain when it flushes at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 0
        case OSError(errno=errno.ENOSPC):
            what = error.filename or "what this says"
            return _fail(f"{what} cannot be written ({error.strerror}); make room, and try again", 1)
        case ClickError():
            return _fail_usage(error)
        case _:
            what = f"{type(error).__name__}: {error}"
            return _fail(f"{what}; this is a bug, please report it ({DEBUG}=1 shows the details)", 1)


def _fail(message: str, code: int) -> int:
    say_error(f"grove: {message}")
    return code


def _fail_usage(error: ClickError) -> int:
    message = error.format_message().rstrip()
    if type(error).__name__ == "NoArgsIsHelpError":
        say_error(message)
    else:
        # Half of this sentence is that of the library which checks values.
        words = " ".join(message.split()).replace(": Value error, ", ": ")
        _fail(f"{words} (see {_command_of(error)} --help)", error.exit_code)
    return error.exit_code


def _command_of(error: ClickError) -> str:
    """The one that was used wrongly, with those above it."""
    context = getattr(error, "ctx", None)
    return "grove" if context is None else str(context.command_path)


def _show_trace() -> None:
    import traceback

    say_error(traceback.format_exc())


if __name__ == "__main__":
    sys.exit(main())
