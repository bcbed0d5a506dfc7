"""Compare two states of sets and return the changes as lines, for output without a terminal."""

from collections.abc import Iterator, Sequence

from grove.cli.status.tree import SetNode
from grove.operations.hints import name_with_namespace

MAX_LINES = 20


def describe_tree_changes(before: Sequence[SetNode], after: Sequence[SetNode]) -> list[str]:
    """Return one line per set, gang and condition that was added, removed or changed, up to a limit."""
    old, new = dict(_facts(before)), dict(_facts(after))
    lines = [line for name, fact in new.items() if (line := _line(name, old.get(name), fact))]
    lines += [f"{name} is gone" for name in old if name not in new]
    more = len(lines) - MAX_LINES
    if more > 0:
        return [*lines[:MAX_LINES], f"... and {more} more {'change' if more == 1 else 'changes'}"]
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
        name = name_with_namespace(f"pcs/{node.name}", node.namespace)
        yield (
            name,
            (node.phase, f", {node.available_replicas}/{node.replicas} replicas available{_describe_ready(node)}"),
        )
        for problem in node.problems:
            yield f"{name} {problem.type}:", (problem.message, "")
        for replica in node.set_replicas:
            yield name_with_namespace(f"pg/{replica.gang}", node.namespace), (replica.phase, "")
            for group in replica.groups:
                for one in group.group_replicas:
                    if one.gang != replica.gang:
                        yield name_with_namespace(f"pg/{one.gang}", node.namespace), (one.phase, "")


def _describe_ready(node: SetNode) -> str:
    counts = node.counts
    if counts.succeeded and counts.succeeded >= counts.wanted:
        return f", {counts.succeeded}/{counts.wanted} pods succeeded"
    succeeded = f", {counts.succeeded} succeeded" if counts.succeeded else ""
    return f", {counts.ready}/{counts.wanted} pods ready{succeeded}"
