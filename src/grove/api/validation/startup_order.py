"""Validate the start-up order: `startsAfter` names other cliques of the set and has no cycles."""

from collections.abc import Iterator

from grove.api.types.podcliqueset import SetTemplate, StartupType
from grove.api.validation.field_errors import FieldError, duplicate, invalid, required

_CLIQUES = "spec.template.cliques"


def startup_errors(template: SetTemplate) -> Iterator[FieldError]:
    """Validate `startsAfter`, which has an effect only with the explicit start-up type."""
    if template.clique_startup_type != StartupType.EXPLICIT:
        return
    after = {clique.name: clique.spec.starts_after for clique in template.cliques}
    for i, clique in enumerate(template.cliques):
        yield from _entry_errors(clique.name, clique.spec.starts_after, after, f"{_CLIQUES}[{i}].spec.startsAfter")
    yield from _cycle_errors(after)


def _entry_errors(
    clique: str, entries: tuple[str, ...], cliques: dict[str, tuple[str, ...]], at: str
) -> Iterator[FieldError]:
    seen: set[str] = set()
    for k, name in enumerate(entries):
        if not name.strip():
            yield required(f"{at}[{k}]", "write the name of a clique, or remove the entry")
        elif name == clique:
            yield invalid(f"{at}[{k}]", name, "a clique cannot start after itself: remove the entry")
        elif name in seen:
            yield duplicate(f"{at}[{k}]", name, "listed twice: remove one")
        elif name not in cliques:
            yield invalid(f"{at}[{k}]", name, "is not a clique of this set: correct the name, or remove the entry")
        seen.add(name)


def _cycle_errors(after: dict[str, tuple[str, ...]]) -> Iterator[FieldError]:
    places = {name: i for i, name in enumerate(after)}
    cycles = [sorted(cycle, key=places.__getitem__) for cycle in _cycles(after)]
    for cycle in sorted(cycles, key=lambda cycle: places[cycle[0]]):
        detail = "these cliques wait for each other: remove one of the entries"
        at = f"{_CLIQUES}[{places[cycle[0]]}].spec.startsAfter"
        yield invalid(at, " -> ".join([*cycle, cycle[0]]), detail)


def _cycles(after: dict[str, tuple[str, ...]]) -> list[list[str]]:
    """Return the groups of two or more names that all lead to each other.

    Kosaraju's algorithm for strongly connected components, without recursion; linear in the number of entries.
    """
    forwards = {name: [entry for entry in entries if entry in after] for name, entries in after.items()}
    backwards: dict[str, list[str]] = {name: [] for name in after}
    for name, entries in forwards.items():
        for entry in entries:
            backwards[entry].append(name)
    seen: set[str] = set()
    finished = [name for root in after for name in _walk(root, forwards, seen)]
    seen.clear()
    groups = [_walk(root, backwards, seen) for root in reversed(finished)]
    return [group for group in groups if len(group) > 1]


def _walk(root: str, edges: dict[str, list[str]], seen: set[str]) -> list[str]:
    """Return the names that are reachable from `root` and not in `seen`, in post-order."""
    finished: list[str] = []
    path = [(root, iter(edges[root]))] if root not in seen else []
    seen.add(root)
    while path:
        name, entries = path[-1]
        unseen = next((entry for entry in entries if entry not in seen), None)
        if unseen is None:
            path.pop()
            finished.append(name)
        else:
            seen.add(unseen)
            path.append((unseen, iter(edges[unseen])))
    return finished
