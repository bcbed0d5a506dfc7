"""`grove crds`."""

from grove.cli.options import Output
from grove.cli.output import Format, say_json, say_part


def crds(output: Output = Format.TEXT) -> None:
    """Print the CustomResourceDefinitions as YAML: `grove crds | kubectl apply -f -`."""
    from grove.api.crds import crd_text, custom_resource_definitions

    definitions = custom_resource_definitions()
    if output is Format.JSON:
        say_json(definitions)
    else:
        say_part("---\n".join(crd_text(definition) for definition in definitions))
