"""Manifest files as people leave them: what cannot be a manifest is one line that names the place."""

import sys
from io import BytesIO, TextIOWrapper
from pathlib import Path

import pytest

from grove.errors import UserError
from grove.operations.apply.manifest_reader import read_documents

_CONFIG = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"


def _written(folder: Path, content: str | bytes) -> Path:
    path = folder / "f.yaml"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


@pytest.mark.parametrize(
    ("content", "words"),
    [
        pytest.param("", "f.yaml: has no object; add a manifest", id="empty"),
        pytest.param("# nothing\n---\n", "f.yaml: has no object; add a manifest", id="only a comment"),
        pytest.param(b"\xff\xfea\x00", "f.yaml: is not a text file", id="binary"),
        pytest.param("a: [1,\n", "f.yaml, document 1: not valid YAML: line 2", id="broken"),
        pytest.param("a: 1\na: 2\n", "line 2: duplicate key 'a'", id="a key twice"),
        pytest.param("- 1\n", "document 1: is not an object", id="a list"),
        pytest.param(f"{_CONFIG}---\nkind: Pod\n", "document 2: has no apiVersion", id="the second one"),
        pytest.param("[" * 5_000, "document 1: is nested too deeply", id="deep"),
        pytest.param(f"{_CONFIG}data: &d {{x: *d}}\n", "is nested too deeply, or too large", id="contains itself"),
        pytest.param(
            "\n".join(f"k{level}: &k{level} [{f'*k{level - 1},' * 9 if level else 'x'}]" for level in range(9)),
            "is nested too deeply, or too large",
            id="a few lines that mean millions",
        ),
        pytest.param(f"{_CONFIG}data: {{a: .nan}}\n", "data.a is the number nan", id="not a number"),
        pytest.param(f"{_CONFIG}data: {{a: !!binary aGk=}}\n", "data.a is a value of type bytes", id="bytes"),
        pytest.param(f'{_CONFIG}data: {{a: "\\ud800"}}\n', "data.a is an incomplete character", id="half a character"),
        pytest.param(f"{_CONFIG}data: {{~: x}}\n", "data is the key None", id="a key that is nothing"),
        pytest.param("? [a]\n: b\n", "line 1: a key is not a string", id="a list as a key"),
        pytest.param("a: !!int x\n", "does not match its !!type", id="a wrong type"),
        pytest.param("a: !other x\n", "could not determine a constructor", id="a type of somebody else"),
        pytest.param("apiVersion: v1\nkind: List\nitems: 3\n", "items of a List are not a list", id="no items"),
        pytest.param("apiVersion: v1\nkind: Pod\nmetadata: {}\n", "Pod has no metadata.name; add it", id="no name"),
        pytest.param(
            "apiVersion: v1\nkind: Pod\nmetadata: {name: 3}\n",
            "metadata.name 3 is not a string",
            id="a number as name",
        ),
        pytest.param(
            "apiVersion: v1\nkind: Pod\nmetadata: {name: a, namespace: [b]}\n",
            "metadata.namespace ['b'] is not a string",
            id="a list as namespace",
        ),
        pytest.param(
            "apiVersion: v1\nkind: Pod\nmetadata: {name: a, annotations: b}\n",
            "metadata.annotations is not a mapping; write it as KEY: VALUE",
            id="annotations without keys",
        ),
        pytest.param(
            "apiVersion: v1\nkind: Pod\nmetadata: {name: a, labels: [b]}\n",
            "metadata.labels is not a mapping; write it as KEY: VALUE",
            id="labels without keys",
        ),
    ],
)
def test_what_is_no_manifest_is_named_in_one_line(tmp_path: Path, content: str | bytes, words: str) -> None:
    with pytest.raises(UserError) as refused:
        read_documents(_written(tmp_path, content))
    assert words in str(refused.value)
    assert "\n" not in str(refused.value)


def test_values_are_what_kubectl_would_send(tmp_path: Path) -> None:
    data = "data: {day: 2026-01-01, at: 2026-01-01 10:00:00, map: 80:80, 1: one, true: yes, 1.5: x, ü: ö, n: ~}\n"
    text = f"{_CONFIG}{data}".replace("1: one, true", "2: one, true")
    (document,) = read_documents(_written(tmp_path, text))
    assert document.body["data"] == {
        "day": "2026-01-01", "at": "2026-01-01 10:00:00", "map": "80:80", "2": "one", "true": True, "1.5": "x",
        "ü": "ö", "n": None,
    }  # fmt: skip


def test_numbers_stay_numbers(tmp_path: Path) -> None:
    (document,) = read_documents(_written(tmp_path, f"{_CONFIG}x: [3, -1, 0o, 0x1f, 1.5, 0644, 1_000]\n"))
    assert document.body["x"] == [3, -1, "0o", 31, 1.5, 420, 1000]


def test_lists_are_taken_apart_and_places_are_named(tmp_path: Path) -> None:
    text = "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: Pod, metadata: {name: x}}\n"
    (document,) = read_documents(_written(tmp_path, f"---\n{text}"))
    assert (document.name, document.place) == ("x", f"{tmp_path}/f.yaml, document 1, items[0]")


def test_standard_input_may_be_anything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", TextIOWrapper(BytesIO(b"\xff\x00"), encoding="utf-8"))
    with pytest.raises(UserError, match="standard input: is not a text file"):
        read_documents(Path("-"))


@pytest.mark.parametrize(("name", "words"), [("missing", "No such file"), (".", "Is a directory")])
def test_what_cannot_be_read_is_said(tmp_path: Path, name: str, words: str) -> None:
    with pytest.raises(UserError, match=words):
        read_documents(tmp_path / name)
