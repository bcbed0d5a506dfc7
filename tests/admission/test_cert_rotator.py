"""Webhooks kept up by several replicas: they agree on one certificate, and rotate it without a failed handshake."""

import base64
from datetime import timedelta
from pathlib import Path
from random import Random

import msgspec
import pytest
from structlog.testing import capture_logs

from grove.admission.cert_source import prepare_namespace
from grove.admission.webhook_app import WebhookOptions
from grove.admission.webhook_certificates import (
    Lifetimes,
    RotationStep,
    contains,
    material_of,
    read_certificates,
    rotate,
)
from grove.api import labels
from grove.api.resources import MUTATING_WEBHOOKS, NAMESPACES, SECRETS, VALIDATING_WEBHOOKS
from grove.clock import Clock
from grove.cluster.apiserver.api_server import ApiServer
from grove.cluster.in_process_transport import InProcessTransport
from grove.errors import UserError
from grove.installation.webhook_configurations import (
    MUTATING_NAMES,
    VALIDATING_NAMES,
    UrlTarget,
    webhook_configurations,
)
from grove.kube.api_errors import ApiError
from grove.kube.client import Client
from grove.kube.transport import Request, Response
from grove.sim.faults import CALM, FaultPlan
from tests.admission.replicas import BRIEF, EPOCH, NAMESPACE, SECRET, SERVICE, ApiServers, Town, town_story

ROUGH = FaultPlan(
    latency=(0.0, 0.3),
    watch_latency=(0.0, 1.0),
    server_error=0.05,
    conflict=0.05,
    lost_request=0.05,
    lost_answer=0.05,
    cut_watch=0.1,
    gone=0.02,
)
URL = msgspec.structs.replace(SERVICE, url="https://127.0.0.1:9443")


def test_a_first_replica_makes_the_certificate_and_tells_every_webhook_whom_to_trust() -> None:
    async def story(town: Town) -> None:
        await town.install()
        replica = town.run_replica()
        await town.settle()
        secret = await town.secret()
        assert secret is not None
        assert (secret.type, sorted(secret.data)) == ("kubernetes.io/tls", ["ca.crt", "ca.key", "tls.crt", "tls.key"])
        assert replica.upkeep.is_ready
        assert replica.tls.certificate == await town.kept("tls.crt")
        assert await town.bundles() == [await town.kept("ca.crt")] * 8

    town_story(story)


def test_the_secret_and_the_configurations_do_not_look_like_children_of_a_set() -> None:
    async def story(town: Town) -> None:
        town.run_replica(URL)
        await town.settle()
        secret = await town.secret()
        assert secret is not None
        found = [secret.metadata, *(one.metadata for one in await town.configurations())]
        assert len(found) > 1
        assert {one.labels[labels.MANAGED_BY] for one in found} == {labels.MANAGED_BY_WEBHOOKS}

    town_story(story)


class Forbidding(InProcessTransport):
    """A server that lets its user do all but some things, by method and path."""

    def __init__(self, server: ApiServer, clock: Clock, *forbidden: tuple[str, str]) -> None:
        super().__init__(server, clock)
        self._forbidden = forbidden

    async def send(self, request: Request) -> Response:
        if (request.method, request.path) in self._forbidden:
            status = {"kind": "Status", "apiVersion": "v1", "reason": "Forbidden", "message": "no rights", "code": 403}
            return Response(status=403, body=msgspec.json.encode(status))
        return await super().send(request)


CREATE = ("POST", "/api/v1/namespaces")
READ = ("GET", f"/api/v1/namespaces/elsewhere/secrets/{SECRET}")


def test_the_namespace_of_the_secret_is_created_if_it_is_missing() -> None:
    async def story(town: Town) -> None:
        client = Client(InProcessTransport(town.server, town.clock), town.clock)
        for _ in range(2):
            await prepare_namespace(client, "elsewhere", SECRET)
        assert (await client.get(NAMESPACES, "", "elsewhere")).metadata.name == "elsewhere"

    town_story(story)


@pytest.mark.parametrize(
    ("forbidden", "error_message"),
    [
        ((CREATE,), "does not exist and cannot be created: no rights; kubectl create namespace elsewhere"),
        ((CREATE, READ), "cannot be read: no rights"),
    ],
    ids=["the namespace", "the Secret"],
)
def test_where_the_secret_cannot_live_the_operator_says_so_and_ends(
    forbidden: tuple[tuple[str, str], ...], error_message: str
) -> None:
    async def story(town: Town) -> None:
        client = Client(Forbidding(town.server, town.clock, *forbidden), town.clock)
        with pytest.raises(UserError, match=error_message):
            await prepare_namespace(client, "elsewhere", SECRET)

    town_story(story)


