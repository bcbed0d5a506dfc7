"""`grove up --data-dir --no-operator` as a process of its own, to be killed and started again on the same folder."""

from pathlib import Path
from typing import Self

from tests.e2e.lives import Lives


class KeptCluster(Lives):
    """One cluster and all its lives: port, certificates and token stay the same, so clients need not know."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.kubeconfig = folder / "kept.kubeconfig"
        where = ("--data-dir", str(folder / "kept"), "--kubeconfig", str(self.kubeconfig))
        super().__init__(("grove.cli.main", "up", "--no-operator", *where, *options), folder / "kept.log")

    def await_ready(self) -> Self:
        """It greets once the API answers."""
        self._await(lambda: "https://127.0.0.1:" in self.words)
        return self
