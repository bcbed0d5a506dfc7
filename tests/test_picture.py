"""The picture of the README shows what the commands print today."""

import os

from tests.picture import LARGE_PICTURE, PICTURE, drawn, drawn_large


def test_the_picture_of_the_readme_is_what_the_commands_print() -> None:
    """`GROVE_UPDATE_GOLDEN=1`, or `python -m tests.picture`, draws it anew."""
    if os.environ.get("GROVE_UPDATE_GOLDEN"):
        PICTURE.write_text(drawn())
    assert PICTURE.read_text() == drawn()


def test_the_picture_of_a_large_set_is_what_the_commands_print() -> None:
    if os.environ.get("GROVE_UPDATE_GOLDEN"):
        LARGE_PICTURE.write_text(drawn_large())
    assert LARGE_PICTURE.read_text() == drawn_large()