@pytest.mark.parametrize("plan", [CALM, ROUGH], ids=["calm", "rough"])
def test_replicas_that_start_together_agree_on_one_certificate(plan: FaultPlan) -> None:
    async def story(town: Town) -> None:
        await town.install()
        replicas = [town.run_replica(plan=plan) for _ in range(3)]
        await town.settle(10)
        assert {replica.tls.certificate for replica in replicas} == {await town.kept("tls.crt")}
        assert len(read_certificates(await town.kept("ca.crt"))) == 1
        assert set(await town.bundles()) == {await town.kept("ca.crt")}

    town_story(story)


@pytest.mark.parametrize("plan", [CALM, ROUGH], ids=["calm", "rough"])
def test_a_working_day_of_rotations_without_a_failed_handshake(plan: FaultPlan) -> None:
    async def story(town: Town) -> None:
        await town.install()
        for _ in range(3):
            town.run_replica(plan=plan)
        await town.settle(10)
        observers = ApiServers(town)
        await observers.run(timedelta(hours=8).total_seconds())
        assert all(replica.upkeep.is_ready for replica in town.replicas)
        assert observers.handshakes > 16_000
        assert len(observers.certificates) > 20
        # Four authorities, each seen alone and beside its successor.
        assert len(observers.authorities) >= 7

    town_story(story)


def test_replicas_that_come_and_go_during_a_rotation_do_not_disturb_it() -> None:
    async def story(town: Town) -> None:
        await town.install()
        town.run_replica()
        await town.settle()
        observers = ApiServers(town)
        for _ in range(6):
            await town.edit_secret(ca_key=None)
            await observers.run(10)
            newcomer = town.run_replica()
            await observers.run(20)
            assert not newcomer.upkeep.is_ready, "it has nothing to show that all trust"
            await observers.run(90)
            assert newcomer.upkeep.is_ready
            await town.replicas.pop(0).stop()
            await observers.run(30)
        assert len(observers.certificates) == 7

    town_story(story)


def test_the_new_authority_is_trusted_before_its_first_certificate_is_served() -> None:
    async def story(town: Town) -> None:
        await town.install()
        replica = town.run_replica()
        await town.settle()
        old_certificate, old_authority = replica.tls.certificate, await town.kept("ca.crt")
        await town.edit_secret(ca_key=None)
        await town.settle(0.5)
        overlap = await town.kept("ca.crt")
        assert contains(overlap, old_authority)
        assert len(read_certificates(overlap)) == 2
        assert (set(await town.bundles()), replica.tls.certificate) == ({overlap}, old_certificate)
        await town.settle(1)
        assert replica.tls.certificate == await town.kept("tls.crt") != old_certificate

    town_story(story)


@pytest.mark.parametrize("seed", range(6))
def test_a_wait_ends_at_whatever_fraction_of_a_second_it_began(seed: int) -> None:
    """Sums of fractions are not exact: what is waited for must come true when the wait is over."""

    async def story(town: Town) -> None:
        random = Random(seed)
        await town.install()
        for _ in range(3):
            town.run_replica(plan=FaultPlan(latency=(0.0, random.random())))
            await town.clock.sleep(100 * random.random())
        for _ in range(5):
            await town.edit_secret(ca_key=None)
            await town.clock.sleep(100 + 100 * random.random())
            assert {one.tls.certificate for one in town.replicas} == {await town.kept("tls.crt")}

    town_story(story)


def test_whoever_removes_the_certificate_gets_a_new_one_of_the_same_authority_at_once() -> None:
    async def story(town: Town) -> None:
        await town.install()
        replica = town.run_replica()
        await town.settle()
        old_certificate, authority = replica.tls.certificate, await town.kept("ca.crt")
        await town.edit_secret(tls_crt="")
        await town.settle(0.05)
        assert await town.kept("ca.crt") == authority
        assert replica.tls.certificate == await town.kept("tls.crt") != old_certificate

    town_story(story)


def test_a_deleted_secret_is_a_new_beginning_and_no_replica_stays_behind() -> None:
    async def story(town: Town) -> None:
        await town.install()
        replicas = [town.run_replica() for _ in range(3)]
        await town.settle()
        old = await town.kept("ca.crt")
        await town.user.delete(SECRETS, NAMESPACE, SECRET)
        await town.settle(0.1)
        new = await town.kept("ca.crt")
        assert not contains(new, old)
        assert set(await town.bundles()) == {new}
        assert {replica.tls.certificate for replica in replicas} == {await town.kept("tls.crt")}

    town_story(story)


