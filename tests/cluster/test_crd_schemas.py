"""Our kinds are held to their schemas: types, unknown fields, defaults."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grove.api.schema.kubernetes_schemas import SPECIAL
from grove.api.types.meta import JsonObject
from grove.cluster.custom_resource import grove_storage_versions
from tests.cluster.apidsl import CLIQUE_SPEC, CLIQUES, CONFIGS, SETS, Api, clique, config, on_cluster

BINDINGS = "/apis/grove.io/v1alpha1/clustertopologybindings"
GANGS = "/apis/scheduler.grove.io/v1alpha1/namespaces/default/podgangs"


def _set(**spec: Any) -> JsonObject:
    template = {"cliques": [{"name": "a", "spec": CLIQUE_SPEC}]}
    return {
        "apiVersion": "grove.io/v1alpha1",
        "kind": "PodCliqueSet",
        "metadata": {"name": "s"},
        "spec": {"replicas": 1, "template": template, **spec},
    }


def _binding(*levels: JsonObject) -> JsonObject:
    return {
        "apiVersion": "grove.io/v1alpha1",
        "kind": "ClusterTopologyBinding",
        "metadata": {"name": "b"},
        "spec": {"levels": list(levels)},
    }


def _clique_error(words: str) -> tuple[int, str, str]:
    return 422, "Invalid", f'PodClique.grove.io "a" is invalid: {words}'


def _type_error(path: str, found: str, expected: str) -> str:
    return f'{path}: Invalid value: "{found}": {path} in body must be of type {expected}: "{found}"'


_NO_INT32 = '<nil>: Invalid value: "": Checked value must be of type integer with format int32 in spec.replicas'


@pytest.mark.parametrize(
    ("spec", "errors"),
    [
        ({"replicas": "3"}, [_type_error("spec.replicas", "string", "integer")]),
        ({"replicas": True}, [_type_error("spec.replicas", "boolean", "integer")]),
        ({"replicas": None}, ["spec.replicas: Required value"]),
        ({"startsAfter": [None]}, [_type_error("spec.startsAfter[0]", "null", "string")]),
        ({"replicas": 1.5}, [_type_error("spec.replicas", "number", "integer"), _NO_INT32]),
        ({"replicas": 2**31}, [_NO_INT32]),
        ({"podSpec": []}, [_type_error("spec.podSpec", "array", "object")]),
        ({"startsAfter": {}}, [_type_error("spec.startsAfter", "object", "array")]),
        (
            {"startsAfter": ["x", 1], "roleName": 7},
            [
                _type_error("spec.roleName", "integer", "string"),
                _type_error("spec.startsAfter[1]", "integer", "string"),
            ],
        ),
    ],
)
@on_cluster
async def test_wrong_types_are_refused_with_every_error(api: Api, spec: JsonObject, errors: list[str]) -> None:
    words = errors[0] if len(errors) == 1 else f"[{', '.join(errors)}]"
    assert (await api.post(CLIQUES, clique("a", spec=spec))).refusal == _clique_error(words)


@on_cluster
async def test_required_fields_must_be_there(api: Api) -> None:
    body = {**clique("a"), "spec": {"replicas": 1}}
    assert (await api.post(CLIQUES, body)).refusal == _clique_error("spec.podSpec: Required value")
    del body["spec"]
    assert (await api.post(CLIQUES, body)).refusal == _clique_error("spec: Required value")


_NO_DOMAIN = (
    "spec.levels[0].domain: Invalid value: \"Rack\": spec.levels[0].domain in body should match '^[a-z][a-z0-9-]*$'"
)


@pytest.mark.parametrize(
    ("levels", "words"),
    [
        ([], "spec.levels: Invalid value: 0: spec.levels in body should have at least 1 items"),
        (
            [{"domain": "Rack", "key": "k"}],
            (
                'spec.levels[0].domain: Invalid value: "Rack": spec.levels[0].domain in body should match '
                "'^[a-z][a-z0-9-]*$'"
            ),
        ),
        ([{"domain": "r" * 64, "key": "k"}], "spec.levels[0].domain: Too long: may not be more than 63 bytes"),
    ],
)
@on_cluster
async def test_limits_of_the_schema_hold(api: Api, levels: list[JsonObject], words: str) -> None:
    refused = await api.post(BINDINGS, _binding(*levels))
    assert refused.refusal == (422, "Invalid", f'ClusterTopologyBinding.grove.io "b" is invalid: {words}')


@on_cluster
async def test_at_the_limit_is_within_it(api: Api) -> None:
    assert (await api.post(BINDINGS, _binding({"domain": "r" * 63, "key": "k"}))).status == 201


@on_cluster
async def test_only_known_words_are_taken(api: Api) -> None:
    refused = await api.post(SETS, _set(workloadType="Guessing"))
    assert refused.refusal[2] == (
        'PodCliqueSet.grove.io "s" is invalid: spec.workloadType: Unsupported value: "Guessing": '
        'supported values: "Inference", "Training"'
    )


@on_cluster
async def test_items_of_a_list_with_keys_are_told_apart(api: Api) -> None:
    twice = [{"name": "a", "spec": CLIQUE_SPEC}] * 2
    refused = await api.post(SETS, _set(template={"cliques": twice}))
    assert refused.refusal[2] == (
        'PodCliqueSet.grove.io "s" is invalid: spec.template.cliques[1]: Duplicate value: {"name":"a"}'
    )


@on_cluster
async def test_times_are_times(api: Api) -> None:
    await api.post(CLIQUES, clique("a"))
    refused = await api.merge(f"{CLIQUES}/a/status", {"status": {"lastErrors": [_last_error("yesterday")]}})
    assert refused.refusal[2].endswith(
        'status.lastErrors[0].observedAt: Invalid value: "yesterday": lastErrors[0].observedAt in body must be '
        'of type date-time: "yesterday"'
    )
    written = await api.merge(f"{CLIQUES}/a/status", {"status": {"lastErrors": [_last_error("2026-01-01T00:00:00Z")]}})
    assert written.status == 200


def _last_error(observed_at: str) -> JsonObject:
    return {"code": "X", "description": "x", "observedAt": observed_at}


@on_cluster
async def test_defaults_are_filled_in(api: Api) -> None:
    created = await api.post(SETS, _set())
    assert created.body["spec"]["workloadType"] == "Inference"
    assert created.body["spec"]["template"]["cliqueStartupType"] == "CliqueStartupTypeAnyOrder"
    await api.post(CLIQUES, clique("a"))
    status = (await api.merge(f"{CLIQUES}/a/status", {"status": {"replicas": 2, "readyReplicas": None}})).body["status"]
    assert status == {
        "replicas": 2, "readyReplicas": 0, "updatedReplicas": 0, "scheduleGatedReplicas": 0, "scheduledReplicas": 0,
    }  # fmt: skip


def _container(**fields: Any) -> JsonObject:
    return {"containers": [{"name": "a", **fields}]}


_CONTAINER = "spec.podSpec.containers[0]"


@on_cluster
async def test_a_pod_spec_stays_as_it_was_written(api: Api) -> None:
    pod_spec = {
        **_container(
            resources={"limits": {"cpu": 1, "memory": "1.5Gi"}},
            readinessProbe={"httpGet": {"port": "http"}},
            livenessProbe={"httpGet": {"port": 80}},
            env=[{"name": "A"}],
            imagePullPolicy="",
        ),
        "volumes": [{"name": "v", "emptyDir": {}}],
        "nodeSelector": {"a": "b"},
    }
    created = await api.post(CLIQUES, clique("a", spec={"podSpec": pod_spec}), fieldValidation="Strict")
    assert created.body["spec"]["podSpec"] == pod_spec


@on_cluster
async def test_a_misspelt_field_of_a_pod_spec_is_named(api: Api) -> None:
    pod_spec = {**_container(imag="i", resources={"limit": {}}), "nodeSelectr": {}}
    body = clique("a", spec={"podSpec": pod_spec})
    refused = await api.post(CLIQUES, body, fieldValidation="Strict")
    assert refused.refusal[2].endswith(
        'strict decoding error: unknown field "spec.podSpec.containers[0].imag", '
        'unknown field "spec.podSpec.containers[0].resources.limit", unknown field "spec.podSpec.nodeSelectr"'
    )
    assert (await api.post(CLIQUES, body)).body["spec"]["podSpec"] == _container(resources={})


@pytest.mark.parametrize(
    ("pod_spec", "error"),
    [
        (
            _container(resources={"limits": {"cpu": 0.5}}),
            _type_error(f"{_CONTAINER}.resources.limits.cpu", "number", "integer,string"),
        ),
        (
            _container(resources={"limits": {"cpu": True}}),
            _type_error(f"{_CONTAINER}.resources.limits.cpu", "boolean", "integer,string"),
        ),
        (
            _container(resources={"limits": {"cpu": "much"}}),
            (
                f'{_CONTAINER}.resources.limits.cpu: Invalid value: "much": {_CONTAINER}.resources.limits.cpu in body '
                f"should match '{SPECIAL['Quantity']['pattern']}'"
            ),
        ),
        (
            _container(imagePullPolicy="Sometimes"),
            (
                f'{_CONTAINER}.imagePullPolicy: Unsupported value: "Sometimes": supported values: '
                '"Always", "IfNotPresent", "Never", ""'
            ),
        ),
        (
            _container(env=[{"name": "A"}, {"name": "A"}]),
            f'{_CONTAINER}.env[1]: Duplicate value: {{"name":"A"}}',
        ),
        (
            _container(restartPolicyRules=[{"action": "Restart", "exitCodes": {"operator": "In", "values": [1, 1]}}]),
            f"{_CONTAINER}.restartPolicyRules[0].exitCodes.values[1]: Duplicate value: 1",
        ),
        ({"containers": [{}]}, f"{_CONTAINER}.name: Required value"),
        ({}, "spec.podSpec.containers: Required value"),
    ],
)
@on_cluster
async def test_a_pod_spec_is_held_to_its_schema(api: Api, pod_spec: JsonObject, error: str) -> None:
    refused = await api.post(CLIQUES, clique("a", spec={"podSpec": pod_spec}))
    assert refused.refusal == _clique_error(error)


@on_cluster
async def test_the_protocol_of_a_port_is_filled_in_because_it_is_a_key(api: Api) -> None:
    ports = [{"containerPort": 53}, {"containerPort": 53, "protocol": "UDP"}]
    created = await api.post(CLIQUES, clique("a", spec={"podSpec": _container(ports=ports)}))
    assert [port["protocol"] for port in created.body["spec"]["podSpec"]["containers"][0]["ports"]] == ["TCP", "UDP"]
    twice = [{"containerPort": 53}, {"containerPort": 53, "protocol": "TCP"}]
    refused = await api.post(CLIQUES, clique("b", spec={"podSpec": _container(ports=twice)}))
    assert "Duplicate value" in refused.refusal[2]


@on_cluster
async def test_nulls_are_pruned(api: Api) -> None:
    pod_spec = {
        **_container(image=None, resources={"limits": {"cpu": None}}, ports=[{"containerPort": 1, "protocol": None}]),
        "nodeSelector": {"a": None},
    }
    created = await api.post(CLIQUES, clique("a", spec={"podSpec": pod_spec}), fieldValidation="Strict")
    kept = _container(resources={"limits": {}}, ports=[{"containerPort": 1, "protocol": "TCP"}])
    assert created.body["spec"]["podSpec"] == {**kept, "nodeSelector": {}}


@on_cluster
async def test_unknown_fields_are_pruned_with_a_warning(api: Api) -> None:
    body = {**clique("a", spec={"replica": 1}), "extra": {}}
    created = await api.post(CLIQUES, body)
    assert (created.status, created.body["spec"], "extra" in created.body) == (201, CLIQUE_SPEC, False)
    assert created.headers["Warning"].splitlines() == [
        '299 - "unknown field \\"extra\\""',
        '299 - "unknown field \\"spec.replica\\""',
    ]
    silent = await api.post(CLIQUES, {**body, "metadata": {"name": "b"}}, fieldValidation="Ignore")
    assert (silent.status, silent.headers) == (201, {})


@on_cluster
async def test_a_strict_client_is_refused(api: Api) -> None:
    body = _set()
    body["spec"]["templat"] = body["spec"].pop("template")
    body["metadata"]["label"] = {}
    words = (
        'PodCliqueSet in version "v1alpha1" cannot be handled as a PodCliqueSet: strict decoding error: '
        'unknown field "metadata.label", unknown field "spec.templat"'
    )
    assert (await api.post(SETS, body, fieldValidation="Strict")).refusal == (400, "BadRequest", words)
    assert (await api.get(SETS)).names == []


@on_cluster
async def test_a_strict_client_is_refused_its_patch(api: Api) -> None:
    await api.post(CLIQUES, clique("a"))
    refused = await api.merge(f"{CLIQUES}/a", {"spec": {"replica": 2}}, fieldValidation="Strict")
    assert refused.refusal[:2] == (422, "Invalid")
    assert refused.refusal[2].endswith('strict decoding error: unknown field "spec.replica"')
    assert (await api.get(f"{CLIQUES}/a")).metadata["resourceVersion"] == "5"


@on_cluster
async def test_unknown_metadata_of_built_in_kinds_is_named_too(api: Api) -> None:
    refused = await api.post(CONFIGS, config("a", lables={}), fieldValidation="Strict")
    assert (refused.status, 'unknown field "metadata.lables"' in refused.refusal[2]) == (400, True)
    assert (await api.post(CONFIGS, config("a"), fieldValidation="Harsh")).status == 422


@on_cluster
async def test_a_status_is_held_to_the_schema_too(api: Api) -> None:
    await api.post(CLIQUES, clique("a"))
    refused = await api.merge(f"{CLIQUES}/a/status", {"status": {"replicas": "2"}})
    assert refused.status == 422
    pruned = await api.merge(f"{CLIQUES}/a/status", {"status": {"replicas": 2, "mood": "good"}})
    assert "mood" not in pruned.body["status"]


def test_what_was_wrong_before_may_stay() -> None:
    kind = grove_storage_versions()["podcliques.grove.io"]
    old = clique("a", spec={"startsAfter": [1]})
    new = clique("a", spec={"startsAfter": [1], "replicas": 2})
    assert [error.path for error in kind.validate(new).errors] == ["spec.startsAfter[0]"]
    assert kind.validate(new, old).errors == ()
    # Items of a list without keys have no past of their own.
    worse = clique("a", spec={"startsAfter": [1, 2]})
    paths = ["spec.startsAfter[0]", "spec.startsAfter[1]"]
    assert [error.path for error in kind.validate(worse, old).errors] == paths


_OLD = {"topologyName": "dc", "packDomain": "rack"}


def _packed_set(constraint: JsonObject) -> JsonObject:
    """A set with the constraint at every level."""
    found = _set(replicas=1)
    template = found["spec"]["template"]
    template["topologyConstraint"] = constraint
    template["cliques"][0]["topologyConstraint"] = constraint
    template["podCliqueScalingGroups"] = [{"name": "g", "cliqueNames": ["a"], "topologyConstraint": constraint}]
    return found


def test_a_rejected_pack_domain_is_pointed_at() -> None:
    kind = grove_storage_versions()["podcliquesets.grove.io"]
    assert sorted(str(error.path) for error in kind.validate(_packed_set(_OLD)).errors) == [
        "spec.template.cliques[0].topologyConstraint.packDomain",
        # The items of this list have no key, and no rule can point at one.
        "spec.template.podCliqueScalingGroups",
        "spec.template.topologyConstraint.packDomain",
    ]
    twice = {**_OLD, "pack": {"required": "rack"}}
    paths = {error.path for error in kind.validate(_packed_set(twice), _packed_set(_OLD)).errors}
    assert paths == {
        f"spec.template.{at}topologyConstraint.packDomain" for at in ("", "cliques[0].", "podCliqueScalingGroups[0].")
    }


def test_a_stored_pack_domain_may_stay() -> None:
    kind = grove_storage_versions()["podcliquesets.grove.io"]
    old, new = _packed_set(_OLD), _packed_set(_OLD)
    new["spec"]["replicas"] = 2
    assert kind.validate(new, old).errors == ()


_FIELDS = st.sampled_from(
    ["replicas", "roleName", "podSpec", "startsAfter", "autoScalingConfig", "maxReplicas", "containers", "name", "x"]
)
_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**33), 2**33) | st.sampled_from(["a", ""]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(_FIELDS, inner, max_size=3),
    max_leaves=6,
)


@given(spec=st.dictionaries(_FIELDS, _VALUES, max_size=5) | st.just({}), is_good=st.booleans())
def test_the_quick_pass_agrees_with_the_slow_one(spec: JsonObject, is_good: bool) -> None:
    """An object is stored as it is exactly if the slow pass would change nothing and blame nothing."""
    kind = grove_storage_versions()["podcliques.grove.io"]
    obj = clique("a", spec=spec) if is_good else {**clique("a"), "spec": spec}
    found = kind.prune_and_default(obj)
    errors = kind.validate(found.obj).errors
    again = kind.prune_and_default(found.obj)
    if found.obj is obj:
        assert found.unknown == ()
        assert errors == ()
    else:
        assert found.unknown or errors or found.obj != obj
    assert (again.obj, again.unknown, kind.validate(again.obj).errors) == (found.obj, (), errors)
