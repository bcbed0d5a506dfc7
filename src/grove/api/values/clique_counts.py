"""Format and parse `NAME:COUNT`, the form in which the init container gets the PodCliques that it waits for."""

from collections.abc import Iterable

import msgspec

# The init container, and its flag. Both are part of Grove's wire (docs/reference/wire.md).
INIT_CONTAINER = "grove-initc"
PODCLIQUES_FLAG = "--podcliques"
# Its volumes.
TOKEN_VOLUME = "grove-initc-token"
POD_INFO_VOLUME = "pod-info-vol"
# Its image in the embedded cluster, which pulls none.
LOCAL_IMAGE = "grove-operator"


class CliqueCount(msgspec.Struct, frozen=True, kw_only=True):
    """A PodClique, and the number of its pods that must be ready."""

    name: str
    count: int

    def __str__(self) -> str:
        return f"{self.name}:{self.count}"


def parse_clique_count(text: str) -> CliqueCount:
    """Parse `NAME:COUNT`. Raises ValueError, which says what is wrong."""
    name, _, count = text.rpartition(":")
    if not name or not (count.isascii() and count.isdecimal()) or int(count) == 0:
        raise ValueError(f"{text!r}: expected NAME:COUNT with a count above 0, such as chat-0-leader:1")
    return CliqueCount(name=name, count=int(count))


def clique_counts_of(arguments: Iterable[str]) -> tuple[CliqueCount, ...]:
    """Return the PodCliques in the arguments of the init container. Raises ValueError."""
    prefix = f"{PODCLIQUES_FLAG}="
    return tuple(parse_clique_count(each.removeprefix(prefix)) for each in arguments if each.startswith(prefix))
