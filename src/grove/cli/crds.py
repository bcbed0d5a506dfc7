"""`grove crds`."""

from grove.cli.printing import Notation, NotationOption, print_objects


def crds(output: NotationOption = Notation.YAML) -> None:
    """Print the CustomResourceDefinitions: `grove crds | kubectl apply --server-side -f -`."""
    from grove.api.crds import custom_resource_definitions

    print_objects(custom_resource_definitions(), output)
