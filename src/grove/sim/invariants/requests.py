"""Invariants of requests: each rule reads one request of the operator and returns the reason it is broken.

Rules about what the API shows are in `pods_and_gangs.py`.
"""

import msgspec

from grove.api import labels
from grove.api.types.meta import JsonObject
from grove.kube.request_info import RequestSummary, summarize
from grove.kube.transport import Request

_DELETED = frozenset(
    {"pods", "podcliques", "podcliquescalinggroups", "podgangs", "services", "controllerrevisions",
     "horizontalpodautoscalers", "roles", "rolebindings",
     # The part of a gang that schedulers read.
     "podgroups", "compositepodgroups"}
)  # fmt: skip
_SCALED_BY_OTHERS = frozenset({"podcliquesets", "podcliques", "podcliquescalinggroups"})


def find_broken_rule(request: Request) -> str | None:
    """Return the first rule that a write of the operator breaks, as text, or None."""
    target = summarize(request)
    body: JsonObject = msgspec.json.decode(request.body) if request.body else {}
    for rule in (deletes_what_it_observed, deletes_in_bulk_by_set, leaves_scale_to_others, omits_what_is_empty):
        reason = rule(target, request, body)
        if reason is not None:
            return f"{target.verb} {target.resource} {target.object_name}: {reason}"
    return None


def deletes_what_it_observed(target: RequestSummary, _request: Request, body: JsonObject) -> str | None:
    if target.verb != "delete":
        return None
    if target.resource not in _DELETED:
        return "the operator must not delete this kind"
    return None if body.get("preconditions", {}).get("uid") else "deletes by name, without a uid"


def deletes_in_bulk_by_set(target: RequestSummary, request: Request, _body: JsonObject) -> str | None:
    if target.verb != "deletecollection":
        return None
    if target.resource not in _DELETED:
        return "the operator must not delete this kind"
    selected = dict(term.split("=", 1) for term in request.query.get("labelSelector", "").split(",") if "=" in term)
    is_ours = selected.get(labels.MANAGED_BY) == labels.MANAGED_BY_VALUE and labels.PART_OF in selected
    return None if target.namespace and is_ours else "deletes more than one set's objects"


def omits_what_is_empty(_target: RequestSummary, _request: Request, body: JsonObject) -> str | None:
    """Check that a status omits empty lists and objects: clients in Go check whether they are nil."""
    path = _find_empty(body.get("status", None), "status")
    return f"writes an empty {path}, which should be absent" if path else None


def _find_empty(value: object, path: str) -> str:
    if value in ([], {}):
        return path
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return next((found for key, one in inner if (found := _find_empty(one, f"{path}.{key}"))), "")


def leaves_scale_to_others(target: RequestSummary, _request: Request, body: JsonObject) -> str | None:
    is_change = target.verb in ("patch", "update") and target.resource in _SCALED_BY_OTHERS
    # A patch of podSpec is a new template for a clique. The replicas belong to the client that scales.
    is_scaling = is_change and (target.verb == "update" or "replicas" in body.get("spec", {}))
    return "changes a count that others scale" if is_scaling else None
