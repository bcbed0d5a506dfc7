"""GET of one object and of lists: selectors, pages, and versions."""

from typing import Any

import pytest

from tests.conformance.talk import Talk, clique, config, pod
from tests.conformance.words import LABEL_VALUE, QUALIFIED_NAME

MINE = "mine=1"


async def four(api: Talk) -> None:
    labels = {"a": {"app": "x", "n": "1"}, "b": {"app": "y", "n": "2"}, "c": {"app": "x"}, "d": {"empty": ""}}
    for name, own in labels.items():
        await api.create("configmaps", config(name, labels={**own, "mine": "1"}))


LABELS: list[Any] = [
    ("app=x", "ac"), ("app==x", "ac"), ("app!=x", "bd"), ("app", "abc"), ("!app", "d"), ("app in (x,y)", "abc"),
    ("app in (x),n=1", "a"), ("app notin (x)", "bd"), ("app notin(x)", "bd"), ("n>1", "b"), ("n<2", "a"), ("n>01", "b"),
    ("app in ()", ""), ("app=", ""), ("empty=", "d"), ("empty in (,x)", "d"), ("app=x,!n", "c"),
    ("app = x", "ac"), ("app in (x,)", "ac"), ("n in (1, 2)", "ab"), ("app>1", ""),
]  # fmt: skip


@pytest.mark.parametrize(("selector", "names"), LABELS)
async def test_a_label_selector_selects(api: Talk, selector: str, names: str) -> None:
    await four(api)
    found = await api.get(api.at("configmaps"), labelSelector=f"{MINE},{selector}")
    assert "".join(found.names) == names


BAD_LABELS: list[Any] = [
    ("n>x", ("unable to parse requirement: values[0]: Invalid value: \"x\": for 'Gt', 'Lt' operators, the value must "
             "be an integer")),
    ("app in (x", "unable to parse requirement: found '', expected: ',' or ')'"),
    ("app in x", "unable to parse requirement: found 'x' expected: '('"),
    ("app=x,", "found '', expected: identifier after ','"),
    ("app=x,,n=1", "found ',', expected: identifier after ','"),
    ("app=x y", "found 'y', expected: ',' or 'end of string'"),
    ("app in (x) n", "found 'n', expected: ',' or 'end of string'"),
    ("a=b=c", "found '=', expected: ',' or 'end of string'"),
    ("=x", "found '=', expected: !, identifier, or 'end of string'"),
    (",", "found ',', expected: !, identifier, or 'end of string'"),
    ("app==!", "unable to parse requirement: found '!', expected: identifier"),
    ("n>=1", "unable to parse requirement: found '=', expected: identifier"),
    ("a b", "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"),
    ("-a=b", f'unable to parse requirement: <nil>: Invalid value: "-a": {QUALIFIED_NAME}'),
    ("n>-1", f'unable to parse requirement: values[0][n]: Invalid value: "-1": {LABEL_VALUE}'),
    ("app in (x,-y)", f'unable to parse requirement: values[0][app]: Invalid value: "-y": {LABEL_VALUE}'),
]  # fmt: skip


@pytest.mark.parametrize(("selector", "message"), BAD_LABELS)
async def test_a_label_selector_that_cannot_be_read_is_explained(api: Talk, selector: str, message: str) -> None:
    answer = await api.get(api.at("configmaps"), labelSelector=selector)
    assert answer.refusal == (400, "BadRequest", message)


FIELDS: list[Any] = [
    ("metadata.name=a", "a"), ("metadata.name==a", "a"), ("metadata.name!=a", "bcd"), ("metadata.name=", ""),
    ("metadata.name=a,metadata.namespace=other", ""), ("metadata.name=a\\,b", ""),
]  # fmt: skip


@pytest.mark.parametrize(("selector", "names"), FIELDS)
async def test_a_field_selector_selects(api: Talk, selector: str, names: str) -> None:
    await four(api)
    found = await api.get(api.at("configmaps"), fieldSelector=selector, labelSelector=MINE)
    assert "".join(found.names) == names


POD_FIELDS: list[Any] = [
    ("spec.nodeName=n1", "a"), ("spec.nodeName!=n1", "b"), ("spec.nodeName=", "b"), ("status.phase=Pending", "ab"),
    ("status.phase!=Pending", ""), ("spec.restartPolicy=Always", "ab"), ("spec.schedulerName=nobody", "ab"),
    ("spec.hostNetwork=false", "ab"), ("status.podIP=", "ab"), ("status.podIPs=", "ab"),
    ("spec.nodeName=n1,status.phase=Pending", "a"),
]  # fmt: skip


@pytest.mark.parametrize(("selector", "names"), POD_FIELDS)
async def test_pods_are_selected_by_more_fields(api: Talk, selector: str, names: str) -> None:
    await api.create("pods", pod("a", spec={"nodeName": "n1"}))
    await api.create("pods", pod("b"))
    assert "".join((await api.get(api.at("pods"), fieldSelector=selector)).names) == names


