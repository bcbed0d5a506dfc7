"""The Python SDK: build sets, submit them, wait, read logs, scale, update, explain and delete them.

`Client` is for scripts and notebooks, `AsyncClient` for async code, and `local()` starts a cluster in this process.
Only the names in `__all__` are public.
"""

from grove.api.types.podcliqueset import (
    CliqueTemplate,
    GroupConfig,
    PackConstraint,
    PodCliqueSet,
    StartupType,
    TopologyConstraint,
    TrainingSpec,
    UpdateType,
)
from grove.operations.rollout.restart import RestartResult
from grove.operations.rollout.undo import UndoResult
from grove.operations.scale_subresource import ScaleResult
from grove.planner.explain.text import Explanation
from grove.sdk.async_client import AsyncClient, Submitted
from grove.sdk.builders import clique, container, group, pod_clique_set
from grove.sdk.embedded_session import local
from grove.sdk.errors import (
    ConnectionFailed,
    GroveError,
    InvalidSet,
    SetDeleted,
    SetFailed,
    SetNotFound,
    SetRejected,
    WaitTimeout,
)
from grove.sdk.log_stream import PodLogLine
from grove.sdk.manifests import from_dict, from_yaml, to_dict, to_yaml
from grove.sdk.set_waiter import WaitProgress
from grove.sdk.sync_client import SyncClient as Client

__all__ = [
    "AsyncClient",
    "Client",
    "CliqueTemplate",
    "ConnectionFailed",
    "Explanation",
    "GroupConfig",
    "GroveError",
    "InvalidSet",
    "PackConstraint",
    "PodCliqueSet",
    "PodLogLine",
    "RestartResult",
    "ScaleResult",
    "SetDeleted",
    "SetFailed",
    "SetNotFound",
    "SetRejected",
    "StartupType",
    "Submitted",
    "TopologyConstraint",
    "TrainingSpec",
    "UndoResult",
    "UpdateType",
    "WaitProgress",
    "WaitTimeout",
    "clique",
    "container",
    "from_dict",
    "from_yaml",
    "group",
    "local",
    "pod_clique_set",
    "to_dict",
    "to_yaml",
]
