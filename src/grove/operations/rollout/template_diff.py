"""Compare two versions of a set's pod templates: images first, other differences by field. Pure."""

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from grove.api.template_hash import canonical_template
from grove.api.template_revision import CliqueRevision, RevisionTemplate
from grove.api.types.meta import JsonObject, WireStruct
from grove.api.types.podclique import PodCliqueSpec
from grove.api.types.podcliqueset import CliqueTemplate

_CONTAINERS = ("initContainers", "containers")


class ImageChange(WireStruct):
    container: str
    before: str
    after: str


class CliqueChange(WireStruct):
    """The differences of one clique's pod template."""

    clique: str
    images: tuple[ImageChange, ...] = ()
    # Everything else that differs, such as `engine.env` or `nodeSelector`.
    fields: tuple[str, ...] = ()

    @property
    def what(self) -> str:
        """Return the differences as a text, without the name of the clique."""
        is_several = len({image.container for image in self.images}) > 1
        parts = [
            f"image {f'of {image.container} ' if is_several else ''}{image.before} -> {image.after}"
            for image in self.images
        ]
        return ", ".join([*parts, *self.fields])


def describe_changes(changes: Iterable[CliqueChange]) -> list[str]:
    """Return one text per distinct change, with all cliques that it applies to."""
    cliques: dict[str, list[str]] = {}
    for change in changes:
        cliques.setdefault(change.what, []).append(change.clique)
    return [f"{', '.join(names)}: {what}" for what, names in cliques.items()]


def template_changes(old: RevisionTemplate, new: RevisionTemplate) -> tuple[CliqueChange, ...]:
    """Return the changed cliques. As in the operator, templates that make the same pods are equal."""
    before = {clique.name: clique for clique in old.cliques}
    found: list[CliqueChange] = []
    for clique in new.cliques:
        previous = before.get(clique.name)
        if previous is None:
            found.append(CliqueChange(clique=clique.name, fields=("new",)))
            continue
        one, other = _pods(previous, old.priority_class_name), _pods(clique, new.priority_class_name)
        if one != other:
            images = tuple(_images(one["podSpec"], other["podSpec"]))
            found.append(CliqueChange(clique=clique.name, images=images, fields=tuple(_fields(one, other))))
    return tuple(found)


def _pods(clique: CliqueRevision, priority_class_name: str) -> JsonObject:
    template = CliqueTemplate(
        name=clique.name,
        labels=clique.labels,
        annotations=clique.annotations,
        spec=PodCliqueSpec(pod_spec=clique.pod_spec),
    )
    decoded: JsonObject = msgspec.json.decode(canonical_template(template, priority_class_name))
    return decoded


def _images(old: JsonObject, new: JsonObject) -> Iterator[ImageChange]:
    for kind in _CONTAINERS:
        before = _by_name(old.get(kind))
        for name, container in _by_name(new.get(kind)).items():
            known = before.get(name)
            if known is not None and known.get("image") != container.get("image"):
                yield ImageChange(
                    container=name, before=str(known.get("image", "")), after=str(container.get("image", ""))
                )


def _fields(old: JsonObject, new: JsonObject) -> Iterator[str]:
    for kind in ("labels", "annotations"):
        if old.get(kind) != new.get(kind):
            yield kind
    before, after = old["podSpec"], new["podSpec"]
    for kind in _CONTAINERS:
        yield from _container_fields(kind, before.get(kind), after.get(kind))
    for key in _keys(before, after):
        if key not in _CONTAINERS and before.get(key) != after.get(key):
            yield key


def _container_fields(kind: str, old: Any, new: Any) -> Iterator[str]:
    before, after = _by_name(old), _by_name(new)
    for name in _keys(before, after):
        if name not in after:
            yield f"{name} removed"
        elif name not in before:
            yield f"{name} added"
        else:
            for key in _keys(before[name], after[name]):
                if key != "image" and before[name].get(key) != after[name].get(key):
                    yield f"{name}.{key}"
    if before == after and old != new:
        yield f"order of {kind}"


def _keys(one: JsonObject, other: JsonObject) -> list[str]:
    return [*one, *(key for key in other if key not in one)]


def _by_name(containers: Any) -> dict[str, JsonObject]:
    """Return containers by name. Tolerates any shape, because pod specs are not decoded here."""
    if not isinstance(containers, list):
        return {}
    return {str(one.get("name", "")): one for one in containers if isinstance(one, dict)}
