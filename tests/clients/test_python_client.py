"""The official Python client, as people use it in their own programs: the same steps on both servers.

What it asks for is told by its own classes; nothing here speaks HTTP.
"""

import threading
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from queue import Queue
from typing import Any

import pytest
from kubernetes import config, watch
from kubernetes.client import ApiClient, ApiextensionsV1Api, CoreV1Api, CustomObjectsApi, VersionApi
from kubernetes.client.exceptions import ApiException
from kubernetes.dynamic import DynamicClient
from kubernetes.informer import SharedInformer

from grove.api.types.meta import JsonObject

MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
JSON_PATCH = "application/json-patch+json"
APPLY = "application/apply-patch+yaml"
# A safety net, far above what anything takes.
SECONDS = 180.0
# After which a server ends a watch: long enough for a busy one to tell first what there is.
WATCH_SECONDS = 4
_numbers = count()


class Python:
    """One client, at home in a namespace of its own."""

    def __init__(self, api: ApiClient, namespace: str) -> None:
        self.api = api
        self.namespace = namespace
        self.core = CoreV1Api(api)
        self.custom = CustomObjectsApi(api)
        self.sets = ("grove.io", "v1alpha1", namespace, "podcliquesets")

    def config_map(self, name: str, data: dict[str, str] | None = None, **labels: str) -> Any:
        body = {"metadata": {"name": name, "labels": labels}, "data": data or {}}
        return self.core.create_namespaced_config_map(self.namespace, body)

    def patch(self, name: str, body: Any, kind: str, **options: Any) -> Any:
        return self.core.patch_namespaced_config_map(name, self.namespace, body, _content_type=kind, **options)

    def watched(self, **options: Any) -> list[tuple[str, str]]:
        """Type and name of all events of config maps, until the server ends the watch."""
        stream = watch.Watch().stream(self.core.list_namespaced_config_map, self.namespace, **options)
        return [(event["type"], event["raw_object"]["metadata"].get("name", "")) for event in stream]


@pytest.fixture
def python(kubeconfig: Path) -> Iterator[Python]:
    with config.new_client_from_config(config_file=str(kubeconfig)) as api:
        yield Python(api, new_namespace(api, f"python-{next(_numbers)}"))


def new_namespace(api: ApiClient, name: str) -> str:
    """With its account: a real server takes no pod before."""
    core = CoreV1Api(api)
    core.create_namespace({"metadata": {"name": name}})
    accounts = watch.Watch()
    for event in accounts.stream(core.list_namespaced_service_account, name, timeout_seconds=int(SECONDS)):
        if event["raw_object"]["metadata"]["name"] == "default":
            accounts.stop()
            return name
    raise AssertionError("the namespace got no account")


def pod(name: str, **labels: str) -> JsonObject:
    """One that no scheduler touches."""
    container = {"name": "main", "image": "registry.example/pause:3.10"}
    spec = {"containers": [container], "schedulerName": "nobody", "automountServiceAccountToken": False}
    return {"metadata": {"name": name, "labels": labels}, "spec": spec}


def pcs(name: str, replicas: int = 1) -> JsonObject:
    spec = {"containers": [{"name": "main", "image": "registry.example/pause:3.10"}]}
    worker = {"name": "worker", "spec": {"roleName": "worker", "replicas": 1, "podSpec": spec}}
    return {
        "apiVersion": "grove.io/v1alpha1",
        "kind": "PodCliqueSet",
        "metadata": {"name": name},
        "spec": {"replicas": replicas, "template": {"cliques": [worker]}},
    }


def managers(managed_fields: Any) -> list[tuple[str, str]]:
    return sorted((entry.manager, entry.operation) for entry in managed_fields)


# --- objects ---------------------------------------------------------------------------------------------------------


def test_the_server_says_which_release_it_is_a_model_of(python: Python) -> None:
    version = VersionApi(python.api).get_code()
    assert version.git_version.startswith(f"v{version.major}.{version.minor}.")


def test_a_pod_is_created_and_read_back_as_its_model(python: Python) -> None:
    born = python.core.create_namespaced_pod(python.namespace, pod("a", app="x"))
    seen = python.core.read_namespaced_pod("a", python.namespace)
    assert (seen.metadata.uid, seen.metadata.labels) == (born.metadata.uid, {"app": "x"})
    assert seen.metadata.creation_timestamp.tzinfo is not None
    (container,) = seen.spec.containers
    assert (container.image_pull_policy, seen.spec.dns_policy) == ("IfNotPresent", "ClusterFirst")
    assert (seen.status.phase, seen.status.qos_class) == ("Pending", "BestEffort")


