"""A world in which KAI or Volcano schedules: their kinds are served, a stand-in binds, and the operator knows them."""

from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import yaml

from grove.api import labels
from grove.api.resources import KAI_QUEUES, VOLCANO_QUEUES, Resource
from grove.api.types.meta import JsonObject
from grove.api.types.scheduler_object import SchedulerObject
from grove.clock import Clock
from grove.controller.controller_options import ControllerOptions
from grove.controller.manager import Controller
from grove.kube.client import Client
from grove.kube.transport import MERGE_PATCH, Request, Response
from grove.sim.simulation import SimulatedApply, SimulatedOperator, World
from tests.backends.fake_schedulers import Dialect, FakeScheduler, KaiDialect, VolcanoDialect

CRDS = Path(__file__).parent / "crds"
KAI = "kai-scheduler"
VOLCANO = "volcano"
QUEUE = "research"
_DIALECTS: dict[str, Dialect] = {KAI: KaiDialect(), VOLCANO: VolcanoDialect()}
_FILES = {KAI: "kai.yaml", VOLCANO: "volcano.yaml"}
_QUEUES = {KAI: KAI_QUEUES, VOLCANO: VOLCANO_QUEUES}


class SchedulerWorld(World):
    """Sets that name no scheduler get this one: it is the default of the installation.

    `is_installed`: its kinds are served and its queue is there from the start.
    """

    def __init__(self, scheduler: str, *, is_installed: bool = True, **fields: Any) -> None:
        super().__init__(operator=self._operator, **fields)
        self.scheduler = scheduler
        self._is_installed = is_installed

    def install(self) -> None:
        """Serve the scheduler's kinds, without a moment passing."""
        for definition in definitions(_FILES[self.scheduler]):
            self._put("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition)

    def open_queue(self, name: str = QUEUE, state: str = "Open") -> None:
        """Make a queue, or change its state; KAI's have none."""
        kind = self.queues
        body = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": name}, "spec": {}}
        if not any(queue.metadata.name == name for queue in self.objects(kind)):
            self._put(kind.path(), body)
        if self.scheduler == VOLCANO:
            self._patch(kind.path("", name, "status"), {"status": {"state": state}})

    @property
    def queues(self) -> Resource[SchedulerObject]:
        return _QUEUES[self.scheduler]

    @property
    def podgroups(self) -> Resource[SchedulerObject]:
        return _DIALECTS[self.scheduler].kinds[0]

    async def apply(self, manifest: JsonObject | Path) -> tuple[SimulatedApply, ...]:
        """As a user of this scheduler writes it: sets name a queue."""
        documents = (manifest,) if isinstance(manifest, dict) else _documents(manifest)
        answers = [await super(SchedulerWorld, self).apply(self._in_queue(document)) for document in documents]
        return tuple(applied for answer in answers for applied in answer)

    def _in_queue(self, document: JsonObject) -> JsonObject:
        if document["kind"] != "PodCliqueSet":
            return document
        field, key = (
            ("labels", "kai.scheduler/queue")
            if self.scheduler == KAI
            else ("annotations", "scheduling.grove.io/volcano-queue")
        )
        metadata = document["metadata"]
        return {**document, "metadata": {**metadata, field: {key: QUEUE, **metadata.get(field, {})}}}

    def _start_components(self) -> None:
        if self._is_installed:
            self.install()
            self.open_queue()
        super()._start_components()
        client = self._cluster_client(self.scheduler)
        fake = FakeScheduler(client, self.clock, self._random(self.scheduler), _DIALECTS[self.scheduler])
        self._start_task(self.scheduler, fake.run())

    def _operator(self, client: Client, clock: Clock, random: Random) -> SimulatedOperator:
        settings = ControllerOptions(schedulers=("default-scheduler", self.scheduler), default_scheduler=self.scheduler)
        return Controller(client, clock, random, settings)

    def _put(self, path: str, document: JsonObject) -> None:
        self._expect_done(self.server.handle(Request(method="POST", path=path, body=msgspec.json.encode(document))))

    def _patch(self, path: str, patch: JsonObject) -> None:
        body = msgspec.json.encode(patch)
        request = Request(method="PATCH", path=path, body=body, content_type=MERGE_PATCH)
        self._expect_done(self.server.handle(request))

    @staticmethod
    def _expect_done(response: Response) -> None:
        assert response.status < 300, response.body


def definition_names() -> list[str]:
    """Of the kinds of both, as kubectl calls them. Kubernetes' own are not served so where they are built in."""
    return [one["metadata"]["name"] for file in _FILES.values() for one in definitions(file)]


def definitions(file: str) -> tuple[JsonObject, ...]:
    """The CustomResourceDefinitions of a scheduler."""
    return _documents(CRDS / file)


def without_uids(spec: Any) -> Any:
    """What a mirror says, without the uids of cliques: they differ from run to run."""
    if isinstance(spec, dict):
        return {k: "(its uid)" if k == labels.PODCLIQUE_UID else without_uids(one) for k, one in spec.items()}
    return [without_uids(one) for one in spec] if isinstance(spec, list) else spec


@cache
def _documents(path: Path) -> tuple[JsonObject, ...]:
    """Return the documents of a file, which nobody changes: a world per test would parse it hundreds of times."""
    return tuple(document for document in yaml.safe_load_all(path.read_text()) if document)
