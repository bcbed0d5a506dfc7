"""The API over sockets: who is let in, and how answers travel."""

import asyncio
import ssl

import aiohttp
import msgspec
import pytest

from grove.api.types.meta import JsonObject
from grove.clock import LoopClock
from grove.cluster.http.loopback_certificates import make_certificates
from grove.cluster.http.request_bodies import LARGEST_BODY
from grove.kube.transport import MERGE_PATCH, Request, Response
from tests.cluster.apidsl import CONFIGS, PODS, config, pod
from tests.cluster.served_http import HttpClient, over_http
from tests.protobuf_wire import body, field


@pytest.mark.parametrize("path", ["/readyz", "/version", "/apis", "/openapi/v3", PODS, "/nothing"])
@pytest.mark.parametrize("token", [None, "", "another token", "a token for test"])
def test_every_path_asks_for_the_token(path: str, token: str | None) -> None:
    async def story(http: HttpClient) -> None:
        assert (await http.send("GET", path, token=token)).refusal == (401, "Status", 401, "Unauthorized")

    over_http(story)


@pytest.mark.parametrize(
    ("host", "code"),
    [
        ("127.0.0.1", 200),
        ("127.0.0.1:6443", 200),
        ("localhost:6443", 200),
        ("LOCALHOST", 200),
        ("[::1]:6443", 200),
        ("kubernetes", 403),
        ("grove.example.com", 403),
        ("127.0.0.1.example.com", 403),
        ("localhost.example.com:6443", 403),
    ],
)
def test_a_page_that_was_rebound_to_this_machine_is_refused(host: str, code: int) -> None:
    async def story(http: HttpClient) -> None:
        assert (await http.send("GET", "/readyz", Host=host)).status == code

    over_http(story)


def test_other_origins_get_no_permission() -> None:
    async def story(http: HttpClient) -> None:
        asked = await http.send("GET", PODS, Origin="https://example.com")
        preflight = await http.send(
            "OPTIONS", PODS, token=None, Origin="https://example.com", Access_Control_Request_Method="POST"
        )
        for answer in (asked, preflight):
            assert [name for name in answer.headers if name.lower().startswith("access-control")] == []
        assert (asked.status, preflight.status) == (200, 401)

    over_http(story)


def test_it_listens_on_loopback_only() -> None:
    async def story(http: HttpClient) -> None:
        assert http.api.url.startswith("https://127.0.0.1:")

    over_http(story)


def test_plain_http_is_not_answered() -> None:
    async def story(http: HttpClient) -> None:
        with pytest.raises(aiohttp.ClientError):
            await http.session.get(http.api.url.replace("https:", "http:") + "/readyz")

    over_http(story)


def test_the_certificate_satisfies_strict_verification() -> None:
    async def story(http: HttpClient) -> None:
        context = ssl.create_default_context(cadata=http.api.ca.decode())
        context.verify_flags |= ssl.VERIFY_X509_STRICT
        for name in ("127.0.0.1", "localhost"):
            url = http.api.url.replace("127.0.0.1", name)
            async with http.session.get(f"{url}/readyz", ssl=context) as answer:
                assert answer.status == 401

    over_http(story)


def test_no_two_clusters_share_an_authority() -> None:
    async def story(http: HttpClient) -> None:
        other = make_certificates(LoopClock.starting_now().now())
        context = ssl.create_default_context(cadata=other.ca.decode())
        with pytest.raises(aiohttp.ClientConnectorCertificateError):
            await http.session.get(f"{http.api.url}/readyz", ssl=context)

    over_http(story)


def test_objects_travel_both_ways() -> None:
    async def story(http: HttpClient) -> None:
        created = await http.send("POST", f"{CONFIGS}?fieldValidation=&fieldManager=x", config("a-b"))
        assert (created.status, created.headers["Content-Type"]) == (201, ["application/json"])
        patched = await http.send("PATCH", f"{CONFIGS}/a-b", {"data": {"x": "ü"}}, Content_Type=MERGE_PATCH)
        assert patched.json["data"] == {"x": "ü"}
        listed = await http.send("GET", f"{CONFIGS}?fieldSelector=metadata.name%3Da-b&limit=5")
        assert [item["data"] for item in listed.json["items"]] == [{"x": "ü"}]
        assert (await http.send("DELETE", f"{CONFIGS}/a-b")).json["status"] == "Success"

    over_http(story)


def test_each_warning_has_its_own_header() -> None:
    async def story(http: HttpClient) -> None:
        body = {**config("a"), "metadata": {"name": "a", "lables": {}, "anno\u0007tations": {}}}
        answer = await http.send("POST", CONFIGS, body)
        assert answer.headers["Warning"] == [
            '299 - "unknown field \\"metadata.lables\\""',
            '299 - "unknown field \\"metadata.anno tations\\""',
        ]

    over_http(story)


def test_a_body_may_be_large_but_not_too_large() -> None:
    async def story(http: HttpClient) -> None:
        # A kind that may be as large as it likes.
        revisions = "/apis/apps/v1/namespaces/default/controllerrevisions"
        empty: JsonObject = {"metadata": {"name": "a"}, "revision": 1, "data": {"x": ""}}
        room = LARGEST_BODY - len(msgspec.json.encode(empty))
        fitting = {**empty, "data": {"x": "x" * room}}
        assert (await http.send("POST", revisions, fitting)).status == 201
        assert (await http.send("POST", CONFIGS, msgspec.json.encode(fitting) + b" ")).refusal == (
            413, "Status", 413, "RequestEntityTooLarge",
        )  # fmt: skip

    over_http(story)