def test_pages_of_a_list_follow_each_other(python: Python) -> None:
    for name in "abcde":
        python.config_map(name, mine="1")
    pages, token = [], None
    while token != "":
        page = python.core.list_namespaced_config_map(
            python.namespace, label_selector="mine=1", limit=2, **({"_continue": token} if token else {})
        )
        pages.append([item.metadata.name for item in page.items])
        token = page.metadata._continue or ""
    assert pages == [["a", "b"], ["c", "d"], ["e"]]


def test_lists_are_selected_by_labels_and_fields(python: Python) -> None:
    for name in "abc":
        python.core.create_namespaced_pod(python.namespace, pod(name, app="x" if name != "b" else "y"))
    found = python.core.list_namespaced_pod(
        python.namespace, label_selector="app in (x)", field_selector="metadata.name!=a,status.phase=Pending"
    )
    assert [item.metadata.name for item in found.items] == ["c"]


def test_every_kind_of_patch_means_what_it_should(python: Python) -> None:
    python.config_map("a", {"k": "1"})
    merged = python.patch("a", {"data": {"k": None, "m": "2"}}, MERGE)
    assert merged.data == {"m": "2"}
    added = python.patch("a", [{"op": "add", "path": "/data/j", "value": "3"}], JSON_PATCH)
    assert added.data == {"m": "2", "j": "3"}
    applied = python.patch(
        "a",
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"s": "4"}},
        APPLY,
        field_manager="me",
    )
    assert applied.data == {"m": "2", "j": "3", "s": "4"}
    assert ("me", "Apply") in managers(applied.metadata.managed_fields)


def test_a_strategic_patch_knows_the_keys_of_lists(python: Python) -> None:
    python.core.create_namespaced_pod(python.namespace, pod("a"))
    body = {"spec": {"containers": [{"name": "main", "image": "registry.example/pause:4"}]}}
    seen = python.core.patch_namespaced_pod("a", python.namespace, body, _content_type=STRATEGIC)
    (container,) = seen.spec.containers
    assert (container.image, container.termination_message_path) == ("registry.example/pause:4", "/dev/termination-log")


def test_whoever_applies_what_another_applies_has_a_conflict_until_he_forces_it(python: Python) -> None:
    def wish(value: str) -> JsonObject:
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": value}}

    python.patch("a", wish("1"), APPLY, field_manager="one")
    with pytest.raises(ApiException) as refused:
        python.patch("a", wish("2"), APPLY, field_manager="two")
    assert (refused.value.status, refused.value.reason) == (409, "Conflict")
    assert 'conflict with \\"one\\": .data.k' in str(refused.value.body)
    assert python.patch("a", wish("2"), APPLY, field_manager="two", force=True).data == {"k": "2"}


def test_a_replacement_of_what_has_changed_meanwhile_is_a_conflict(python: Python) -> None:
    old = python.config_map("a", {"k": "1"})
    newer = python.core.read_namespaced_config_map("a", python.namespace)
    newer.data = {"k": "2"}
    python.core.replace_namespaced_config_map("a", python.namespace, newer)
    old.data = {"k": "3"}
    with pytest.raises(ApiException) as refused:
        python.core.replace_namespaced_config_map("a", python.namespace, old)
    assert (refused.value.status, refused.value.reason) == (409, "Conflict")
    assert python.core.read_namespaced_config_map("a", python.namespace).data == {"k": "2"}


def test_what_is_refused_is_an_exception_with_the_words_of_the_server(python: Python) -> None:
    with pytest.raises(ApiException) as missing:
        python.core.read_namespaced_pod("nobody", python.namespace)
    assert (missing.value.status, missing.value.reason) == (404, "Not Found")
    assert 'pods \\"nobody\\" not found' in str(missing.value.body)
    body = pod("a")
    body["spec"]["containers"][0]["name"] = "No Name"
    with pytest.raises(ApiException) as invalid:
        python.core.create_namespaced_pod(python.namespace, body)
    assert (invalid.value.status, invalid.value.reason) == (422, "Unprocessable Entity")
    assert '"field":"spec.containers[0].name"' in str(invalid.value.body)


def test_a_dry_run_changes_nothing(python: Python) -> None:
    born = python.core.create_namespaced_pod(python.namespace, pod("a"), dry_run="All")
    assert born.metadata.uid
    assert python.core.list_namespaced_pod(python.namespace).items == []


def test_deletions_take_their_options(python: Python) -> None:
    born = python.core.create_namespaced_pod(python.namespace, pod("a"))
    with pytest.raises(ApiException) as refused:
        python.core.delete_namespaced_pod("a", python.namespace, body={"preconditions": {"uid": "another"}})
    assert refused.value.status == 409
    options = {"preconditions": {"uid": born.metadata.uid}, "propagationPolicy": "Background"}
    python.core.delete_namespaced_pod("a", python.namespace, grace_period_seconds=0, body=options)
    assert python.core.list_namespaced_pod(python.namespace).items == []


