"""kubectl looks at things, on the embedded cluster and on a real one: get, describe, explain, wait and their like."""

import pytest

from tests.e2e.kubectl_verbs import Both, a_config, a_pod, a_set

pytestmark = pytest.mark.kube


# get


@pytest.mark.parametrize(
    "form",
    [
        "name", "wide", "json", "yaml", "kyaml", "jsonpath={.data}", "jsonpath={range .items[*]}{.metadata.name} {end}",
        "go-template={{.kind}}", "custom-columns=NAME:.metadata.name,X:.data.x",
    ],
)  # fmt: skip
def test_get_writes_in_every_form(both: Both, form: str) -> None:
    both.create(a_config("a", {"app": "a", "ours": "1"}, x="1"), a_config("b", {"ours": "1"}, z="2"))
    both("get", "configmap", "a", "-o", form)
    both("get", "configmaps", "-l", "ours", "-o", form)


@pytest.mark.parametrize("form", ["", "wide", "name", "jsonpath={.items[*].status.availableReplicas}"])
def test_get_shows_a_running_set(both: Both, form: str) -> None:
    both.running_set("demo")
    both("get", "pcs,pclq,pcsg,pg", *(("-o", form) if form else ()))
    both("get", "pods,services", *(("-o", form) if form else ()))


def test_a_set_is_the_same_object(both: Both) -> None:
    both.running_set("demo")
    both("get", "pclq,pcsg,pg", "-o", "yaml", "--show-managed-fields")
    both("get", "pcs", "demo", "-o", "yaml", differs="no-gang-warning")


def test_a_pod_is_the_same_object(both: Both) -> None:
    both.running_pod("web")
    both("get", "pod", "web", "-o", "yaml", differs="no-account")
    both("get", "pod", "web", "--show-labels")
    both("get", "pod", "web", "-L", "app,nothing")
    both("get", "pod", "web", "-o", "wide")


@pytest.mark.parametrize(
    "options",
    [
        "--show-labels", "-L x,tier", "-l tier=gold", "-l tier!=gold", "-l tier", "-l !tier",
        "--selector=tier=gold", "--field-selector=metadata.name=b", "--field-selector=metadata.name!=b",
        "--sort-by=.metadata.name", "--sort-by={.data.x}", "--chunk-size=1", "--no-headers", "--limit=1 --chunk-size=1",
        "-l tier=nothing", "--field-selector=metadata.name=nobody -o name", "--output=name --chunk-size=1",
        "-o=custom-columns=X:.data.x --sort-by=.data.x", "--server-print=false",
    ],
)  # fmt: skip
def test_get_chooses_and_orders(both: Both, options: str) -> None:
    both.create(a_config("c", {"tier": "gold"}, x="1"), a_config("a", {"tier": "iron"}, x="3"), a_config("b", x="2"))
    code = 1 if "--limit" in options else 0
    both("get", "configmaps", *options.split(), code=code)


def test_get_is_refused_what_makes_no_sense(both: Both) -> None:
    both.create(a_config("a"))
    both("get", "pods", "-l", "app in", code=1)
    both("get", "pods", "--field-selector=spec.nonsense=x", code=1)
    both("get", "configmap", "nobody", code=1)
    assert both("get", "configmap", "nobody", "--ignore-not-found").out == ""
    both("get", "configmap", "a", "nobody", "-o", "name", code=1)
    both("get", "nonsense", code=1)
    both("get", "pods.v2", code=1)
    both("get", "pods")
    both("get", "configmap", "a", "-o", "nonsense", code=1)
    both("get", "configmap/a", "service/nobody", code=1)
    both("get", "deployments", code=1, differs="no-deployments")


def test_get_looks_everywhere(both: Both) -> None:
    both.create(a_config("a", {"only": both.namespace}))
    both("get", "configmaps", "--all-namespaces", "-l", f"only={both.namespace}")
    both("get", "configmaps", "-A", "-l", f"only={both.namespace}", "-o", "jsonpath={.items[*].metadata.namespace}")
    both("get", "nodes")
    both("get", "nodes", "--show-labels")
    both("get", "nodes", "-o", "wide")
    both("get", "all")


