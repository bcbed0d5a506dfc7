"""The reference pages of Grove's kinds and of the operator's configuration: every field of every kind.

`python -m tests.field_reference` writes the pages into `docs/reference/`; `test_field_reference.py` compares. Types,
defaults and descriptions come from the types and the CRD schemas. Which fields of a set are immutable is found by
changing each field of a set that has all of them, and asking the validation of updates.
"""

import copy
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import yaml

from grove.api.resources import GROUPS, PODCLIQUES, PODCLIQUESETS, PODGANGS, TOPOLOGY_BINDINGS, Resource
from grove.api.schema.crd_generator import own_schema
from grove.api.types.meta import JsonObject
from grove.api.types.operatorconfiguration import OperatorConfiguration
from grove.api.types.podcliqueset import PodCliqueSet, WorkloadType
from grove.api.validation.immutable_fields import change_errors
from grove.api.values.yaml_text import expanded_yaml
from grove.installation.install_options import DEFAULT_CONFIGURATION
from grove.sim.simulation import World
from grove.sim.virtual_clock import run_virtual
from tests.configuration_keys import MEANINGS
from tests.reference import conditions_page

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "docs" / "reference"
COMMAND = "python -m tests.field_reference"

NOTE = (
    f"This page is generated from the types and the CRD schemas: `{COMMAND}` writes it again. `[]` in a path means "
    "every item of a list. [Validation](validation.md) has every rule about the values."
)
CONFIGURATION_INTRO = (
    "`operator.config.grove.io/v1alpha1`: the file that `grove operator --config FILE` reads once, at the start. It is "
    "not an object of the API. An administrator may change every key; a change takes effect when the operator starts "
    "again. Every key is optional. A wrong value ends the program with exit code 2 and one line per error, with the "
    "path of the key. An unknown key is a warning in the log, with the nearest known key. Files written for the Go "
    "implementation of Grove load unchanged. [Operate the operator](../how-to/operate.md) explains addresses, leader "
    "election and probes."
)
CONFIGURATION_NOTE = (
    f"This page is generated from the types and from `tests/configuration_keys.py`: `{COMMAND}` writes it again."
)

# Defaults that admission computes. The others are in the schema.
COMPUTED_DEFAULTS = {
    "spec.template.terminationDelay": "none: gang termination is off; `0s` in a training set",
    "spec.template.headlessServiceConfig": "with its defaults",
    "spec.template.cliques[].spec.roleName": "the name of the clique",
    "spec.template.cliques[].spec.replicas": "1",
    "spec.template.cliques[].spec.minAvailable": "`replicas`",
    "spec.template.cliques[].spec.autoScalingConfig.minReplicas": "`replicas`",
    "spec.template.podCliqueScalingGroups[].scaleConfig.minReplicas": "`replicas`",
    "spec.template.podCliqueScalingGroups[].terminationDelay": "that of the set",
}

TOPOLOGY_EXAMPLE = """\
apiVersion: grove.io/v1alpha1
kind: ClusterTopologyBinding
metadata:
  name: grove-topology
spec:
  levels:
    - {domain: zone, key: topology.kubernetes.io/zone}
    - {domain: block, key: topology.kubernetes.io/block}
    - {domain: rack, key: topology.kubernetes.io/rack}
    - {domain: host, key: kubernetes.io/hostname}
"""


class Field(msgspec.Struct, frozen=True, kw_only=True):
    """One row of a page."""

    path: str
    type: str
    default: str
    changed_by: str
    meaning: str


class Kind(msgspec.Struct, frozen=True, kw_only=True):
    """One page: the kind, what it is, and who writes its spec."""

    resource: Resource[Any]
    short_name: str
    intro: str
    # Who may change a field of the spec, where no path says otherwise.
    writer: str
    writers: dict[str, str] = {}


