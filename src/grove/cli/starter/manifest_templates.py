"""Read the commented manifests of `grove init`, which are files beside this module."""

from enum import StrEnum
from importlib.resources import files

_NAME = "@NAME@"


class StarterKind(StrEnum):
    INFERENCE = "inference"
    DISAGGREGATED = "disaggregated"
    TRAINING = "training"
    TORCHRUN = "torchrun"


def starter_manifest(kind: StarterKind, name: str) -> str:
    """Return the manifest with this name for the set; empty: the name of the kind."""
    text = files(__package__ or "").joinpath(f"{kind}.yaml").read_text(encoding="utf-8")
    return text.replace(_NAME, name or kind.value)
