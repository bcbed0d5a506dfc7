"""The local cluster of a working directory: where `grove up` writes its kubeconfig, and whether it still answers.

`grove up` removes the kubeconfig when it ends. A note outside the directory remembers until the next logout or reboot
that there was a cluster, so that the next write does not silently go to another one.
"""

import hashlib
import os
import socket
import ssl
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

OWN_KUBECONFIG = Path(".grove/kubeconfig")
# The name of the only context of a kubeconfig that `grove up` writes.
OWN_CONTEXT = "grove"
LOOPBACK_URL = "https://127.0.0.1:"
ANSWER_SECONDS = 1.0


def is_local(server: str, context: str) -> bool:
    """Return whether a kubeconfig with this server and context was written by `grove up`."""
    return context == OWN_CONTEXT and server.startswith(LOOPBACK_URL)


def is_listening(server: str) -> bool:
    """Return whether any process listens at the address of the server."""
    url = urlsplit(server)
    with socket.socket() as probe:
        probe.settimeout(ANSWER_SECONDS)
        return probe.connect_ex((url.hostname or "", url.port or 443)) == 0


def is_answering(server: str, certificate_authority: bytes | None) -> bool:
    """Return whether the server listens and proves with its certificate that it is this cluster.

    Another process may have taken the port. A server that is too busy for the handshake counts as answering.
    """
    url = urlsplit(server)
    try:
        with socket.create_connection((url.hostname or "", url.port or 443), ANSWER_SECONDS) as connection:
            if url.scheme == "https" and certificate_authority:
                _shake_hands(connection, url.hostname or "", certificate_authority)
    except (OSError, ValueError):
        return False
    return True


def _shake_hands(connection: socket.socket, host: str, certificate_authority: bytes) -> None:
    context = ssl.create_default_context(cadata=certificate_authority.decode())
    with suppress(TimeoutError):
        context.wrap_socket(connection, server_hostname=host).close()


def record_end(environment: Mapping[str, str], kubeconfig: Path, server: str) -> None:
    """Remember that the local cluster of a kubeconfig ended. The note is a convenience: a failure is ignored."""
    note = _end_note(environment, kubeconfig)
    with suppress(OSError):
        note.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        note.write_text(server)


def forget_end(environment: Mapping[str, str], kubeconfig: Path) -> None:
    with suppress(OSError):
        _end_note(environment, kubeconfig).unlink(missing_ok=True)


def find_ended(environment: Mapping[str, str], kubeconfig: Path) -> str:
    """Return the address of the local cluster that ended here, or an empty text."""
    note = _end_note(environment, kubeconfig)
    try:
        # The directory for temporary files is open to every user.
        return note.read_text().strip() if note.stat().st_uid == os.getuid() else ""
    except (OSError, UnicodeDecodeError):
        return ""


def _end_note(environment: Mapping[str, str], kubeconfig: Path) -> Path:
    runtime = environment.get("XDG_RUNTIME_DIR") or str(Path(tempfile.gettempdir(), f"run-{os.getuid()}"))
    digest = hashlib.sha256(str(kubeconfig.absolute()).encode()).hexdigest()[:16]
    return Path(runtime, "grove", f"ended-{digest}")
