"""Bodies that are made to be much work, and more questions than can be answered."""

import asyncio
import base64
import gzip
import ssl
import sys
from random import Random

import aiohttp
import msgspec
import pytest

from grove.admission import webhook_server as webhooks
from grove.admission.admission_review import (
    MOST_LEVELS,
    MOST_VALUES,
    MalformedReviewError,
    OversizedReviewError,
    decode_review,
)
from grove.admission.thread import SWITCH_SECONDS, CrossLoopReader, ServerThread
from grove.admission.webhook_app import WebhookApp, WebhookOptions
from grove.admission.webhook_server import LARGEST_BODY
from grove.api.resources import PODCLIQUESETS, SECRETS
from grove.api.types.meta import JsonObject
from grove.clock import LoopClock
from grove.errors import UserError
from grove.installation.webhook_configurations import DEFAULT_SET_PATH, VALIDATE_SCALE_PATH, VALIDATE_SET_PATH
from grove.kube.api_errors import ApiError
from tests.admission.shapes import SHAPES
from tests.admission.test_webhook_server import GOOD
from tests.admission.webhook_server import Asked, asking, question
from tests.api.manifests import manifest
from tests.e2e.ports import free_port

PCS = "podcliquesets"
PATHS = (DEFAULT_SET_PATH, VALIDATE_SET_PATH)


def _review(object_: bytes) -> bytes:
    """A question about an object in these very words."""
    return msgspec.json.encode(
        {
            "apiVersion": "admission.k8s.io/v1",
            "kind": "AdmissionReview",
            "request": {
                "uid": "q1",
                "operation": "CREATE",
                "resource": {"group": "grove.io", "version": "v1alpha1", "resource": PCS},
                "object": msgspec.Raw(object_),
            },
        }
    )


def _nested(levels: int) -> bytes:
    """A set with an annotation of which nothing is known but that it is deep."""
    return b'{"spec":{"template":' + b'{"a":' * (levels - 3) + b"{}" + b"}" * (levels - 3) + b"}}"


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    "body",
    [
        pytest.param(_review(_nested(100_000)), id="100,000 objects"),
        pytest.param(_review(b'{"spec":' + b"[" * 100_000 + b"]" * 100_000 + b"}"), id="100,000 lists"),
        pytest.param(_review(_nested(MOST_LEVELS + 1)), id="one level more than are read"),
    ],
)
def test_what_is_nested_too_deeply_is_a_bad_request(path: str, body: bytes) -> None:
    async def story(asked: Asked) -> None:
        answer = await asked.send(path, body)
        assert (answer.status, answer.text.strip()) == (
            400,
            f"not an AdmissionReview: nested deeper than {MOST_LEVELS} levels",
        )

    asking(story)


def test_what_is_nested_as_deeply_as_may_be_is_judged() -> None:
    assert decode_review(_review(_nested(MOST_LEVELS))).object is not None
    with pytest.raises(MalformedReviewError):
        decode_review(_review(_nested(MOST_LEVELS + 1)))


@pytest.mark.parametrize("path", PATHS)
def test_eight_megabytes_of_empty_objects_are_too_large(path: str) -> None:
    async def story(asked: Asked) -> None:
        body = _review(b'{"spec":[' + b",".join([b"{}"] * 2_700_000) + b"]}")
        assert 8_000_000 < len(body) < LARGEST_BODY
        answer = await asked.send(path, body)
        assert (answer.status, answer.text.strip()) == (413, f"the body has more than {MOST_VALUES} values")

    asking(story)


def test_as_many_values_as_may_be_are_read() -> None:
    around = _review(b'{"spec":[0]}').count(b",") + _review(b'{"spec":[0]}').count(b"{") + 1
    most = b",".join([b"0"] * (MOST_VALUES - around + 1))
    assert decode_review(_review(b'{"spec":[' + most + b"]}")).object is not None
    with pytest.raises(OversizedReviewError):
        decode_review(_review(b'{"spec":[' + most + b",0]}"))


def test_a_body_that_unfolds_to_many_times_its_size_is_a_bad_request() -> None:
    async def story(asked: Asked) -> None:
        answer = await asked.send(VALIDATE_SET_PATH, gzip.compress(b" " * 100_000_000), Content_Encoding="gzip")
        assert (answer.status, answer.text.startswith("not an AdmissionReview")) == (400, True)

    asking(story)


def test_a_ring_of_8000_cliques_is_refused_over_http_in_one_line() -> None:
    async def story(asked: Asked) -> None:
        ring = SHAPES["one ring"](8_000)
        response = (await asked.ask(VALIDATE_SET_PATH, question(PCS, ring))).response
        message = response["status"]["message"]
        assert "spec.template.cliques: Too many: 8000: must have at most 1000 items" in message
        assert "\n" not in message

    asking(story)


def test_more_questions_than_are_answered_at_a_time_are_turned_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhooks, "MAX_REQUESTS", 2)

    async def story(asked: Asked) -> None:
        """Two that never send all of their bodies, and one that does."""
        slow = [await _half_a_question(asked) for _ in range(2)]
        turned_away = await asked.send(VALIDATE_SET_PATH, GOOD)
        for writer in slow:
            writer.close()
        assert (turned_away.status, turned_away.text) == (503, "2 requests are in progress: try again\n")

    asking(story)


