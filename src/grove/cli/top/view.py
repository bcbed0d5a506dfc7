"""Render the use of resources as tables. Pure; `cli/common/output.py` prints them."""

from collections.abc import Sequence

from grove.cli.common.columns import clip, clip_rows, fit_columns, header_row, measure_columns, total_width
from grove.cli.common.output import GAP, Cell, Row, Tone
from grove.cli.top.usage import OTHERS, PODS, PlaceUse, SetUse, Usage

SHOWN_HOLDERS = 3
_BYTES = ("memory", "storage", "hugepages-")
_UNITS = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")


def top_tables(usage: Usage, width: int | None, height: int | None) -> list[list[Row]]:
    """Return the table of nodes and racks, and that of sets. Nodes are omitted if they exceed the height."""
    sets = _set_rows(usage, width)
    nodes = sum(len(place.nodes) for place in usage.places)
    rows = 3 + len(usage.places) + nodes + len(sets)
    is_folded = height is not None and rows > height and nodes > 0
    places = _place_rows(usage, width, has_nodes=not is_folded)
    footer: list[Row] = [(Cell("Nodes are folded; --all shows every node.", Tone.FAINT),)] if is_folded else []
    return [[*places, *footer, (Cell(""),)], sets]


def _place_rows(usage: Usage, width: int | None, *, has_nodes: bool) -> list[Row]:
    header = ("NAME", *(f"{name} FREE" for name in _short_names(usage.resources)), "HELD BY")
    rows: list[Row] = [header_row(header), _place_row(usage.cluster, usage, "")]
    for number, place in enumerate(usage.places, start=1):
        is_last = number == len(usage.places)
        rows.append(_place_row(place, usage, "└─ " if is_last else "├─ "))
        for index, node in enumerate(place.nodes if has_nodes else (), start=1):
            stem = ("   " if is_last else "│  ") + ("└─ " if index == len(place.nodes) else "├─ ")
            rows.append(_place_row(node, usage, stem))
    return _fit_last(rows, width, dropped_first=[*reversed(header[2:-1])])


def _place_row(place: PlaceUse, usage: Usage, stem: str) -> Row:
    amounts = [
        Cell(
            f"{format_amount(name, place.free.get(name, 0))}/{format_amount(name, place.total[name])}"
            if name in place.total
            else "",
            _free_tone(place, name),
        )
        for name in usage.resources
    ]
    main = usage.resources[0] if usage.resources else ""
    holders = _describe_holders(place, main, has_namespaces=_has_namespaces(usage))
    note = Cell(", ".join(text for text in (place.note, holders) if text), Tone.WAITING if place.note else Tone.PLAIN)
    return (Cell(place.name, lead=stem), *amounts, note)


def _free_tone(place: PlaceUse, name: str) -> Tone:
    free, total = place.free.get(name, 0), place.total.get(name, 0)
    return Tone.GOOD if free and free == total else Tone.FAINT if not free else Tone.PLAIN


def _describe_holders(place: PlaceUse, resource: str, *, has_namespaces: bool) -> str:
    """Return who holds the resource, most first, such as `llm 48, chat 8`."""
    held = {holder: amounts.get(resource, 0) for holder, amounts in place.held.items()}
    found = sorted(((-amount, holder) for holder, amount in held.items() if amount))
    texts = [
        f"{_holder_name(holder, has_namespaces=has_namespaces)} {format_amount(resource, -amount)}"
        for amount, holder in found[:SHOWN_HOLDERS]
    ]
    more = len(found) - SHOWN_HOLDERS
    return ", ".join([*texts, *([f"{more} more"] if more > 0 else [])])


def _has_namespaces(usage: Usage) -> bool:
    return len({one.name.partition("/")[0] for one in usage.sets if one.name != OTHERS}) > 1


def _holder_name(holder: str, *, has_namespaces: bool) -> str:
    return holder if has_namespaces or holder == OTHERS else holder.partition("/")[2]


def _set_rows(usage: Usage, width: int | None) -> list[Row]:
    if not usage.sets:
        return [(Cell("No pod holds or waits for anything.", Tone.FAINT),)]
    header = ("SET", *_short_names(usage.resources), "PODS", "NODES", "WAITS FOR")
    rows = [header_row(header), *(_set_row(one, usage.resources) for one in usage.sets)]
    return _fit_last(rows, width, dropped_first=["NODES", *reversed(header[2:-3])])


def _set_row(one: SetUse, resources: Sequence[str]) -> Row:
    return (
        Cell(one.name, Tone.STRONG if one.name != OTHERS else Tone.FAINT),
        *(Cell(format_amount(name, one.held.get(name, 0))) for name in resources),
        Cell(str(one.pods)),
        Cell(str(one.nodes)),
        Cell(_describe_wait(one, resources), Tone.WAITING),
    )


def _describe_wait(one: SetUse, resources: Sequence[str]) -> str:
    """Return what pods without a node request: of the first resource that they need."""
    if not one.waiting_pods:
        return ""
    pods = f"{one.waiting_pods} pod{'' if one.waiting_pods == 1 else 's'}"
    needed = next((name for name in (*resources, *one.waits_for) if name != PODS and one.waits_for.get(name)), None)
    return pods if needed is None else f"{format_amount(needed, one.waits_for[needed])} {needed} ({pods})"


def _fit_last(rows: list[Row], width: int | None, dropped_first: Sequence[str]) -> list[Row]:
    """Fit the rows: first cut the last column to a third of the width, then drop columns, then cut the names."""
    if width is None:
        return rows
    widths = measure_columns(rows)
    room = max(width - total_width(widths, range(len(widths) - 1)) - len(GAP), width // 3)
    cut = [(*row[:-1], Cell(clip(row[-1].text, room), row[-1].tone)) for row in rows]
    return fit_columns(cut, width, dropped_first) or clip_rows([(*row[:2], row[-1]) for row in cut], width)


def _short_names(resources: Sequence[str]) -> list[str]:
    """Return headings: `nvidia.com/gpu` is GPU, unless two resources have the same last part."""
    last = [name.rpartition("/")[2].upper() for name in resources]
    return [short if last.count(short) == 1 else name for name, short in zip(resources, last, strict=True)]


def format_amount(resource: str, milli: int) -> str:
    """Return an amount for people: at most one decimal place, bytes with binary suffixes."""
    value, unit = milli / 1000, 0
    while resource.startswith(_BYTES) and value >= 1024 and unit < len(_UNITS) - 1:
        value, unit = value / 1024, unit + 1
    text = f"{value:.1f}".removesuffix(".0")
    return text + _UNITS[unit]