def test_an_overwritten_bundle_is_corrected_and_the_rest_of_the_configuration_left_alone() -> None:
    async def story(town: Town) -> None:
        await town.install()
        town.run_replica()
        await town.settle()
        name = "podcliqueset-validating-webhook"
        held = await town.user.get(VALIDATING_WEBHOOKS, "", name)
        webhook = held.webhooks[0]
        selector = {"matchLabels": {"judged": "yes"}}
        spoiled = {
            **webhook,
            "namespaceSelector": selector,
            "clientConfig": {**webhook["clientConfig"], "caBundle": "eA=="},
        }
        await town.user.patch(VALIDATING_WEBHOOKS, "", name, {"webhooks": [spoiled]})
        await town.settle(0.1)
        corrected = (await town.user.get(VALIDATING_WEBHOOKS, "", name)).webhooks[0]
        assert corrected == {**webhook, "namespaceSelector": selector}

    town_story(story)


def test_a_configuration_that_is_installed_later_is_filled_in_then() -> None:
    async def story(town: Town) -> None:
        replica = town.run_replica()
        await town.settle()
        assert replica.upkeep.is_ready
        await town.install()
        await town.settle(0.1)
        assert set(await town.bundles()) == {await town.kept("ca.crt")}

    town_story(story)


def test_webhooks_that_lead_elsewhere_are_not_ours_to_correct() -> None:
    async def story(town: Town) -> None:
        elsewhere = UrlTarget(url="https://laptop.example:9443")
        for body in webhook_configurations(elsewhere, ca_bundle="", has_authorizer=False)[:1]:
            await town.user.create(MUTATING_WEBHOOKS, "", body)
        town.run_replica()
        await town.settle()
        assert await town.bundles() == [b""]

    town_story(story)


def test_a_replica_that_believes_in_an_older_secret_never_takes_trust_back() -> None:
    async def story(town: Town) -> None:
        await town.install()
        stale, awake = town.run_replica(), town.run_replica()
        await town.settle()
        stale.transport.freeze_watch("secrets")
        await town.edit_secret(ca_key=None)
        await town.settle(5)
        overlap = await town.kept("ca.crt")
        assert set(await town.bundles()) == {overlap}
        assert contains(overlap, await _issuer_shown(stale.tls.certificate, overlap))
        assert awake.tls.certificate == await town.kept("tls.crt")
        stale.transport.thaw_watch("secrets")
        await town.settle(0.1)
        assert stale.tls.certificate == await town.kept("tls.crt")

    town_story(story)


async def _issuer_shown(certificate: bytes, bundle: bytes) -> bytes:
    (shown,) = read_certificates(certificate)
    for authority in read_certificates(bundle):
        if authority.subject == shown.issuer:
            return bundle
    return b""


def test_an_idle_installation_writes_nothing() -> None:
    async def story(town: Town) -> None:
        await town.install()
        replicas = [town.run_replica(msgspec.structs.replace(SERVICE, lifetimes=Lifetimes())) for _ in range(3)]
        await town.settle()
        before = [replica.transport.write_count for replica in replicas]
        await town.settle(60 * 24)
        assert [replica.transport.write_count for replica in replicas] == before

    town_story(story)


def test_without_the_right_to_write_it_is_not_ready_and_says_why_until_it_has_it() -> None:
    async def story(town: Town) -> None:
        await town.install()
        replica = town.run_replica()
        refusal = replica.transport.refuse(lambda request: request.is_write, ApiError(403, "Forbidden", "no"))
        await town.settle()
        assert not replica.upkeep.is_ready
        replica.transport.lift(refusal)
        await town.settle()
        assert replica.upkeep.is_ready

    town_story(story)


def test_without_the_right_to_look_it_is_not_ready_until_it_has_it() -> None:
    async def story(town: Town) -> None:
        await town.install()
        replica = town.run_replica()
        refusal = replica.transport.refuse(lambda request: not request.is_write, ApiError(403, "Forbidden", "no"))
        with capture_logs() as lines:
            await town.settle(5)
        assert not replica.upkeep.is_ready
        assert "may list and watch them" in lines[0]["why"]
        replica.transport.lift(refusal)
        await town.settle(5)
        assert replica.upkeep.is_ready

    town_story(story)


# --- at a URL --------------------------------------------------------------------------------------------------------


def test_at_a_url_the_configurations_are_made_corrected_and_taken_away_at_the_end() -> None:
    async def story(town: Town) -> None:
        replica = town.run_replica(URL)
        await town.settle()
        bundle = base64.b64encode(await town.kept("ca.crt")).decode()
        wanted = {
            body["metadata"]["name"]: body["webhooks"]
            for body in webhook_configurations(UrlTarget(url=URL.url), ca_bundle=bundle, has_authorizer=False)
        }
        assert {one.metadata.name: list(one.webhooks) for one in await town.configurations()} == wanted
        await town.user.patch(VALIDATING_WEBHOOKS, "", "scale-validating-webhook", {"webhooks": []})
        await town.user.delete(MUTATING_WEBHOOKS, "", "podcliqueset-defaulting-webhook")
        await town.settle(0.1)
        assert {one.metadata.name: list(one.webhooks) for one in await town.configurations()} == wanted
        await replica.stop()
        assert await town.configurations() == []

    town_story(story)


