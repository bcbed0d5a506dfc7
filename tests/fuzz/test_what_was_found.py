"""Bugs that hostile requests once found, one story each. What a real server has an answer to: `tests/conformance`."""

import gzip
from typing import Any

import msgspec
import pytest

from grove.kube.transport import APPLY_PATCH, MERGE_PATCH, Request
from tests.cluster.apidsl import CONFIGS, Api, config, on_cluster
from tests.cluster.served_http import HttpClient, over_http
from tests.fuzz.specimens import custom_collection, custom_object, definition

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
THINGS = custom_collection("a", "default")
TABLE = "application/json;as=Table;g=meta.k8s.io;v=v1"


async def _define(api: Api, schema: dict[str, Any] | None = None) -> None:
    body = {"metadata": {"name": "as.example.com"}, **definition("a", schema)}
    assert (await api.post(DEFINITIONS, body)).status == 201


def _deep(depth: int) -> bytes:
    """An object of so many levels, written out: no encoder would."""
    spec = b'{"a":' * (depth - 2) + b"{}" + b"}" * (depth - 2)
    return msgspec.json.encode({**custom_object("x", "a"), "spec": None}).replace(b"null", spec)


@pytest.mark.parametrize("depth", [201, 300, 500, 800, 5_000])
@pytest.mark.parametrize("kind", ["POST", MERGE_PATCH, APPLY_PATCH])
@on_cluster
async def test_what_is_nested_too_deeply_to_be_read_is_not_stored(api: Api, kind: str, depth: int) -> None:
    """It once was, and then nobody could list its kind any more."""
    await _define(api)
    if kind == MERGE_PATCH:
        assert (await api.post(THINGS, custom_object("x", "a"))).status == 201
    revision = api.server.store.revision
    if kind == "POST":
        answer = await api.send_raw("POST", THINGS, _deep(depth))
    else:
        answer = await api.send_raw("PATCH", f"{THINGS}/x", _deep(depth), kind, fieldManager="m")
    assert answer.refusal[:2] == (400, "BadRequest")
    assert api.server.store.revision == revision
    # With managedFields, as those outside see it.
    assert api.server.handle(Request(method="GET", path=THINGS, program="tests")).status == 200


@on_cluster
async def test_what_is_nested_as_deeply_as_may_be_is_read_by_everybody(api: Api) -> None:
    await _define(api)
    assert (await api.send_raw("POST", THINGS, _deep(200))).status == 201
    for accept in ("", TABLE):
        request = Request(method="GET", path=THINGS, program="tests", accept=accept)
        assert api.server.handle(request).status == 200


@on_cluster
async def test_thousands_of_keys_that_stand_twice_are_told_at_once(api: Api) -> None:
    """They were once looked up in a list, each among all before it: minutes for one request."""
    pairs = ",".join(f'"k{number}":"","k{number}":""' for number in range(60_000))
    body = f'{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"a"}},"data":{{{pairs}}}}}'
    answer = await api.send_raw("POST", CONFIGS, body.encode(), fieldValidation="Strict")
    assert answer.refusal[:2] == (400, "BadRequest")


@on_cluster
async def test_json_that_is_no_text_cannot_be_applied(api: Api) -> None:
    answer = await api.send_raw("PATCH", f"{CONFIGS}/a", b'{"a\xff": 1}', APPLY_PATCH, fieldManager="m")
    assert answer.refusal[:2] == (400, "BadRequest")


@on_cluster
async def test_an_event_about_nothing_known_is_shown_in_a_table(api: Api) -> None:
    events = "/api/v1/namespaces/default/events"
    about = {"kind": 5, "name": None, "namespace": "default"}
    body = {"metadata": {"name": "e"}, "involvedObject": about, "source": {"component": 1, "host": ["h"]}}
    await api.post(events, body)
    assert (await api.get_as(TABLE, events)).status == 200


def test_warnings_are_no_more_than_a_client_reads() -> None:
    """One for each unknown field: libraries give up after a hundred headers."""

    async def story(http: HttpClient) -> None:
        body = {**custom_object("x", "x"), **config("a"), **{f"unknown-{number}": 1 for number in range(500)}}
        answer = await http.send("POST", f"{CONFIGS}?fieldValidation=Warn", body)
        assert answer.status == 201
        assert 20 < len(answer.headers["Warning"]) <= 64
        assert answer.headers["Warning"][0] == '299 - "unknown field \\"spec\\""'

    over_http(story)


@on_cluster
async def test_a_warning_is_told_once_and_a_long_one_is_cut(api: Api) -> None:
    body = {**config("a"), "x" * 6000: 1, "y": 1}
    answer = await api.post(CONFIGS, body, fieldValidation="Warn")
    told = answer.headers["Warning"].splitlines()
    assert [len(line) < 300 for line in told] == [True, True]


@pytest.mark.parametrize("enum", [[], [None], [1.5]])
@on_cluster
async def test_a_value_of_an_odd_enumeration_is_judged(api: Api, enum: list[Any]) -> None:
    schema = {"type": "object", "properties": {"spec": {"x-kubernetes-int-or-string": True, "enum": enum}}}
    body = {"metadata": {"name": "as.example.com"}, **definition("a", schema)}
    if (await api.post(DEFINITIONS, body)).status == 201:
        assert (await api.post(THINGS, {**custom_object("x", "a"), "spec": 1})).status in (201, 422)


@pytest.mark.parametrize("header", ["User-Agent", "Impersonate-User", "Impersonate-Group", "Accept", "Content-Type"])
def test_a_header_that_is_no_text_is_answered(header: str) -> None:
    async def story(http: HttpClient) -> None:
        more = {"Impersonate_User": "u"} if header == "Impersonate-Group" else {}
        odd = b"\xff\xfe".decode("utf-8", "surrogateescape")
        answer = await http.send("POST", CONFIGS, config("a"), **more, **{header.replace("-", "_"): odd})
        assert answer.status in (201, 403, 406, 415), answer.body
        listed = await http.send("GET", CONFIGS)
        assert listed.status == 200

    over_http(story)


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br", "zstd", "nonsense"])
def test_a_body_is_taken_for_what_it_is(encoding: str) -> None:
    """As on a real server, whatever its encoding is said to be."""

    async def story(http: HttpClient) -> None:
        plain = await http.send("POST", CONFIGS, config("a"), Content_Encoding=encoding)
        assert plain.status == 201
        zipped = await http.send("POST", CONFIGS, gzip.compress(b"{}"), Content_Encoding=encoding)
        assert zipped.refusal == (400, "Status", 400, "BadRequest")

    over_http(story)