def test_all_bodies_together_may_hold_so_much_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhooks, "MAX_BODY_BYTES", len(GOOD) + 10)

    async def story(asked: Asked) -> None:
        slow = await _half_a_question(asked, sent=11)
        turned_away = await asked.send(VALIDATE_SET_PATH, GOOD)
        assert (turned_away.status, "bytes of requests are in progress" in turned_away.text) == (503, True)
        slow.close()
        clock = LoopClock.starting_now()
        async with asyncio.timeout(20):
            while (await asked.send(VALIDATE_SET_PATH, GOOD)).status == 503:
                await clock.sleep(0.01)

    asking(story)


async def _half_a_question(asked: Asked, sent: int = 1) -> asyncio.StreamWriter:
    """A request whose body is being read, and whose end never comes."""
    _, writer = await asyncio.open_connection("127.0.0.1", asked.server.port, ssl=asked.client_context())
    head = f"POST {VALIDATE_SET_PATH} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    writer.write(f"{head}Content-Length: 9999\r\n\r\n".encode() + b" " * sent)
    await writer.drain()
    clock = LoopClock.starting_now()
    before = asked.server.held_bytes
    async with asyncio.timeout(20):
        while asked.server.held_bytes < before + sent:
            await clock.sleep(0.005)
    return writer


# --- on a thread of its own ------------------------------------------------------------------------------------------


class Spinning:
    """A server that takes all the time it gets, and ends when the other event loop has had some too."""

    def __init__(self) -> None:
        self.turns = 0

    async def start(self) -> None:
        pass

    async def stop(self) -> None:
        while self.turns < 20:
            pass


def test_a_server_that_works_without_a_pause_leaves_time_for_the_other_event_loop() -> None:
    async def story() -> None:
        clock, server = LoopClock.starting_now(), Spinning()

        async def take_turns() -> None:
            while True:
                server.turns += 1
                await clock.sleep(0.001)

        other = asyncio.create_task(take_turns())
        usual = sys.getswitchinterval()
        async with asyncio.timeout(60), ServerThread(server):
            assert sys.getswitchinterval() == pytest.approx(SWITCH_SECONDS)
        other.cancel()
        assert server.turns >= 20
        assert sys.getswitchinterval() == usual

    asyncio.run(story())


class NoPort(Spinning):
    async def start(self) -> None:
        raise UserError("webhooks: port 1 cannot be used")


def test_a_server_that_cannot_start_says_why_to_whoever_started_it() -> None:
    async def story() -> None:
        async with ServerThread(NoPort()):
            raise AssertionError("it started")

    with pytest.raises(UserError, match="port 1 cannot be used"):
        asyncio.run(story())


def test_questions_are_answered_on_the_thread_with_looks_made_by_the_loop_that_has_the_connections() -> None:
    async def story(asked: Asked) -> None:
        await asked.user.create(PODCLIQUESETS, "default", manifest())
        other = Asked(None, reader=CrossLoopReader(asked.user))
        async with ServerThread(other.server):
            other.material = asked.material
            other.tls.use(asked.material.certificate, asked.material.key)
            scale: JsonObject = {"metadata": {"name": "web", "namespace": "default"}, "spec": {"replicas": 200_000}}
            missing: JsonObject = {"metadata": {"name": "other", "namespace": "default"}, "spec": {"replicas": 1}}
            refused = (await other.ask(VALIDATE_SCALE_PATH, question(PCS, scale, scale))).response
            absent = (await other.ask(VALIDATE_SCALE_PATH, question(PCS, missing, missing))).response
        assert "spec.replicas: Invalid value: 200000" in refused["status"]["message"]
        assert absent["status"]["code"] == 404

    asking(story)


def test_the_webhooks_of_an_operator_serve_from_their_thread_until_they_are_stopped() -> None:
    async def story(asked: Asked) -> None:
        port = free_port()
        options = WebhookOptions(
            host="127.0.0.1", port=port, namespace="default", secret_name="certs", url=f"https://127.0.0.1:{port}"
        )
        serving = WebhookApp(asked.user, asked.clock, Random(1), options)
        running = asyncio.create_task(serving.run())
        async with asyncio.timeout(60):
            while not serving.is_ready:
                await asked.clock.sleep(0.01)
        secret = await asked.user.get(SECRETS, "default", "certs")
        context = ssl.create_default_context(cadata=base64.b64decode(secret.data["ca.crt"]).decode())
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context)) as session:
            url = f"https://127.0.0.1:{port}{VALIDATE_SET_PATH}"
            async with session.post(url, data=GOOD, headers={"Content-Type": "application/json"}) as response:
                assert (await response.json())["response"]["allowed"] is True
        running.cancel()
        await asyncio.wait([running])
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", port)

    asking(story)


def test_a_look_that_fails_fails_where_it_was_asked_for() -> None:
    async def story(asked: Asked) -> None:
        reader = CrossLoopReader(asked.user)

        def look() -> None:
            asyncio.run(reader.get(PODCLIQUESETS, "default", "absent"))

        with pytest.raises(ApiError) as raised:
            await asyncio.to_thread(look)
        assert raised.value.is_not_found

    asking(story)


def test_a_connection_to_the_webhooks_survives_between_questions() -> None:
    async def story(asked: Asked) -> None:
        connector = aiohttp.TCPConnector(ssl=asked.client_context(), limit=1)
        async with aiohttp.ClientSession(connector=connector) as session:
            for _ in range(3):
                url = f"https://127.0.0.1:{asked.server.port}{VALIDATE_SET_PATH}"
                async with session.post(url, data=GOOD, headers={"Content-Type": "application/json"}) as response:
                    assert response.status == 200
            assert asked.server.connection_count == 1

    asking(story)
