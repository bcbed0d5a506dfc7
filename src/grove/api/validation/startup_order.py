"""Validate the start-up order: `startsAfter` names other cliques of the set, has no cycles, and fits into its list."""

from collections.abc import Iterator

from grove.api.schema.limits import MOST_DEPENDENCIES
from grove.api.startup_order import dependencies_by_clique
from grove.api.types.podcliqueset import SetTemplate, StartupType
from grove.api.validation.field_errors import FieldError, duplicate, invalid, required
from grove.api.values.clique_counts import INIT_CONTAINER, POD_INFO_VOLUME, TOKEN_VOLUME

_CLIQUES = "spec.template.cliques"


def startup_errors(template: SetTemplate) -> Iterator[FieldError]:
    """Validate `startsAfter`, which has an effect only with the explicit start-up type."""
    if template.clique_startup_type != StartupType.EXPLICIT:
        return
    after = {clique.name: clique.spec.starts_after for clique in template.cliques}
    for i, clique in enumerate(template.cliques):
        yield from _entry_errors(clique.name, clique.spec.starts_after, after, f"{_CLIQUES}[{i}].spec.startsAfter")
    yield from _cycle_errors(after)


def dependency_count_errors(template: SetTemplate) -> Iterator[FieldError]:
    """Validate how many PodCliques one clique starts after: `PodClique.spec.startsAfter` must hold their names.

    A dependency on a member of a group counts once for every group replica of the base gang. The error is at the group
    that contributes most.
    """
    places = {
        name: (k, max(group.min_available, 0))
        for k, group in enumerate(template.pod_clique_scaling_groups)
        for name in group.clique_names
    }
    for clique, entries in dependencies_by_clique(template).items():
        counts = [places.get(name, (-1, 1)) for name in entries]
        total = sum(count for _, count in counts)
        if total > MOST_DEPENDENCIES:
            k, count = max(counts, key=lambda place: place[1])
            yield _dependency_count_error(template, clique, total, k, count)


def _dependency_count_error(template: SetTemplate, clique: str, total: int, k: int, count: int) -> FieldError:
    detail = (
        f"clique {clique} would start after {total} PodCliques, one in every group replica of the base gang, and"
        f" spec.startsAfter of a PodClique holds {MOST_DEPENDENCIES}"
    )
    if k < 0:
        i = next(i for i, one in enumerate(template.cliques) if one.name == clique)
        return invalid(f"{_CLIQUES}[{i}].spec.startsAfter", total, f"{detail}: remove entries")
    fit = max(MOST_DEPENDENCIES - total + count, 1)
    at = f"spec.template.podCliqueScalingGroups[{k}].minAvailable"
    return invalid(at, count, f"{detail}: write at most {fit}, or do not start {clique} after this group")


def reserved_name_errors(template: SetTemplate) -> Iterator[FieldError]:
    """Validate that a clique that starts after others does not use the names of its init container and volumes."""
    waiting = dependencies_by_clique(template)
    for i, clique in enumerate(template.cliques):
        for field, names in _RESERVED.items() if clique.name in waiting else ():
            items = clique.spec.pod_spec.get(field)
            for k, item in enumerate(items if isinstance(items, list) else ()):
                if isinstance(item, dict) and item.get("name") in names:
                    at = f"{_CLIQUES}[{i}].spec.podSpec.{field}[{k}].name"
                    yield invalid(at, item["name"], _RESERVED_DETAIL)


_RESERVED = {
    "initContainers": (INIT_CONTAINER,),
    "containers": (INIT_CONTAINER,),
    "volumes": (POD_INFO_VOLUME, TOKEN_VOLUME),
}
_RESERVED_DETAIL = "the operator adds one of this name, because the clique starts after others: choose another name"


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
