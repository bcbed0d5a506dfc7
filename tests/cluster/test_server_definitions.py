"""The definitions of our kinds, as everybody finds them: there, established, and not to be changed."""

from grove.api.crds import custom_resource_definitions
from tests.cluster.apidsl import Api, on_cluster

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
SETS = f"{DEFINITIONS}/podcliquesets.grove.io"
_WHY = "definitions can be read, not written"


@on_cluster
async def test_the_five_definitions_are_there_and_established(api: Api) -> None:
    listed = await api.get(DEFINITIONS)
    assert listed.names == sorted(crd["metadata"]["name"] for crd in custom_resource_definitions())
    for crd in listed.body["items"]:
        conditions = {condition["type"]: condition["status"] for condition in crd["status"]["conditions"]}
        assert conditions == {"NamesAccepted": "True", "Established": "True"}
        assert crd["status"]["storedVersions"] == ["v1alpha1"]
        assert crd["status"]["acceptedNames"] == crd["spec"]["names"]


@on_cluster
async def test_a_definition_looks_like_any_other_object(api: Api) -> None:
    await api.clock.sleep(60)
    found = await api.get(SETS)
    assert found.metadata["creationTimestamp"] == "2026-01-01T12:00:00Z"
    assert (found.metadata["generation"], len(found.metadata["uid"])) == (1, 36)
    assert found.body["spec"]["names"]["shortNames"] == ["pcs"]
    async with api.watch(DEFINITIONS) as watch:
        names = [await watch.next() for _ in range(5)]
    assert ("ADDED", "podcliquesets.grove.io") in names


@on_cluster
async def test_a_definition_of_ours_is_not_changed(api: Api) -> None:
    before = await api.get(SETS)
    changed = await api.merge(SETS, {"spec": {"scope": "Cluster"}})
    assert (changed.refusal[:2], _WHY in changed.refusal[2]) == ((403, "Forbidden"), True)
    status = await api.merge(f"{SETS}/status", {"status": {"conditions": []}})
    assert (status.refusal[:2], _WHY in status.refusal[2]) == ((403, "Forbidden"), True)
    assert (await api.delete(SETS)).refusal[:2] == (403, "Forbidden")
    assert (await api.delete(DEFINITIONS)).refusal[:2] == (403, "Forbidden")
    assert (await api.get(SETS)).body == before.body


@on_cluster
async def test_a_definition_may_be_annotated(api: Api) -> None:
    annotated = await api.merge(SETS, {"metadata": {"annotations": {"note": "x"}}})
    assert (annotated.status, annotated.metadata["annotations"]) == (200, {"note": "x"})
    assert annotated.metadata["generation"] == 1


@on_cluster
async def test_no_other_kind_can_be_defined(api: Api) -> None:
    ours = (await api.get(SETS)).body
    again = await api.post(DEFINITIONS, {**ours, "metadata": {"name": "podcliquesets.grove.io"}})
    assert again.refusal[:2] == (409, "AlreadyExists")
    other = await api.post(DEFINITIONS, {**ours, "metadata": {"name": "others.example.com"}})
    assert (other.refusal[:2], _WHY in other.refusal[2]) == ((403, "Forbidden"), True)


@on_cluster
async def test_definitions_are_stored_when_they_are_first_asked_for(api: Api) -> None:
    first = api.server.store.revision
    await api.get("/api/v1/namespaces/default/pods")
    assert api.server.store.revision == first
    await api.get(DEFINITIONS)
    stored = api.server.store.revision
    await api.get(DEFINITIONS)
    assert api.server.store.revision == stored == first + 5
