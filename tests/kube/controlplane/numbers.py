"""Field numbers of built-in kinds in protobuf, read off the Go types: `python -m tests.kube.controlplane.numbers`.

Only numbers, names and types are taken. They are checked in as
`src/grove/cluster/apiserver/codec/protobuf_numbers.json`; beside
the tests stands one filled object of each kind in both encodings, made by the same Go types.
"""

import os
import subprocess
from pathlib import Path

import msgspec

from grove.api.types.meta import JsonObject
from tests.kube.controlplane.build import DEFAULT_VERSION, HERE, MODULE_FILES

ROOT = Path(__file__).parents[3]
NUMBERS = ROOT / "src" / "grove" / "cluster" / "apiserver" / "codec" / "protobuf_numbers.json"
SAMPLES = ROOT / "tests" / "fixtures" / "protobuf_samples.json"


def told_by_go(what: str) -> JsonObject:
    """`numbers` or `samples`, of the release that is the model."""
    command = ["go", "run", f"-modfile={MODULE_FILES[DEFAULT_VERSION]}", "./wirefields", what]
    told = subprocess.run(command, cwd=HERE, env={**os.environ, "CGO_ENABLED": "0"}, check=True, capture_output=True)
    found: JsonObject = msgspec.json.decode(told.stdout)
    return found


def text_of(found: JsonObject) -> str:
    """One message, kind or sample per line: a change shows what it is about."""
    return "{\n" + ",\n".join(_lines(found)) + "\n}\n"


def _lines(found: JsonObject) -> list[str]:
    return [f"{_compact(name)}:{_compact(value)}" for name, value in sorted(found.items())]


def _compact(value: object) -> str:
    return msgspec.json.encode(value, order="sorted").decode()


def numbers_text(numbers: JsonObject) -> str:
    kinds, messages = text_of(numbers["kinds"]), text_of(numbers["messages"])
    return f'{{\n"kinds":{kinds.rstrip()},\n"messages":{messages.rstrip()}\n}}\n'


if __name__ == "__main__":
    NUMBERS.write_text(numbers_text(told_by_go("numbers")))
    SAMPLES.write_text(text_of(told_by_go("samples")))
