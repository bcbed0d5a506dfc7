"""Sets built from Python objects, and read from YAML: what they become, and errors that name the field."""

from datetime import timedelta
from pathlib import Path

import msgspec
import pytest
import yaml

from grove.sdk import (
    InvalidSet,
    PodCliqueSet,
    StartupType,
    TrainingSpec,
    UpdateType,
    clique,
    container,
    from_dict,
    from_yaml,
    group,
    pod_clique_set,
    to_dict,
    to_yaml,
)
from tests.admission.asking import created

EXAMPLES = Path(__file__).parents[2] / "examples"


def simple(**changes: object) -> dict[str, object]:
    manifest = to_dict(pod_clique_set("chat", [clique("router", image="example/router:1.0")]))
    return manifest | changes


def test_a_first_set_is_one_line_and_has_nothing_that_was_not_asked_for() -> None:
    assert to_dict(pod_clique_set("chat", [clique("router", image="example/router:1.0", replicas=2)])) == {
        "apiVersion": "grove.io/v1alpha1",
        "kind": "PodCliqueSet",
        "metadata": {"name": "chat"},
        "spec": {
            "replicas": 1,
            "template": {
                "cliques": [
                    {
                        "name": "router",
                        "spec": {
                            "podSpec": {"containers": [{"name": "router", "image": "example/router:1.0"}]},
                            "replicas": 2,
                        },
                    }
                ]
            },
        },
    }


def test_every_option_of_a_set_reaches_its_field() -> None:
    pcs = pod_clique_set(
        "train",
        [
            clique("leader", image="example/train:1.0", starts_after=["worker"], role="lead", labels={"a": "b"}),
            clique("worker", image="example/train:1.0", replicas=4, min_available=2, annotations={"c": "d"}),
        ],
        replicas=2,
        groups=[group("instance", ["leader", "worker"], replicas=3, termination_delay=timedelta(minutes=5))],
        startup=StartupType.EXPLICIT,
        termination_delay="1h",
        update=UpdateType.ON_DELETE,
        priority_class="high",
        namespace="team",
        labels={"app": "train"},
        annotations={"note": "x"},
    )
    spec = to_dict(pcs)["spec"]
    template = spec["template"]
    assert to_dict(pcs)["metadata"] == {
        "name": "train", "namespace": "team", "labels": {"app": "train"}, "annotations": {"note": "x"},
    }  # fmt: skip
    assert (spec["replicas"], spec["updateStrategy"]) == (2, {"type": "OnDelete"})
    assert (template["cliqueStartupType"], template["terminationDelay"]) == ("CliqueStartupTypeExplicit", "1h")
    assert template["priorityClassName"] == "high"
    assert template["podCliqueScalingGroups"] == [
        {"name": "instance", "cliqueNames": ["leader", "worker"], "replicas": 3, "minAvailable": 1,
         "terminationDelay": "5m0s"}
    ]  # fmt: skip
    assert template["cliques"][0]["labels"] == {"a": "b"}
    assert template["cliques"][0]["spec"]["startsAfter"] == ["worker"]
    assert template["cliques"][0]["spec"]["roleName"] == "lead"
    assert template["cliques"][1]["spec"]["minAvailable"] == 2
    assert created(to_dict(pcs)).errors == ()


def test_a_set_with_a_training_spec_runs_to_completion() -> None:
    pcs = pod_clique_set("job", [clique("worker", image="example/train:1.0")], training=TrainingSpec(max_restarts=3))
    assert to_dict(pcs)["spec"]["workloadType"] == "Training"
    assert to_dict(pcs)["spec"]["trainingSpec"] == {"maxRestarts": 3}


