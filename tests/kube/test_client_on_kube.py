"""The client and a real API server: who it takes us for, and what a restart of it does to us."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from random import Random

import msgspec
import pytest

from grove.api.resources import PODS
from grove.api.types.pod import Pod
from grove.kube import reflector
from grove.kube.api_errors import ApiError, ConnectionLost
from grove.kube.client import Client
from grove.kube.http_transport import HttpTransport
from grove.kube.kubeconfig import Access
from grove.kube.reflector import Reflector
from grove.kube.store import Store
from grove.kube.transport import Request, user_agent
from tests.kube.controlplane.plane import Plane, running_plane
from tests.kube.exec_credential_script import PluginScript
from tests.kube.loopback import SetClock, connected, lines_of

pytestmark = pytest.mark.kube

REVIEW = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
WHO_AM_I = Request(
    method="POST", path="/apis/authentication.k8s.io/v1/selfsubjectreviews", body=json.dumps(REVIEW).encode()
)
SERVICE_ACCOUNT = "system:serviceaccount:default:default"


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plane]:
    with running_plane(tmp_path_factory.mktemp("plane")) as plane:
        plane.kubectl("wait", "--for=create", "serviceaccount/default", "--timeout=180s")
        yield plane


def whoever(plane: Plane, **credentials: object) -> Access:
    return msgspec.structs.replace(plane.access(), token="", **credentials)


async def who_am_i(transport: HttpTransport) -> str:
    response = await transport.send(WHO_AM_I)
    if response.status != 201:
        return f"nobody ({response.status})"
    name: str = msgspec.json.decode(response.body)["status"]["userInfo"]["username"]
    return name


def taken_for(access: Access) -> str:
    async def main() -> str:
        async with connected(access) as transport:
            return await who_am_i(transport)

    return asyncio.run(main())


def test_a_token_and_a_token_file_say_who_we_are(plane: Plane, tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text(plane.kubectl("create", "token", "default"))
    assert taken_for(whoever(plane, token_file=path)) == SERVICE_ACCOUNT
    assert taken_for(plane.access()) == "admin"


def test_a_token_that_the_server_refuses_is_replaced_by_what_the_plugin_says_then(plane: Plane, tmp_path: Path) -> None:
    script = PluginScript(tmp_path)
    script.says(token="stale")
    good = PluginScript.answer(token=plane.kubectl("create", "token", "default").strip())
    script.does(f'cat "$HERE/answer.json"; printf %s \'{good}\' > "$HERE/answer.json"')
    assert taken_for(whoever(plane, plugin=script.plugin())) == SERVICE_ACCOUNT
    assert script.run_count == 2


def test_without_a_valid_token_we_are_nobody(plane: Plane) -> None:
    assert taken_for(whoever(plane, plugin=None)) == "nobody (403)"

    async def main() -> None:
        async with connected(msgspec.structs.replace(plane.access(), token="wrong")) as transport:
            await lines_of(transport, Request(method="GET", path="/api/v1/pods", query={"watch": "true"}))

    with pytest.raises(ApiError) as caught:
        asyncio.run(main())
    assert (caught.value.code, caught.value.reason, caught.value.message) == (401, "Unauthorized", "Unauthorized")


def test_the_audit_log_names_us_with_our_version(plane: Plane) -> None:
    taken_for(plane.access())

    async def main() -> None:
        # Written in batches, about every second.
        while f'"userAgent":"{user_agent()}"' not in plane.audit_log.read_text():
            await SetClock().sleep(0.1)

    asyncio.run(asyncio.wait_for(main(), 180))


def test_an_api_server_that_is_killed_and_comes_back_is_followed_again(
    plane: Plane, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reflector, "LONGEST_DELAY_SECONDS", 0.5)

    async def main() -> None:
        clock = SetClock()
        async with connected(plane.access()) as transport, asyncio.TaskGroup() as group:
            client = Client(transport, clock)
            store = Store[Pod]()
            reflector = Reflector(client, PODS, store, clock, Random(1))
            following = group.create_task(reflector.run())
            await create(client, "before")
            await until_known(store, "before")
            plane.restart("kube-apiserver")
            with pytest.raises(ConnectionLost):
                await create(client, "meanwhile")
            await asyncio.to_thread(plane.await_ready)
            await create(client, "after")
            await until_known(store, "after")
            assert reflector.restarts > 0
            following.cancel()

    asyncio.run(asyncio.wait_for(main(), 480))


async def create(client: Client, name: str) -> None:
    container = {"name": "main", "image": "busybox"}
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"containers": [container]}}
    await client.create(PODS, "default", body)


async def until_known(store: Store[Pod], name: str) -> None:
    while name not in [pod.metadata.name for pod in store.values()]:
        await SetClock().sleep(0.01)
