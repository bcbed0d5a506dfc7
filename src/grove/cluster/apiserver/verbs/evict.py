"""POST pods/NAME/eviction: deletes a pod unless that would violate its PodDisruptionBudget.

Budgets: `cluster/apiserver/registry/pdb.py`. The deletion itself: `delete.py`.
"""

from typing import Any

import msgspec

from grove.api.types.meta import JsonObject, without_nulls
from grove.cluster.apiserver.admission.webhook_hooks import admit_eviction
from grove.cluster.apiserver.codec.lenient_json import part
from grove.cluster.apiserver.codec.request_decoding import (
    DeleteOptions,
    WriteOptions,
    as_kind,
    check_delete_options,
    check_is_json,
    decode_object,
    read_write_options,
)
from grove.cluster.apiserver.conditions import with_condition
from grove.cluster.apiserver.context import Context
from grove.cluster.apiserver.registry.field_validation import build_body_error, prune_and_default
from grove.cluster.apiserver.registry.metadata import build_unreadable_error, read_shape
from grove.cluster.apiserver.registry.pdb import (
    DISRUPTION_TARGET,
    find_budgets,
    is_ready,
    with_disruption_allowed,
)
from grove.cluster.apiserver.request_info import RequestInfo
from grove.cluster.apiserver.status_errors import (
    StatusError,
    bad_request,
    other_namespace,
    overdrawn_budget,
    several_budgets,
    uncounted_budget,
)
from grove.cluster.apiserver.verbs.delete import check_preconditions, delete_entry
from grove.cluster.apiserver.verbs.read import find_entry
from grove.cluster.built_in_resources import BUDGETS, PODS, ResourceInfo, with_derived_fields
from grove.cluster.storage.store import Entry
from grove.kube.transport import Request, Response

EVICTION = with_derived_fields(ResourceInfo(group="policy", plural="evictions", kind="Eviction"))
_OLDER_VERSION = "policy/v1beta1"
_SUCCESS = Response(status=201, body=b'{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success","code":201}')


def evict(context: Context, target: RequestInfo, request: Request) -> Response:
    """Evict a pod in one step: a concurrent second eviction sees the budget that the first has used."""
    options = read_write_options(request)
    eviction = _read(context, target, request, options)
    deletion = _read_delete_options(eviction, options)
    is_dry = bool(deletion.dry_run)
    admit_eviction(context, target, eviction, is_dry=is_dry)
    entry = find_entry(context, target)
    charged = None if _needs_no_budget(entry.obj) else _use_budget(context, entry)
    check_preconditions(PODS, entry, deletion)
    if not is_dry:
        if charged is not None:
            context.store.put(BUDGETS, charged.namespace, charged.name, charged.obj)
        entry = _mark_disruption_target(context, entry)
    delete_entry(context, PODS, entry, deletion)
    return _SUCCESS


def _read(context: Context, target: RequestInfo, request: Request, options: WriteOptions) -> JsonObject:
    check_is_json(EVICTION, request)
    obj = without_nulls(decode_object("Eviction", request))
    if obj.get("apiVersion") == _OLDER_VERSION:
        obj = {**obj, "apiVersion": EVICTION.api_version}
    eviction = as_kind(EVICTION, obj)
    shape = read_shape(EVICTION, eviction)
    if shape.namespace not in (None, "", target.namespace):
        raise other_namespace()
    eviction = prune_and_default(context, EVICTION, eviction, options=options, build_error=build_body_error)
    if shape.name != target.name:
        raise bad_request("name in URL does not match name in Eviction object")
    return eviction


def _read_delete_options(eviction: JsonObject, options: WriteOptions) -> DeleteOptions:
    """Return the delete options of an eviction. A dry run is requested in the query, in the options, or in both."""
    given: Any = eviction.get("deleteOptions")
    try:
        deletion = msgspec.convert({} if given is None else given, DeleteOptions)
    except msgspec.ValidationError as error:
        raise build_unreadable_error(EVICTION, f"json: {str(error).replace('`$', '`$.deleteOptions')}") from None
    if options.is_dry and deletion.dry_run not in (None, [], ["All"]):
        requested = " ".join(deletion.dry_run or ())
        raise bad_request(f"Non-matching dry-run options in request and content: [All] and [{requested}]")
    check_delete_options(deletion)
    return msgspec.structs.replace(deletion, dry_run=["All"]) if options.is_dry else deletion


def _needs_no_budget(pod: JsonObject) -> bool:
    """Return whether the pod is pending, finished or terminating: its eviction disrupts nothing."""
    phase = part(pod.get("status")).get("phase")
    return "deletionTimestamp" in pod["metadata"] or phase in ("Pending", "Succeeded", "Failed")


def _use_budget(context: Context, pod: Entry) -> Entry | None:
    """Return the budget with one disruption less; None if no budget applies. Raises 429 or 500."""
    budgets = find_budgets(context.store, pod)
    if not budgets:
        return None
    if len(budgets) > 1:
        raise several_budgets()
    (budget,) = budgets
    status = budget.obj.get("status") or {}
    if not is_ready(pod.obj) and _allows_unhealthy_eviction(budget.obj["spec"], status):
        return None
    if error_message := _find_budget_error(budget, status):
        raise error_message
    now = context.now()
    left = {**status, "disruptionsAllowed": status["disruptionsAllowed"] - 1}
    left["disruptedPods"] = {**(status.get("disruptedPods") or {}), pod.name: now}
    obj = {**budget.obj, "status": left if left["disruptionsAllowed"] else with_disruption_allowed(left, now)}
    return msgspec.structs.replace(budget, obj=obj)


def _allows_unhealthy_eviction(spec: JsonObject, status: JsonObject) -> bool:
    """Return whether a pod that is not ready may be evicted without using the budget (unhealthyPodEvictionPolicy)."""
    if spec.get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return True
    desired: int = status.get("desiredHealthy", 0)
    healthy: int = status.get("currentHealthy", 0)
    return 0 < desired <= healthy


def _find_budget_error(budget: Entry, status: JsonObject) -> StatusError | None:
    if status.get("observedGeneration", 0) < budget.obj["metadata"]["generation"]:
        return uncounted_budget(budget.name)
    if status.get("disruptionsAllowed", 0) <= 0:
        return overdrawn_budget(budget.name, status.get("desiredHealthy", 0), status.get("currentHealthy", 0))
    return None


def _mark_disruption_target(context: Context, pod: Entry) -> Entry:
    """Store the DisruptionTarget condition on the pod."""
    condition = {
        "type": DISRUPTION_TARGET,
        "status": "True",
        "lastProbeTime": None,
        "lastTransitionTime": context.now(),
        "reason": "EvictionByEvictionAPI",
        "message": "Eviction API: evicting",
    }
    status = with_condition(part(pod.obj.get("status")), condition)
    if status == pod.obj.get("status"):
        return pod
    return context.store.put(PODS, pod.namespace, pod.name, {**pod.obj, "status": status})