def test_a_container_has_what_was_asked_for_and_a_pod_may_have_more_of_them() -> None:
    engine = container(
        "engine", "example/engine:1.0", command=["serve"], args=["--fast"], env={"MODEL": "small"},
        cpu=4, memory="32Gi", gpus=4, ports=[8000],
    )  # fmt: skip
    assert engine == {
        "name": "engine",
        "image": "example/engine:1.0",
        "command": ["serve"],
        "args": ["--fast"],
        "env": [{"name": "MODEL", "value": "small"}],
        "ports": [{"containerPort": 8000}],
        "resources": {
            "requests": {"cpu": "4", "memory": "32Gi", "nvidia.com/gpu": "4"},
            "limits": {"nvidia.com/gpu": "4"},
        },
    }
    pods = clique("pod", image="example/router:1.0", containers=[engine], pod_spec={"nodeSelector": {"a": "b"}})
    assert [one["name"] for one in pods.spec.pod_spec["containers"]] == ["pod", "engine"]
    assert pods.spec.pod_spec["nodeSelector"] == {"a": "b"}


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.yaml")), ids=lambda path: path.name)
def test_an_example_survives_python(path: Path) -> None:
    """Read, written and read again it is the same set, and admission makes the same of both."""
    pcs = from_yaml(path)
    assert from_yaml(to_yaml(pcs)) == pcs
    manifests = yaml.safe_load_all(path.read_text())
    (manifest,) = (one for one in manifests if one["kind"] == "PodCliqueSet")
    assert created(to_dict(pcs)).object == created(manifest).object


def test_what_the_server_wrote_is_not_submitted_again() -> None:
    manifest = simple(
        metadata={
            "name": "chat", "uid": "u", "resourceVersion": "7", "generation": 3, "finalizers": ["f"],
            "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{}"},
        },
        status={"phase": "Running"},
    )  # fmt: skip
    stored = msgspec.convert(manifest, PodCliqueSet)
    assert to_dict(stored) == simple()


@pytest.mark.parametrize(
    ("build", "field", "text"),
    [
        (lambda: pod_clique_set("chat", []), "spec.template.cliques", "Required value"),
        (lambda: pod_clique_set("Chat", [clique("a", image="i")]), "metadata.name", "a-z, 0-9 and -"),
        (
            lambda: pod_clique_set("chat", [clique("a", image="i", replicas=1, min_available=2)]),
            "spec.template.cliques[0].spec.minAvailable",
            "Invalid value: 2",
        ),
        (
            lambda: pod_clique_set("chat", [clique("a", image="i")], groups=[group("g", ["b"])]),
            "spec.template.podCliqueScalingGroups[0].cliqueNames[0]",
            '"b"',
        ),
        (
            lambda: pod_clique_set("chat", [clique("a", image="i")], replicas="2"),  # type: ignore[arg-type]
            "spec.replicas",
            "must be of type integer",
        ),
        (lambda: clique("a"), "containers", "has no container"),
        (lambda: from_dict(simple(kind="Deployment")), "kind", "must be PodCliqueSet"),
        (lambda: from_dict(simple(spec=None)), "spec", "Required value"),
    ],
    ids=["no cliques", "name", "minimum", "group", "type", "container", "kind", "spec"],
)
def test_an_error_names_the_field(build: object, field: str, text: str) -> None:
    assert callable(build)
    with pytest.raises(InvalidSet) as caught:
        build()
    assert any(path.startswith(field) for path in caught.value.fields), caught.value.fields
    assert text in str(caught.value)


def test_a_misspelled_field_of_a_manifest_is_not_lost_in_silence() -> None:
    text = to_yaml(pod_clique_set("chat", [clique("router", image="example/router:1.0", min_available=1)]))
    with pytest.raises(InvalidSet, match=r"unknown field \(did you mean spec\.template\.cliques\[0\]\.spec\.minAv"):
        from_yaml(text.replace("minAvailable", "minAvailible"))


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("a: [", "not valid YAML"),
        ("", "has no object"),
        ("apiVersion: v1\nkind: Pod\nmetadata: {name: p}\n", "has 0 PodCliqueSets"),
    ],
)
def test_yaml_that_is_no_set_says_so(text: str, error: str) -> None:
    with pytest.raises(InvalidSet, match=error):
        from_yaml(text)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidSet, match=r"missing\.yaml: cannot be read"):
        from_yaml(tmp_path / "missing.yaml")


def test_zero_replicas_of_a_clique_stay_zero_and_none_become_one() -> None:
    zero = to_dict(pod_clique_set("chat", [clique("a", image="i", replicas=0, min_available=1)]))
    assert zero["spec"]["template"]["cliques"][0]["spec"]["replicas"] == 0
    del zero["spec"]["template"]["cliques"][0]["spec"]["replicas"]
    assert from_dict(zero).spec.template.cliques[0].spec.replicas == 1