def test_a_collection_is_deleted_by_its_labels(python: Python) -> None:
    for name in "abc":
        python.config_map(name, mine="no" if name == "b" else "yes")
    python.core.delete_collection_namespaced_config_map(python.namespace, label_selector="mine=yes")
    left = python.core.list_namespaced_config_map(python.namespace, label_selector="mine")
    assert [item.metadata.name for item in left.items] == ["b"]


# --- watches ---------------------------------------------------------------------------------------------------------


def test_a_watch_goes_on_from_a_list_and_ends_at_its_time(python: Python) -> None:
    version = python.core.list_namespaced_config_map(python.namespace).metadata.resource_version
    python.config_map("a", mine="1")
    python.patch("a", {"data": {"k": "v"}}, MERGE)
    python.core.delete_namespaced_config_map("a", python.namespace)
    seen = python.watched(resource_version=version, label_selector="mine=1", timeout_seconds=WATCH_SECONDS)
    assert seen == [("ADDED", "a"), ("MODIFIED", "a"), ("DELETED", "a")]


def test_events_are_models_of_their_kind(python: Python) -> None:
    python.core.create_namespaced_pod(python.namespace, pod("a"))
    stream = watch.Watch().stream(python.core.list_namespaced_pod, python.namespace, timeout_seconds=WATCH_SECONDS)
    (event,) = stream
    assert (event["type"], event["object"].spec.containers[0].name) == ("ADDED", "main")


def test_bookmarks_come_to_those_who_ask_for_them(python: Python) -> None:
    born = python.config_map("a", mine="yes")
    one = watch.Watch()
    stream = one.stream(
        python.core.list_namespaced_config_map, python.namespace, label_selector="mine=yes",
        timeout_seconds=WATCH_SECONDS, allow_watch_bookmarks=True,
    )  # fmt: skip
    assert next(stream)["type"] == "ADDED"
    # Something happens of which this watch has nothing else to tell.
    other = python.config_map("b", mine="no")
    assert {event["type"] for event in stream} == {"BOOKMARK"}
    assert int(one.resource_version) >= int(other.metadata.resource_version) > int(born.metadata.resource_version)
    assert python.watched(label_selector="mine=yes", timeout_seconds=WATCH_SECONDS) == [("ADDED", "a")]


def test_a_watch_may_begin_with_what_there_is_and_say_where_that_ends(python: Python) -> None:
    python.config_map("a", mine="1")
    stream = watch.Watch().stream(
        python.core.list_namespaced_config_map, python.namespace, label_selector="mine=1",
        timeout_seconds=WATCH_SECONDS, allow_watch_bookmarks=True, send_initial_events=True,
        resource_version_match="NotOlderThan",
    )  # fmt: skip
    first, second, *_ = stream
    assert (first["type"], first["object"].metadata.name) == ("ADDED", "a")
    assert (second["type"], second["raw_object"]["metadata"]["annotations"]) == (
        "BOOKMARK", {"k8s.io/initial-events-end": "true"},
    )  # fmt: skip


def test_an_informer_keeps_what_there_is(python: Python) -> None:
    python.config_map("a", {"k": "1"}, mine="1")
    told: Queue[tuple[str, str, str]] = Queue()
    informer = SharedInformer(python.core.list_namespaced_config_map, python.namespace, label_selector="mine=1")
    for kind in ("ADDED", "MODIFIED", "DELETED"):
        informer.add_event_handler(
            kind, lambda obj, kind=kind: told.put((kind, obj.metadata.name, (obj.data or {}).get("k", "")))
        )
    informer.start()
    try:
        assert told.get(timeout=SECONDS) == ("ADDED", "a", "1")
        python.config_map("b", {"k": "1"}, mine="1")
        assert told.get(timeout=SECONDS) == ("ADDED", "b", "1")
        python.patch("b", {"data": {"k": "2"}}, MERGE)
        assert told.get(timeout=SECONDS) == ("MODIFIED", "b", "2")
        python.core.delete_namespaced_config_map("a", python.namespace)
        assert told.get(timeout=SECONDS) == ("DELETED", "a", "1")
        assert informer.cache.list_keys() == [f"{python.namespace}/b"]
    finally:
        informer.stop()
    assert not [thread for thread in threading.enumerate() if thread.name == "SharedInformer"]


# --- kinds of others -------------------------------------------------------------------------------------------------


