"""The roles view, edit and admin on `grove up` and on a real control plane with `grove manifests` applied: the same."""

import asyncio

import pytest

from tests.e2e.harness import Cluster
from tests.user_roles import USER_ROLES, bind, expected, granted

pytestmark = pytest.mark.kube


@pytest.mark.parametrize("role", USER_ROLES)
def test_a_user_may_do_what_the_role_says(cluster: Cluster, runner: asyncio.Runner, role: str) -> None:
    async def ask() -> None:
        stage = await cluster.stage(has_nodes=False)
        await bind(cluster.transport, stage.namespace, role)
        found = await granted(cluster.transport, stage.namespace, role)
        # A real server learns of bindings a moment later, and a controller aggregates roles.
        for _ in range(100):
            if found == expected(role):
                break
            await cluster.clock.sleep(0.2)
            found = await granted(cluster.transport, stage.namespace, role)
        assert found == expected(role)

    runner.run(ask())
