"""Lists: selectors, pages, and which moment a list shows."""

import pytest

from tests.cluster.apidsl import CLIQUES, CONFIGS, NAMESPACES, PODS, Api, clique, config, on_cluster, pod


@on_cluster
async def test_a_list_shows_everything_in_order_and_the_moment_it_was_made(api: Api) -> None:
    for name in ("b", "a"):
        await api.post(CLIQUES, clique(name))
    listing = await api.get(CLIQUES)
    assert (listing.body["kind"], listing.body["apiVersion"]) == ("PodCliqueList", "grove.io/v1alpha1")
    assert listing.metadata == {"continue": "", "resourceVersion": "6"}
    assert listing.names == ["a", "b"]
    assert listing.body["items"][0] == (await api.get(f"{CLIQUES}/a")).body


@on_cluster
async def test_items_of_built_in_lists_do_not_repeat_their_kind(api: Api) -> None:
    await api.post(PODS, pod("a"))
    single = (await api.get(f"{PODS}/a")).body
    assert (await api.get(PODS)).body["items"] == [
        {key: value for key, value in single.items() if key not in ("kind", "apiVersion")}
    ]


@on_cluster
async def test_namespaces_are_listed_one_by_one_or_all_together(api: Api) -> None:
    await api.post(NAMESPACES, {"metadata": {"name": "team"}})
    await api.post(CONFIGS, config("b"))
    await api.post("/api/v1/namespaces/team/configmaps", config("a"))
    assert (await api.get(CONFIGS)).names == ["b"]
    assert (await api.get("/api/v1/configmaps")).names == ["b", "a"]
    assert (await api.get("/api/v1/namespaces/nowhere/configmaps")).names == []


_LABELS = {
    "a": {"tier": "web", "rank": "1"},
    "b": {"tier": "db", "rank": "2"},
    "c": {"tier": "db"},
    "d": {},
}


@pytest.mark.parametrize(
    ("selector", "names"),
    [
        ("", "abcd"),
        ("tier=db", "bc"),
        ("tier==db", "bc"),
        ("tier = db , rank = 2", "b"),
        ("tier!=db", "ad"),
        ("tier in (db, web)", "abc"),
        ("tier in (db)", "bc"),
        ("tier notin (db,web)", "d"),
        ("tier notin (db)", "ad"),
        ("tier", "abc"),
        ("!tier", "d"),
        ("tier,!rank", "c"),
        ("rank>1", "b"),
        ("rank<2", "a"),
        ("tier=", ""),
        ("tier=nothing", ""),
        ("x.io/y notin (z)", "abcd"),
    ],
)
@on_cluster
async def test_label_selectors_select(api: Api, selector: str, names: str) -> None:
    for name, labels in _LABELS.items():
        await api.post(CONFIGS, config(name, labels=labels))
    assert (await api.get(CONFIGS, labelSelector=selector)).names == list(names)


@pytest.mark.parametrize("selector", [",", "a,", "=b", "a=b=c", "a in b", "a in (b", "a b", "-=x", "a>b", "a=(", "!"])
@on_cluster
async def test_unreadable_selectors_are_refused(api: Api, selector: str) -> None:
    assert (await api.get(CONFIGS, labelSelector=selector)).status == 400


@on_cluster
async def test_a_label_selector_follows_changes(api: Api) -> None:
    await api.post(CONFIGS, config("a", labels={"x": "1"}))
    await api.post(CONFIGS, config("b", labels={"x": "1"}))
    assert (await api.get(CONFIGS, labelSelector="x=1")).names == ["a", "b"]
    await api.merge(f"{CONFIGS}/a", {"metadata": {"labels": {"x": "2"}}})
    await api.delete(f"{CONFIGS}/b")
    await api.post(CONFIGS, config("c", labels={"x": "1"}))
    assert (await api.get(CONFIGS, labelSelector="x=1")).names == ["c"]
    assert (await api.get(CONFIGS, labelSelector="x=2")).names == ["a"]


