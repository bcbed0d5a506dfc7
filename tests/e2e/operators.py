"""`grove operator` as a process of its own, to be started, stopped and killed."""

import re
import urllib.request
from typing import Self

from tests.e2e.lives import Lives


class Operator(Lives):
    """One operator and all its lives."""

    def has_worked(self) -> bool:
        """Did it write anything in this life?"""
        return any(f'"msg":"{verb} ' in self.words for verb in ("create", "change", "delete"))

    def await_ready(self) -> Self:
        """Until it says so itself: webhooks included, if it has any; a standby is ready too."""
        self._await(self._is_ready)
        return self

    def _is_ready(self) -> bool:
        urls: list[str] = re.findall(r'"health":"([^"]+)"', self.words)
        try:
            with urllib.request.urlopen(f"{urls[-1]}/readyz", timeout=2) as answer:
                return bool(answer.status == 200)
        except (IndexError, OSError):
            return False
