"""Bodies in protobuf, as kubectl sends them: read as the JSON that they mean, refused with the real words."""

import base64
from typing import Any

import msgspec
import pytest

from tests.conformance.talk import Talk
from tests.kube.controlplane.numbers import SAMPLES
from tests.protobuf_wire import body, field

PROTOBUF = "application/vnd.kubernetes.protobuf"
_RBAC = "rbac.authorization.k8s.io/v1"


def named(name: str) -> bytes:
    """An object with nothing but a name."""
    return field(1, field(1, name.encode()))


def pairs(number: int, **items: bytes | str) -> bytes:
    content = {key: value.encode() if isinstance(value, str) else value for key, value in items.items()}
    return b"".join(field(number, field(1, key.encode()) + field(2, value)) for key, value in content.items())


async def post(api: Talk, path: str, content: bytes, **query: str) -> Any:
    return await api.send("POST", path, content, content_type=PROTOBUF, query=query)


@pytest.mark.parametrize(
    ("plural", "content", "expected"),
    [
        (
            "configmaps",
            body("ConfigMap", named("c") + pairs(2, a="b") + pairs(3, raw=b"\0\xff")),
            {"data": {"a": "b"}, "binaryData": {"raw": "AP8="}},
        ),
        (
            "secrets",
            body("Secret", named("s") + pairs(2, key=b"\x01\x02") + field(3, b"example.com/x")),
            {"data": {"key": "AQI="}, "type": "example.com/x"},
        ),
        ("serviceaccounts", body("ServiceAccount", named("a") + field(4, 0)), {"automountServiceAccountToken": False}),
        (
            "resourcequotas",
            body("ResourceQuota", named("q") + field(2, pairs(1, pods=field(1, b"10")))),
            {"spec": {"hard": {"pods": "10"}}},
        ),
        (
            "services",
            body(
                "Service",
                named("headless")
                + field(2, field(1, field(1, b"http") + field(3, 80) + field(4, field(1, 1) + field(3, b"web"))))
                + field(2, field(3, b"None")),
            ),
            {},
        ),
        (
            "leases",
            body("Lease", named("l") + field(2, field(1, b"me") + field(2, 15)), "coordination.k8s.io/v1"),
            {"spec": {"holderIdentity": "me", "leaseDurationSeconds": 15}},
        ),
        (
            "roles",
            body("Role", named("r") + field(2, field(1, b"get") + field(2, b"") + field(3, b"pods")), _RBAC),
            {"rules": [{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}]},
        ),
        (
            "rolebindings",
            body(
                "RoleBinding",
                named("b")
                + field(2, field(1, b"ServiceAccount") + field(2, b"") + field(3, b"a") + field(4, b"x"))
                + field(3, field(1, b"rbac.authorization.k8s.io") + field(2, b"Role") + field(3, b"r")),
                _RBAC,
            ),
            {
                "subjects": [{"kind": "ServiceAccount", "name": "a", "namespace": "x"}],
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"},
            },
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_an_object_in_protobuf_is_created(api: Talk, plural: str, content: bytes, expected: Any) -> None:
    answer = await post(api, api.at(plural), content, fieldValidation="Strict")
    assert answer.status == 201, answer.body
    assert {key: answer.body.get(key) for key in expected} == expected


async def test_ports_of_a_service_may_be_named(api: Talk) -> None:
    ports = field(1, b"http") + field(3, 80) + field(4, field(1, 1) + field(2, 0) + field(3, b"web"))
    answer = await post(api, api.at("services"), body("Service", named("s") + field(2, field(1, ports))))
    assert answer.status == 201, answer.body
    (port,) = answer.spec["ports"]
    assert (port["name"], port["port"], port["targetPort"]) == ("http", 80, "web")


async def test_a_namespace_is_created_by_its_protobuf(api: Talk) -> None:
    name = f"{api.namespace}-by-protobuf"
    answer = await post(api, api.at("namespaces"), body("Namespace", named(name)))
    assert (answer.status, answer.metadata["name"]) == (201, name)


async def test_a_priority_class_of_zero_says_so(api: Talk) -> None:
    content = named(f"{api.namespace}-zero") + field(2, 0) + field(3, 0) + field(4, b"")
    answer = await post(api, api.at("priorityclasses"), body("PriorityClass", content, "scheduling.k8s.io/v1"))
    assert (answer.status, answer.body["value"], "description" in answer.body) == (201, 0, False)


async def test_a_body_may_leave_out_what_the_path_says(api: Talk) -> None:
    answer = await post(api, api.at("configmaps"), b"k8s\0" + field(2, named("unsaid")))
    assert (answer.status, answer.metadata["name"]) == (201, "unsaid")


async def test_an_object_is_replaced_by_protobuf(api: Talk) -> None:
    await post(api, api.at("configmaps"), body("ConfigMap", named("c") + pairs(2, a="1")))
    content = body("ConfigMap", named("c") + pairs(2, a="2"))
    answer = await api.send("PUT", api.at("configmaps", "c"), content, content_type=PROTOBUF)
    assert (answer.status, answer.body["data"]) == (200, {"a": "2"})


async def test_the_options_of_a_deletion_may_be_protobuf(api: Talk) -> None:
    await post(api, api.at("configmaps"), body("ConfigMap", named("c")))
    path = api.at("configmaps", "c")
    wrong = body("DeleteOptions", field(2, field(1, b"other")))
    refused = await api.send("DELETE", path, wrong, content_type=PROTOBUF)
    assert (refused.status, refused.body["reason"]) == (409, "Conflict")
    gone = await api.send("DELETE", path, body("DeleteOptions", field(1, 0)), content_type=PROTOBUF)
    assert (gone.status, gone.body["status"]) == (200, "Success")


async def test_options_of_a_deletion_that_are_none_are_refused(api: Talk) -> None:
    refused = await api.send("DELETE", api.at("configmaps", "c"), b"k8s\0\xff", content_type=PROTOBUF)
    assert refused.refusal == (400, "BadRequest", "unexpected EOF")


def unrecognized(why: str, shown: str) -> tuple[int, str, str]:
    words = f"the object provided is unrecognized (must be of type ConfigMap): {why} ({shown})"
    return 400, "BadRequest", words


@pytest.mark.parametrize(
    ("content", "refusal"),
    [
        (
            b"{}",
            unrecognized(
                "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]", "{}"
            ),
        ),
        (b"k8s\0", unrecognized("empty body", "6b387300")),
        (b"k8s\0\xff\xff\xff\xff", unrecognized("unexpected EOF", "6b387300ffffffff")),
        (b"k8s\0\x0a\x20", unrecognized("unexpected EOF", "6b3873000a20")),
        (
            b"k8s\0\x0a\x7f" + b"x" * 40,
            unrecognized("unexpected EOF", "6b3873000a7f" + "78" * 24 + " ..."),
        ),
        (
            body("ConfigMap", field(1, 5)),
            (
                400,
                "BadRequest",
                (
                    'ConfigMap in version "v1" cannot be handled as a ConfigMap: proto: wrong wireType = 0 for field '
                    "ObjectMeta"
                ),
            ),
        ),
        (
            body("ConfigMap", b"\x0a\x05"),
            (400, "BadRequest", 'ConfigMap in version "v1" cannot be handled as a ConfigMap: unexpected EOF'),
        ),
    ],
    ids=["no-magic", "magic-only", "rubbish", "cut", "long", "wrong-type", "cut-inside"],
)
async def test_what_is_no_protobuf_is_refused(api: Talk, content: bytes, refusal: Any) -> None:
    assert (await post(api, api.at("configmaps"), content)).refusal == refusal


async def test_another_kind_is_refused(api: Talk) -> None:
    code, reason, words = (await post(api, api.at("configmaps"), body("Secret", named("s")))).refusal
    assert (code, reason) == (400, "BadRequest")
    assert words.startswith('Secret in version "v1" cannot be handled as a ConfigMap: ')


async def test_rules_are_the_same_for_protobuf(api: Talk) -> None:
    refused = await post(api, api.at("configmaps"), body("ConfigMap", named("Not_Legal")))
    assert refused.refusal[:2] == (422, "Invalid")
    nameless = await post(api, api.at("configmaps"), body("ConfigMap", b""))
    words = 'ConfigMap "" is invalid: metadata.name: Required value: name or generateName is required'
    assert nameless.refusal == (422, "Invalid", words)


async def test_fields_of_a_newer_release_are_passed_over(api: Talk) -> None:
    content = body("ConfigMap", named("newer") + field(900, b"?"))
    assert (await post(api, api.at("configmaps"), content, fieldValidation="Strict")).status == 201


async def test_answers_may_be_protobuf(api: Talk) -> None:
    answer = await api.get(api.at("configmaps"), accept=PROTOBUF)
    assert (answer.status, answer.headers.get("Content-Type")) == (200, PROTOBUF)


async def test_a_patch_is_never_protobuf(api: Talk) -> None:
    await post(api, api.at("configmaps"), body("ConfigMap", named("c")))
    refused = await api.send("PATCH", api.at("configmaps", "c"), b"k8s\0", content_type=PROTOBUF)
    assert refused.refusal == (415, "UnsupportedMediaType", "415: Unsupported Media Type")


async def test_a_pod_with_everything_is_understood(api: Talk) -> None:
    """Every field is filled with something, most of it illegal: the refusal names what only a reader of it can know."""
    sample = msgspec.json.decode(SAMPLES.read_bytes())["v1 Pod"]
    refused = await post(api, api.at("pods"), base64.b64decode(sample["protobuf"]))
    as_json = await api.post(api.at("pods"), sample["json"])
    assert refused.status >= 400
    assert (refused.status, refused.body["message"]) == (as_json.status, as_json.body["message"])
