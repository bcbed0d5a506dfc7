"""Builds helm and promtool from Go modules, once each: `python -m tests.kube.tools.build`.

Both are packages of the module beside this file, whose Kubernetes modules are those of the control plane, so that the
Go build cache has most of them. The binaries are kept outside the tree, keyed by the module files.
"""

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import msgspec

from tests.kube.controlplane.build import CannotBuildError

HERE = Path(__file__).parent


class Tool(msgspec.Struct, frozen=True, kw_only=True):
    """A program of another project. `tags`: what to leave out of it."""

    name: str
    package: str
    tags: str = ""


HELM = Tool(name="helm", package="helm.sh/helm/v4/cmd/helm")
# Without the service discoveries of clouds, which are most of it.
PROMTOOL = Tool(
    name="promtool", package="github.com/prometheus/prometheus/cmd/promtool", tags="remove_all_sd,netgo,builtinassets"
)
TOOLS = (HELM, PROMTOOL)


def tool_path(tool: Tool) -> Path:
    """Where the program is, or will be."""
    inputs = (HERE / "go.mod", HERE / "go.sum")
    content = b"\0".join([tool.package.encode(), tool.tags.encode(), *(path.read_bytes() for path in inputs)])
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "grove" / "tools" / hashlib.sha256(content).hexdigest()[:12] / tool.name


def build_tool(tool: Tool) -> Path:
    """The program, built if it is not there yet: one or two minutes when nothing is cached."""
    target = tool_path(tool)
    if target.exists():
        return target
    go = shutil.which("go")
    if go is None:
        raise CannotBuildError(f"make test-kube needs Go 1.26 or newer on the PATH, to build {tool.name}")
    print(f"building {tool.name} into {target.parent} (a minute or two, once)", file=sys.stderr, flush=True)
    target.parent.mkdir(parents=True, exist_ok=True)
    draft = target.with_name(f".{target.name}.{os.getpid()}")
    command = [go, "build", "-trimpath", "-ldflags=-s -w", "-tags", tool.tags, "-o", str(draft), tool.package]
    done = subprocess.run(command, cwd=HERE, env={**os.environ, "CGO_ENABLED": "0"}, check=False)
    if done.returncode != 0:
        raise CannotBuildError(f"go build of {tool.name} failed; its words are above")
    draft.rename(target)
    return target


def run_tool(tool: Tool, *arguments: str, cwd: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run the program with a home of its own: it has no configuration of the machine."""
    environment = {"PATH": os.environ["PATH"], "HOME": str(cwd), **variables}
    command = [str(build_tool(tool)), *arguments]
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=300, check=False)


if __name__ == "__main__":
    try:
        for one in TOOLS:
            print(build_tool(one))
    except CannotBuildError as error:
        sys.exit(str(error))
