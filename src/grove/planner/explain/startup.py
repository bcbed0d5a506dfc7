"""Explain pods whose init container waits for the cliques that they start after."""

from collections.abc import Iterator, Mapping, Sequence

from grove.api import labels
from grove.api.reasons import FindingReason
from grove.api.types.pod import Pod
from grove.api.values.clique_counts import INIT_CONTAINER
from grove.planner.explain.text import Explanation, effect, subject, verb
from grove.planner.views import CliqueView


def is_waiting_for_cliques(pod: Pod) -> bool:
    """Return whether the init container of the pod runs."""
    return any(one.name == INIT_CONTAINER and one.state.running for one in pod.status.init_container_statuses)


def explain_startup_waits(
    about: str, pods: Sequence[Pod], cliques: Mapping[str, CliqueView]
) -> tuple[Explanation, ...]:
    """Explain such pods, together for each clique. What keeps the other cliques from starting is the cause."""
    by_clique: dict[str, list[Pod]] = {}
    for pod in pods:
        by_clique.setdefault(pod.metadata.labels.get(labels.PODCLIQUE, ""), []).append(pod)
    return tuple(
        effect(about, FindingReason.STARTS_LATER, _describe(about, found, cliques.get(name), cliques))
        for name, found in by_clique.items()
    )


def _describe(about: str, pods: list[Pod], clique: CliqueView | None, cliques: Mapping[str, CliqueView]) -> str:
    waits = verb(len(pods), "waits", "wait")
    missing = ", ".join(_missing(clique, cliques)) if clique is not None else ""
    return f"{subject(about, pods)} {waits} for other cliques to start: {missing or 'all have started now'}."


def _missing(clique: CliqueView, cliques: Mapping[str, CliqueView]) -> Iterator[str]:
    for name in clique.clique.spec.starts_after:
        awaited = cliques.get(name)
        if awaited is None:
            yield f"podclique/{name} does not exist yet"
            continue
        started = awaited.ready_count + awaited.done_count
        if started < awaited.min_available:
            yield f"podclique/{name} has {started} of {awaited.min_available} ready pods"
