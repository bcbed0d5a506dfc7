"""What a release contains, the Dockerfile, and the workflow."""

import re
import tarfile
from pathlib import Path
from typing import Any

import pytest
import yaml

from grove import __version__
from release.__main__ import CHECKSUMS, build_release, sha256
from release.archives import package_chart
from release.lock import HASH, ArchiveInfo, DownloadInfo, InstallItem, InstallReport, PackageMetadata, requirement_lines
from tests.helm_chart import CHART, chart_version
from tests.markdown import ROOT


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("release") / "dist"
    build_release(folder, address="https://downloads.example", has_lock=False)
    return folder


@pytest.mark.deep(reason="builds once more what the tests of the wheel, the chart and the manifests build")
def test_a_release_has_everything_and_its_checksums_are_right(dist: Path) -> None:
    names = {path.name for path in dist.iterdir()}
    assert names == {
        f"grove_operator-{__version__}-py3-none-any.whl", f"grove_operator-{__version__}.tar.gz",
        f"grove-{__version__}.yaml", f"grove-crds-{__version__}.yaml", f"grove-operator-{chart_version()}.tgz",
        f"grove-operator-{__version__}.cdx.json", f"kubectl-grove-{__version__}.tar.gz", "krew-grove.yaml", CHECKSUMS,
    }  # fmt: skip
    lines = (dist / CHECKSUMS).read_text().splitlines()
    sums = {name: found for found, _, name in (line.partition("  ") for line in lines)}
    assert sorted(sums) == sorted(names - {CHECKSUMS})
    assert [name for name, found in sums.items() if sha256(dist / name) != found] == []
    krew = yaml.safe_load((dist / "krew-grove.yaml").read_text())["spec"]
    assert krew["platforms"][0]["sha256"] == sums[f"kubectl-grove-{__version__}.tar.gz"]
    assert krew["version"] == f"v{__version__}"


@pytest.mark.deep(reason="reads the release of the test above")
def test_the_bill_of_materials_names_every_dependency_and_which_are_optional(dist: Path) -> None:
    bom: dict[str, Any] = yaml.safe_load((dist / f"grove-operator-{__version__}.cdx.json").read_text())
    assert (bom["bomFormat"], bom["metadata"]["component"]["name"]) == ("CycloneDX", "grove-operator")
    scopes = {one["name"].lower(): one["scope"] for one in bom["components"]}
    assert {scopes[name] for name in ("aiohttp", "msgspec", "cryptography", "idna")} == {"required"}
    assert {scopes[name] for name in ("cel-expr-python", "protobuf")} == {"optional"}
    pins = {line.partition("==")[0].lower() for line in (ROOT / "constraints.txt").read_text().splitlines()}
    assert [name for name in scopes if name.replace("-", "_") not in pins and name not in pins] == []
    references = {one["bom-ref"] for one in bom["components"]}
    assert set(bom["dependencies"][0]["dependsOn"]) < references


def test_a_chart_is_packed_with_the_definitions_behind_its_link_and_always_the_same_bytes(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    first = package_chart(CHART, tmp_path / "a").read_bytes()
    second = package_chart(CHART, tmp_path)
    assert second.read_bytes() == first
    with tarfile.open(second) as archive:
        names = archive.getnames()
        assert all(entry.isreg() for entry in archive.getmembers())
    assert {"grove-operator/Chart.yaml", "grove-operator/files/crds/grove.io_podcliques.yaml"} < set(names)


def test_the_lock_has_hashes_and_no_address() -> None:
    def item(name: str) -> InstallItem:
        info = DownloadInfo(archive_info=ArchiveInfo(hashes={"sha256": name * 2}))
        return InstallItem(metadata=PackageMetadata(name=name, version="1"), download_info=info)

    report = InstallReport(install=(item("b"), item("A"), item("grove-operator")))
    text = requirement_lines(report, Path("grove_operator-1-py3-none-any.whl"))
    assert text == f"A==1 {HASH}=sha256:AA\nb==1 {HASH}=sha256:bb\n"


# --- the image -------------------------------------------------------------------------------------------------------

DOCKERFILE = (ROOT / "Dockerfile").read_text()


def instructions() -> list[tuple[str, str]]:
    text = re.sub(r"^#.*\n", "", DOCKERFILE, flags=re.MULTILINE).replace("\\\n", " ")
    return [(line.split()[0], line.partition(" ")[2]) for line in text.splitlines() if line.strip()]


def test_the_base_image_is_one_variable_that_can_be_pinned_to_a_digest() -> None:
    assert instructions()[0] == ("ARG", "BASE=python:3.13-slim")
    assert [rest.split()[0] for name, rest in instructions() if name == "FROM"] == ["${BASE}", "${BASE}"]
    assert "sha256:" in DOCKERFILE


def test_the_image_follows_the_rules_of_dockerfiles() -> None:
    last_stage = instructions()[[name for name, _ in instructions()].index("FROM", 2) :]
    names = [name for name, _ in last_stage]
    # Neither installs nor runs anything, and ends as another user than root.
    assert names == ["FROM", "COPY", "ENV", "USER", "ENTRYPOINT", "CMD"]
    assert dict(last_stage)["USER"].split(":")[0].isdecimal()
    assert int(dict(last_stage)["USER"].split(":")[0]) >= 1000
    runs = [rest for name, rest in instructions() if name == "RUN"]
    assert [run for run in runs if re.search(r"sudo|curl|wget|apt-get|:latest", run)] == []
    assert [run for run in runs if "pip" in run and "install" in run and "--no-cache-dir" not in run] == []
    assert [name for name, _ in instructions() if name == "ADD"] == []


# --- the workflow ----------------------------------------------------------------------------------------------------


def test_the_workflow_runs_targets_that_exist_with_few_permissions() -> None:
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yaml").read_text())
    assert workflow["permissions"] == {"contents": "read"}
    targets = re.findall(r"^([a-z][a-z-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    runs = [step["run"] for job in workflow["jobs"].values() for step in job["steps"] if "run" in step]
    assert {"make lint", "make test", "make test-all", "make test-kube", "make release"} == set(runs)
    assert [run for run in runs if run.removeprefix("make ") not in targets] == []
    needs = {name for job in workflow["jobs"].values() for name in job.get("needs", ())}
    assert needs <= set(workflow["jobs"])
