"""CustomResourceDefinitions in one line, and how a test comes to have a kind of its own on either server."""

from typing import Any

from grove.api.types.meta import JsonObject
from tests.conformance.talk import Answer, Talk

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
GROUP = "conform.example.com"
RULES = "x-kubernetes-validations"
PRESERVE = "x-kubernetes-preserve-unknown-fields"
Causes = list[tuple[str, str, str]]


def obj(properties: JsonObject | None = None, **words: Any) -> JsonObject:
    """The schema of an object; words with two underscores stand for those with dashes."""
    return {"type": "object", "properties": properties or {}, **words}


def version(
    name: str, schema: JsonObject, *, storage: bool = True, resource_info: bool = True, **more: Any
) -> JsonObject:
    return {"name": name, "served": resource_info, "storage": storage, "schema": {"openAPIV3Schema": schema}, **more}


def definition(
    plural: str,
    schema: JsonObject | None = None,
    *,
    kind: str = "",
    group: str = GROUP,
    scope: str = "Namespaced",
    versions: list[JsonObject] | None = None,
    names: JsonObject | None = None,
    **spec: Any,
) -> JsonObject:
    """Of one version, `v1`, unless they are given."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "names": {"plural": plural, "kind": kind or plural.removesuffix("s").capitalize(), **(names or {})},
            "scope": scope,
            "versions": versions if versions is not None else [version("v1", schema or obj())],
            **spec,
        },
    }


class Kind:
    """A custom kind on one server, as one test sees it."""

    def __init__(self, api: Talk, definition: JsonObject) -> None:
        self.api = api
        self.spec: JsonObject = definition["spec"]
        self.definition_path = f"{DEFINITIONS}/{definition['metadata']['name']}"

    def at(self, name: str = "", subresource: str = "", *, version: str = "v1") -> str:
        place = f"/namespaces/{self.api.namespace}" if self.spec["scope"] == "Namespaced" else ""
        root = f"/apis/{self.spec['group']}/{version}{place}/{self.spec['names']['plural']}"
        return "/".join(filter(None, (root, name, subresource)))

    def body(self, spec: Any = None, *, name: str = "a", version: str = "v1", **more: Any) -> JsonObject:
        head = {"apiVersion": f"{self.spec['group']}/{version}", "kind": self.spec["names"]["kind"]}
        return {**head, "metadata": {"name": name}, **({} if spec is None else {"spec": spec}), **more}

    async def tried(self, spec: Any, **more: Any) -> Answer:
        """A create that leaves nothing behind."""
        return await self.api.post(self.at(), self.body(spec, **more), dryRun="All")

    async def created(self, spec: Any, *, version: str = "v1", **more: Any) -> Answer:
        answer = await self.api.post(self.at(version=version), self.body(spec, version=version, **more))
        assert answer.status == 201, answer.body
        return answer

    async def until_refused(self, spec: Any) -> None:
        """Until a changed definition holds: a real server takes a moment, and cannot list in between (429)."""
        await self.api.until_answered(lambda: self.tried(spec, name="refused"), lambda answer: answer.status == 422)
        await self.until_listed()

    async def until_listed(self, *, version: str = "v1") -> Answer:
        return await self.api.until(self.at(version=version), lambda answer: answer.status == 200)

    async def change_definition(self, **spec: Any) -> Answer:
        answer = await self.api.merge(self.definition_path, {"spec": spec})
        assert answer.status == 200, answer.body
        return answer


async def defined(api: Talk, wanted: JsonObject) -> Kind:
    """The kind, served; whoever asks first defines it."""
    answer = await api.post(DEFINITIONS, wanted)
    assert answer.status in (201, 409), answer.body
    kind = Kind(api, wanted)
    # Each version by itself: a real server has a cache of each, which takes a moment to begin (429).
    for each in wanted["spec"]["versions"]:
        if each["served"]:
            await kind.until_listed(version=each["name"])
    return kind


def causes_of(answer: Answer) -> Causes:
    """Field, reason and message of each cause, sorted: a real server names them in any order."""
    assert answer.refusal[:2] == (422, "Invalid"), answer.body
    assert answer.details is not None
    return sorted((cause["field"], cause["reason"], cause["message"]) for cause in answer.details["causes"])
