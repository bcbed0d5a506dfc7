"""A metrics API of the tests' own: `metrics.k8s.io` and `external.metrics.k8s.io`, behind APIServices of a plane.

The test writes `external` (the value of each metric) and `cpu` (of every running pod, in thousandths); the HPA
controller reads them through the API server.
"""

import json
import ssl
import threading
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

import yaml

from grove.api.types.meta import JsonObject
from grove.cluster.http.loopback_certificates import make_certificates
from tests.kube.controlplane.plane import ADMIN_TOKEN, LOOPBACK, Plane

_NAMESPACE = "kube-system"
_SERVICE = "metrics-of-the-tests"
_GROUPS = ("metrics.k8s.io", "external.metrics.k8s.io")
_VERSION = "v1beta1"


class MetricsApi:
    """The values that are served, from the next request on."""

    def __init__(self, plane: Plane) -> None:
        self._plane = plane
        self.external: dict[str, int] = {}
        self.cpu: int | None = None
        # How often each metric was asked for.
        self.asked: dict[str, int] = {}

    def answer(self, path: str, query: str) -> JsonObject | None:
        match path.strip("/").split("/"):
            case ["apis", group, version]:
                return _resources(group, version)
            case ["apis", "external.metrics.k8s.io", _, "namespaces", _, name] if name in self.external:
                self.asked[name] = self.asked.get(name, 0) + 1
                return self._external(name)
            case ["apis", "metrics.k8s.io", _, "namespaces", namespace, "pods"] if self.cpu is not None:
                self.asked["cpu"] = self.asked.get("cpu", 0) + 1
                return self._pod_metrics(namespace, query, self.cpu)
        return None

    def _external(self, name: str) -> JsonObject:
        item = {"metricName": name, "metricLabels": {}, "timestamp": _now(), "value": str(self.external[name])}
        return {**_kind("external.metrics.k8s.io", "ExternalMetricValueList"), "metadata": {}, "items": [item]}

    def _pod_metrics(self, namespace: str, query: str, cpu: int) -> JsonObject:
        """The API server selects the pods, as it does for a metrics server."""
        items = [
            {
                "metadata": {"name": pod["metadata"]["name"], "namespace": namespace},
                "timestamp": _now(),
                "window": "10s",
                "containers": [
                    {"name": container["name"], "usage": {"cpu": f"{cpu}m", "memory": "1Mi"}}
                    for container in pod["spec"]["containers"]
                ],
            }
            for pod in self._pods(namespace, query)
            if pod["status"].get("phase") == "Running"
        ]
        return {**_kind("metrics.k8s.io", "PodMetricsList"), "metadata": {}, "items": items}

    def _pods(self, namespace: str, query: str) -> list[JsonObject]:
        request = urllib.request.Request(
            f"{self._plane.url}/api/v1/namespaces/{namespace}/pods?{query}",
            headers={"Authorization": f"Bearer {ADMIN_TOKEN}", "Accept": "application/json"},
        )
        context = ssl.create_default_context(cadata=self._plane.ca.decode())
        with urllib.request.urlopen(request, context=context, timeout=10) as answer:
            found: list[JsonObject] = json.load(answer)["items"]
            return found


@contextmanager
def serving_metrics(plane: Plane, folder: Path) -> Iterator[MetricsApi]:
    """Serve the metrics of a plane until the end of the block."""
    api = MetricsApi(plane)
    server = ThreadingHTTPServer((LOOPBACK, 0), _handler(api))
    server.socket = _tls(folder).wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        plane.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(_registrations(server.server_address[1])))
        for group in _GROUPS:
            plane.kubectl("wait", "--for=condition=Available", f"apiservice/{_VERSION}.{group}", "--timeout=60s")
        yield api
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _handler(api: MetricsApi) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            found = api.answer(parts.path, parts.query)
            body = json.dumps(
                found or {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 404}
            ).encode()
            self.send_response(200 if found else 404)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_arguments: object) -> None:
            """Write nothing."""

    return Handler


def _tls(folder: Path) -> ssl.SSLContext:
    certificates = make_certificates(datetime.now(UTC))
    pair = (folder / "metrics.crt", folder / "metrics.key")
    for path, content in zip(pair, (certificates.certificate, certificates.key), strict=True):
        path.write_bytes(content)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*pair)
    return context


def _registrations(port: int) -> list[Mapping[str, object]]:
    """There is no network of pods here: the Service stands for this machine."""
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": _SERVICE, "namespace": _NAMESPACE},
        "spec": {"type": "ExternalName", "externalName": "localhost"},
    }
    apis = [
        {
            "apiVersion": "apiregistration.k8s.io/v1",
            "kind": "APIService",
            "metadata": {"name": f"{_VERSION}.{group}"},
            "spec": {
                "group": group,
                "version": _VERSION,
                "groupPriorityMinimum": 100,
                "versionPriority": 100,
                "insecureSkipTLSVerify": True,
                "service": {"name": _SERVICE, "namespace": _NAMESPACE, "port": port},
            },
        }
        for group in _GROUPS
    ]
    return [service, *apis]


def _resources(group: str, version: str) -> JsonObject:
    name, kind = ("pods", "PodMetrics") if group == "metrics.k8s.io" else ("queue", "ExternalMetricValueList")
    resource = {"name": name, "singularName": "", "namespaced": True, "kind": kind, "verbs": ["get", "list"]}
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": f"{group}/{version}",
        "resources": [resource],
    }


def _kind(group: str, kind: str) -> JsonObject:
    return {"kind": kind, "apiVersion": f"{group}/{_VERSION}"}


def _now() -> str:
    return f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