@pytest.mark.parametrize(
    ("selector", "names"),
    [
        ("metadata.name=a", ["a"]),
        ("metadata.name!=a", ["b"]),
        ("metadata.namespace=default", ["a", "b"]),
        ("spec.nodeName=n1", ["b"]),
        ("spec.nodeName=", ["a"]),
        ("spec.nodeName!=,status.phase=Pending", ["b"]),
        ("status.phase==Running", []),
    ],
)
@on_cluster
async def test_field_selectors_select(api: Api, selector: str, names: list[str]) -> None:
    await api.post(PODS, pod("a"))
    await api.post(PODS, pod("b"))
    await api.bind("b", "n1")
    assert (await api.get(PODS, fieldSelector=selector)).names == names


@on_cluster
async def test_fields_nobody_can_select_by_are_named(api: Api) -> None:
    refused = await api.get(PODS, fieldSelector="spec.hostname=x")
    assert (refused.status, refused.body["reason"]) == (400, "BadRequest")
    assert refused.body["message"].endswith("field label not supported: spec.hostname")


@pytest.mark.parametrize(("limit", "sizes"), [(1, [1, 1, 1]), (2, [2, 1]), (3, [3]), (4, [3])])
@on_cluster
async def test_a_long_list_comes_in_pages(api: Api, limit: int, sizes: list[int]) -> None:
    for name in "abc":
        await api.post(CONFIGS, config(name))
    pages = [await api.get(CONFIGS, limit=str(limit))]
    while token := pages[-1].metadata.get("continue"):
        pages.append(await api.get(CONFIGS, limit=str(limit), **{"continue": token}))
    assert [len(page.names) for page in pages] == sizes
    assert [name for page in pages for name in page.names] == ["a", "b", "c"]
    left = [page.metadata.get("remainingItemCount", 0) for page in pages]
    assert left == [3 - sum(sizes[: at + 1]) for at in range(len(sizes))]


@on_cluster
async def test_all_pages_show_the_moment_of_the_first(api: Api) -> None:
    for name in "abcd":
        await api.post(CONFIGS, config(name))
    first = await api.get(CONFIGS, limit="1")
    await api.delete(f"{CONFIGS}/c")
    await api.post(CONFIGS, config("aa"))
    await api.merge(f"{CONFIGS}/b", {"data": {"x": "y"}})
    rest = await api.get(CONFIGS, **{"continue": first.metadata["continue"]})
    assert rest.names == ["b", "c", "d"]
    assert "data" not in rest.body["items"][0]
    assert rest.metadata["resourceVersion"] == first.metadata["resourceVersion"]


@on_cluster
async def test_a_page_that_is_asked_for_too_late_is_gone(api: Api) -> None:
    for name in "ab":
        await api.post(CONFIGS, config(name))
    first = await api.get(CONFIGS, limit="1")
    await api.post(CONFIGS, config("c"))
    api.server.store.compact()
    refused = await api.get(CONFIGS, limit="1", **{"continue": first.metadata["continue"]})
    assert (refused.status, refused.body["reason"]) == (410, "Expired")
    assert (await api.get(CONFIGS, **{"continue": "rubbish"})).status == 400


@on_cluster
async def test_a_list_can_show_an_exact_moment_of_the_past(api: Api) -> None:
    await api.post(CONFIGS, config("a"))
    moment = (await api.get(CONFIGS)).metadata["resourceVersion"]
    await api.delete(f"{CONFIGS}/a")
    then = await api.get(CONFIGS, resourceVersion=moment, resourceVersionMatch="Exact")
    assert (then.names, then.metadata["resourceVersion"]) == (["a"], moment)
    assert (await api.get(CONFIGS, resourceVersion=moment)).names == []


@on_cluster
async def test_the_future_cannot_be_listed(api: Api) -> None:
    refused = await api.get(CONFIGS, resourceVersion="999")
    assert (refused.status, refused.body["reason"]) == (504, "Timeout")
    assert (await api.get(CONFIGS, resourceVersion="x")).status == 400
    assert (await api.get(CONFIGS, limit="x")).status == 400