def test_get_follows_changes(both: Both) -> None:
    both.create(a_config("a"), a_config("b"))
    both("get", "configmaps", "--watch", "--request-timeout=5s", "--output-watch-events", in_any_order=True)
    both("get", "configmap", "a", "--watch", "--request-timeout=5s", "-o", "name")
    both("get", "configmaps", "--watch-only", "--request-timeout=4s")


@pytest.mark.parametrize("form", ["", "yaml", "name"])
def test_get_shows_subresources(both: Both, form: str) -> None:
    options = ("-o", form) if form else ()
    both.running_set("a")
    both("get", "pcs", "a", "--subresource=scale", *options)
    both("get", "pclq", "a-0-web", "--subresource=status", *options)
    both("get", "pclq", "a-0-web", "--subresource=scale", *options)


def test_get_knows_which_subresources_there_are(both: Both) -> None:
    both.create(a_config("a"), a_pod("p", schedulerName="nobody"))
    both("get", "configmap", "a", "--subresource=status", code=1)
    both("get", "pod", "p", "--subresource=scale", code=1)
    both("get", "pod", "p", "--subresource=nonsense", code=1)
    both("get", "pod", "p", "--subresource=resize", code=1, differs="no-resize")


@pytest.mark.parametrize("path", ["/readyz", "/livez", "/healthz", "/nonsense", "/api/v1/nonsense", "/apis/no.such/v1"])
def test_raw_paths_are_read(both: Both, path: str) -> None:
    both("get", "--raw", path, code=0 if path.endswith("z") else 1)


@pytest.mark.parametrize(
    ("path", "code", "differs"),
    [
        ("/version", 0, "another-version-in-full"),
        ("/readyz?verbose", 0, "nothing-to-tell-of-readiness"),
        ("/metrics", 1, "no-metrics-page"),
    ],
)
def test_some_raw_paths_tell_something_else(both: Both, path: str, code: int, differs: str) -> None:
    both("get", "--raw", path, code=code, differs=differs)


# describe


def test_describe_shows_built_in_kinds(both: Both) -> None:
    both.create(a_config("a", x="1"))
    both("create", "quota", "q", "--hard=configmaps=10")
    both("create", "priorityclass", f"for-{both.namespace}", "--value=5")
    both("create", "role", "r", "--verb=get", "--resource=pods")
    both("create", "rolebinding", "rb", "--role=r", "--user=u")
    both("create", "secret", "generic", "s", "--from-literal=a=b")
    # A controller of the real cluster counts.
    both("wait", "quota/q", "--for=jsonpath={.status.used.configmaps}=2", "--timeout=120s")
    for what in ("configmap/a", "role/r", "rolebinding/rb", "secret/s", "serviceaccount/default", "quota/q"):
        both("describe", what)
    both("describe", "priorityclass", f"for-{both.namespace}")
    both("describe", "configmaps", "-l", "nothing=here")
    both("describe", "configmap", "nobody", code=1)


def test_describe_shows_a_pod(both: Both) -> None:
    both.running_pod("web")
    both.await_real("get", "events", "--field-selector=involvedObject.name=web,reason=Scheduled", "-o", "name")
    both("describe", "pod", "web", differs="no-scheduled-event")
    both("describe", "pod", "web", "--show-events=false", differs="no-account-described")


def test_describe_shows_a_set(both: Both) -> None:
    both.running_set("demo")
    both("describe", "pcs", "demo", "--show-events=false", differs="no-gang-warning-described")
    both("describe", "pclq", "demo-0-web", "--show-events=false")
    both("describe", "pcsg", "demo-0-sg", "--show-events=false")
    both("describe", "pg", "demo-0", "--show-events=false")


def test_describe_shows_a_namespace(both: Both) -> None:
    both("create", "quota", "q", "--hard=pods=10")
    both("wait", "quota/q", "--for=jsonpath={.status.used.pods}=0", "--timeout=120s")
    both("describe", "namespace", both.namespace, differs="no-limit-ranges")


# explain


