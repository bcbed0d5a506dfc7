"""The registry of `grove` commands, in the order of the help. A command's module is imported only when it runs."""

from importlib import import_module

import click

# The script of `grove completion` sets this variable to request completions. It names the shell and the request.
COMPLETE_VARIABLE = "_GROVE_COMPLETE"
# Command name to the first paragraph of its help, at most 59 characters so that `grove --help` prints it whole.
# `webhook-certs` is `webhook_certs` of the module
# `grove.cli.commands.webhook_certs`.
COMMANDS = {
    "up": "Run a local Kubernetes cluster with the operator.",
    "run": "Run PodCliqueSets to completion on a private cluster.",
    "operator": "Run the operator against a cluster.",
    "apply": "Create or update the objects of manifests.",
    "plan": "Predict what applying manifests would do.",
    "delete": "Delete PodCliqueSets and everything that they own.",
    "status": "Show PodCliqueSets as a table, or one as a tree.",
    "why": "Explain what an object waits for and what happens next.",
    "rollout": "Follow, list and undo updates.",
    "logs": "Print the log of a pod.",
    "sim": "Run a scenario on virtual time.",
    "crds": "Print the CustomResourceDefinitions.",
    "manifests": "Print the manifests of an installation.",
    "webhook-certs": "Print a Secret with a webhook certificate and its CA.",
    "completion": "Print the completion script of a shell.",
    "version": "Print the version.",
}


def module_of(name: str) -> str:
    """Return the module that defines a command."""
    return f"{__package__}.commands.{_attribute(name)}"


def load_command(name: str) -> click.Command:
    """Import and return one command."""
    found = getattr(import_module(module_of(name)), _attribute(name))
    assert isinstance(found, click.Command), name
    return found


def _attribute(name: str) -> str:
    return name.replace("-", "_")


class OrderedGroup(click.Group):
    """A command group that lists its commands in the order of registration. Click sorts them by name."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)


class LazyGroup(OrderedGroup):
    """A command group that imports a command only when it is used. Until then it has the name and the help line."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name, listed, rest = super().resolve_command(ctx, args)
        return name, None if name is None or listed is None else load_command(name), rest


app = LazyGroup(
    name="grove",
    help="Gangs of pods on Kubernetes: created, scheduled, repaired and updated all or nothing.",
    commands={name: click.Command(name, help=line) for name, line in COMMANDS.items()},
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)
