"""Sets that are made to be much work: each grows with `n`, and each is the worst case of some rule."""

from collections.abc import Callable
from math import isqrt

from grove.api.types.meta import JsonObject
from tests.api.manifests import claim, clique, container, explicit, group, manifest, share, training

Shape = Callable[[int], JsonObject]


def _after(*names: str) -> JsonObject:
    return {"startsAfter": list(names)}


def _ring(n: int) -> JsonObject:
    return explicit(*(clique(f"c{i}", spec=_after(f"c{(i + 1) % n}")) for i in range(n)))


def _chain(n: int) -> JsonObject:
    return explicit(*(clique(f"c{i}", spec=_after(f"c{i + 1}")) for i in range(n)))


def _pairs(n: int) -> JsonObject:
    return explicit(*(clique(f"c{i}", spec=_after(f"c{i ^ 1}")) for i in range(n)))


def _everything_after_everything(n: int) -> JsonObject:
    """As many entries as `n`, and cliques of which each starts after all."""
    names = [f"c{i}" for i in range(isqrt(n))]
    return explicit(*(clique(name, spec=_after(*names)) for name in names))


def _one_entry_again_and_again(n: int) -> JsonObject:
    return explicit(clique("a", spec=_after(*["b"] * n)), clique("b"))


def _strange_entries(n: int) -> JsonObject:
    return explicit(clique("a", spec=_after(*(f"x{i}" for i in range(n)))))


def _one_name(n: int) -> JsonObject:
    return manifest(*(clique("a") for _ in range(n)))


def _long_names(n: int) -> JsonObject:
    members = [f"{'c' * 200}{i}" for i in range(n)]
    return manifest(*map(clique, members), groups=(group("g" * 200, *members),), name="p" * 60)


