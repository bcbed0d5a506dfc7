"""Who we are while time passes: plugins asked anew, files replaced, and credentials that a server no longer accepts."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import pytest
from aiohttp import web

from grove.kube.api_errors import ApiError, NoCredentials
from grove.kube.credentials import EARLY_SECONDS, FILE_SECONDS, REJECTED_PAUSE_SECONDS, SHORTEST_LIFE_SECONDS
from grove.kube.http_transport import HttpTransport
from grove.kube.kubeconfig import Access
from grove.kube.transport import Request
from tests.kube.exec_credential_script import PluginScript
from tests.kube.loopback import (
    GET,
    POST,
    Authority,
    SetClock,
    client_name,
    connected,
    http_server,
    lines_of,
)

T = TypeVar("T")


class Gatekeeper:
    """A server that knows some tokens, and remembers who asked what."""

    def __init__(self, *tokens: str) -> None:
        self.tokens = set(tokens)
        self.seen: list[str] = []

    async def answer(self, http: web.BaseRequest) -> web.StreamResponse:
        token = http.headers.get("Authorization", "").removeprefix("Bearer ")
        self.seen.append(f"{http.method} {token} {await http.text()}".strip())
        if token in self.tokens:
            return web.Response(text="{}\n")
        status = {"kind": "Status", "status": "Failure", "reason": "Unauthorized", "message": "who?", "code": 401}
        return web.json_response(status, status=401)


@pytest.fixture
def script(tmp_path: Path) -> PluginScript:
    return PluginScript(tmp_path)


def talk(
    gatekeeper: Gatekeeper, ask: Callable[[HttpTransport, SetClock], Awaitable[T]], **credentials: Any
) -> T:  # fmt: skip
    async def main() -> T:
        clock = SetClock()
        async with http_server(gatekeeper.answer) as url:
            access = Access(server=url, source="test", **credentials)
            async with connected(access, clock) as transport:
                return await ask(transport, clock)

    return asyncio.run(main())


async def statuses(transport: HttpTransport, *requests: Request) -> list[int]:
    return [(await transport.send(request)).status for request in requests]


# --- refused ---------------------------------------------------------------------------------------------------------


def test_a_plugin_is_asked_again_when_its_token_is_refused_and_the_request_is_repeated(script: PluginScript) -> None:
    gatekeeper = Gatekeeper("new")

    async def ask(transport: HttpTransport, _: SetClock) -> list[int]:
        script.says(token="old").does('cat "$HERE/answer.json"; mv "$HERE/later.json" "$HERE/answer.json" || true')
        (script.folder / "later.json").write_text((script.folder / "answer.json").read_text().replace("old", "new"))
        return await statuses(transport, POST, GET)

    assert talk(gatekeeper, ask, plugin=script.plugin()) == [200, 200]
    assert gatekeeper.seen == ["POST old {}", "POST new {}", "GET new"]
    assert script.run_count == 2


def test_a_watch_that_is_refused_is_opened_again_with_new_credentials(tmp_path: Path) -> None:
    gatekeeper = Gatekeeper("new")
    path = tmp_path / "token"
    path.write_text("old")

    async def ask(transport: HttpTransport, _: SetClock) -> list[bytes]:
        with pytest.raises(ApiError, match=r"401 Unauthorized: who\?"):
            await lines_of(transport)
        path.write_text("new\n")
        return await lines_of(transport)

    assert talk(gatekeeper, ask, token_file=path) == [b"{}"]
    assert gatekeeper.seen == ["GET old", "GET old", "GET new"]


def test_a_server_that_accepts_nothing_is_asked_twice_and_its_plugin_not_at_every_request(script: PluginScript) -> None:
    gatekeeper = Gatekeeper()
    script.says(token="t")

    async def ask(transport: HttpTransport, clock: SetClock) -> tuple[list[int], list[int]]:
        found = await statuses(transport, GET, GET, GET)
        counts = [len(gatekeeper.seen), script.run_count]
        clock.ahead = REJECTED_PAUSE_SECONDS + 1
        found += await statuses(transport, GET)
        return found, [*counts, len(gatekeeper.seen), script.run_count]

    assert talk(gatekeeper, ask, plugin=script.plugin()) == ([401] * 4, [4, 2, 6, 3])


@pytest.mark.parametrize("is_watch", [False, True], ids=["request", "watch"])
def test_when_the_token_is_refused_and_its_plugin_fails_the_plugins_words_are_heard(
    script: PluginScript, is_watch: bool
) -> None:
    gatekeeper = Gatekeeper("t")
    script.says(token="t")

    async def ask(transport: HttpTransport, _: SetClock) -> list[int]:
        found = await statuses(transport, GET)
        gatekeeper.tokens.clear()
        script.does("echo log in again >&2; exit 1")
        with pytest.raises(NoCredentials, match="log in again"):
            await (lines_of(transport) if is_watch else transport.send(GET))
        return found

    assert talk(gatekeeper, ask, plugin=script.plugin()) == [200]
    assert gatekeeper.seen == ["GET t", "GET t"]


def test_a_token_that_cannot_change_is_not_tried_twice() -> None:
    gatekeeper = Gatekeeper()
    assert talk(gatekeeper, lambda transport, _: statuses(transport, GET), token="t") == [401]
    assert gatekeeper.seen == ["GET t"]


def test_of_many_refused_requests_one_asks_the_plugin_and_all_are_repeated(script: PluginScript) -> None:
    gatekeeper = Gatekeeper("first")
    script.says(token="first")

    async def ask(transport: HttpTransport, _: SetClock) -> list[int]:
        await transport.send(GET)
        gatekeeper.tokens = {"second"}
        script.says(token="second")
        return [r.status for r in await asyncio.gather(*(transport.send(POST) for _ in range(50)))]

    assert talk(gatekeeper, ask, plugin=script.plugin()) == [200] * 50
    assert script.run_count == 2
    assert gatekeeper.seen.count("POST second {}") == 50


def test_a_refused_request_that_is_given_up_during_the_run_does_not_fail_the_others(script: PluginScript) -> None:
    gatekeeper = Gatekeeper("old", "new")
    script.says(token="old")

    async def ask(transport: HttpTransport, _: SetClock) -> list[int]:
        await transport.send(GET)
        gatekeeper.tokens.remove("old")
        script.says(token="new").does(
            'if [ ! -e "$HERE/hung" ]; then : > "$HERE/hung"; exec sleep 1000; fi; cat "$HERE/answer.json"'
        )
        first = asyncio.create_task(transport.send(POST))
        while not (script.folder / "hung").exists():
            await asyncio.wait([first], timeout=0.01)
        others = [asyncio.create_task(transport.send(POST)) for _ in range(5)]
        while len(gatekeeper.seen) < 7:
            await asyncio.wait([first], timeout=0.01)
        first.cancel()
        return [response.status for response in await asyncio.gather(*others)]

    assert talk(gatekeeper, ask, plugin=script.plugin()) == [200] * 5
    assert script.run_count == 3


# --- plugins over time -----------------------------------------------------------------------------------------------


def test_many_requests_at_once_run_the_plugin_once(script: PluginScript) -> None:
    script.says(token="t")

    async def ask(transport: HttpTransport, _: SetClock) -> list[int]:
        return [r.status for r in await asyncio.gather(*(transport.send(GET) for _ in range(50)))]

    assert talk(Gatekeeper("t"), ask, plugin=script.plugin()) == [200] * 50
    assert script.run_count == 1


def test_many_requests_that_wait_for_a_failing_plugin_fail_with_its_one_run(script: PluginScript) -> None:
    gatekeeper = Gatekeeper()
    script.does("echo no network >&2; exit 1")

    async def ask(transport: HttpTransport, _: SetClock) -> list[str]:
        results = await asyncio.gather(*(transport.send(GET) for _ in range(20)), return_exceptions=True)
        return [type(result).__name__ for result in results if "no network" in str(result)]

    assert talk(gatekeeper, ask, plugin=script.plugin()) == ["NoCredentials"] * 20
    assert (script.run_count, gatekeeper.seen) == (1, [])


def test_a_request_that_is_given_up_during_the_run_does_not_fail_the_others(script: PluginScript) -> None:
    """The run ends with the one who started it; the next in line starts another."""
    script.says(token="t").does(
        'if [ ! -e "$HERE/hung" ]; then : > "$HERE/hung"; exec sleep 1000; fi; cat "$HERE/answer.json"'
    )

    async def ask(transport: HttpTransport, _: SetClock) -> list[int]:
        first = asyncio.create_task(transport.send(GET))
        others = [asyncio.create_task(transport.send(GET)) for _ in range(5)]
        while not (script.folder / "hung").exists():
            await asyncio.wait([first], timeout=0.01)
        first.cancel()
        return [response.status for response in await asyncio.gather(*others)]

    assert talk(Gatekeeper("t"), ask, plugin=script.plugin()) == [200] * 5
    assert script.run_count == 2


@pytest.mark.parametrize(
    ("life", "age", "run_count"),
    [
        pytest.param(3600, 3600 - EARLY_SECONDS - 5, 1, id="not yet"),
        pytest.param(3600, 3600 - EARLY_SECONDS + 5, 2, id="a minute before the end"),
        pytest.param(100, 80, 1, id="short life, not yet"),
        pytest.param(100, 95, 2, id="short life, a tenth before the end"),
        pytest.param(-100, SHORTEST_LIFE_SECONDS - 3, 1, id="expired when it came, just asked"),
        pytest.param(-100, SHORTEST_LIFE_SECONDS + 3, 2, id="expired when it came, a moment later"),
    ],
)
def test_a_plugin_is_asked_again_shortly_before_its_answer_expires(
    script: PluginScript, life: float, age: float, run_count: int
) -> None:
    async def ask(transport: HttpTransport, clock: SetClock) -> list[int]:
        script.says(token="t", expires_at=clock.now() + timedelta(seconds=life))
        found = await statuses(transport, GET, GET)
        clock.ahead = age
        return found + await statuses(transport, GET, GET)

    assert talk(Gatekeeper("t"), ask, plugin=script.plugin()) == [200] * 4
    assert script.run_count == run_count


def test_an_answer_without_expiry_is_kept(script: PluginScript) -> None:
    script.says(token="t")

    async def ask(transport: HttpTransport, clock: SetClock) -> list[int]:
        found = await statuses(transport, GET)
        clock.ahead = 1e8
        return found + await statuses(transport, GET)

    assert talk(Gatekeeper("t"), ask, plugin=script.plugin()) == [200, 200]
    assert script.run_count == 1


def test_a_plugin_that_fails_early_leaves_the_old_answer_in_use_until_it_expires(script: PluginScript) -> None:
    async def ask(transport: HttpTransport, clock: SetClock) -> tuple[list[int], list[int]]:
        script.says(token="t", expires_at=clock.now() + timedelta(seconds=3600))
        found = await statuses(transport, GET)
        script.does("echo no network >&2; exit 1")
        clock.ahead = 3600 - EARLY_SECONDS / 2
        found += await statuses(transport, GET, GET)
        counts = [script.run_count]
        clock.ahead = 3600 + 1
        with pytest.raises(NoCredentials, match="no network"):
            await transport.send(GET)
        return found, [*counts, script.run_count]

    assert talk(Gatekeeper("t"), ask, plugin=script.plugin()) == ([200] * 3, [2, 3])


def test_while_a_plugin_is_asked_early_one_request_waits_and_the_others_go_on(script: PluginScript) -> None:
    gatekeeper = Gatekeeper("old", "new")

    async def ask(transport: HttpTransport, clock: SetClock) -> list[int]:
        script.says(token="old", expires_at=clock.now() + timedelta(seconds=3600))
        found = await statuses(transport, GET)
        script.says(token="new").does(
            ': > "$HERE/asked"; while [ ! -e "$HERE/go" ]; do sleep 0.01; done; cat "$HERE/answer.json"'
        )
        clock.ahead = 3600 - EARLY_SECONDS / 2
        waiting = asyncio.create_task(transport.send(POST))
        while not (script.folder / "asked").exists():
            await asyncio.wait([waiting], timeout=0.01)
        found += await statuses(transport, GET, GET)
        (script.folder / "go").touch()
        return [*found, (await waiting).status]

    assert talk(gatekeeper, ask, plugin=script.plugin()) == [200] * 4
    assert gatekeeper.seen == ["GET old", "GET old", "GET old", "POST new {}"]
    assert script.run_count == 2


def test_a_plugin_that_fails_is_asked_again_by_the_next_request(script: PluginScript) -> None:
    script.does("exit 1")

    async def ask(transport: HttpTransport, _: SetClock) -> list[int]:
        with pytest.raises(NoCredentials):
            await transport.send(GET)
        script.says(token="t").does('cat "$HERE/answer.json"')
        return await statuses(transport, GET)

    assert talk(Gatekeeper("t"), ask, plugin=script.plugin()) == [200]


# --- certificates ----------------------------------------------------------------------------------------------------


async def names_seen(
    authority: Authority, access: Access, change: Callable[[int, SetClock], None], rounds: int
) -> list[str]:
    """Whose certificate the server saw, each time after a change."""
    clock = SetClock()

    async def answer(http: web.BaseRequest) -> web.StreamResponse:
        return web.Response(text=client_name(http))

    async with http_server(answer, tls=authority.context(asks_clients=True)) as url:
        access = msgspec.structs.replace(access, server=url, certificate_authority=authority.pem)
        async with connected(access, clock) as transport:
            seen = []
            for number in range(rounds):
                change(number, clock)
                seen.append((await transport.send(GET)).body.decode())
            return seen


def test_a_plugin_may_give_a_certificate_and_later_another_one(script: PluginScript) -> None:
    authority = Authority()

    own, first, later = (authority.client(name) for name in ("own", "first", "later"))

    def change(number: int, clock: SetClock) -> None:
        pair = (first, first, later, None)[number]
        data = pair and {"clientCertificateData": pair.certificate.decode(), "clientKeyData": pair.key.decode()}
        script.says(expires_at=datetime(2000, 1, 1, tzinfo=UTC), **(data or {"token": "t"}))
        clock.ahead = number * 60.0

    access = Access(
        server="", source="test", plugin=script.plugin(), client_certificate=own.certificate, client_key=own.key
    )
    assert asyncio.run(names_seen(authority, access, change, 4)) == ["first", "first", "later", "own"]


def test_a_certificate_of_a_plugin_that_is_none_is_an_error(script: PluginScript) -> None:
    script.says(clientCertificateData="hidden", clientKeyData="hidden")
    access = Access(server="", source="test", plugin=script.plugin())
    with pytest.raises(NoCredentials, match="a certificate or key that cannot be used") as caught:
        asyncio.run(names_seen(Authority(), access, lambda _, __: None, 1))
    assert "hidden" not in str(caught.value)


def test_certificate_files_are_read_again_when_they_were_replaced(tmp_path: Path) -> None:
    """In the middle of the replacement, when the key is not the certificate's, the old pair stays in use."""
    authority = Authority()
    first, second = authority.client("first"), authority.client("second")
    certificate, key = tmp_path / "me.crt", tmp_path / "me.key"
    key.write_bytes(first.key)

    def change(number: int, clock: SetClock) -> None:
        clock.ahead = number * (FILE_SECONDS + 1)
        match number:
            case 1:
                certificate.write_bytes(second.certificate)
            case 2:
                key.write_bytes(second.key)
            case 3:
                certificate.unlink()

    access = Access(
        server="",
        source="test",
        client_certificate=first.certificate,
        client_certificate_file=certificate,
        client_key=first.key,
        client_key_file=key,
    )
    assert asyncio.run(names_seen(authority, access, change, 4)) == ["first", "first", "second", "second"]


