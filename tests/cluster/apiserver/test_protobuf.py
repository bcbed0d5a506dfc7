"""Protobuf bodies are read as the Go types wrote them, and rubbish is refused."""

import base64
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grove.api.types.meta import JsonObject
from grove.cluster.apiserver.codec.protobuf import MalformedError, UnknownKindError, decode
from grove.cluster.apiserver.status_errors import UnreadableError
from tests.cluster.apidsl import Api, on_cluster
from tests.protobuf_wire import body, field, varint
from tests.seeds import examples

SAMPLES: dict[str, Any] = msgspec.json.decode(
    (Path(__file__).parents[2] / "fixtures" / "protobuf_samples.json").read_bytes()
)


def wire(kind: str) -> bytes:
    return base64.b64decode(SAMPLES[kind]["protobuf"])


@pytest.mark.parametrize("kind", sorted(SAMPLES))
def test_a_filled_object_of_every_kind_is_read_as_its_go_type_writes_json(kind: str) -> None:
    api_version, _, name = kind.partition(" ")
    assert decode(wire(kind), api_version, name) == SAMPLES[kind]["json"]


def test_a_body_that_does_not_say_its_kind_is_of_the_kind_of_its_place() -> None:
    found = decode(b"k8s\0" + field(2, field(1, field(1, b"x"))), "v1", "ConfigMap")
    assert found == {"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "x"}}


def test_zeros_are_left_out_where_json_leaves_them_out() -> None:
    # Go writes every field that is no pointer, zero or not.
    empty = field(1, field(1, b"x") + field(2, b"") + field(8, b"")) + field(4, b"")
    assert decode(body("Secret", empty + field(3, b"")), "v1", "Secret")["metadata"] == {"name": "x"}
    priority = field(1, field(1, b"x")) + field(2, 0) + field(3, 0) + field(4, b"")
    found = decode(body("PriorityClass", priority, "scheduling.k8s.io/v1"), "", "")
    assert {key: found.get(key) for key in ("value", "globalDefault", "description")} == {
        "value": 0,
        "globalDefault": None,
        "description": None,
    }


def test_what_may_be_absent_is_kept_when_it_is_zero() -> None:
    lease = field(1, field(1, b"x")) + field(2, field(2, 0))
    assert decode(body("Lease", lease, "coordination.k8s.io/v1"), "", "")["spec"] == {"leaseDurationSeconds": 0}


def test_a_field_of_a_newer_release_is_passed_over() -> None:
    newer = field(1, field(1, b"x")) + field(900, b"?") + field(901, 3) + varint(902 << 3 | 1) + bytes(8)
    assert decode(body("ConfigMap", newer), "", "")["metadata"] == {"name": "x"}


def test_negative_numbers_and_packed_ones_are_read() -> None:
    context = field(4, varint(7) + varint(2**64 - 3)) + field(4, 9)
    pod = decode(body("Pod", field(2, field(14, context))), "", "")
    assert pod["spec"]["securityContext"]["supplementalGroups"] == [7, -3, 9]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "empty data"),
        (b"{}", "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]"),
        (b"k8s\0", "empty body"),
        (b"k8s\0\xff\xff", "unexpected EOF"),
        (b"k8s\0" + b"\xff" * 10, "proto: integer overflow"),
        (b"k8s\0\x0a\xff\x01", "unexpected EOF"),
        (b"k8s\0\x0b", "proto: illegal wireType 3"),
        (b"k8s\0\x00", "proto: illegal tag 0 (wire type 0)"),
        (b"k8s\0" + field(1, 5), "proto: wrong wireType = 0"),
    ],
)
def test_an_envelope_that_is_none_is_refused(content: bytes, words: str) -> None:
    with pytest.raises(MalformedError) as refused:
        decode(content, "v1", "ConfigMap")
    assert str(refused.value) == words


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (field(1, 5), "proto: wrong wireType = 0 for field ObjectMeta"),
        (field(4, b"x"), "proto: wrong wireType = 2 for field Immutable"),
        (b"\x0c", "proto: wiretype end group for non-group"),
        (b"\x0a\x05", "unexpected EOF"),
    ],
)
def test_content_that_is_none_of_its_kind_is_refused(content: bytes, words: str) -> None:
    with pytest.raises(UnreadableError) as refused:
        decode(body("ConfigMap", content), "v1", "ConfigMap")
    assert refused.value.message == f'ConfigMap in version "v1" cannot be handled as a ConfigMap: {words}'


def test_a_kind_without_a_table_is_said() -> None:
    with pytest.raises(UnknownKindError, match="apps/v1 Deployment"):
        decode(body("Deployment", b"", "apps/v1"), "v1", "ConfigMap")


def outcome(content: bytes, kind: str) -> JsonObject | str:
    try:
        found = decode(content, "v1", kind)
    except (MalformedError, UnknownKindError, UnreadableError) as refused:
        return str(refused)
    msgspec.json.encode(found)
    return found


@settings(max_examples=examples(300), deadline=None)
@given(kind=st.sampled_from(sorted(SAMPLES)), data=st.data())
def test_whatever_is_damaged_is_read_or_refused_and_never_breaks(kind: str, data: st.DataObject) -> None:
    damaged = bytearray(wire(kind))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(damaged) - 1))
        damaged[at] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(damaged)))
    assert outcome(bytes(damaged[:cut]), "Pod")


@given(st.binary())
def test_any_bytes_are_read_or_refused(content: bytes) -> None:
    assert outcome(b"k8s\0" + content, "Pod")
    assert outcome(body("Pod", content), "Pod")


_TEXT = st.text(st.characters(codec="utf-8"), min_size=1, max_size=20)


@given(
    name=_TEXT,
    labels=st.dictionaries(_TEXT, _TEXT, min_size=1, max_size=4),
    data=st.dictionaries(_TEXT, st.binary(max_size=40), min_size=1, max_size=4),
    generation=st.integers(-(2**63), 2**63 - 1).filter(bool),
)
def test_what_is_encoded_by_hand_is_read_back(
    name: str, labels: dict[str, str], data: dict[str, bytes], generation: int
) -> None:
    def pairs(number: int, items: dict[str, bytes]) -> bytes:
        return b"".join(field(number, field(1, key.encode()) + field(2, value)) for key, value in items.items())

    meta = field(1, name.encode()) + field(7, generation) + pairs(11, {k: v.encode() for k, v in labels.items()})
    assert decode(body("Secret", field(1, meta) + pairs(2, data)), "", "") == {
        "kind": "Secret",
        "apiVersion": "v1",
        "metadata": {"name": name, "generation": generation, "labels": labels},
        "data": {key: base64.b64encode(value).decode() for key, value in data.items()},
    }


@on_cluster
async def test_a_custom_kind_has_no_protobuf(api: Api) -> None:
    content = body("PodClique", field(1, field(1, b"x")), "grove.io/v1alpha1")
    path = "/apis/grove.io/v1alpha1/namespaces/default/podcliques"
    refused = await api.send_raw("POST", path, content, "application/vnd.kubernetes.protobuf")
    assert refused.refusal[:2] == (415, "UnsupportedMediaType")
    assert refused.refusal[2].endswith("accepted media types include: application/json")