KINDS = (
    Kind(
        resource=PODCLIQUESETS,
        short_name="pcs",
        intro="A PodCliqueSet is the object that a user writes. The operator creates everything else from it.",
        writer="user",
    ),
    Kind(
        resource=PODCLIQUES,
        short_name="pclq",
        intro="A PodClique is a group of pods of one role. The operator creates it for a clique of a PodCliqueSet.",
        writer="operator",
        writers={"spec.replicas": "user or autoscaler, with `/scale`; immutable in a training set"},
    ),
    Kind(
        resource=GROUPS,
        short_name="pcsg",
        intro=(
            "A PodCliqueScalingGroup is a group of cliques that scale together. The operator creates one for every "
            "group of every replica of a PodCliqueSet."
        ),
        writer="operator",
        writers={"spec.replicas": "user or autoscaler, with `/scale`; immutable in a training set"},
    ),
    Kind(
        resource=PODGANGS,
        short_name="pg",
        intro=(
            "A PodGang is a group of pods that a scheduler places together or not at all. The operator writes it; "
            "schedulers read it."
        ),
        writer="operator",
    ),
    Kind(
        resource=TOPOLOGY_BINDINGS,
        short_name="ct",
        intro=(
            "A ClusterTopologyBinding names the topology levels of a cluster: which node label stands for a zone, a "
            "block or a rack. It is not namespaced."
        ),
        writer="administrator",
    ),
)  # fmt: skip


def pages() -> dict[str, str]:
    """Return the text of every generated page by its file name."""
    examples = _examples()
    found = {f"{kind.resource.kind.lower()}.md": _page(kind, examples[kind.resource.kind]) for kind in KINDS}
    return {**found, "operatorconfiguration.md": _configuration_page(), "conditions.md": conditions_page()}


def fields_of(kind: Kind) -> tuple[Field, ...]:
    """Return every field of spec and status of a kind, in the order of the types."""
    mutability = _mutability() if kind.resource is PODCLIQUESETS else {}
    schema = own_schema(kind.resource)["properties"]
    return tuple(
        Field(
            path=path,
            type=_type(found),
            default=_default(path if kind.resource is PODCLIQUESETS else "", found, is_required=is_required),
            changed_by=_changed_by(kind, path, mutability),
            meaning=found.get("description", "").replace("|", "\\|"),
        )
        for part in ("spec", "status")
        for path, found, is_required in _walk(schema[part], part)
    )


# --- pages -----------------------------------------------------------------------------------------------------------


def _page(kind: Kind, example: str) -> str:
    resource, fields = kind.resource, fields_of(kind)
    lines = [
        f"# {resource.kind}",
        "",
        _wrapped(f"`{resource.api_version}`, short name `{kind.short_name}`. {kind.intro}"),
        "",
        _wrapped(NOTE),
        "",
        "## Spec",
        "",
        *_table(field for field in fields if field.path.startswith("spec")),
        "",
        "## Status",
        "",
        "The operator writes every field of the status. The API server ignores a status in `kubectl apply`.",
        "",
        *_table((field for field in fields if field.path.startswith("status")), is_status=True),
        "",
        "## Example",
        "",
        "```yaml",
        example.rstrip(),
        "```",
        "",
    ]
    return "\n".join(lines)


def _wrapped(text: str) -> str:
    return textwrap.fill(text, 120, break_long_words=False, break_on_hyphens=False)


def _table(fields: Iterator[Field], *, is_status: bool = False) -> Iterator[str]:
    titles = ("field", "type", "meaning") if is_status else ("field", "type", "default", "who may change it", "meaning")
    yield "| " + " | ".join(titles) + " |"
    yield "|" + "---|" * len(titles)
    for field in fields:
        middle = () if is_status else (field.default, field.changed_by)
        yield "| " + " | ".join((f"`{field.path}`", field.type, *middle, field.meaning)) + " |"


