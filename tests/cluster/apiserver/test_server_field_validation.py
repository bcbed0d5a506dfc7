"""Fields that a kind does not have, and keys that stand twice: named, as the client wishes. Data of configs."""

import base64

import msgspec
import pytest

from grove.api.types.meta import JsonObject
from tests.cluster.apidsl import CLIQUES, CONFIGS, PODS, Api, clique, config, on_cluster, pod

SECRETS = "/api/v1/namespaces/default/secrets"
SERVICES = "/api/v1/namespaces/default/services"
_ONE_CLIQUE = msgspec.json.encode(clique("a"))
_STRICT = {"fieldValidation": "Strict"}


def _service(**spec: object) -> JsonObject:
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "a"}, "spec": {"ports": [{"port": 1}], **spec}}


def _container(**fields: object) -> JsonObject:
    return {"containers": [{"name": "c", "image": "i", **fields}]}


@pytest.mark.parametrize(
    ("path", "obj", "unknown"),
    [
        (PODS, pod("a", spec={"restartpolicy": "Never"}), "spec.restartpolicy"),
        (PODS, pod("a", spec=_container(comand=["x"])), "spec.containers[0].comand"),
        (PODS, pod("a", spec=_container(resources={"request": {}})), "spec.containers[0].resources.request"),
        (PODS, {**pod("a"), "specs": {}}, "specs"),
        (SERVICES, _service(selectors={}), "spec.selectors"),
        (SERVICES, _service(ports=[{"port": 1, "targetport": 2}]), "spec.ports[0].targetport"),
        (CONFIGS, {**config("a"), "dta": {}}, "dta"),
        (SECRETS, {"metadata": {"name": "a"}, "string_data": {}}, "string_data"),
        (CONFIGS, config("a", lables={}), "metadata.lables"),
        (CLIQUES, clique("a", spec={"replica": 1}), "spec.replica"),
    ],
)
@on_cluster
async def test_a_strict_client_is_told_of_a_misspelt_field(api: Api, path: str, obj: JsonObject, unknown: str) -> None:
    refused = await api.post(path, obj, **_STRICT)
    assert refused.refusal[:2] == (400, "BadRequest")
    assert f'strict decoding error: unknown field "{unknown}"' in refused.refusal[2]
    warned = await api.post(path, obj, fieldValidation="Warn")
    assert (warned.status, warned.headers.get("Warning")) == (201, f'299 - "unknown field \\"{unknown}\\""')
    ignored = await api.post(path, {**obj, "metadata": {**obj["metadata"], "name": "b"}}, fieldValidation="Ignore")
    assert (ignored.status, "Warning" in ignored.headers) == (201, False)


@on_cluster
async def test_a_field_that_nobody_knows_is_not_kept(api: Api) -> None:
    await api.post(PODS, pod("a", spec=_container(comand=["x"])), fieldValidation="Ignore")
    (container,) = (await api.get(f"{PODS}/a")).body["spec"]["containers"]
    assert "comand" not in container


@on_cluster
async def test_a_misspelt_field_in_a_change_is_named(api: Api) -> None:
    await api.post(CONFIGS, config("a"))
    before = api.server.store.revision
    refused = await api.merge(f"{CONFIGS}/a", {"dat": {"x": "y"}}, **_STRICT)
    assert (refused.status, 'unknown field "dat"' in refused.refusal[2]) == (422, True)
    assert api.server.store.revision == before


@pytest.mark.parametrize(
    ("path", "body", "doubled"),
    [
        (CONFIGS, b'{"metadata":{"name":"a"},"data":{"k":"1","k":"2"}}', "data.k"),
        (CONFIGS, b'{"metadata":{"name":"z","name":"a"}}', "metadata.name"),
        (
            PODS,
            b'{"metadata":{"name":"a"},"spec":{"containers":[{"name":"c","image":"i","image":"j"}]}}',
            "spec.containers[0].image",
        ),
        (
            CLIQUES,
            msgspec.json.encode(clique("a")).replace(b'"replicas":1', b'"replicas":1,"replicas":2'),
            "spec.replicas",
        ),
    ],
)
@on_cluster
async def test_a_strict_client_is_told_of_a_key_that_stands_twice(
    api: Api, path: str, body: bytes, doubled: str
) -> None:
    refused = await api.send_raw("POST", path, body, fieldValidation="Strict")
    assert refused.refusal[:2] == (400, "BadRequest")
    assert f'strict decoding error: duplicate field "{doubled}"' in refused.refusal[2]
    warned = await api.send_raw("POST", path, body, fieldValidation="Warn")
    assert (warned.status, warned.headers.get("Warning")) == (201, f'299 - "duplicate field \\"{doubled}\\""')


@on_cluster
async def test_plain_texts_of_a_secret_are_encoded(api: Api) -> None:
    secret = {"metadata": {"name": "a"}, "data": {"old": "b2xk"}, "stringData": {"new": "plain"}}
    stored = (await api.post(SECRETS, secret)).body
    assert stored["data"] == {"old": "b2xk", "new": base64.b64encode(b"plain").decode()}
    assert ("stringData" in stored, stored["type"]) == (False, "Opaque")


@pytest.mark.parametrize(
    ("path", "fields", "code", "words"),
    [
        (CONFIGS, {"data": {"a": 1}}, 400, "Expected `str`, got `int` - at `$.data[...]`"),
        (CONFIGS, {"data": {"a b": "1"}}, 422, "data[a b]: Invalid value"),
        (
            CONFIGS,
            {"data": {"a": "1"}, "binaryData": {"a": "MQ=="}},
            422,
            'data[a]: Invalid value: "a": duplicate of key',
        ),
        (CONFIGS, {"data": {"a": "x" * 1_048_577}}, 422, "[]: Too long: may not be more than 1048576 bytes"),
        (SECRETS, {"data": {"a": "not base64!"}}, 400, "illegal base64 data at input byte 3"),
    ],
)
@on_cluster
async def test_data_that_no_config_can_hold_is_refused(
    api: Api, path: str, fields: JsonObject, code: int, words: str
) -> None:
    refused = await api.post(path, {"metadata": {"name": "a"}, **fields})
    assert (refused.status, words in refused.refusal[2]) == (code, True), refused.refusal[2]


@on_cluster
async def test_an_immutable_config_stays_as_it_is(api: Api) -> None:
    await api.post(CONFIGS, {**config("a"), "data": {"k": "1"}, "immutable": True})
    for patch in ({"data": {"k": "2"}}, {"immutable": None}):
        refused = await api.merge(f"{CONFIGS}/a", patch)
        assert (refused.status, "field is immutable when `immutable` is set" in refused.refusal[2]) == (422, True)
    assert (await api.merge(f"{CONFIGS}/a", {"metadata": {"labels": {"x": "y"}}})).status == 200


@on_cluster
async def test_the_type_of_a_secret_stays(api: Api) -> None:
    await api.post(SECRETS, {"metadata": {"name": "a"}, "type": "example.com/x"})
    refused = await api.merge(f"{SECRETS}/a", {"type": "other"})
    assert (refused.status, "type: Invalid value" in refused.refusal[2]) == (422, True)
