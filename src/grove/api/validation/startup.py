"""Start-up order: `startsAfter` names other cliques of the set, without going round in a circle."""

from collections.abc import Iterator

from grove.api.fielderrors import FieldError, duplicate, invalid, required
from grove.api.podcliqueset import SetTemplate, StartupType

_CLIQUES = "spec.template.cliques"


def startup_errors(template: SetTemplate) -> Iterator[FieldError]:
    """`startsAfter` counts only with the explicit start-up type."""
    if template.clique_startup_type != StartupType.EXPLICIT:
        return
    after = {clique.name: clique.spec.starts_after for clique in template.cliques}
    for i, clique in enumerate(template.cliques):
        yield from _entry_errors(clique.name, clique.spec.starts_after, after, f"{_CLIQUES}[{i}].spec.startsAfter")
    yield from _cycle_errors(after)


def _entry_errors(
    clique: str, entries: tuple[str, ...], known: dict[str, tuple[str, ...]], at: str
) -> Iterator[FieldError]:
    for k, name in enumerate(entries):
        if not name.strip():
            yield required(f"{at}[{k}]", "name a clique, or remove the entry")
        elif name == clique:
            yield invalid(f"{at}[{k}]", name, "a clique cannot start after itself: remove the entry")
        elif name in entries[:k]:
            yield duplicate(f"{at}[{k}]", name, "stands there twice: remove one")
        elif name not in known:
            yield invalid(f"{at}[{k}]", name, "is not a clique of this set: correct the name, or remove the entry")


def _cycle_errors(after: dict[str, tuple[str, ...]]) -> Iterator[FieldError]:
    reachable = {name: _reachable(name, after) for name in after}
    reported: list[str] = []
    for i, name in enumerate(after):
        if name in reported:
            continue
        circle = [other for other in after if other in reachable[name] and name in reachable[other]]
        if len(circle) > 1:
            reported += circle
            detail = "these cliques start after each other: remove one of the entries"
            yield invalid(f"{_CLIQUES}[{i}].spec.startsAfter", " -> ".join([*circle, circle[0]]), detail)


def _reachable(start: str, after: dict[str, tuple[str, ...]]) -> list[str]:
    found: dict[str, None] = {}
    stack = [*after[start]]
    while stack:
        name = stack.pop()
        if name in after and name not in found:
            found[name] = None
            stack += after[name]
    return list(found)