def _configuration_page() -> str:
    rows = [
        f"| `{path}` | {type_} | {default} | {MEANINGS[path]} |"
        for path, type_, default in configuration_keys(OperatorConfiguration)
    ]
    lines = [
        "# OperatorConfiguration",
        "",
        _wrapped(CONFIGURATION_INTRO),
        "",
        _wrapped(CONFIGURATION_NOTE),
        "",
        "| key | type | default | meaning |",
        "|---|---|---|---|",
        *rows,
        "",
        "## Example",
        "",
        "The configuration that `grove manifests` installs:",
        "",
        "```yaml",
        DEFAULT_CONFIGURATION.rstrip(),
        "```",
        "",
    ]  # fmt: skip
    return "\n".join(lines)


def configuration_keys(kind: type[msgspec.Struct], path: str = "") -> Iterator[tuple[str, str, str]]:
    """Yield path, type and default of every key, without `apiVersion` and `kind`."""
    for field in msgspec.structs.fields(kind):
        at = f"{path}{field.encode_name}"
        if at in ("apiVersion", "kind"):
            continue
        if at == "scheduler.profiles":
            yield f"{at}[].name", "string", "`default-scheduler`"
            yield f"{at}[].config", "object", ""
        elif isinstance(field.type, type) and issubclass(field.type, msgspec.Struct):
            yield from configuration_keys(field.type, f"{at}.")
        else:
            yield at, _configuration_type(field.type), _shown(field.default)


def _configuration_type(type_: Any) -> str:
    names = {str: "string", int: "integer", float: "number", bool: "boolean", tuple[str, ...]: "list of string"}
    return names.get(type_, "string")


def _shown(default: Any) -> str:
    match default:
        case "" | None | msgspec.NODEFAULT:
            return ""
        case ():
            return "`[]`"
        case _:
            return f"`{msgspec.json.encode(default).decode()}`".replace('"', "")


# --- fields ----------------------------------------------------------------------------------------------------------


def _walk(schema: JsonObject, path: str) -> Iterator[tuple[str, JsonObject, bool]]:
    """Yield path, schema and whether it is required, for every field below the schema."""
    below, at = (schema["items"], f"{path}[]") if schema["type"] == "array" else (schema, path)
    for name, inner in below.get("properties", {}).items():
        yield f"{at}.{name}", inner, name in below.get("required", ())
        yield from _walk(inner, f"{at}.{name}")


def _type(schema: JsonObject) -> str:
    match schema:
        case {"enum": [*words]}:
            return "one of " + ", ".join(f"`{word}`" for word in words)
        case {"format": "date-time"}:
            return "time"
        case {"type": "array", "items": items}:
            return f"list of {_type(items)}"
        case {"additionalProperties": value}:
            return f"map of string to {_type(value)}"
        case {"x-kubernetes-preserve-unknown-fields": True}:
            return "object of Kubernetes"
        case {"x-kubernetes-int-or-string": True}:
            return "integer or string"
        case _:
            return str(schema["type"])


def _default(path: str, schema: JsonObject, *, is_required: bool) -> str:
    if path in COMPUTED_DEFAULTS:
        return COMPUTED_DEFAULTS[path]
    if "default" in schema:
        return f"`{msgspec.json.encode(schema['default']).decode()}`".replace('"', "")
    return "required" if is_required else ""


def _changed_by(kind: Kind, path: str, mutability: dict[str, str]) -> str:
    if path.startswith("status"):
        return "operator"
    return kind.writers.get(path) or mutability.get(path) or kind.writer


# --- what an update may change ---------------------------------------------------------------------------------------


def _mutability() -> dict[str, str]:
    """Return for every field of a set's spec who may change it, as the validation of updates answers."""
    schema = own_schema(PODCLIQUESETS)["properties"]["spec"]
    paths = [(path, found) for path, found, _ in _walk(schema, "spec")]
    inference = {path: _is_rejected(path, found, WorkloadType.INFERENCE) for path, found in paths}
    training = {path: _is_rejected(path, found, WorkloadType.TRAINING) for path, found in paths}
    answers = {path: _answer(inference[path], training[path]) for path, _ in paths}
    leaves = {path for path, found in paths if not _has_fields(found)}
    for path, found in paths:
        inner = [answers[leaf] for leaf in leaves if re.match(re.escape(path) + r"(\[\])?\.", leaf)]
        if inner and any(answer != "immutable" for answer in inner):
            is_fixed = found["type"] == "array" and inference[path]
            answers[path] = "items cannot be added or removed" if is_fixed else "user"
        elif inner:
            answers[path] = "immutable"
    return answers


