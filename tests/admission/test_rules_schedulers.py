"""What the scheduler that a set chose has against it: queues, topology; and that nothing old is frozen by it."""

from typing import Any

import msgspec
import pytest

from grove.admission.policy import AdmissionLookups
from grove.api.resources import VOLCANO_QUEUES
from grove.api.types.meta import JsonObject, ObjectMeta
from grove.api.types.scheduler_object import SchedulerObject
from grove.api.validation.validation_options import ValidationOptions
from grove.backends.queues import QueueRequest
from grove.installation.webhook_configurations import VALIDATE_SET_PATH
from grove.kube.api_errors import ApiError
from grove.kube.transport import Request
from tests.admission.asking import created, refusals, texts, updated
from tests.admission.webhook_server import Asked, asking, question
from tests.api.manifests import clique, group, manifest
from tests.backends.scheduler_world import definitions

KAI = {"schedulerName": "kai-scheduler"}
VOLCANO = {
    "schedulerName": "volcano",
    "containers": [{"name": "main", "image": "pause", "resources": {"requests": {"cpu": "1"}}}],
}
LPX = {"schedulerName": "lpx-scheduler"}
KAI_QUEUE = "kai.scheduler/queue"
VOLCANO_QUEUE = "scheduling.grove.io/volcano-queue"
ZONE = {"topologyName": "dc", "pack": {"required": "zone"}}


def on_kai(*queues: str | None, own: str | None = None, **fields: Any) -> JsonObject:
    """A set for KAI: a clique per queue, and the queue of the set itself."""
    cliques = [
        clique(name, pod=KAI, labels={KAI_QUEUE: queue} if queue else None)
        for name, queue in zip("abc", queues or (None,), strict=False)
    ]
    return manifest(*cliques, metadata={"labels": {KAI_QUEUE: own}} if own else None, **fields)


def on_volcano(*queues: str | None, own: str | None = None, **fields: Any) -> JsonObject:
    cliques = [
        clique(name, pod=VOLCANO, annotations={VOLCANO_QUEUE: queue} if queue else None)
        for name, queue in zip("abc", queues or (None,), strict=False)
    ]
    return manifest(*cliques, metadata={"annotations": {VOLCANO_QUEUE: own}} if own else None, **fields)


NO_TOPOLOGY = "volcano does not support topology constraints: remove the constraint, or choose another scheduler"
NO_LPX_TOPOLOGY = NO_TOPOLOGY.replace("volcano", "lpx-scheduler")


@pytest.mark.parametrize(
    ("json", "errors"),
    [
        pytest.param(
            on_kai(),
            [("metadata.labels[kai.scheduler/queue]: Required value: kai-scheduler needs a queue: write its name")],
            id="KAI without a queue",
        ),
        pytest.param(
            on_kai("x", own="y"),
            [
                (
                    'spec.template.cliques[0].labels[kai.scheduler/queue]: Invalid value: "x": a gang is in one queue, '
                    'and metadata.labels[kai.scheduler/queue] requests "y": write that here'
                )
            ],
            id="KAI, a clique against the set",
        ),
        pytest.param(
            on_kai("x", None, "y"),
            [
                (
                    'spec.template.cliques[2].labels[kai.scheduler/queue]: Invalid value: "y": a gang is in one queue, '
                    'and spec.template.cliques[0].labels[kai.scheduler/queue] requests "x": write that here'
                )
            ],
            id="KAI, cliques against each other",
        ),
        pytest.param(
            on_volcano(own="Not/Good"),
            [
                (
                    f'metadata.annotations[{VOLCANO_QUEUE}]: Invalid value: "Not/Good": '
                    "must have at most 253 characters a-z, 0-9, "
                    "- and ., and begin and end with a letter or digit"
                )
            ],
            id="Volcano, not the name of a queue",
        ),
        pytest.param(
            on_volcano("x", own="y"),
            [
                (
                    f'spec.template.cliques[0].annotations[{VOLCANO_QUEUE}]: Invalid value: "x": a gang is in one '
                    f'queue, and metadata.annotations[{VOLCANO_QUEUE}] requests "y": write that here'
                )
            ],
            id="Volcano, a clique against the set",
        ),
        pytest.param(
            on_volcano("x", None),
            [
                (
                    f"spec.template.cliques[1].annotations[{VOLCANO_QUEUE}]: Required value: other cliques request "
                    'queue "x": write it here too, or once on the set'
                )
            ],
            id="Volcano, a clique that would be in another queue",
        ),
        pytest.param(
            manifest(
                clique("a", pod=VOLCANO, topologyConstraint=ZONE),
                groups=(group("g", "a", topologyConstraint=ZONE),),
                template={"topologyConstraint": ZONE},
            ),
            [
                f"spec.template.topologyConstraint: Forbidden: {NO_TOPOLOGY}",
                f"spec.template.podCliqueScalingGroups[0].topologyConstraint: Forbidden: {NO_TOPOLOGY}",
                f"spec.template.cliques[0].topologyConstraint: Forbidden: {NO_TOPOLOGY}",
            ],
            id="Volcano with topology",
        ),
        pytest.param(
            manifest(clique(pod=LPX, topologyConstraint=ZONE)),
            [f"spec.template.cliques[0].topologyConstraint: Forbidden: {NO_LPX_TOPOLOGY}"],
            id="LPX with topology",
        ),
    ],
)
def test_a_set_that_its_scheduler_cannot_take_is_refused(json: JsonObject, errors: list[str]) -> None:
    found = refusals(json)
    assert len(found) == len(errors)
    assert [text for text, error in zip(found, errors, strict=True) if not text.startswith(error)] == []


