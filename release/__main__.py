"""Build everything that a release publishes into `dist/`, with checksums.

sdist and wheel, the image's requirements with hashes, manifests, the chart, the kubectl plugin, an SBOM. Only the
requirements need an index of packages: `--no-lock` leaves them out.
"""

import argparse
import hashlib
import shutil
import subprocess
import sys
from pathlib import Path
from string import Template

import msgspec

from grove import __version__
from release.archives import add_plugin, package_chart
from release.lock import locked_requirements
from release.sbom import build_sbom

ROOT = Path(__file__).resolve().parent.parent
CHECKSUMS = "SHA256SUMS"


def build_release(folder: Path, *, address: str, has_lock: bool) -> list[Path]:
    """Return the files of the release. The folder is emptied first."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    _run("-m", "build", "--no-isolation", "--outdir", str(folder), str(ROOT))
    (wheel,) = folder.glob("*.whl")
    (folder / f"grove-{__version__}.yaml").write_text(_run("-m", "grove.cli.main", "manifests"))
    (folder / f"grove-crds-{__version__}.yaml").write_text(_run("-m", "grove.cli.main", "crds"))
    package_chart(ROOT / "charts" / "grove-operator", folder)
    sbom = msgspec.json.format(msgspec.json.encode(build_sbom(wheel)), indent=1)
    (folder / f"grove-operator-{__version__}.cdx.json").write_bytes(sbom + b"\n")
    if has_lock:
        (folder / f"requirements-{__version__}.txt").write_text(locked_requirements(wheel, ROOT / "constraints.txt"))
    plugin = add_plugin(ROOT / "release" / "krew" / "kubectl-grove", wheel, ROOT / "LICENSE", folder)
    manifest = Template((ROOT / "release" / "krew" / "grove.yaml").read_text())
    words = {"VERSION": __version__, "ADDRESS": address, "SHA256": sha256(plugin)}
    (folder / "krew-grove.yaml").write_text(manifest.substitute(words))
    files = sorted(folder.iterdir())
    (folder / CHECKSUMS).write_text("".join(f"{sha256(path)}  {path.name}\n" for path in files))
    return [*files, folder / CHECKSUMS]


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _run(*arguments: str) -> str:
    done = subprocess.run([sys.executable, *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"release: python {' '.join(arguments)} failed\n{done.stdout}{done.stderr}")
    return done.stdout


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m release", description=__doc__)
    parser.add_argument("--output", type=Path, default=ROOT / "dist", help="the folder; it is emptied")
    parser.add_argument("--address", default="ADDRESS", help="where the files will be downloaded from, for krew")
    parser.add_argument("--no-lock", action="store_true", help="without the requirements with hashes")
    options = parser.parse_args()
    for path in build_release(options.output, address=options.address, has_lock=not options.no_lock):
        print(f"{path.stat().st_size:>10}  {path.name}")


if __name__ == "__main__":
    main()
