"""Conversion between objects and Scale. The subresource itself is in `scale.py`."""

from typing import Any

from grove.api.types.meta import JsonObject
from grove.cluster.apiserver.codec.lenient_json import at
from grove.cluster.apiserver.status_errors import UnreadableError
from grove.cluster.built_in_resources import ResourceInfo
from grove.cluster.custom_resource import ScalePaths
from grove.errors import require

_SHOWN = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")


def build_scale(resource_info: ResourceInfo, obj: JsonObject) -> JsonObject:
    metadata, paths = obj["metadata"], _scale_paths(resource_info)
    replicas = at(obj, paths.spec) or 0
    scale: JsonObject = {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {field: metadata[field] for field in _SHOWN if field in metadata},
        # Omitted if 0, unlike in the status.
        "spec": {"replicas": replicas} if replicas else {},
        "status": {"replicas": at(obj, paths.status) or 0},
    }
    if paths.selector and (selector := at(obj, paths.selector)):
        scale["status"]["selector"] = selector
    return scale


def with_replicas(resource_info: ResourceInfo, obj: JsonObject, replicas: int) -> JsonObject:
    """Return the object with this number of replicas."""
    return _set_at(obj, _scale_paths(resource_info).spec, replicas)


def read_replicas(scale: JsonObject) -> int:
    """Return the replicas of a Scale. Raises 400 if it is not an integer."""
    spec = scale.get("spec") or {}
    replicas = (spec.get("replicas") or 0) if isinstance(spec, dict) else None
    if not isinstance(replicas, int) or isinstance(replicas, bool):
        raise UnreadableError("Scale", "v1", "Scale", "json: spec.replicas is an integer")
    return replicas


def _scale_paths(resource_info: ResourceInfo) -> ScalePaths:
    custom = resource_info.custom
    require(custom is not None and custom.scale is not None, f"{resource_info.plural} have a scale")
    assert custom is not None
    assert custom.scale is not None
    return custom.scale


def _set_at(obj: Any, steps: tuple[str, ...], replicas: int) -> JsonObject:
    inner = obj if isinstance(obj, dict) else {}
    first, rest = steps[0], steps[1:]
    return {**inner, first: _set_at(inner.get(first), rest, replicas) if rest else replicas}
