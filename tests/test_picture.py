"""The picture of the README shows what the commands print today."""

import os

from tests.picture import PICTURE, drawn


def test_the_picture_of_the_readme_is_what_the_commands_print() -> None:
    """`GROVE_UPDATE_GOLDEN=1`, or `python -m tests.picture`, draws it anew."""
    if os.environ.get("GROVE_UPDATE_GOLDEN"):
        PICTURE.write_text(drawn())
    assert PICTURE.read_text() == drawn()
