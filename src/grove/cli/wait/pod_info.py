"""Read what the downward API says about the pod in which `grove wait` runs."""

import os
from collections.abc import Mapping
from pathlib import Path

from grove.api import labels

# Where the volume of the init container is mounted. A process that runs as a pod has it below `GROVE_ROOT`.
POD_INFO = "var/grove/pod-info"
GANG_FILE = "podgangname"


def gang_selector(environment: Mapping[str, str] = os.environ) -> str:
    """Return a selector of the PodCliques of this pod's gang; "" outside a pod: those of the namespace."""
    try:
        gang = (Path(environment.get("GROVE_ROOT", "/")) / POD_INFO / GANG_FILE).read_text().strip()
    except OSError:
        return ""
    return labels.selector({labels.PODGANG: gang}) if gang else ""