def _names_of_numbers(n: int) -> JsonObject:
    """Each member may meet others: group-replica-clique, where group and clique are numbers too."""
    names = [f"{i}-{'-'.join('0' * 10)}" for i in range(n)]
    groups = tuple(group(f"0-{i}", name) for i, name in enumerate(names[: n // 2]))
    return manifest(*map(clique, names), groups=groups)


def _groups_that_meet(n: int) -> JsonObject:
    names = [f"{i % 2}-{i}-m" for i in range(n)]
    return manifest(
        *map(clique, names), groups=tuple(group(f"g{'-0' * (i % 2)}", name) for i, name in enumerate(names))
    )


def _one_clique_in_all_groups(n: int) -> JsonObject:
    return manifest(clique("a"), groups=tuple(group(f"g{i}", "a", "x") for i in range(n)))


def _one_group_of_strangers(n: int) -> JsonObject:
    return manifest(groups=(group("g", *(f"x{i}" for i in range(n))),))


def _variables(n: int) -> JsonObject:
    env = [{"name": f"V{i}"} for i in range(n)]
    return manifest(clique(pod={"containers": [container(env=env)]}))


def _one_variable(n: int) -> JsonObject:
    return manifest(clique(pod={"containers": [container(env=[{"name": "V"}] * n)]}))


def _bad_labels(n: int) -> JsonObject:
    labels = {f"not ok {i}": "neither ok" for i in range(n)}
    return manifest(clique(labels=labels, annotations=labels), metadata={"labels": labels, "annotations": labels})


def _dotted_labels(n: int) -> JsonObject:
    return manifest(clique(labels={".".join("a" * n): "not ok"}))


def _schedulers(n: int) -> JsonObject:
    return manifest(*(clique(f"c{i}", pod={"schedulerName": f"{'s' * 300}{i}"}) for i in range(n)))


def _claims(n: int) -> JsonObject:
    """All different, and one of them twice."""
    names = [f"claim-{i}" for i in range(n - 1)]
    filtered = [share(name, filter={"childCliqueNames": ["x"]}) for name in (*names, names[-1])]
    return manifest(
        clique(resourceSharing=filtered),
        groups=(group("g", "a", resourceSharing=filtered),),
        template={"resourceClaimTemplates": [claim(one["name"]) for one in filtered], "resourceSharing": filtered},
    )


def _one_claim(n: int) -> JsonObject:
    filtered = [share("one", namespace="other", filter={"childCliqueNames": ["x"]}) for _ in range(n)]
    return manifest(
        *(clique(f"c{i}", resourceSharing=[share("one", namespace="other")]) for i in range(n)),
        groups=(group("g", *(f"c{i}" for i in range(n)), resourceSharing=filtered),),
        template={"resourceClaimTemplates": [claim("one")] * n, "resourceSharing": filtered},
    )


def _filters_of_many(n: int) -> JsonObject:
    names = [f"x{i}" for i in range(n)]
    filtered = [share("one", filter={"childCliqueNames": names, "childScalingGroupNames": names})]
    return manifest(template={"resourceSharing": filtered})


def _topologies(n: int) -> JsonObject:
    return manifest(
        *(
            clique(f"c{i}", topologyConstraint={"topologyName": f"t{i}", "pack": {"required": f"d{i}"}})
            for i in range(n)
        )
    )


def _old_constraints(n: int) -> JsonObject:
    """One topology that is known, with domains in the wrong order."""
    narrow = {"topologyName": "dc", "pack": {"required": "rack", "preferred": "nowhere"}}
    return manifest(
        *(clique(f"c{i}", topologyConstraint={"packDomain": "zone", "pack": {"required": "zone"}}) for i in range(n)),
        groups=tuple(group(f"g{i}", f"c{i}", topologyConstraint=narrow) for i in range(n)),
        template={"topologyConstraint": narrow},
    )


def _trained(n: int) -> JsonObject:
    scaled = {"maxReplicas": 3, "minReplicas": 1}
    return training(
        *(clique(f"c{i}", pod={"restartPolicy": "Always"}, spec={"autoScalingConfig": scaled}) for i in range(n)),
        groups=tuple(group(f"g{i}", f"c{i}", scaleConfig=scaled, terminationDelay="soon") for i in range(n)),
    )


def _wrong_counts(n: int) -> JsonObject:
    return manifest(
        *(clique(f"c{i}", spec={"replicas": 10**7, "minAvailable": 10**8}) for i in range(n)),
        groups=tuple(group(f"g{i}", f"c{i}", replicas=10**7, minAvailable=-1) for i in range(n)),
    )


def _nvlink(n: int) -> JsonObject:
    annotations = {"grove.io/mnnvl-group": "Not A Label"}
    return manifest(
        *(clique(f"c{i}", annotations=annotations) for i in range(n)),
        groups=tuple(group(f"g{i}", f"c{i}", annotations=annotations) for i in range(n)),
    )


def _queues(n: int) -> JsonObject:
    def annotations(i: int) -> JsonObject:
        return {"kai.scheduler/queue": f"{'q' * 300}{i}", "scheduling.grove.io/volcano-queue": f"{'q' * 300}{i}"}

    return manifest(*(clique(f"c{i}", annotations=annotations(i)) for i in range(n)))


SHAPES: dict[str, Shape] = {
    "one ring": _ring,
    "one chain": _chain,
    "many rings of two": _pairs,
    "everything after everything": _everything_after_everything,
    "one entry again and again": _one_entry_again_and_again,
    "entries that name nothing": _strange_entries,
    "cliques of one name": _one_name,
    "long names": _long_names,
    "names of numbers": _names_of_numbers,
    "groups that meet": _groups_that_meet,
    "one clique in all groups": _one_clique_in_all_groups,
    "one group of strangers": _one_group_of_strangers,
    "many variables": _variables,
    "one variable again and again": _one_variable,
    "bad labels": _bad_labels,
    "a label with many dots": _dotted_labels,
    "many schedulers": _schedulers,
    "many claims": _claims,
    "one claim again and again": _one_claim,
    "filters of many names": _filters_of_many,
    "many topologies": _topologies,
    "old constraints": _old_constraints,
    "a training set": _trained,
    "wrong counts": _wrong_counts,
    "nvlink groups": _nvlink,
    "many queues": _queues,
}
