"""The reference page of the SDK equals its docstrings, and their examples use what exists."""

import ast
import builtins

import pytest

import grove.sdk
from tests.sdk_reference import COMMAND, PAGE, example_of, page

# What an example may assume: an open client, a set, and the library that reads files.
ASSUMED = ("client", "chat", "Path")


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text() == page(), f"{COMMAND} writes it again"


@pytest.mark.parametrize("name", grove.sdk.__all__)
def test_a_public_name_has_an_example_that_uses_public_names(name: str) -> None:
    example = example_of(name)
    tree = compile(example, name, "exec", ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    names = [node for node in ast.walk(tree) if isinstance(node, ast.Name)]
    made = [node.id for node in names if isinstance(node.ctx, ast.Store)]
    caught = [node.name for node in ast.walk(tree) if isinstance(node, ast.ExceptHandler)]
    known = (*grove.sdk.__all__, *dir(builtins), *ASSUMED, *made, *caught)
    assert example != ""
    assert [node.id for node in names if node.id not in known] == []


def test_the_public_names_are_sorted_and_complete() -> None:
    assert list(grove.sdk.__all__) == sorted(grove.sdk.__all__)
    assert [name for name in grove.sdk.__all__ if not hasattr(grove.sdk, name)] == []