@pytest.mark.parametrize(
    "what",
    ["pcs.status", "pcs.spec", "pcs.spec.template.cliques", "pcs --recursive", "pg --recursive", "ct.spec --recursive"],
)
def test_explain_knows_our_kinds(both: Both, what: str) -> None:
    both("explain", *what.split())


def test_explain_says_what_it_does_not_know(both: Both) -> None:
    both("explain", "nonsense", code=1)
    both("explain", "pods.nonsense", code=1)
    both("explain", "pcs.spec.nonsense", code=1)
    both("explain", "pods", "--api-version=v9", code=1)


def test_explain_has_few_words_for_built_in_kinds(both: Both) -> None:
    both("explain", "pcs", differs="few-words-of-metadata")
    both("explain", "pods.spec.containers.ports", differs="few-words")
    both("explain", "pods", "--output=plaintext-openapiv2", code=1, differs="no-older-explanation")


# events, logs


def test_events_are_told(both: Both) -> None:
    both("events")
    both("get", "events")
    event = {
        "apiVersion": "v1", "kind": "Event", "metadata": {"name": "e"}, "type": "Warning", "reason": "Odd",
        "message": "it is odd", "involvedObject": {"kind": "Pod", "name": "p", "namespace": both.namespace},
        "firstTimestamp": "2026-01-01T00:00:00Z", "lastTimestamp": "2026-01-01T00:00:00Z", "count": 1,
        "source": {"component": "test"},
    }  # fmt: skip
    both.create(event)
    both("events")
    both("events", "--types=Warning", "--for=pod/p", "-o", "yaml")
    both("events", "--types=Normal")
    both("events", "--for=pod/nobody")
    both("events", "--watch", "--request-timeout=4s")
    both("get", "events", "-o", "wide")
    both("get", "events", "--field-selector=involvedObject.name=p,type=Warning")
    both("get", "events.events.k8s.io", "-o", "yaml")


def test_events_tell_of_a_set(both: Both) -> None:
    both.running_set("demo")
    both("events", "--for=pcsg/demo-0-sg")
    both("get", "events", "--field-selector=involvedObject.name=demo-0-sg", "-o", "wide")


def test_logs_are_asked_for(both: Both) -> None:
    both.create(a_pod("waiting", schedulerName="nobody"), a_set("a"))
    both("logs", "waiting")
    both("logs", "waiting", "-c", "other", code=1)
    both("logs", "nobody", code=1)
    both("logs", "pcs/a", code=1)
    both("logs", "-l", "app=nothing")
    both("logs", "waiting", "--previous", "--since=1h", "--since-time=2026-01-01T00:00:00Z", code=1)


# wait


def test_wait_sees_what_comes(both: Both) -> None:
    both.running_pod("web")
    both("wait", "pod/web", "--for=condition=Ready", "--timeout=120s")
    both("wait", "pod/web", "--for=condition=Ready=false", "--timeout=3s", code=1)
    both("wait", "pod/web", "--for=jsonpath={.status.phase}=Running", "--timeout=120s")
    both("wait", "pod/web", "--for=jsonpath={.status.phase}", "--timeout=120s")
    both("wait", "pod/web", "--for=jsonpath={.status.phase}=Gone", "--timeout=3s", code=1)
    both("wait", "pod/web", "--for=delete", "--timeout=3s", code=1)
    both("wait", "pod/web", "--for=create", "--timeout=120s")
    both("wait", "pod/nobody", "--for=create", "--timeout=3s", code=1)
    both("wait", "pod/nobody", "--for=delete", "--timeout=120s")
    both("wait", "pod/nobody", "--for=condition=Ready", "--timeout=3s", code=1)
    both("wait", "pods", "-l", "app=nothing", "--for=condition=Ready", "--timeout=3s", code=1)
    both("wait", "pods", "--all", "--for=condition=Ready", "--timeout=120s")
    both("wait", "pods", "-l", "app=web", "--for=condition=Ready", "--timeout=120s")
    both("delete", "pod", "web", "--wait=false")
    # Of one that is already gone it says nothing.
    both.each("wait", "pod/web", "--for=delete", "--timeout=120s")