def test_a_replaced_authority_is_believed(tmp_path: Path) -> None:
    old, new = Authority(), Authority()
    path = tmp_path / "ca.crt"
    path.write_bytes(new.pem)

    async def answer(_: web.BaseRequest) -> web.StreamResponse:
        return web.Response()

    async def main() -> int:
        async with http_server(answer, tls=new.context()) as url:
            access = Access(server=url, source="t", certificate_authority=old.pem, certificate_authority_file=path)
            async with connected(access) as transport:
                return (await transport.send(GET)).status

    assert asyncio.run(main()) == 200


# --- token files -----------------------------------------------------------------------------------------------------


def test_a_token_file_is_read_again_after_a_minute(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("first\n")
    gatekeeper = Gatekeeper("first", "second", "third")

    async def ask(transport: HttpTransport, clock: SetClock) -> None:
        await transport.send(GET)
        path.write_text("second\n")
        await transport.send(GET)
        clock.ahead = FILE_SECONDS + 1
        await transport.send(GET)
        # Being replaced: empty, half written, gone.
        for number, content in enumerate(("", "a b\nc", None), start=2):
            path.unlink() if content is None else path.write_text(content)
            clock.ahead = number * (FILE_SECONDS + 1)
            await transport.send(GET)

    talk(gatekeeper, ask, token_file=path)
    assert gatekeeper.seen == ["GET first", "GET first"] + ["GET second"] * 4


def test_without_any_token_in_its_file_nothing_is_sent(tmp_path: Path) -> None:
    gatekeeper = Gatekeeper()
    with pytest.raises(NoCredentials, match="token: no token can be read; check tokenFile"):
        talk(gatekeeper, lambda transport, _: transport.send(GET), token_file=tmp_path / "token")
    assert gatekeeper.seen == []
