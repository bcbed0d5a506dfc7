"""The reference page of the SDK, made from its docstrings: `python -m tests.sdk_reference` writes it."""

import inspect
import re
from pathlib import Path
from textwrap import dedent, wrap

import msgspec

import grove.sdk

PAGE = Path(__file__).parent.parent / "docs" / "reference" / "sdk.md"
COMMAND = "python -m tests.sdk_reference"
HEAD = f"""# Python SDK

The public names of `grove.sdk`. [Script with Python](../how-to/script.md) shows how they work together. This page is
generated from the docstrings: `{COMMAND}` writes it again.
"""


def page() -> str:
    sections = [_section(name) for name in sorted(grove.sdk.__all__, key=_order)]
    return "\n".join([HEAD, *sections])


def example_of(name: str) -> str:
    """The example in the docstring of a public name, or ""."""
    return _split(inspect.getdoc(getattr(grove.sdk, name)) or "")[1]


def _order(name: str) -> tuple[int, str]:
    """Clients and functions first, then errors, then types."""
    found = getattr(grove.sdk, name)
    if name in ("Client", "AsyncClient", "local"):
        return 0, name
    if inspect.isfunction(found):
        return 1, name
    return (3, name) if issubclass(found, Exception) else (2, name)


def _section(name: str) -> str:
    found = getattr(grove.sdk, name)
    lines = [f"## {name}", "", *_described(found)]
    if inspect.isclass(found):
        lines += _fields(found)
    if name == "Client":
        lines += ["`AsyncClient` has the same methods, to be awaited.", ""]
        for method, function in vars(found).items():
            if not method.startswith("_"):
                lines += [f"### {name}.{method}", "", *_signature(method, function), *_described(function)]
    return "\n".join(lines)


def _described(found: object) -> list[str]:
    text, example = _split(inspect.getdoc(found) or "")
    signature = _signature(getattr(found, "__name__", ""), found) if inspect.isfunction(found) else []
    is_method = inspect.isfunction(found) and "." in found.__qualname__
    block = ["```py", example, "```", ""] if example else []
    return [*([] if is_method else signature), text, "", *block]


def _split(doc: str) -> tuple[str, str]:
    text, _, example = doc.partition("\n\nExample:\n")
    return text, dedent(example).strip()


def _signature(name: str, function: object) -> list[str]:
    assert callable(function)
    parameters = [one for one in inspect.signature(function).parameters if one != "self"]
    return ["```text", *wrap(f"{name}({', '.join(parameters)})", 100, subsequent_indent="    "), "```", ""]


def _fields(found: type) -> list[str]:
    if not issubclass(found, msgspec.Struct):
        return []
    names = [field.name for field in msgspec.structs.fields(found)]
    return [_wrapped(f"Fields: {', '.join(f'`{name}`' for name in names)}."), ""]


def _wrapped(text: str) -> str:
    return re.sub(r"(.{1,118})(?: |$)", r"\1\n", text).rstrip("\n")


if __name__ == "__main__":
    PAGE.write_text(page())
