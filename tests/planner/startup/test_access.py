"""The Role and RoleBinding of a set with a start-up order: who may read PodCliques, and until when."""

from datetime import timedelta

import msgspec

from grove.api.types.meta import JsonObject, ObjectMeta, Uid
from grove.api.types.podcliqueset import PodCliqueSet, SetRollingUpdateProgress, StartupType
from grove.api.types.rbac import Role, RoleBinding, RoleReference, RoleRule, RoleSubject
from grove.planner.actions import Action, Create, Delete, Patch
from grove.planner.plan import plan
from tests.dsl import NOW, actions, pcs, role, snapshot

NAME = "grove.io:pcs:p"
RULE = RoleRule(api_groups=("grove.io",), resources=("podcliques",), verbs=("get", "list", "watch"))
OWN_ROLE = RoleReference(api_group="rbac.authorization.k8s.io", kind="Role", name=NAME)


def with_accounts(*accounts: str, kind: StartupType = StartupType.IN_ORDER) -> PodCliqueSet:
    """One clique for each service account; "": the clique names none."""
    cliques = [
        role(f"c{i}", pod={"serviceAccountName": account} if account else {}) for i, account in enumerate(accounts)
    ]
    return pcs(*cliques, template={"clique_startup_type": kind})


def planned(observed: PodCliqueSet, *accounts: str, reference: RoleReference = OWN_ROLE) -> list[Action]:
    """What is done with a Role and a RoleBinding for these accounts that exist; without accounts there is neither."""
    metadata = ObjectMeta(name=NAME, namespace=observed.metadata.namespace, uid=Uid("u"))
    found = snapshot(observed)
    if accounts:
        subjects = tuple(account_of(observed, account) for account in accounts)
        found = msgspec.structs.replace(
            found,
            roles=(Role(metadata=metadata, rules=(RULE,)),),
            role_bindings=(RoleBinding(metadata=metadata, role_ref=reference, subjects=subjects),),
        )
    kinds = ("roles", "rolebindings")
    return [one for one in actions(plan(found, NOW)) if one.resource.plural in kinds]


def account_of(observed: PodCliqueSet, name: str) -> RoleSubject:
    return RoleSubject(kind="ServiceAccount", name=name, namespace=observed.metadata.namespace)


def names_of(subjects: list[JsonObject]) -> list[str]:
    return [one["name"] for one in subjects]


def test_each_service_account_of_the_pods_is_bound_once() -> None:
    _, binding = planned(with_accounts("b", "", "a", "b"))
    assert isinstance(binding, Create)
    assert names_of(binding.body["subjects"]) == ["a", "b", "default"]
    assert binding.body["roleRef"]["name"] == NAME


def test_without_a_start_up_order_nothing_is_created() -> None:
    assert planned(with_accounts("a", "b", kind=StartupType.ANY_ORDER)) == []


def test_what_is_right_is_left_alone() -> None:
    assert planned(with_accounts("a", ""), "a", "default") == []


def test_during_an_update_the_accounts_of_older_pods_stay_bound_and_go_when_it_has_ended() -> None:
    observed = with_accounts("new", "new")
    for ended_at, expected in ((None, ["new", "old"]), (NOW, ["new"])):
        progress = SetRollingUpdateProgress(update_started_at=NOW - timedelta(minutes=1), update_ended_at=ended_at)
        status = msgspec.structs.replace(observed.status, rolling_update_progress=progress)
        (patch,) = planned(msgspec.structs.replace(observed, status=status), "old")
        assert isinstance(patch, Patch)
        assert isinstance(patch.patch, dict)
        assert names_of(patch.patch["subjects"]) == expected


def test_a_binding_of_another_role_is_deleted_and_never_gets_the_accounts() -> None:
    other = RoleReference(api_group="rbac.authorization.k8s.io", kind="ClusterRole", name="cluster-admin")
    (deletion,) = planned(with_accounts("a", "b"), "a", reference=other)
    assert isinstance(deletion, Delete)
    assert (deletion.resource.plural, deletion.name, deletion.uid) == ("rolebindings", NAME, "u")
