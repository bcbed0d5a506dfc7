"""Texts of a pod made ready for this machine: `$(VAR)` replaced, mount paths by where the files really are. Pure."""

import posixpath
import re
from collections.abc import Mapping

import msgspec

_REFERENCE = re.compile(r"\$(?:\$|\(([^)]*)\))")


def expand(text: str, variables: Mapping[str, str]) -> str:
    """As Kubernetes does: `$(VAR)` is the variable's value, if there is one; `$$` is a dollar sign."""

    def replacement(found: re.Match[str]) -> str:
        name = found[1]
        return "$" if name is None else variables.get(name, found[0])

    return _REFERENCE.sub(replacement, text)


class Mounts(msgspec.Struct, frozen=True):
    """Where a container's mount paths lead: without a file system of its own, each is found elsewhere."""

    places: Mapping[str, str]

    def mapped(self, text: str) -> str:
        """The text with every mount path in it replaced; `/data` is one in `--to=/data/x`, and none in `/data2`."""
        if not self.places:
            return text
        # Longest first: /data/deep is not a folder of /data.
        paths = "|".join(re.escape(path) for path in sorted(self.places, key=len, reverse=True))
        # Not after what makes it the middle of another path, nor before what makes it a longer name.
        pattern = rf"(?<![\w./~}})-])(?:{paths})(?![\w.-])"
        return re.sub(pattern, lambda found: self.places[found[0]], text)


def normal_path(path: str) -> str:
    """A mount path as it is compared: absolute, without a slash at its end."""
    return posixpath.normpath(posixpath.join("/", path)).replace("//", "/")
