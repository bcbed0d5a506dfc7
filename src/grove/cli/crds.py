"""`grove crds`."""

import click

from grove.cli.printing import Notation, notation_option, print_objects


@click.command()
@notation_option
def crds(output: Notation) -> None:
    """Print the CustomResourceDefinitions: `grove crds | kubectl apply --server-side -f -`."""
    from grove.api.crds import custom_resource_definitions

    print_objects(custom_resource_definitions(), output)
