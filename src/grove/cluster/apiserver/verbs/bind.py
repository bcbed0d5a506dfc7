"""POST pods/NAME/binding: assigns a pod to a node."""

import msgspec

from grove.api.types.meta import JsonObject
from grove.api.validation.field_errors import not_supported, required
from grove.cluster.apiserver.admission.webhook_hooks import admit_binding
from grove.cluster.apiserver.codec.request_decoding import is_dry_run
from grove.cluster.apiserver.context import Context
from grove.cluster.apiserver.registry.pods.pod_topology_labels import with_topology_labels
from grove.cluster.apiserver.request_info import RequestInfo
from grove.cluster.apiserver.status_errors import StatusError, bad_request, conflict, invalid_kind, other_uid
from grove.cluster.apiserver.verbs.read import find_entry
from grove.cluster.built_in_resources import PODS
from grove.kube.transport import Request, Response

_PODS_BINDING = msgspec.structs.replace(PODS, plural="pods/binding", qualified="pods/binding")

_SUCCESS = Response(status=201, body=b'{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success","code":201}')


class _Target(msgspec.Struct, frozen=True):
    name: str = ""
    kind: str = "Node"


class _Meta(msgspec.Struct, frozen=True):
    name: str = ""
    uid: str = ""
    annotations: dict[str, str] = {}


class _Binding(msgspec.Struct, frozen=True):
    target: _Target
    metadata: _Meta = _Meta()


_decoder = msgspec.json.Decoder(_Binding)


def bind(context: Context, target: RequestInfo, request: Request) -> Response:
    binding = _read(target, request)
    entry = find_entry(context, target)
    pod = entry.obj
    _check(target, pod, binding)
    admit_binding(context, target, msgspec.to_builtins(binding), is_dry=is_dry_run(request))
    metadata = with_topology_labels(context, pod["metadata"], binding.target.name)
    if binding.metadata.annotations:
        metadata = {**metadata, "annotations": {**metadata.get("annotations", {}), **binding.metadata.annotations}}
    bound = {
        **pod,
        "metadata": metadata,
        "spec": {**pod["spec"], "nodeName": binding.target.name},
        "status": _with_scheduled_condition(pod.get("status") or {}, context.now()),
    }
    if not is_dry_run(request):
        context.store.put(PODS, entry.namespace, entry.name, bound)
    return _SUCCESS


def _read(target: RequestInfo, request: Request) -> _Binding:
    try:
        binding = _decoder.decode(request.body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise bad_request(f'Binding in version "v1" cannot be handled as a Binding: json: {error}') from None
    if binding.metadata.name != target.name:
        raise bad_request("name in URL does not match name in Binding object")
    if binding.target.kind not in ("", "Node"):
        errors = [not_supported("target.kind", binding.target.kind, ("Node", "<empty>"))]
        raise invalid_kind("Binding", "", target.name, errors)
    if not binding.target.name:
        raise invalid_kind("Binding", "", target.name, [required("target.name", "")])
    return binding


def _check(target: RequestInfo, pod: JsonObject, binding: _Binding) -> None:
    name, metadata = target.name, pod["metadata"]
    if binding.metadata.uid and binding.metadata.uid != metadata["uid"]:
        raise other_uid(PODS, metadata, binding.metadata.uid)
    if "deletionTimestamp" in metadata:
        raise _binding_conflict(name, f"pod {name} is being deleted, cannot be assigned to a host")
    if node := pod["spec"].get("nodeName"):
        raise _binding_conflict(name, f'pod {name} is already assigned to node "{node}"')
    if pod["spec"].get("schedulingGates"):
        raise _binding_conflict(name, f"pod {name} has non-empty .spec.schedulingGates")


def _binding_conflict(name: str, why: str) -> StatusError:
    return conflict(_PODS_BINDING, name, why)


def _with_scheduled_condition(status: JsonObject, now: str) -> JsonObject:
    others = [condition for condition in status.get("conditions", ()) if condition.get("type") != "PodScheduled"]
    scheduled = {"type": "PodScheduled", "status": "True", "lastProbeTime": None, "lastTransitionTime": now}
    return {**status, "conditions": [*others, scheduled]}