def test_the_log_says_created_and_injected_and_corrected_only_of_what_was_wrong() -> None:
    async def at_a_url(town: Town) -> None:
        town.run_replica(URL)
        await town.settle()
        await town.user.patch(VALIDATING_WEBHOOKS, "", "scale-validating-webhook", {"webhooks": []})
        await town.settle(0.1)

    async def behind_a_service(town: Town) -> None:
        await town.install()
        town.run_replica()
        await town.settle()

    with capture_logs() as lines:
        town_story(at_a_url)
    told = [(line["event"], line["configuration"]) for line in lines if "configuration" in line]
    made = len(MUTATING_NAMES) + len(VALIDATING_NAMES) - 1
    assert [event for event, _ in told[:made]] == ["webhook configuration created"] * made
    assert told[made:] == [("webhook configuration corrected", "scale-validating-webhook")]
    with capture_logs() as lines:
        town_story(behind_a_service)
    events = {line["event"] for line in lines if "configuration" in line}
    assert events == {"CA bundle injected"}


def test_at_a_url_the_certificate_is_good_for_its_host() -> None:
    async def story(town: Town) -> None:
        town.run_replica(URL)
        await town.settle()
        (certificate,) = read_certificates(await town.kept("tls.crt"))
        assert "127.0.0.1" in str(certificate.extensions)

    town_story(story)


def test_what_a_killed_operator_at_a_url_left_behind_is_taken_over() -> None:
    async def story(town: Town) -> None:
        killed = town.run_replica(msgspec.structs.replace(URL, url="https://127.0.0.1:1"))
        await town.settle()
        killed.task.cancel()
        replica = town.run_replica(URL)
        await town.settle()
        urls = {webhook["clientConfig"]["url"][:22] for one in await town.configurations() for webhook in one.webhooks}
        assert urls == {URL.url}
        await replica.stop()
        assert await town.configurations() == []

    town_story(story)


def test_at_a_url_an_installation_in_the_cluster_is_left_alone() -> None:
    async def story(town: Town) -> None:
        await town.install()
        before = [list(one.webhooks) for one in await town.configurations()]
        replica = town.run_replica(URL)
        await town.settle()
        await replica.stop()
        assert [list(one.webhooks) for one in await town.configurations()] == before

    town_story(story)


# --- certificates of somebody else -----------------------------------------------------------------------------------


def _manual(folder: Path) -> WebhookOptions:
    return msgspec.structs.replace(SERVICE, is_manual=True, certificate_dir=folder)


def _put(folder: Path) -> bytes:
    material = rotate(material_of({}), RotationStep.AUTHORITY, ("a.example",), EPOCH, BRIEF)
    (folder / "tls.crt").write_bytes(material.certificate)
    (folder / "tls.key").write_bytes(material.key)
    return material.certificate


def test_manual_certificates_are_read_again_when_they_change_and_no_object_is_touched(tmp_path: Path) -> None:
    async def story(town: Town) -> None:
        await town.install()
        replica = town.run_replica(_manual(tmp_path))
        await town.settle()
        assert not replica.upkeep.is_ready
        first = _put(tmp_path)
        await town.settle()
        assert (replica.upkeep.is_ready, replica.tls.certificate) == (True, first)
        (tmp_path / "tls.key").write_bytes(b"half written")
        second_key = (tmp_path / "tls.key").read_bytes()
        await town.settle()
        assert (replica.tls.certificate, second_key) == (first, b"half written")
        second = _put(tmp_path)
        await town.settle()
        assert replica.tls.certificate == second
        assert (await town.secret(), set(await town.bundles()), replica.transport.write_count) == (None, {b""}, 0)

    town_story(story)


def test_with_manual_certificates_the_cluster_is_not_even_looked_at(tmp_path: Path) -> None:
    """So that it takes no rights."""

    async def story(town: Town) -> None:
        _put(tmp_path)
        replica = town.run_replica(_manual(tmp_path))
        replica.transport.refuse(lambda _: True, ApiError(403, "Forbidden", "no"))
        await town.settle()
        assert replica.upkeep.is_ready

    town_story(story)


def test_manual_certificates_at_a_url_are_registered_with_their_authority(tmp_path: Path) -> None:
    async def story(town: Town) -> None:
        _put(tmp_path)
        (tmp_path / "ca.crt").write_bytes(b"the authority")
        replica = town.run_replica(msgspec.structs.replace(_manual(tmp_path), url=URL.url))
        await town.settle()
        assert set(await town.bundles()) == {b"the authority"}
        await replica.stop()
        assert (await town.configurations(), await town.secret()) == ([], None)

    town_story(story)