BAD_FIELDS: list[Any] = [
    ("configmaps", "data.x=1", '"data.x" is not a known field selector: only "metadata.name", "metadata.namespace"'),
    ("leases", "spec.x=1", '"spec.x" is not a known field selector: only "metadata.name", "metadata.namespace"'),
    ("pods", "spec.x=1", "field label not supported: spec.x"),
    ("events", "spec.x=1", "field label not supported: spec.x"),
    ("services", "spec.x=1", "field label not supported: spec.x"),
    ("podcliques", "spec.x=1", "field label not supported: spec.x"),
    ("configmaps", "foo", "invalid selector: 'foo'; can't understand 'foo'"),
    ("pods", "metadata.name=a,foo", "invalid selector: 'metadata.name=a,foo'; can't understand 'foo'"),
]


@pytest.mark.parametrize(("plural", "selector", "message"), BAD_FIELDS)
async def test_a_field_that_is_not_selectable_is_named(api: Talk, plural: str, selector: str, message: str) -> None:
    assert (await api.get(api.at(plural), fieldSelector=selector)).refusal == (400, "BadRequest", message)


# Shape


async def test_a_list_says_the_kind_once(api: Talk) -> None:
    await api.create("configmaps", config("a", labels={"mine": "1"}))
    body = (await api.get(api.at("configmaps"), labelSelector=MINE)).body
    assert (body["kind"], body["apiVersion"], sorted(body["metadata"])) == ("ConfigMapList", "v1", ["resourceVersion"])
    assert [sorted(item) for item in body["items"]] == [["metadata"]]


async def test_custom_objects_in_a_list_say_their_kind(api: Talk) -> None:
    await api.create("podcliques", clique("a"))
    body = (await api.get(api.at("podcliques"))).body
    assert (body["kind"], body["apiVersion"]) == ("PodCliqueList", "grove.io/v1alpha1")
    assert sorted(body["metadata"]) == ["continue", "resourceVersion"]
    assert body["metadata"]["continue"] == ""
    assert [sorted(item) for item in body["items"]] == [["apiVersion", "kind", "metadata", "spec"]]


async def test_a_namespace_that_is_not_there_is_empty(api: Talk) -> None:
    answer = await api.get(api.at("podcliques", namespace="nowhere-at-all"))
    assert (answer.status, answer.body["items"]) == (200, [])


async def test_a_list_over_all_namespaces_is_ordered_by_path(api: Talk) -> None:
    other = f"{api.namespace}-b"
    await api.create("namespaces", {"metadata": {"name": other}})
    label = {"run": api.namespace}
    for namespace, name in ((other, "a"), (api.namespace, "z"), (api.namespace, "b")):
        await api.post(api.at("configmaps", namespace=namespace), config(name, labels=label))
    answer = await api.get(api.everywhere("configmaps"), labelSelector=f"run={api.namespace}")
    # "-" comes before "/", which is what follows the shorter name.
    assert answer.names == ["a", "b", "z"]


# Pages


async def test_pages_show_one_moment(api: Talk) -> None:
    for name in "abcde":
        await api.create("podcliques", clique(name))
    first = await api.get(api.at("podcliques"), limit="2")
    assert (first.names, first.metadata["remainingItemCount"]) == (["a", "b"], 3)
    await api.delete(api.at("podcliques", "c"))
    await api.create("podcliques", clique("bb"))
    second = await api.get(api.at("podcliques"), limit="2", **{"continue": first.metadata["continue"]})
    assert (second.names, second.metadata["remainingItemCount"]) == (["c", "d"], 1)
    last = await api.get(api.at("podcliques"), limit="2", **{"continue": second.metadata["continue"]})
    assert (last.names, last.metadata["continue"]) == (["e"], "")
    assert "remainingItemCount" not in last.metadata
    assert first.metadata["resourceVersion"] == second.metadata["resourceVersion"] == last.metadata["resourceVersion"]


async def test_what_a_selector_leaves_is_not_counted(api: Talk) -> None:
    await four(api)
    page = await api.get(api.at("configmaps"), labelSelector=MINE, limit="2")
    assert page.names == ["a", "b"]
    assert page.metadata["continue"]
    assert "remainingItemCount" not in page.metadata


async def test_a_list_from_any_moment_comes_in_one_page(api: Talk) -> None:
    for name in "abc":
        await api.create("podcliques", clique(name))
    await api.caught_up("podcliques", ["a", "b", "c"])
    assert (await api.get(api.at("podcliques"), limit="2", resourceVersion="0")).names == ["a", "b", "c"]


