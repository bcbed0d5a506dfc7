"""Clients that want more than they may: false tokens, paths with tricks, other people's names, endless bodies."""

import asyncio
import base64
import ssl
from typing import Any

import msgspec
import pytest

from grove.cluster.built_in_resources import BY_QUALIFIED
from grove.cluster.http.request_bodies import LARGEST_BODY
from tests.cluster.apidsl import config
from tests.cluster.served_http import TOKEN, Answer, HttpClient, over_http
from tests.fuzz.wire import hung_up

CORE = "/api/v1/namespaces/default"
CONFIGS = f"{CORE}/configmaps"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
SECRET = "keep this to yourself"


def _part(value: Any) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode(value)).decode().rstrip("=")


def _false_tokens(good: str) -> dict[str, str]:
    """By what is wrong with them."""
    head, claims, signature = good.split(".")
    admin = _part({"sub": "system:admin", "groups": ["system:masters"]})
    return {
        "nothing": "",
        "no token": "x",
        "of somebody else": TOKEN + "x",
        "shortened": TOKEN[:-1],
        "without a signature": f"{head}.{claims}.",
        "cut": good[: len(good) // 2],
        "without its end": good[:-4],
        "unsigned": f"{_part({'alg': 'none'})}.{claims}.",
        "unsigned, with its signature": f"{_part({'alg': 'none'})}.{claims}.{signature}",
        "signed with the public key": f"{_part({'alg': 'HS256'})}.{claims}.{signature}",
        "other claims": f"{head}.{admin}.{signature}",
        "signature of zeros": f"{head}.{claims}.{base64.urlsafe_b64encode(bytes(64)).decode().rstrip('=')}",
        "no signature of that size": f"{head}.{claims}.AAAA",
        "too many parts": f"{good}.{signature}",
        "no base64": f"{head}.{claims}.%%%",
        "letters of the world": "\xfc" * 40,
        "dots": "..",
        "long": "a" * 7000,
    }


def test_whoever_has_no_good_token_learns_nothing() -> None:
    async def story(http: HttpClient) -> None:
        good = await _account(http)
        paths = ("/", "/api", "/version", CONFIGS, f"{CONFIGS}/a?watch=true", "/openapi/v3", "/nowhere", "/metrics")
        for what, token in _false_tokens(good).items():
            for path in paths:
                answer = await http.send("GET", path, token=token)
                assert answer.refusal == (401, "Status", 401, "Unauthorized"), (what, path)
        for header in ({}, {"Authorization": "Basic YTpi"}, {"Authorization": "Bearer"}, {"Authorization": TOKEN}):
            assert (await http.send("GET", CONFIGS, token=None, **header)).status == 401

    over_http(story)


def test_a_token_ends_with_its_account() -> None:
    async def story(http: HttpClient) -> None:
        token = await _account(http)
        assert (await http.send("GET", f"{CONFIGS}/mine", token=token)).status == 200
        await http.send("DELETE", f"{CORE}/serviceaccounts/a")
        assert (await http.send("GET", f"{CONFIGS}/mine", token=token)).status == 401
        await _made(http, f"{CORE}/serviceaccounts", {"metadata": {"name": "a"}})
        assert (await http.send("GET", f"{CONFIGS}/mine", token=token)).status == 401

    over_http(story)


_SECRETS = f"{CORE}/secrets/s"
TRICKS = (
    _SECRETS, f"/{_SECRETS}", f"{_SECRETS}/", f"{_SECRETS}//", f"{CORE}//secrets/s", f"{CORE}/./secrets/s",
    "//api/v1/secrets",
    f"{CORE}/configmaps/../secrets/s", f"{CORE}/configmaps/%2e%2e/secrets/s", f"{CORE}/configmaps/mine/../../secrets/s",
    f"{CORE}/configmaps%2f..%2fsecrets/s", f"{CORE}/secrets%2fs", f"{CORE}%2fsecrets%2fs",
    "/api/v1/namespaces/default%2Fsecrets/s",
    f"{CORE}/SECRETS/s", "/API/v1/namespaces/default/secrets/s", "/api/V1/namespaces/default/secrets/s",
    f"{CORE}/secrets;x=y/s",
    f"{CORE}/secrets/s?x=/configmaps/mine", f"{CORE}/secrets/s#/configmaps/mine", f"{CORE}/configmaps/mine/secrets/s",
    f"{CORE}/secrets/mine", f"{CORE}/secrets/s/status", f"{CORE}/secrets/s/scale",
    "/apis//v1/namespaces/default/secrets/s",
    "/api/v1/secrets", "/api/v1/namespaces//secrets", "/api/v1/secrets?fieldSelector=metadata.name%3Dmine",
    "/api/v1/watch/secrets",
    f"{CORE}/secrets?fieldSelector=metadata.name%3Dmine", f"{CORE}/secrets?watch=1", f"{CORE}/secrets?watch=yes",
    "/apis/v1/secrets",
    f"{CONFIGS}", f"{CONFIGS}?limit=1", f"{CONFIGS}?watch=true", f"{CONFIGS}?watch=x", f"{CONFIGS}/other",
    f"{CONFIGS}/mine%2f..%2fother",
    f"{CONFIGS}?fieldSelector=metadata.name!%3Dmine", f"{CONFIGS}?fieldSelector=metadata.name%3Dother",
    f"{CONFIGS}?fieldSelector=metadata.namespace!%3Da%5C,metadata.name%3Dmine",
    f"{CONFIGS}?fieldSelector=metadata.name%3Dmine%5C,x",
    f"{CONFIGS}?labelSelector=x&fieldSelector=metadata.name!%3D%5C%5C%5C,metadata.name%3Dmine",
    "/api/v1/configmaps?fieldSelector=metadata.name%3Dmine", "/api/v1/namespaces/other/configmaps/mine",
    f"{CORE}/serviceaccounts/a/token", f"{CORE}/serviceaccounts/a", RBAC + "/clusterroles",
    "/api/v1/namespaces/default", "/api/v1/nodes",
)  # fmt: skip


@pytest.mark.parametrize("path", TRICKS)
def test_no_path_leads_around_the_rights(path: str) -> None:
    async def story(http: HttpClient) -> None:
        token = await _account(http)
        await _made(http, f"{CORE}/secrets", {"metadata": {"name": "s"}, "stringData": {"k": SECRET}})
        await _made(http, CONFIGS, {**config("other", labels={"x": "y"}), "data": {"k": SECRET}})
        for method in ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"):
            before = http.server.store.revision
            answer = await _raw(http, method, path, token)
            assert answer.status in (400, 403, 404, 405), (method, answer.body)
            assert SECRET.encode() not in answer.body
            assert base64.b64encode(SECRET.encode()) not in answer.body
            assert http.server.store.revision == before

    over_http(story)


def test_what_is_allowed_is_still_possible() -> None:
    async def story(http: HttpClient) -> None:
        token = await _account(http)
        await _made(http, CONFIGS, config("other"))
        for path in (f"{CONFIGS}/mine", f"{CONFIGS}/mine/", f"{CONFIGS}%2fmine", f"{CONFIGS}/mine?watch=true"):
            assert (await _raw(http, "GET", path, token)).json["metadata"]["name"] == "mine"
        for more in ("", "&fieldSelector=metadata.name%3Dother"):
            listed = await _raw(http, "GET", f"{CONFIGS}?fieldSelector=metadata.name%3Dmine{more}", token)
            assert [item["metadata"]["name"] for item in listed.json["items"]] == ["mine"]

    over_http(story)


def test_nobody_becomes_somebody_else() -> None:
    async def story(http: HttpClient) -> None:
        token = await _account(http)
        for headers in (
            {"Impersonate_User": "grove-admin", "Impersonate_Group": "system:masters"},
            {"Impersonate_User": "system:serviceaccount:kube-system:generic-garbage-collector"},
            {"impersonate_user": "u"},
        ):
            answer = await http.send("GET", f"{CONFIGS}/mine", token=token, **headers)
            assert answer.refusal == (403, "Status", 403, "Forbidden"), headers
        for headers in ({"Impersonate_Group": "g"}, {"Impersonate_Uid": "1"}, {"Impersonate_Extra_x": "y"}):
            assert (await http.send("GET", CONFIGS, **headers)).refusal == (400, "Status", 400, "BadRequest")
        # Who is nobody has not even the rights of everybody.
        anonymous = await http.send("GET", "/apis", Impersonate_User="system:anonymous")
        assert anonymous.refusal == (403, "Status", 403, "Forbidden")

    over_http(story)


def test_the_administrator_is_whom_he_says_to_be() -> None:
    async def story(http: HttpClient) -> None:
        path = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
        headers = {
            "Impersonate_User": "u",
            "Impersonate_Uid": "7",
            "Impersonate_Extra_a%2fb": "c",
            "Impersonate_Group": "g",
        }
        answer = await http.send("POST", path, {"kind": "SelfSubjectReview"}, **headers)
        assert answer.json["status"]["userInfo"] == {
            "username": "u",
            "uid": "7",
            "groups": ["g", "system:authenticated"],
            "extra": {"a/b": ["c"]},
        }

    over_http(story)


@pytest.mark.parametrize(
    ("method", "path"), [("POST", ""), ("PUT", "/big"), ("PATCH", "/big"), ("DELETE", "/big"), ("DELETE", "")]
)
def test_a_body_beyond_the_limit_is_refused_unread(method: str, path: str) -> None:
    async def story(http: HttpClient) -> None:
        for size, is_refused in ((LARGEST_BODY, False), (LARGEST_BODY + 1, True)):
            body = b'{"a":"' + b"x" * (size - 8) + b'"}'
            answer = await http.send(method, CONFIGS + path, body)
            assert (answer.status == 413) is is_refused
            if is_refused:
                assert answer.refusal == (413, "Status", 413, "RequestEntityTooLarge")
                assert answer.json["message"] == f"Request entity too large: limit is {LARGEST_BODY}"

    over_http(story)


def test_watches_whose_clients_are_gone_are_forgotten() -> None:
    """Many at once, cut in every state: before the first line, in the middle, and with lines that nobody reads."""

    async def story(http: HttpClient) -> None:
        trusted = ssl.create_default_context(cadata=http.api.ca.decode())
        table = http.server.store.table(BY_QUALIFIED["configmaps"])
        await http.send("GET", CONFIGS)
        task_count = len(asyncio.all_tasks())
        for _ in range(3):
            writers = [await _watch(http, trusted, is_read=number % 3 > 0) for number in range(60)]
            await _made(http, CONFIGS, config("news"))
            for writer in writers:
                writer.transport.abort()
            await http.send("DELETE", f"{CONFIGS}/news")
        await _until(http, lambda: not http.api.stream_count and not table._wakers)
        await _until(http, lambda: len(asyncio.all_tasks()) == task_count)

    over_http(story)


async def _watch(http: HttpClient, trusted: ssl.SSLContext, *, is_read: bool) -> asyncio.StreamWriter:
    reader, writer = await asyncio.open_connection("127.0.0.1", http.api.port, ssl=trusted)
    head = f"GET {CONFIGS}?watch=true HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n\r\n"
    writer.write(head.encode())
    if is_read:
        await reader.readuntil(b"\r\n\r\n")
    return writer


async def _until(http: HttpClient, is_reached: Any) -> None:
    """Bounded by turns; connections are closed in the background."""
    for _ in range(2_000):
        if is_reached():
            return
        await http.server.clock.sleep(0.005)
    raise AssertionError(f"{http.api.stream_count} streams, {asyncio.all_tasks()}")


async def _account(http: HttpClient) -> str:
    """The token of one who may read the config map `mine`, and nothing else."""
    await _made(http, f"{CORE}/serviceaccounts", {"metadata": {"name": "a"}})
    await _made(http, CONFIGS, config("mine"))
    rule = {
        "apiGroups": [""],
        "resources": ["configmaps"],
        "resourceNames": ["mine"],
        "verbs": ["get", "list", "watch"],
    }
    await _made(http, f"{RBAC}/namespaces/default/roles", {"metadata": {"name": "r"}, "rules": [rule]})
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"}
    subject = {"kind": "ServiceAccount", "name": "a", "namespace": "default"}
    binding = {"metadata": {"name": "b"}, "roleRef": reference, "subjects": [subject]}
    await _made(http, f"{RBAC}/namespaces/default/rolebindings", binding)
    answer = await _made(http, f"{CORE}/serviceaccounts/a/token", {"spec": {}})
    token: str = answer.json["status"]["token"]
    return token


async def _made(http: HttpClient, path: str, body: Any) -> Answer:
    answer = await http.send("POST", path, body)
    assert answer.status == 201, answer.body
    return answer


async def _raw(http: HttpClient, method: str, path: str, token: str) -> Answer:
    """With the path as it is: HTTP libraries tidy it up."""
    trusted = ssl.create_default_context(cadata=http.api.ca.decode())
    reader, writer = await asyncio.open_connection("127.0.0.1", http.api.port, ssl=trusted)
    body = b"" if method in ("GET", "HEAD") else b"{}"
    lines = (
        f"{method} {path} HTTP/1.1", "Host: localhost", f"Authorization: Bearer {token}", "Connection: close",
        "Content-Type: application/json", f"Content-Length: {len(body)}", "", "",
    )  # fmt: skip
    writer.write("\r\n".join(lines).encode() + body)
    answer = await reader.read()
    await hung_up(writer)
    head, _, content = answer.partition(b"\r\n\r\n")
    return Answer(int(head.split(b" ")[1]), content, {})
