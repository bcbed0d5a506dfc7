"""The registry of `grove` commands, in the order of the help. A command's module is imported only when it runs."""

from importlib import import_module

import click

# The script of `grove completion` sets this variable to request completions. It names the shell and the request.
COMPLETE_VARIABLE = "_GROVE_COMPLETE"
# Command name to the first paragraph of its help, at most 59 characters so that `grove --help` prints it whole.
# `webhook-certs` is `webhook_certs` of the module
# `grove.cli.commands.webhook_certs`.
COMMANDS = {
    "up": "Start a Kubernetes of your own, with nodes and the operator, until Ctrl-C.",
    "run": "Run sets to their end on a cluster of their own: 0 they succeeded, 1 one failed, 124 out of time.",
    "operator": "Run the operator against a cluster, until Ctrl-C or SIGTERM.",
    "apply": "Create or change what manifests say.",
    "plan": "Say what applying manifests would do, and change nothing: what is replaced, in which order, what is down.",
    "delete": "Delete sets, and with them everything they own.",
    "status": "Show sets: replicas, gangs, groups, cliques and pods.",
    "why": "Say what an object waits for, what happens next and when; the most important first.",
    "rollout": "Follow an update, look back, go back.",
    "logs": "Print what a pod wrote.",
    "sim": "Play a scenario on virtual time: manifests, nodes and happenings in, a timeline of decisions out.",
    "crds": "Print the CustomResourceDefinitions: `grove crds | kubectl apply --server-side -f -`.",
    "manifests": "Print all that an installation needs: `grove manifests | kubectl apply --server-side -f -`.",
    "webhook-certs": "Print a Secret with a new authority and a certificate of the webhooks, good for a year.",
    "completion": "Print the script that teaches a shell to complete commands and options.",
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