@pytest.mark.parametrize("limit", ["0", "-1"])
async def test_no_limit_is_no_limit(api: Talk, limit: str) -> None:
    for name in "abc":
        await api.create("podcliques", clique(name))
    assert (await api.get(api.at("podcliques"), limit=limit)).names == ["a", "b", "c"]


async def test_a_page_token_that_is_none_is_refused(api: Talk) -> None:
    code, reason, message = (await api.get(api.at("configmaps"), **{"continue": "foo"})).refusal
    assert (code, reason) == (400, "BadRequest")
    assert message.startswith("invalid continue token: continue key is not valid: ")


async def test_a_page_is_of_its_own_version(api: Talk) -> None:
    for name in "abc":
        await api.create("podcliques", clique(name))
    token = (await api.get(api.at("podcliques"), limit="2")).metadata["continue"]
    answer = await api.get(api.at("podcliques"), resourceVersion="5", **{"continue": token})
    assert answer.refusal == (400, "BadRequest", "specifying resource version is not allowed when using continue")
    assert (await api.get(api.at("podcliques"), resourceVersion="0", **{"continue": token})).names == ["c"]


# Versions


async def test_a_list_shows_exactly_the_version_that_is_asked_for(api: Talk) -> None:
    await four(api)
    version = (await api.get(api.at("configmaps"), labelSelector=MINE)).metadata["resourceVersion"]
    await api.delete(api.at("configmaps", "b"))
    query = {"labelSelector": MINE, "resourceVersion": version}
    exact = await api.get(api.at("configmaps"), resourceVersionMatch="Exact", **query)
    assert (exact.names, exact.metadata["resourceVersion"]) == (["a", "b", "c", "d"], version)
    newer = await api.get(api.at("configmaps"), resourceVersionMatch="NotOlderThan", **query)
    assert newer.names == ["a", "c", "d"]


MATCHES: list[Any] = [
    ({"resourceVersionMatch": "Exact"},
     "resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided"),
    ({"resourceVersionMatch": "Foo", "resourceVersion": "1"},
     'resourceVersionMatch: Unsupported value: "Foo": supported values: "Exact", "NotOlderThan", ""'),
    ({"resourceVersionMatch": "Exact", "resourceVersion": "0"},
     'resourceVersionMatch: Forbidden: resourceVersionMatch "exact" is forbidden for resourceVersion "0"'),
    ({"resourceVersionMatch": "NotOlderThan", "resourceVersion": "1", "continue": "x"},
     "resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden when continue is provided"),
    ({"sendInitialEvents": "true"}, "sendInitialEvents: Forbidden: sendInitialEvents is forbidden for list"),
]  # fmt: skip


@pytest.mark.parametrize(("query", "problem"), MATCHES)
async def test_options_of_a_list_must_go_together(api: Talk, query: Any, problem: str) -> None:
    answer = await api.get(api.at("configmaps"), **query)
    assert answer.refusal == (422, "Invalid", f'ListOptions.meta.k8s.io "" is invalid: {problem}')


NUMBERS: list[Any] = [
    ({"limit": ""}, 'strconv.ParseInt: parsing "": invalid syntax'),
    ({"limit": "x"}, 'strconv.ParseInt: parsing "x": invalid syntax'),
    ({"timeoutSeconds": "x"}, 'strconv.ParseInt: parsing "x": invalid syntax'),
    ({"resourceVersion": "x"},
     'invalid resource version: resourceVersion: Invalid value: "x": strconv.ParseUint: parsing "x": invalid syntax'),
]  # fmt: skip


@pytest.mark.parametrize(("query", "message"), NUMBERS)
async def test_a_number_must_be_one(api: Talk, query: Any, message: str) -> None:
    assert (await api.get(api.at("configmaps"), **query)).refusal == (400, "BadRequest", message)


@pytest.mark.parametrize("name", ["", "a"])
async def test_a_version_that_is_yet_to_come_is_not_waited_for_for_ever(api: Talk, name: str) -> None:
    await api.create("configmaps", config("a"))
    answer = await api.get(api.at("configmaps", name), resourceVersion="99999999")
    assert answer.refusal[:2] == (504, "Timeout")
    assert answer.refusal[2].startswith("Timeout: Too large resource version: 99999999, current: ")
    assert answer.details == {
        "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
        "retryAfterSeconds": 1,
    }


async def test_one_object_is_shown_at_least_as_new_as_asked_for(api: Talk) -> None:
    born = await api.create("configmaps", config("a"))
    answer = await api.get(api.at("configmaps", "a"), resourceVersion=born.metadata["resourceVersion"])
    assert answer.body == born.body


async def test_a_version_of_one_object_must_be_a_number(api: Talk) -> None:
    await api.create("configmaps", config("a"))
    message = 'resourceVersion: Invalid value: "x": strconv.ParseUint: parsing "x": invalid syntax'
    assert (await api.get(api.at("configmaps", "a"), resourceVersion="x")).refusal == (500, "", message)
