"""Expands texts of a pod spec: replaces `$(VAR)`, and mount paths by their paths on this machine. Pure."""

import posixpath
import re
from collections.abc import Mapping

import msgspec

_REFERENCE = re.compile(r"\$(?:\$|\(([^)]*)\))")


def expand(text: str, variables: Mapping[str, str]) -> str:
    """Replace `$(VAR)` by the value of the variable, if it exists, and `$$` by `$`, as Kubernetes does."""

    def replacement(found: re.Match[str]) -> str:
        name = found[1]
        return "$" if name is None else variables.get(name, found[0])

    return _REFERENCE.sub(replacement, text)


class Mounts(msgspec.Struct, frozen=True):
    """The mount paths of a container and their paths on this machine; there is no mount namespace."""

    targets: Mapping[str, str]

    def translate(self, text: str) -> str:
        """Replace every mount path in the text: `/data` in `--to=/data/x`, but not in `/data2`."""
        if not self.targets:
            return text
        # Longest first: the mount /data/deep is not a directory of the mount /data.
        paths = "|".join(re.escape(path) for path in sorted(self.targets, key=len, reverse=True))
        # Do not match in the middle of another path or name.
        pattern = rf"(?<![\w./~}})-])(?:{paths})(?![\w.-])"
        return re.sub(pattern, lambda found: self.targets[found[0]], text)


def normal_path(path: str) -> str:
    """Return the path as it is compared: absolute, without a trailing slash."""
    return posixpath.normpath(posixpath.join("/", path)).replace("//", "/")
