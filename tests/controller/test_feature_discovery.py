"""What the API server offers to native gangs: the probe, against servers with each combination of feature gates."""

import msgspec
import pytest

from grove.api.types.meta import JsonObject
from grove.backends.native_podgroups import NativeFeatures
from grove.clock import LoopClock
from grove.controller.feature_discovery import find_features, read_features
from grove.kube.api_errors import ApiError, ConnectionLost
from grove.kube.client import Client
from grove.kube.transport import Request, Response
from grove.sim.simulation import EPOCH
from grove.sim.virtual_clock import run_virtual
from tests.kube.scripted import ok, refusal

BETA = "/apis/scheduling.k8s.io/v1beta1"
ALPHA = "/apis/scheduling.k8s.io/v1alpha3"
EMBEDDED = "/readyz/gang-scheduler"


class GatedServer:
    """Answers discovery and dry runs as an API server with these gates does: what is off is dropped silently."""

    def __init__(
        self,
        *,
        serves: tuple[str, ...] = (),
        keeps_group: bool = False,
        keeps: tuple[str, ...] = (),
        answers: dict[str, Response | ApiError] | None = None,
    ) -> None:
        self._serves = serves
        self._keeps_group = keeps_group
        self._keeps = keeps
        # What is answered instead, by the end of the path.
        self._answers = answers or {}
        self.requests: list[Request] = []

    async def send(self, request: Request) -> Response:
        self.requests.append(request)
        for end, answer in self._answers.items():
            if request.path.endswith(end):
                if isinstance(answer, ApiError):
                    raise answer
                return answer
        if request.method == "GET":
            return self._discovery(request.path)
        assert request.query == {"dryRun": "All"}
        return self._tried(request.path, msgspec.json.decode(request.body))

    def _discovery(self, path: str) -> Response:
        kinds = {BETA: ["podgroups", "podgroups/status", "workloads"], ALPHA: ["compositepodgroups", "podgroups"]}
        if path not in self._serves:
            return refusal(404, "NotFound")
        return ok({"kind": "APIResourceList", "resources": [{"name": name} for name in kinds.get(path, [])]})

    def _tried(self, path: str, body: JsonObject) -> Response:
        spec = dict(body["spec"])
        if path.endswith("/pods") and not self._keeps_group:
            del spec["schedulingGroup"]
        if path.endswith("/podgroups"):
            dropped = {"parentCompositePodGroupName", "schedulingConstraints"} - set(self._keeps)
            spec = {field: value for field, value in spec.items() if field not in dropped}
        return Response(status=201, body=msgspec.json.encode({**body, "spec": spec}))

    def stream(self, request: Request) -> object:
        raise AssertionError("a probe follows nothing")


def found(server: GatedServer) -> NativeFeatures:
    return run_virtual(_find(server))


async def _find(server: GatedServer) -> NativeFeatures:
    return await find_features(Client(server, LoopClock(EPOCH)))  # type: ignore[arg-type]


async def _see(server: GatedServer) -> NativeFeatures:
    return await read_features(Client(server, LoopClock(EPOCH)))  # type: ignore[arg-type]


BOTH = ("parentCompositePodGroupName", "schedulingConstraints")


@pytest.mark.parametrize(
    ("server", "why"),
    [
        pytest.param(GatedServer(), "does not serve PodGroup", id="defaults"),
        pytest.param(GatedServer(keeps_group=True), "does not serve PodGroup", id="a gate without the API"),
        pytest.param(GatedServer(serves=(BETA,)), "drops the schedulingGroup", id="the API without the gate"),
        pytest.param(
            GatedServer(serves=(BETA, ALPHA), keeps=BOTH),
            "drops the schedulingGroup",
            id="all kinds, pods without groups",
        ),
    ],
)
def test_there_are_no_gangs_and_the_reason_is_said(server: GatedServer, why: str) -> None:
    features = found(server)
    assert msgspec.structs.replace(features, why="") == NativeFeatures()
    assert why in features.why
    assert "docs/how-to/choose-a-scheduler.md" in features.why


@pytest.mark.parametrize(
    ("server", "features"),
    [
        pytest.param(
            GatedServer(serves=(BETA,), keeps_group=True), NativeFeatures(groups=True), id="GenericWorkload and v1beta1"
        ),
        pytest.param(
            GatedServer(serves=(BETA, ALPHA), keeps_group=True, keeps=BOTH),
            NativeFeatures(groups=True, composites=True, topology=True),
            id="the three gates",
        ),
        pytest.param(
            GatedServer(serves=(BETA,), keeps_group=True, keeps=BOTH),
            NativeFeatures(groups=True, topology=True),
            id="a parent is kept, and no kind to name",
        ),
        pytest.param(
            GatedServer(serves=(BETA, ALPHA), keeps_group=True),
            NativeFeatures(groups=True),
            id="the kind is served, and groups drop their parent",
        ),
        pytest.param(
            GatedServer(serves=(BETA,), keeps_group=True, keeps=("schedulingConstraints",)),
            NativeFeatures(groups=True, topology=True),
            id="topology alone",
        ),
        pytest.param(
            GatedServer(serves=(EMBEDDED, BETA), keeps_group=True),
            NativeFeatures(reads_gangs=True),
            id="the embedded cluster, whose scheduler reads PodGangs",
        ),
    ],
)
def test_what_is_found(server: GatedServer, features: NativeFeatures) -> None:
    assert found(server) == features


@pytest.mark.parametrize("code", [400, 403, 404, 409, 422])
def test_a_dry_run_that_is_refused_counts_as_dropped(code: int) -> None:
    refused = GatedServer(serves=(BETA, ALPHA), keeps=BOTH, answers={"/pods": refusal(code, "No")})
    assert not found(refused).groups
    server = GatedServer(serves=(BETA, ALPHA), keeps_group=True, answers={"/podgroups": refusal(code, "No")})
    assert found(server) == NativeFeatures(groups=True)


@pytest.mark.parametrize("answer", [refusal(500, "InternalError"), refusal(503, "Unavailable"), ConnectionLost("cut")])
@pytest.mark.parametrize("end", [EMBEDDED, BETA, ALPHA, "/pods", "/podgroups"])
def test_a_server_that_does_not_answer_proves_nothing(end: str, answer: Response | ApiError) -> None:
    server = GatedServer(serves=(BETA, ALPHA), keeps_group=True, keeps=BOTH, answers={end: answer})
    with pytest.raises(ApiError):
        found(server)


def test_nothing_is_stored_by_a_probe() -> None:
    server = GatedServer(serves=(BETA, ALPHA), keeps_group=True, keeps=BOTH)
    found(server)
    writes = [request for request in server.requests if request.method != "GET"]
    assert [(request.method, request.query) for request in writes] == [("POST", {"dryRun": "All"})] * 2


def test_who_only_looks_asks_discovery_alone() -> None:
    server = GatedServer(serves=(BETA, ALPHA))
    assert run_virtual(_see(server)) == NativeFeatures(groups=True, composites=True, topology=True)
    assert {request.method for request in server.requests} == {"GET"}
    assert run_virtual(_see(GatedServer(serves=(BETA,)))) == NativeFeatures(groups=True)
    assert run_virtual(_see(GatedServer())) == NativeFeatures()
    assert run_virtual(_see(GatedServer(serves=(EMBEDDED,)))) == NativeFeatures(reads_gangs=True)
