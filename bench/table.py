"""Figures as an aligned table on standard output."""

import sys
from collections.abc import Sequence

import msgspec


class Row(msgspec.Struct, frozen=True):
    what: str
    figure: str
    remark: str = ""


def show(title: str, rows: Sequence[Row]) -> None:
    wide = max(len(row.what) for row in rows)
    figures = max(len(row.figure) for row in rows)
    sys.stdout.write(f"\n{title}\n")
    for row in rows:
        sys.stdout.write(f"  {row.what:<{wide}}  {row.figure:>{figures}}  {row.remark}\n")
    sys.stdout.flush()
