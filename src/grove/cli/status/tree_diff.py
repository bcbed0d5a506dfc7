"""Compare two states of sets and return the changes as lines, for output without a terminal."""

from collections.abc import Iterator, Sequence

from grove.cli.status.tree import SetNode

MOST_LINES = 20


def changes(before: Sequence[SetNode], after: Sequence[SetNode]) -> list[str]:
    """Return one line per set, gang and problem that was added, removed or changed, up to a limit."""
    old, new = dict(_facts(before)), dict(_facts(after))
    lines = [line for name, fact in new.items() if (line := _line(name, old.get(name), fact))]
    lines += [f"{name} is gone" for name in old if name not in new]
    if len(lines) > MOST_LINES:
        return [*lines[:MOST_LINES], f"... and {len(lines) - MOST_LINES} more changes"]
    return lines


Fact = tuple[str, str]


def _line(name: str, old: Fact | None, new: Fact) -> str:
    if old == new:
        return ""
    moved = f"{old[0]} -> {new[0]}" if old is not None and old[0] != new[0] else new[0]
    return f"{name} {moved}{new[1]}"


def _facts(sets: Sequence[SetNode]) -> Iterator[tuple[str, Fact]]:
    """Yield names with their phase and details."""
    for node in sets:
        name = f"pcs/{node.name}"
        yield name, (node.phase, f", {node.available_replicas}/{node.replicas} replicas available{_ready(node)}")
        for problem in node.problems:
            yield f"{name} {problem.type}:", (problem.message, "")
        for replica in node.set_replicas:
            yield f"pg/{replica.gang}", (replica.phase, "")
            for group in replica.groups:
                for one in group.group_replicas:
                    if one.gang != replica.gang:
                        yield f"pg/{one.gang}", (one.phase, "")


def _ready(node: SetNode) -> str:
    return f", {node.counts.ready}/{node.counts.wanted} pods ready"
