"""The roles view, edit and admin of the embedded server grant what a real server with Grove installed does, no more."""

import pytest

from tests.cluster.apidsl import Api, on_cluster
from tests.user_roles import USER_ROLES, bind, expected, granted


@pytest.mark.parametrize("role", USER_ROLES)
@on_cluster
async def test_a_user_may_do_what_the_role_says(api: Api, role: str) -> None:
    assert await granted(api.transport, "default", role) == {}
    await bind(api.transport, "default", role)
    assert await granted(api.transport, "default", role) == expected(role)
    # Nothing in other namespaces.
    assert await granted(api.transport, "kube-system", role) == {}
