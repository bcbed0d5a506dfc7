"""Cases that stand in YAML beside the tests: what is sent, and what a real server makes of it."""

from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.conformance.talk import Answer


def cases(file: str, section: str, *fields: str) -> list[Any]:
    """The cases of a section as parameters: these fields of each, None where one is missing."""
    table = _tables(file)[section]
    return [
        pytest.param(*(case.get(field) for field in fields), id=name.replace(" ", "-")) for name, case in table.items()
    ]


@cache
def _tables(file: str) -> dict[str, Any]:
    """Return the sections of a file; the loader in C is ten times as fast, where PyYAML has it."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    sections: dict[str, Any] = yaml.load((Path(__file__).parent / file).read_text(), Loader=loader)
    return sections


def problems_of(answer: Answer) -> list[str]:
    """Everything that is wrong, sorted: a real server names it in any order."""
    code, reason, message = answer.refusal
    if code != 422:
        return [message]
    assert reason == "Invalid"
    assert answer.details is not None
    found = [f"{cause['field']}: {cause['message']}" for cause in answer.details["causes"]]
    assert all(problem in message for problem in found)
    return sorted(found)
