"""Keep annotations of clique templates that others wrote when a manifest is applied.

A merge patch replaces the list of cliques as a whole. `grove rollout restart` writes an annotation into its items, so
without this the next apply of the same manifest would remove it and start another rolling update.
"""

from collections.abc import Mapping
from typing import Any

from grove.api.types.meta import JsonObject


def keep_foreign_annotations(patch: JsonObject, *, last: JsonObject, live: JsonObject) -> JsonObject:
    """Return the patch of a PodCliqueSet with the annotations that are live and were never in the manifest.

    Such a patch depends on what was read, so it has the resourceVersion: the server rejects it if the set changed.
    """
    wanted = _cliques_of(patch)
    foreign = {
        name: kept
        for name, clique in wanted.items()
        if (
            kept := _foreign(
                _annotations(_cliques_of(live).get(name)), _annotations(_cliques_of(last).get(name)), clique
            )
        )
    }
    if not foreign:
        return patch
    cliques = [
        {**clique, "annotations": {**foreign.get(name, {}), **_annotations(clique)}} for name, clique in wanted.items()
    ]
    template = {**patch["spec"]["template"], "cliques": cliques}
    metadata = {**patch["metadata"], "resourceVersion": live["metadata"]["resourceVersion"]}
    return {**patch, "metadata": metadata, "spec": {**patch["spec"], "template": template}}


def _foreign(live: Mapping[str, Any], last: Mapping[str, Any], clique: JsonObject) -> dict[str, Any]:
    wanted = _annotations(clique)
    return {key: value for key, value in live.items() if key not in last and key not in wanted}


def _cliques_of(body: JsonObject) -> dict[str, JsonObject]:
    """Return the clique templates by name; empty for anything that does not look like a set."""
    found: Any = body
    for key in ("spec", "template", "cliques"):
        found = found.get(key) if isinstance(found, dict) else None
    items = found if isinstance(found, list) else []
    cliques = {one["name"]: one for one in items if isinstance(one, dict) and isinstance(one.get("name"), str)}
    # Duplicate or missing names: the server rejects them, and no clique may be lost on the way.
    return cliques if len(cliques) == len(items) else {}


def _annotations(clique: JsonObject | None) -> dict[str, Any]:
    found = (clique or {}).get("annotations")
    return found if isinstance(found, dict) else {}
