"""References to objects of a set, as users write them: `pcs/chat`."""

import msgspec

KINDS: dict[str, tuple[str, ...]] = {
    "podcliqueset": ("pcs", "podcliquesets"),
    "podclique": ("pclq", "podcliques"),
    "podcliquescalinggroup": ("pcsg", "podcliquescalinggroups"),
    "podgang": ("pg", "podgangs"),
    "pod": ("po", "pods"),
}
_SINGULAR = {word: kind for kind, others in KINDS.items() for word in (kind, *others)}


class ObjectRef(msgspec.Struct, frozen=True):
    """A reference to an object, as the user writes it."""

    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind}/{self.name}"


def parse_kind(word: str) -> str | None:
    """Return the singular of a kind in any form, also with its group as in `podcliqueset.grove.io`."""
    return _SINGULAR.get(word.lower().removesuffix(".grove.io").removesuffix(".scheduler"))
