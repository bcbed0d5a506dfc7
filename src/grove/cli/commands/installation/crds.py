"""`grove crds`."""

import click

from grove.cli.common.object_printer import ObjectFormat, object_output_option, print_objects


@click.command()
@object_output_option
def crds(output: ObjectFormat) -> None:
    """Print the CustomResourceDefinitions.

    Install them with: grove crds | kubectl apply --server-side -f -
    """
    from grove.api.schema.crd_generator import custom_resource_definitions

    print_objects(custom_resource_definitions(), output)