@pytest.mark.parametrize(
    "json",
    [on_kai(own="x"), on_kai("x", None), on_volcano(), on_volcano(own="x"), manifest(clique(pod=LPX))],
)
def test_a_set_with_one_clear_queue_is_accepted(json: JsonObject) -> None:
    assert refusals(json) == []


def test_the_default_scheduler_of_the_installation_judges_sets_that_name_none() -> None:
    settings = ValidationOptions(default_scheduler="kai-scheduler")
    assert [error.path for error in created(manifest(), settings=settings).errors] == [
        "metadata.labels[kai.scheduler/queue]"
    ]
    assert created(manifest(metadata={"labels": {KAI_QUEUE: "x"}}), settings=settings).errors == ()


def test_a_scheduler_that_is_not_enabled_is_not_asked() -> None:
    answer = created(on_kai(), settings=ValidationOptions(schedulers=("default-scheduler",)))
    assert [error.path for error in answer.errors] == ["spec.template.cliques[0].spec.podSpec.schedulerName"]


def test_what_was_already_wrong_may_stay_wherever_it_stands_now() -> None:
    assert (
        texts(updated(on_kai("x", "y"), {**on_kai("x", "y"), "metadata": {"name": "web", "labels": {"a": "b"}}})) == []
    )
    turned = manifest(clique("b", pod=KAI), clique("a", pod=KAI))
    assert texts(updated(manifest(clique("a", pod=KAI), clique("b", pod=KAI)), turned)) == []
    assert [error.path for error in updated(on_kai(own="x"), on_kai()).errors] == [
        "metadata.labels[kai.scheduler/queue]"
    ]


# --- queues that are there, or not -----------------------------------------------------------------------------------


def cluster_with(**states: str) -> AdmissionLookups:
    """Queues by name, each with its state."""

    def find(ask: QueueRequest) -> SchedulerObject | None:
        if ask.queue not in states:
            return None
        return SchedulerObject(metadata=ObjectMeta(name=ask.queue), status={"state": states[ask.queue]})

    return AdmissionLookups(queue=find)


@pytest.mark.parametrize(
    ("old", "new", "errors"),
    [
        pytest.param(None, on_volcano(own="open"), [], id="open"),
        pytest.param(
            None,
            on_volcano(own="closed"),
            [
                (f'metadata.annotations[{VOLCANO_QUEUE}]: Invalid value: "closed": queue "closed" is Closed: '
                f"open it, or correct metadata.annotations[{VOLCANO_QUEUE}]")
            ],
            id="closed",
        ),
        pytest.param(
            None,
            on_volcano("no", "no"),
            [
                (f'spec.template.cliques[0].annotations[{VOLCANO_QUEUE}]: Invalid value: "no": queue "no" not found: '
                f"create it, or correct spec.template.cliques[0].annotations[{VOLCANO_QUEUE}]")
            ],
            id="unknown",
        ),
        pytest.param(
            None,
            on_volcano(),
            [
                (f'metadata.annotations[{VOLCANO_QUEUE}]: Invalid value: "default": queue "default" not found: '
                f"create it, or correct metadata.annotations[{VOLCANO_QUEUE}]")
            ],
            id="the default",
        ),
        pytest.param(on_volcano(own="closed"), on_volcano(own="closed", replicas=5), [], id="closed since"),
        pytest.param(
            on_volcano(own="open"),
            on_volcano(own="no"),
            [
                (f'metadata.annotations[{VOLCANO_QUEUE}]: Invalid value: "no": queue "no" not found: '
                f"create it, or correct metadata.annotations[{VOLCANO_QUEUE}]")
            ],
            id="moved to one that is not there",
        ),
    ],
)  # fmt: skip
def test_a_queue_of_volcano_is_open_when_it_is_asked_for(
    old: JsonObject | None, new: JsonObject, errors: list[str]
) -> None:
    cluster = cluster_with(open="Open", closed="Closed")
    answer = created(new, cluster) if old is None else updated(old, new, cluster)
    assert texts(answer) == errors
    assert answer.warnings == ()


