"""Custom and external metrics that users feed, as objects of the cluster: `kubectl annotate` and `kubectl apply`.

An annotation `metrics.simulation.grove.io/NAME` on a pod or any other object is the metric NAME of this object. A
ConfigMap with the label `simulation.grove.io/external-metrics` contains external metrics by name. The labels that a
`selector` of a metric matches are those of the object.
"""

from collections.abc import Sequence

from grove.api import labels
from grove.api.types.meta import JsonObject
from grove.api.values.quantities import QuantityError, parse_milli
from grove.cluster.apiserver.codec.label_selectors import selects
from grove.cluster.apiserver.codec.lenient_json import part
from grove.cluster.built_in_resources import BY_QUALIFIED
from grove.cluster.storage.store import Entry, Storage

_CONFIGMAPS = BY_QUALIFIED["configmaps"]


def read_object_metric(obj: JsonObject, name: str, selector: JsonObject | None) -> int | None:
    """Return a metric of the object in thousandths; None if it has no such metric."""
    annotations = obj["metadata"].get("annotations") or {}
    text = annotations.get(f"{labels.SIM_METRIC_PREFIX}{name}")
    return None if text is None or not selects(selector or {}, obj) else parse_value(text)


def read_pod_metric(pods: Sequence[JsonObject], name: str, selector: JsonObject | None) -> dict[str, int]:
    """Return a metric of these pods in thousandths, by the name of the pod."""
    values = ((pod["metadata"]["name"], read_object_metric(pod, name, selector)) for pod in pods)
    return {pod: value for pod, value in values if value is not None}


def read_external_metric(store: Storage, namespace: str, name: str, selector: JsonObject | None) -> tuple[int, ...]:
    """Return the values of all series of an external metric, in thousandths."""
    found = (
        parse_value(text)
        for entry in list_external(store, namespace)
        if selects(selector or {}, entry.obj) and (text := part(entry.obj.get("data")).get(name)) is not None
    )
    return tuple(value for value in found if value is not None)


def list_external(store: Storage, namespace: str) -> list[Entry]:
    """Return the ConfigMaps with external metrics."""
    return [
        entry
        for entry in store.table(_CONFIGMAPS).entries(namespace)
        if labels.SIM_EXTERNAL_METRICS in (entry.obj["metadata"].get("labels") or {})
    ]


def parse_value(text: object) -> int | None:
    """Return a value in thousandths; None if it is not a quantity."""
    try:
        return parse_milli(text) if isinstance(text, str) else None
    except QuantityError:
        return None
