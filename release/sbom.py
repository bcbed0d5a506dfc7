"""The bill of materials of the distribution, in CycloneDX: what the wheel needs, with versions and licenses."""

from collections.abc import Iterator
from email.parser import Parser
from importlib.metadata import Distribution, distribution
from pathlib import Path
from typing import Any
from zipfile import ZipFile

from packaging.requirements import Requirement

EXTRA = "local"


def build_sbom(wheel: Path) -> dict[str, Any]:
    """Return the document. What only the extra `local` needs has the scope `optional`."""
    with ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith("/METADATA")]
        metadata = Parser().parsestr(archive.read(name).decode())
    wanted = [Requirement(line) for line in metadata.get_all("Requires-Dist", ())]
    always = {one.name: one for one in needed(wanted, "")}
    everything = {one.name: one for one in needed(wanted, EXTRA)}
    root = _reference(str(metadata["Name"]), str(metadata["Version"]))
    components = [
        _component(one, "required" if name in always else "optional") for name, one in sorted(everything.items())
    ]
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "bom-ref": root,
                "name": metadata["Name"],
                "version": metadata["Version"],
                "purl": root,
                "licenses": [{"expression": metadata["License-Expression"]}],
            }
        },
        "components": components,
        "dependencies": [
            {"ref": root, "dependsOn": sorted(one["bom-ref"] for one in _direct(wanted, components))},
            *({"ref": one["bom-ref"]} for one in components),
        ],
    }


def needed(wanted: list[Requirement], extra: str) -> Iterator[Distribution]:
    """Yield the installed distributions that these requirements need, directly and indirectly, once each."""
    seen: set[str] = set()
    open_ones = [(one, extra) for one in wanted]
    while open_ones:
        one, of_extra = open_ones.pop()
        if one.name in seen or (one.marker is not None and not one.marker.evaluate({"extra": of_extra})):
            continue
        seen.add(one.name)
        found = distribution(one.name)
        yield found
        open_ones += [(Requirement(line), "") for line in found.requires or ()]


def _direct(wanted: list[Requirement], components: list[dict[str, Any]]) -> list[dict[str, Any]]:
    names = {_canonical(one.name) for one in wanted}
    return [one for one in components if _canonical(one["name"]) in names]


def _component(one: Distribution, scope: str) -> dict[str, Any]:
    reference = _reference(one.name, one.version)
    expression = _field(one, "License-Expression")
    declared = _field(one, "License")
    # Some have the whole text of the license in this field.
    named = declared if "\n" not in declared else ""
    licenses = [{"expression": expression}] if expression else [{"license": {"name": named}}] if named else []
    return {
        "type": "library",
        "bom-ref": reference,
        "name": one.name,
        "version": one.version,
        "purl": reference,
        "scope": scope,
        **({"licenses": licenses} if licenses else {}),
    }


def _field(one: Distribution, name: str) -> str:
    return str(one.metadata[name]) if name in one.metadata else ""


def _reference(name: str, version: str) -> str:
    return f"pkg:pypi/{_canonical(name)}@{version}"


def _canonical(name: str) -> str:
    return name.lower().replace("_", "-").replace(".", "-")
