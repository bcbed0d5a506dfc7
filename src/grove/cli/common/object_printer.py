"""Print objects for `kubectl apply -f -`: as YAML documents, or as one List in JSON."""

from collections.abc import Sequence
from enum import StrEnum

import click

from grove.api.types.meta import JsonObject
from grove.cli.common.options import ChoiceOf
from grove.cli.common.output import say_json, say_part


class ObjectFormat(StrEnum):
    YAML = "yaml"
    JSON = "json"


notation_option = click.option(
    "--output",
    "-o",
    type=ChoiceOf(ObjectFormat),
    default=ObjectFormat.YAML.value,
    show_default=True,
    help="YAML documents, or one list in JSON.",
)


def print_objects(objects: Sequence[JsonObject], notation: ObjectFormat, *remarks: str) -> None:
    """Print objects. `remarks` become comments above the first YAML document; JSON omits them."""
    if notation is ObjectFormat.JSON:
        say_json({"apiVersion": "v1", "kind": "List", "items": objects})
        return
    head = "".join(f"# {remark}\n" for remark in remarks)
    say_part(head + "---\n".join(_text(one) for one in objects))


def _text(one: JsonObject) -> str:
    from grove.api.schema.crd_generator import crd_text
    from grove.api.values.yaml_text import spread_text

    return crd_text(one) if one["kind"] == "CustomResourceDefinition" else spread_text(one)