def test_all_bodies_together_are_limited_until_their_requests_are_answered() -> None:
    small = msgspec.json.encode(config("a"))
    half = len(small) + 1_000

    async def story(http: HttpClient) -> None:
        # Two clients that send most of a body, and then nothing.
        head = f"POST {CONFIGS} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {http.api.token}\r\n"
        writers = [await http.send_raw(f"{head}Content-Length: 100000\r\n\r\n".encode() + b"x" * half) for _ in "ab"]
        while http.api.held_body_bytes < 2 * half:
            assert (await http.send("GET", "/readyz")).status == 200
        answer = await http.send("POST", CONFIGS, small)
        assert answer.refusal == (429, "Status", 429, "TooManyRequests")
        assert answer.headers["Retry-After"] == ["1"]
        assert "try again later" in answer.json["message"]
        assert (await http.send("GET", CONFIGS)).status == 200
        for writer in writers:
            writer.close()
        while http.api.held_body_bytes:
            assert (await http.send("GET", "/readyz")).status == 200
        assert (await http.send("POST", CONFIGS, small)).status == 201

    over_http(story, most_body_bytes=2 * half + 10)


def test_protobuf_is_read_and_answered_in_json() -> None:
    async def story(http: HttpClient) -> None:
        named = body("ConfigMap", field(1, field(1, b"by-protobuf")))
        answer = await http.send("POST", CONFIGS, named, Content_Type="application/vnd.kubernetes.protobuf")
        assert (answer.status, b'"name":"by-protobuf"' in answer.body) == (201, True)

    over_http(story)


def test_a_bug_is_answered_with_a_status_and_no_trace() -> None:
    async def story(http: HttpClient) -> None:
        def broken(request: Request, response: Response) -> None:
            raise RuntimeError("secret detail")

        http.server.observers.append(broken)
        answer = await http.send("GET", PODS)
        assert answer.refusal == (500, "Status", 500, "InternalError")
        assert b"secret" not in answer.body

    over_http(story)


async def _lines(response: aiohttp.ClientResponse, count: int) -> list[tuple[str, str]]:
    events = [msgspec.json.decode(await response.content.readline()) for _ in range(count)]
    return [(event["type"], event["object"]["metadata"]["name"]) for event in events]


def test_a_watch_streams_lines_as_they_happen() -> None:
    async def story(http: HttpClient) -> None:
        await http.send("POST", PODS, pod("a"))
        headers = {"Authorization": f"Bearer {http.api.token}"}
        async with http.session.get(f"{http.api.url}{PODS}?watch=true", headers=headers) as response:
            assert (response.status, response.headers["Content-Type"]) == (200, "application/json")
            assert await _lines(response, 1) == [("ADDED", "a")]
            await http.send("POST", PODS, pod("b"))
            assert await _lines(response, 1) == [("ADDED", "b")]
            for name in ("c", "d"):
                await http.send("POST", PODS, pod(name))
            await http.send("DELETE", f"{PODS}/a")
            assert await _lines(response, 4) == [("ADDED", "c"), ("ADDED", "d"), ("MODIFIED", "a"), ("DELETED", "a")]

    over_http(story)


def test_a_long_watch_is_sent_whole() -> None:
    async def story(http: HttpClient) -> None:
        filler = {"data": {"x": "x" * 50_000}}
        for number in range(20):
            await http.send("POST", CONFIGS, {**config(f"c{number:02}"), **filler})
        headers = {"Authorization": f"Bearer {http.api.token}"}
        url = f"{http.api.url}{CONFIGS}?watch=true"
        async with http.session.get(url, headers=headers, read_bufsize=2**21) as response:
            assert await _lines(response, 20) == [("ADDED", f"c{number:02}") for number in range(20)]

    over_http(story)


def test_a_watch_that_cannot_be_opened_is_refused() -> None:
    async def story(http: HttpClient) -> None:
        assert (await http.send("GET", f"{PODS}?watch=true&resourceVersion=x")).refusal[:2] == (400, "Status")
        assert (await http.send("GET", "/api/v1/nothing?watch=true")).refusal[:2] == (404, "Status")

    over_http(story)


def test_a_watch_ends_with_its_time_or_with_the_server() -> None:
    async def story(http: HttpClient) -> None:
        timed = await http.send("GET", f"{PODS}?watch=true&timeoutSeconds=1&allowWatchBookmarks=true")
        assert timed.json["type"] == "BOOKMARK"
        headers = {"Authorization": f"Bearer {http.api.token}"}
        async with http.session.get(f"{http.api.url}{PODS}?watch=true", headers=headers) as response:
            await http.api.stop()
            assert await response.read() == b""

    over_http(story)


def test_a_reader_that_leaves_is_forgotten() -> None:
    async def story(http: HttpClient) -> None:
        headers = {"Authorization": f"Bearer {http.api.token}"}
        response = await http.session.get(f"{http.api.url}{PODS}?watch=true", headers=headers)
        assert http.api.stream_count == 1
        response.close()
        # The server hears of it through the socket; other requests show that it goes on.
        while http.api.stream_count:
            assert (await http.send("GET", "/readyz")).status == 200
        assert (await asyncio.gather(*(http.send("GET", PODS) for _ in range(50))))[0].status == 200

    over_http(story)
