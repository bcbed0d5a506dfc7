"""`grove init [KIND]`."""

import click

from grove.cli.common.object_printer import ObjectFormat, object_output_option
from grove.cli.common.options import ChoiceOf, UsageError, check_name
from grove.cli.common.output import is_terminal, print_error, print_json, print_text
from grove.cli.starter.manifest_templates import StarterKind, starter_manifest


@click.command()
@click.argument(
    "kind",
    type=ChoiceOf(StarterKind),
    default=StarterKind.INFERENCE.value,
    help="The workload: inference (the default), disaggregated, training or torchrun.",
)
@click.option("--name", default="", help="The name of the set. Default: the kind.", metavar="NAME")
@object_output_option
def init(kind: StarterKind, name: str, output: ObjectFormat) -> None:
    """Print a commented manifest to start from.

    For example: grove init training > train.yaml
    """
    if name and "." in check_name(name):
        raise UsageError(f"--name: {name!r} is not a DNS label; use lowercase letters, digits and '-'")
    text = starter_manifest(kind, name)
    if output is ObjectFormat.JSON:
        import yaml

        print_json({"apiVersion": "v1", "kind": "List", "items": list(yaml.safe_load_all(text))})
        return
    print_text(text)
    if is_terminal():
        print_error(f"# Write it to a file with: grove init {kind} > set.yaml; create it with: grove apply -f set.yaml")
