"""Writes the kubeconfig of an embedded cluster, for kubectl and the grove commands. Reading: `kubeconfig.py`."""

import base64
import os
from pathlib import Path

import yaml

_NAME = "grove"


def kubeconfig_text(*, url: str, ca: bytes, token: str) -> str:
    """Return a kubeconfig whose only context is the embedded cluster. It contains the token: keep it secret."""
    cluster = {"server": url, "certificate-authority-data": base64.b64encode(ca).decode()}
    return yaml.safe_dump(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": _NAME, "cluster": cluster}],
            "users": [{"name": _NAME, "user": {"token": token}}],
            "contexts": [{"name": _NAME, "context": {"cluster": _NAME, "user": _NAME, "namespace": "default"}}],
            "current-context": _NAME,
            "preferences": {},
        },
        sort_keys=False,
    )


def write_kubeconfig(path: Path, *, url: str, ca: bytes, token: str) -> None:
    """Write the kubeconfig atomically, with mode 0600 from its first byte on."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.unlink(missing_ok=True)
    try:
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(kubeconfig_text(url=url, ca=ca, token=token))
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def remove_kubeconfig(path: Path, *, url: str) -> None:
    """Remove the kubeconfig if it still names this cluster: another one may have been started with the same path."""
    try:
        is_ours = url in path.read_text()
    except OSError:
        return
    if is_ours:
        path.unlink(missing_ok=True)