def test_wait_sees_a_set(both: Both) -> None:
    both.create(a_set("a"))
    both("wait", "pg/a-0", "--for=create", "--timeout=120s")
    both("wait", "pg/a-0", "--for=condition=Scheduled", "--timeout=120s")
    ran = both("wait", "pg/a-0", "--for=jsonpath={.status.phase}=Running", "--timeout=120s")
    assert ran.out == "podgang.scheduler.grove.io/a-0 condition met\n"
    both("wait", "pods", "-l", "app.kubernetes.io/part-of=a", "--for=condition=Ready", "--timeout=120s")


# What is served, and to whom


def test_api_resources_are_told(both: Both) -> None:
    for group in ("grove.io", "scheduler.grove.io", "rbac.authorization.k8s.io", "apiextensions.k8s.io"):
        both("api-resources", f"--api-group={group}", "-o", "wide")
    both("api-resources", "--categories=grove", "--sort-by=name")
    both("api-resources", "--categories=nonsense")
    both("api-resources", "--api-group=authorization.k8s.io", "-o", "name")
    both("api-resources", differs="fewer-kinds")


def test_api_versions_are_told(both: Both) -> None:
    both("api-versions", differs="fewer-versions")


def test_versions_are_told(both: Both) -> None:
    both("version", "--client")
    both("version", differs="another-version")


def test_the_cluster_tells_of_itself(both: Both) -> None:
    both("cluster-info")
    both("cluster-info", "dump", "--namespaces", both.namespace, code=1, differs="no-dump")


def test_only_the_embedded_cluster_measures(both: Both) -> None:
    both("top", "node", differs="measured-nodes")
    both("top", "pod", "--all-namespaces", "--selector=app=nobody", differs="no-pods-to-measure")


def test_no_certificates_are_given(both: Both) -> None:
    both("certificate", "approve", "a", code=1, differs="no-certificate-requests")
    both("certificate", "deny", "a", code=1, differs="no-certificate-requests")


def test_rights_are_told(both: Both) -> None:
    both("create", "serviceaccount", "a")
    both("create", "role", "r", "--verb=get,list", "--resource=pods,podcliquesets.grove.io")
    both("create", "rolebinding", "rb", "--role=r", f"--serviceaccount={both.namespace}:a")
    somebody = f"--as=system:serviceaccount:{both.namespace}:a"
    # A real server learns of rights a moment later.
    both.await_real("auth", "can-i", "list", "pcs", somebody, says="yes")
    assert both("auth", "can-i", "delete", "pcs").out == "yes\n"
    both("auth", "can-i", "list", "pcs", somebody)
    both("auth", "can-i", "get", "pods", "--subresource=log", somebody, code=1)
    both("auth", "can-i", "delete", "pods", somebody, code=1)
    both("auth", "can-i", "get", "nodes", somebody, code=1)
    both("auth", "can-i", "get", "/readyz", somebody)
    both("auth", "can-i", "get", "nonsense")
    both("auth", "can-i", "--list", differs="more-probes")
    both("auth", "can-i", "--list", somebody, differs="more-probes")
    both("get", "secrets", somebody, code=1)
    both("get", "pods", somebody)
    both("auth", "whoami", "--as=bob", "--as-group=crew", "--as-uid=7")
    both("auth", "whoami", differs="another-administrator")


def test_rights_are_reconciled(both: Both) -> None:
    api = "apiVersion: rbac.authorization.k8s.io/v1"
    role = f"{api}\nkind: Role\nmetadata: {{name: r, namespace: {both.namespace}}}\nrules: [%s]\n"
    pods, services = (
        f'{{apiGroups: [""], resources: [{kind}], verbs: [get]}}' for kind in ("pods", "services")
    )  # fmt: skip
    both("auth", "reconcile", "-f", "-", stdin=role % pods)
    both("auth", "reconcile", "-f", "-", stdin=role % pods)
    both("auth", "reconcile", "-f", "-", stdin=role % services, in_any_order=True)
    both("auth", "reconcile", "-f", "-", "--remove-extra-permissions", stdin=role % services)
    both("auth", "reconcile", "-f", "-", "--dry-run=client", stdin=role % pods)
    both("get", "role", "r", "-o", "yaml")
