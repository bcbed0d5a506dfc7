"""PUT namespaces/NAME/finalize: the namespace controller removes its finalizer from an empty namespace."""

from grove.cluster.apiserver.codec.request_decoding import read_object
from grove.cluster.apiserver.context import Context
from grove.cluster.apiserver.registry.metadata import read_shape
from grove.cluster.apiserver.request_info import RequestInfo
from grove.cluster.apiserver.status_errors import bad_request, other_uid, stale
from grove.cluster.apiserver.verbs.read import find_entry
from grove.cluster.apiserver.verbs.update import is_released
from grove.cluster.built_in_resources import NAMESPACES
from grove.kube.transport import Request, Response


def finalize(context: Context, target: RequestInfo, request: Request) -> Response:
    candidate = read_object(NAMESPACES, request)
    shape = read_shape(NAMESPACES, candidate)
    finalizers = (candidate.get("spec") or {}).get("finalizers") or []
    if not isinstance(finalizers, list) or not all(isinstance(finalizer, str) for finalizer in finalizers):
        raise bad_request("Namespace: spec.finalizers must be a list of strings")
    entry = find_entry(context, target)
    metadata = entry.obj["metadata"]
    if shape.uid and shape.uid != metadata["uid"]:
        raise other_uid(NAMESPACES, metadata, shape.uid)
    if shape.resource_version and shape.resource_version != metadata["resourceVersion"]:
        raise stale(NAMESPACES, target.name)
    new = {**entry.obj, "spec": {"finalizers": finalizers} if finalizers else {}}
    if is_released(new):
        return Response(status=200, body=context.encode_entry(context.store.remove(NAMESPACES, "", target.name)))
    return Response(status=200, body=context.encode_entry(context.store.put(NAMESPACES, "", target.name, new)))
