"""Print objects for `kubectl apply -f -`: as YAML documents, or as one List in JSON."""

from collections.abc import Sequence
from enum import StrEnum

import click

from grove.api.types.meta import JsonObject
from grove.cli.common.options import ChoiceOf
from grove.cli.common.output import print_json, print_text


class ObjectFormat(StrEnum):
    YAML = "yaml"
    JSON = "json"


object_output_option = click.option(
    "--output",
    "-o",
    type=ChoiceOf(ObjectFormat),
    default=ObjectFormat.YAML.value,
    show_default=True,
    help="Output format: YAML documents, or one List in JSON.",
)


def print_objects(objects: Sequence[JsonObject], object_format: ObjectFormat, *remarks: str) -> None:
    """Print the objects. `remarks` become comments above the first YAML document; JSON omits them."""
    if object_format is ObjectFormat.JSON:
        print_json({"apiVersion": "v1", "kind": "List", "items": objects})
        return
    head = "".join(f"# {remark}\n" for remark in remarks)
    print_text(head + "---\n".join(object_yaml(one) for one in objects))


def object_yaml(one: JsonObject) -> str:
    """Return the object as one YAML document."""
    from grove.api.schema.crd_generator import crd_text
    from grove.api.values.yaml_text import expanded_yaml

    return crd_text(one) if one["kind"] == "CustomResourceDefinition" else expanded_yaml(one)
