"""The registry of `grove` commands, in the order of the help. A command's module is imported only when it runs."""

from importlib import import_module

import click

# The script of `grove completion` sets this variable to request completions. It names the shell and the request.
COMPLETE_VARIABLE = "_GROVE_COMPLETE"
# Command name to the first paragraph of its help.
COMMANDS = {
    "init": "Print a commented manifest to start from.",
    "up": "Run a local Kubernetes cluster with the operator.",
    "run": "Run PodCliqueSets to completion on a private cluster.",
    "operator": "Run the operator against a cluster.",
    "apply": "Create or update the objects of manifests.",
    "plan": "Predict what applying manifests would do.",
    "delete": "Delete PodCliqueSets and everything that they own.",
    "status": "Show PodCliqueSets as a table, or one as a tree.",
    "why": "Explain what an object waits for and what happens next.",
    "describe": "Show the details, conditions and events of objects.",
    "events": "List the events of a set and of all its objects.",
    "scale": "Set the number of replicas of a set, group or clique.",
    "rollout": "Follow, list, undo and start updates.",
    "logs": "Print the logs of a pod, or of all pods of an object.",
    "top": "Show free resources of nodes and racks, and who holds them.",
    "wait": "Wait until PodCliques have enough ready pods.",
    "sim": "Run a scenario on virtual time.",
    "crds": "Print the CustomResourceDefinitions.",
    "manifests": "Print the manifests of an installation.",
    "webhook-certs": "Print a Secret with a webhook certificate and its CA.",
    "completion": "Print the completion script of a shell.",
    "version": "Print the version.",
}


# Commands whose modules are in a sub-package of `commands`.
_PACKAGES = {"crds": "installation", "manifests": "installation", "webhook-certs": "installation"}


def module_of(name: str) -> str:
    """Return the module that defines a command."""
    folders = ["commands", _PACKAGES[name]] if name in _PACKAGES else ["commands"]
    return ".".join([__package__ or "", *folders, _attribute(name)])


def load_command(name: str) -> click.Command:
    """Import and return one command."""
    command = getattr(import_module(module_of(name)), _attribute(name))
    assert isinstance(command, click.Command), name
    return command


def _attribute(name: str) -> str:
    """Return the name of a command in Python: `webhook-certs` is `webhook_certs`, in a module of the same name."""
    return name.replace("-", "_")


class OrderedGroup(click.Group):
    """A command group that lists its commands in the order of registration, each with its whole help line.

    Click sorts them by name, and cuts the help lines to the width of the terminal.
    """

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        rows = [(name, (command.help or "").partition("\n\n")[0]) for name, command in self.commands.items()]
        with formatter.section("Commands"):
            formatter.write_dl(rows)


class LazyGroup(OrderedGroup):
    """A command group that imports a command only when it runs. Before, it knows only its name and help line."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name, listed, rest = super().resolve_command(ctx, args)
        return name, None if name is None or listed is None else load_command(name), rest


def _print_version(context: click.Context, _: click.Parameter, is_asked: bool) -> None:
    if is_asked and not context.resilient_parsing:
        from grove import __version__
        from grove.cli.common.output import print_line

        print_line(f"grove {__version__}")
        context.exit()


app = LazyGroup(
    name="grove",
    params=[
        click.Option(
            ["--version"],
            is_flag=True,
            is_eager=True,
            expose_value=False,
            callback=_print_version,
            help="Print the version and exit.",
        )
    ],
    help="Gangs of pods on Kubernetes: created, scheduled, repaired and updated all or nothing.",
    commands={name: click.Command(name, help=line) for name, line in COMMANDS.items()},
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)
