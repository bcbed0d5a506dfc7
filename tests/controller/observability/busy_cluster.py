"""A cluster in which something waits for everything, and what Prometheus would scrape from its operator."""

import yaml

from grove.api import labels
from grove.api.resources import GROUPS, PODS
from grove.api.types.meta import JsonObject
from tests.controller.observability.test_metrics import QUICKSTART, Counted, run


async def make_busy(counted: Counted) -> None:
    """A gang without nodes, an update that is stuck, a breach, a terminated gang, reviews and a certificate."""
    world = counted.world
    await world.apply(QUICKSTART)
    await world.settle()
    await world.scale(GROUPS, "chat-0-decode", 8)
    changed: JsonObject = yaml.safe_load(QUICKSTART.read_text())
    changed["spec"]["template"]["cliques"][0]["annotations"] = {labels.SIM_READY_AFTER: "never"}
    await world.apply(changed)
    await world.clock.sleep(1800)
    counted.metrics.webhooks.observe("validate-podcliqueset", "allowed", 0.002)
    counted.metrics.webhooks.certificate_end = lambda: world.clock.now()


def busy_scrapes() -> tuple[str, str]:
    """Two scrapes of one operator, with reviews, requests and reconciles between them."""
    found: list[str] = []

    async def story(counted: Counted) -> None:
        await make_busy(counted)
        found.append(counted.metrics.text().decode())
        await counted.world.client.delete(PODS, "default", counted.world.running_pods()[0].metadata.name)
        await counted.world.clock.sleep(120)
        counted.metrics.webhooks.observe("validate-podcliqueset", "allowed", 0.002)
        found.append(counted.metrics.text().decode())

    run(story)
    return found[0], found[1]