def test_a_queue_of_kai_may_come_later_and_the_writer_is_told() -> None:
    where = "metadata.labels[kai.scheduler/queue]"
    missing = f'{where}: queue "no" not found: create it, or correct {where}; no pod is created before that'
    cluster = cluster_with(there="")
    assert created(on_kai(own="no"), cluster).warnings == (missing,)
    assert created(on_kai(own="there"), cluster).warnings == ()
    assert updated(on_kai(own="no"), on_kai(own="no", replicas=2), cluster).warnings == ()
    assert updated(on_kai(own="there"), on_kai(own="no"), cluster).warnings == (missing,)


def test_pods_that_volcano_does_not_place_as_a_gang_are_warned_about_once() -> None:
    """Without requests they are best effort: Volcano counts them as placed while they wait."""
    cluster = cluster_with(open="Open")
    best_effort = {**VOLCANO, "containers": [{"name": "main", "image": "pause"}]}

    def asked(*pods: JsonObject, **fields: Any) -> JsonObject:
        cliques = [clique(name, pod=pod) for name, pod in zip("abc", pods, strict=False)]
        return manifest(*cliques, metadata={"annotations": {VOLCANO_QUEUE: "open"}}, **fields)

    def warning(names: str) -> str:
        return (
            f"spec.template.cliques: volcano does not wait for the pods of {names} when it places a gang, because they "
            "request no resources: request cpu or memory in every clique"
        )

    assert created(asked(VOLCANO, VOLCANO), cluster).warnings == ()
    assert created(asked(VOLCANO, best_effort), cluster).warnings == (warning("b"),)
    assert updated(asked(VOLCANO, best_effort), asked(VOLCANO, best_effort, replicas=2), cluster).warnings == ()
    assert updated(asked(VOLCANO, best_effort), asked(best_effort, best_effort), cluster).warnings == (warning("a, b"),)
    assert updated(asked(best_effort, best_effort), asked(VOLCANO, best_effort), cluster).warnings == ()


# --- as an API server asks -------------------------------------------------------------------------------------------


def test_the_webhook_looks_for_the_queue_in_the_cluster() -> None:
    async def story(asked: Asked) -> None:
        for definition in definitions("volcano.yaml"):
            path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
            body = msgspec.json.encode(definition)
            assert asked.cluster.handle(Request(method="POST", path=path, body=body)).status == 201
        refused = (await asked.ask(VALIDATE_SET_PATH, question("podcliquesets", on_volcano(own="gold")))).response
        assert refused["allowed"] is False
        assert 'queue "gold" not found' in refused["status"]["message"]
        kind = VOLCANO_QUEUES
        queue = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": "gold"}}
        await asked.user.create(kind, "", queue)
        await asked.user.patch(kind, "", "gold", {"status": {"state": "Open"}}, subresource="status")
        allowed = (await asked.ask(VALIDATE_SET_PATH, question("podcliquesets", on_volcano(own="gold")))).response
        assert allowed == {"uid": "q1", "allowed": True}

    asking(story)


def test_a_kind_that_is_not_served_has_no_queues() -> None:
    async def story(asked: Asked) -> None:
        warned = (await asked.ask(VALIDATE_SET_PATH, question("podcliquesets", on_kai(own="gold")))).response
        assert warned["allowed"] is True
        (warning,) = warned["warnings"]
        assert 'queue "gold" not found' in warning

    asking(story)


def test_a_set_that_keeps_its_queue_is_judged_without_a_look_at_it() -> None:
    async def story(asked: Asked) -> None:
        asked.transport.refuse(lambda request: "/queues" in request.path, ApiError(503, "ServiceUnavailable", "down"))
        stored = created(on_volcano(own="gold")).object
        changed = created(on_volcano(own="gold", replicas=3)).object
        answer = await asked.ask(VALIDATE_SET_PATH, question("podcliquesets", changed, stored))
        assert (answer.status, answer.response["allowed"]) == (200, True)
        answer = await asked.ask(VALIDATE_SET_PATH, question("podcliquesets", stored))
        assert (answer.status, answer.text) == (500, "a lookup in the cluster failed: 503 ServiceUnavailable: down\n")

    asking(story)