def test_custom_objects_have_all_verbs(python: Python) -> None:
    custom, sets = python.custom, python.sets
    born: Any = custom.create_namespaced_custom_object(*sets, pcs("chat"))
    assert (born["kind"], born["metadata"]["generation"]) == ("PodCliqueSet", 1)
    body = {"spec": {"replicas": 2}}
    patched: Any = custom.patch_namespaced_custom_object(*sets, "chat", body, _content_type=MERGE)
    assert (patched["spec"]["replicas"], patched["metadata"]["generation"]) == (2, 2)
    patched["spec"]["replicas"] = 3
    replaced: Any = custom.replace_namespaced_custom_object(*sets, "chat", patched)
    assert replaced["spec"]["replicas"] == 3
    listed: Any = custom.list_namespaced_custom_object(*sets)
    assert [item["metadata"]["name"] for item in listed["items"]] == ["chat"]
    custom.delete_namespaced_custom_object(*sets, "chat")
    with pytest.raises(ApiException) as missing:
        custom.get_namespaced_custom_object(*sets, "chat")
    assert missing.value.status == 404


def test_status_and_scale_of_custom_objects_are_written_apart(python: Python) -> None:
    custom, sets = python.custom, python.sets
    born: Any = custom.create_namespaced_custom_object(*sets, pcs("chat"))
    told: Any = custom.replace_namespaced_custom_object_status(
        *sets, "chat", {**born, "spec": {**born["spec"], "replicas": 9}, "status": {"replicas": 1}}
    )
    assert (told["spec"]["replicas"], told["status"]["replicas"]) == (1, 1)
    scale: Any = custom.get_namespaced_custom_object_scale(*sets, "chat")
    assert (scale["kind"], scale["spec"], scale["status"]["replicas"]) == ("Scale", {"replicas": 1}, 1)
    body = {"spec": {"replicas": 4}}
    custom.patch_namespaced_custom_object_scale(*sets, "chat", body, _content_type=MERGE)
    seen: Any = custom.get_namespaced_custom_object(*sets, "chat")
    assert (seen["spec"]["replicas"], seen["status"]["replicas"]) == (4, 1)


def test_custom_objects_are_watched(python: Python) -> None:
    version = python.custom.list_namespaced_custom_object(*python.sets)["metadata"]["resourceVersion"]
    python.custom.create_namespaced_custom_object(*python.sets, pcs("chat"))
    options = {"resource_version": version, "timeout_seconds": WATCH_SECONDS}
    stream = watch.Watch().stream(python.custom.list_namespaced_custom_object, *python.sets, **options)
    assert [(event["type"], event["object"]["metadata"]["name"]) for event in stream] == [("ADDED", "chat")]


def test_definitions_are_read_as_their_model(python: Python) -> None:
    found = ApiextensionsV1Api(python.api).read_custom_resource_definition("podcliquesets.grove.io")
    assert (found.spec.group, found.spec.names.kind, found.spec.scope) == ("grove.io", "PodCliqueSet", "Namespaced")
    (version,) = found.spec.versions
    assert version.subresources.scale.spec_replicas_path == ".spec.replicas"


def test_the_dynamic_client_finds_kinds_and_applies_objects(python: Python, tmp_path: Path) -> None:
    dynamic = DynamicClient(python.api, cache_file=str(tmp_path / "discovered.json"))
    sets = dynamic.resources.get(api_version="grove.io/v1alpha1", kind="PodCliqueSet")
    assert (sets.name, sets.namespaced, sets.short_names) == ("podcliquesets", True, ["pcs"])
    assert sorted(sets.subresources) == ["scale", "status"]
    applied = sets.server_side_apply(body=pcs("chat"), namespace=python.namespace, field_manager="me")
    assert (applied.spec.replicas, applied.metadata.managedFields[0].manager) == (1, "me")
    again = sets.server_side_apply(body=pcs("chat", 2), namespace=python.namespace, field_manager="me")
    assert (again.spec.replicas, len(again.metadata.managedFields)) == (2, 1)
    with pytest.raises(Exception, match=r'conflict with \\"me\\": .spec.replicas'):
        sets.server_side_apply(body=pcs("chat", 3), namespace=python.namespace, field_manager="another")
    assert [item.metadata.name for item in sets.get(namespace=python.namespace).items] == ["chat"]
    pods = dynamic.resources.get(api_version="v1", kind="Pod")
    pods.create(body=pod("a"), namespace=python.namespace)
    seen = [
        (event["type"], event["object"].metadata.name) for event in pods.watch(python.namespace, timeout=WATCH_SECONDS)
    ]
    assert seen == [("ADDED", "a")]
    pods.delete(name="a", namespace=python.namespace, grace_period_seconds=0)
    assert pods.get(namespace=python.namespace).items == []
