"""The output formats of kubectl (`-o json|yaml|wide|name`), and printing data in the ones that need no view."""

from collections.abc import Callable, Iterable
from enum import StrEnum
from typing import Any

import click
import msgspec

from grove.cli.common.options import ChoiceOf
from grove.cli.common.output import print_json, print_line, print_text


class DataFormat(StrEnum):
    TEXT = "text"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"
    NAME = "name"


_MEANINGS = {
    DataFormat.TEXT: "`text` for people",
    DataFormat.WIDE: "`wide` for people, with more columns",
    DataFormat.JSON: "`json` and `yaml` for programs",
    DataFormat.NAME: "`name`: only the names",
}


def data_output_option(*formats: DataFormat) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return the option `--output` with these formats."""
    meanings = ", ".join(text for one, text in _MEANINGS.items() if one in formats)
    return click.option(
        "--output",
        "-o",
        type=ChoiceOf(formats),
        default=DataFormat.TEXT.value,
        show_default=True,
        help=f"Output format: {meanings}.",
    )


def print_data(value: object, output: DataFormat, names: Iterable[str] = ()) -> bool:
    """Print the value as JSON or YAML, or its names. Returns False for the formats that the caller renders."""
    match output:
        case DataFormat.JSON:
            print_json(value)
        case DataFormat.YAML:
            print_yaml(value)
        case DataFormat.NAME:
            for name in names:
                print_line(name)
        case _:
            return False
    return True


def print_yaml(value: object) -> None:
    from grove.api.values.yaml_text import expanded_yaml

    # The same names and values as in JSON.
    print_text(expanded_yaml(msgspec.json.decode(msgspec.json.encode(value))))