def _has_fields(schema: JsonObject) -> bool:
    return "properties" in schema or "properties" in schema.get("items", {})


def _answer(is_immutable: bool, is_immutable_in_training: bool) -> str:
    if is_immutable:
        return "immutable"
    return "user; immutable in a training set" if is_immutable_in_training else "user"


def _is_rejected(path: str, schema: JsonObject, workload_type: WorkloadType) -> bool:
    """Change one field of a set that has every field, and return whether the validation of updates rejects it."""
    old = {"metadata": {"name": "p"}, "spec": _sample(own_schema(PODCLIQUESETS)["properties"]["spec"])}
    old["spec"]["workloadType"] = workload_type.value
    new = copy.deepcopy(old)
    *parents, last = re.split(r"(?<=\[\])\.|\.", path)
    place: Any = new
    for step in parents:
        place = place[step.removesuffix("[]")]
        place = place[0] if step.endswith("[]") else place
    place[last] = _changed(place[last], schema)
    before, after = msgspec.convert(old, PodCliqueSet), msgspec.convert(new, PodCliqueSet)
    return any(True for _ in change_errors(before, after))


def _sample(schema: JsonObject) -> Any:
    """Return a value with every field that the schema knows."""
    match schema:
        case {"properties": properties}:
            return {name: _sample(inner) for name, inner in properties.items()}
        case {"type": "array", "items": items}:
            return [_sample(items)]
        case {"enum": [first, *_]}:
            return first
        case {"type": "integer"}:
            return 1
        case {"type": "boolean"}:
            return True
        case {"type": "object"}:
            return {"a": "b"}
        case _:
            return "1s"


def _changed(value: Any, schema: JsonObject) -> Any:
    match value:
        case bool():
            return not value
        case int():
            return value + 1
        case str():
            return next((word for word in schema.get("enum", ()) if word != value), "2s")
        case list():
            return []
        case _:
            return {**value, "labels": {"a": "c"}} if "properties" in schema else {"a": "c"}


# --- examples --------------------------------------------------------------------------------------------------------


def _examples() -> dict[str, str]:
    """Return an example of each kind: the set of the quickstart, and objects that the operator creates for it."""
    quickstart = ROOT / "examples" / "quickstart.yaml"
    created = run_virtual(_created(quickstart))
    return {
        PODCLIQUESETS.kind: expanded_yaml(yaml.safe_load(quickstart.read_text())),
        TOPOLOGY_BINDINGS.kind: TOPOLOGY_EXAMPLE,
        **{kind: expanded_yaml(found) for kind, found in created.items()},
    }


async def _created(manifest: Path) -> dict[str, JsonObject]:
    """Return metadata and spec of one object of each kind that the operator creates for the manifest."""
    found: dict[str, JsonObject] = {}
    async with World(seed=1, nodes=8) as world:
        await world.apply(manifest)
        await world.settle()
        for resource, name in (
            (PODCLIQUES, "chat-0-frontend"),
            (GROUPS, "chat-0-decode"),
            (PODGANGS, "chat-0-decode-0"),
        ):
            answer = await world.client.read(resource.path("default", name))
            assert answer is not None, name
            metadata = {key: answer["metadata"][key] for key in ("name", "namespace", "labels")}
            head = {"apiVersion": answer["apiVersion"], "kind": answer["kind"], "metadata": metadata}
            found[resource.kind] = {**head, "spec": answer["spec"]}
    return found


def main() -> None:
    for name, text in pages().items():
        (FOLDER / name).write_text(text)


if __name__ == "__main__":
    main()
