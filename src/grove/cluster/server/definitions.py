"""CustomResourceDefinitions: those of our kinds are there from the start, established, and stay as they are.

This server knows its kinds by `cluster/resources.py`. A definition of another kind, or a changed one of ours, would be
stored and mean nothing, so it is refused; labels and annotations may change (`kubectl apply` writes one).
"""

import hashlib

from grove.api.crds import custom_resource_definitions
from grove.api.meta import JsonObject
from grove.cluster.resources import DEFINITIONS
from grove.cluster.server.context import Context
from grove.cluster.server.metadata import wire_time
from grove.cluster.server.status_errors import RefusedError, forbidden


def store_definitions(context: Context) -> None:
    """Called when somebody first asks for definitions: they are large, and most clusters are never asked."""
    if context.store.table(DEFINITIONS).count(""):
        return
    for definition in custom_resource_definitions():
        established = _established(definition, wire_time(context.started_at))
        context.store.put(DEFINITIONS, "", established["metadata"]["name"], established)


def check_exists(context: Context, name: str) -> None:
    """Raises 403 for a definition that is not ours; one that is there already is no news to `create`."""
    if context.store.table(DEFINITIONS).find("", name) is None:
        raise fixed_definition(name)


def check_unchanged(old: JsonObject, new: JsonObject) -> None:
    """Raises 403 for anything but new labels and annotations."""
    if new.get("spec") != old["spec"]:
        raise fixed_definition(old["metadata"]["name"])


def fixed_definition(name: str) -> RefusedError:
    return forbidden(
        DEFINITIONS,
        name,
        "the embedded cluster serves Grove's kinds as it was built with them, and no others; "
        "definitions can be read, not written",
    )


def _established(definition: JsonObject, now: str) -> JsonObject:
    name, spec = definition["metadata"]["name"], definition["spec"]
    metadata = {"name": name, "uid": _uid(name), "resourceVersion": "", "generation": 1, "creationTimestamp": now}
    return {
        "kind": DEFINITIONS.kind,
        "apiVersion": DEFINITIONS.api_version,
        "metadata": metadata,
        "spec": {**spec, "conversion": {"strategy": "None"}},
        "status": {
            "conditions": [
                {"type": type_, "status": "True", "lastTransitionTime": now, "reason": reason, "message": message}
                for type_, reason, message in (
                    ("NamesAccepted", "NoConflicts", "no conflicts found"),
                    ("Established", "InitialNamesAccepted", "the initial names have been accepted"),
                )
            ],
            "acceptedNames": spec["names"],
            "storedVersions": [version["name"] for version in spec["versions"]],
        },
    }


def _uid(name: str) -> str:
    """Not drawn: when somebody asks must not change what chance gives to others."""
    digest = hashlib.sha256(name.encode()).hexdigest()
    return f"{digest[:8]}-{digest[8:12]}-4{digest[13:16]}-a{digest[17:20]}-{digest[20:32]}"
