"""The served certificate, replaced while connections come in: a handshake gets the one that is current as it begins."""

import os
import ssl
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager


class UnusableCertificateError(Exception):
    """Whoever provides the certificate must act: it is none, or the key is not its key."""


class LiveContext:
    """`context` is for the server's socket. Before the first `use` every handshake fails."""

    def __init__(self) -> None:
        self.context = _new_context()
        # Not loaded into the one context: OpenSSL keeps a certificate per kind of key there, and may serve the old one.
        self.context.sni_callback = self._choose
        self._current: ssl.SSLContext | None = None
        self.certificate = b""
        """PEM of what is shown to the next handshake; empty: nothing."""

    def use(self, certificate: bytes, key: bytes) -> None:
        """From now on, for every new handshake. Raises `UnusableCertificateError`, and then nothing changes."""
        context = _new_context()
        try:
            with _as_file(key.rstrip() + b"\n" + certificate) as path:
                context.load_cert_chain(path)
        except ssl.SSLError as error:
            raise UnusableCertificateError(f"the certificate cannot be used: {error.reason or error}") from error
        self._current, self.certificate = context, certificate

    def _choose(
        self, handshake: ssl.SSLObject | ssl.SSLSocket, _name: str | None, _context: ssl.SSLContext
    ) -> int | None:
        """Called at every handshake, whether or not the client names a host."""
        if self._current is None:
            return ssl.ALERT_DESCRIPTION_INTERNAL_ERROR
        handshake.context = self._current
        return None


def _new_context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    # A resumed session would go on with the certificate of the first.
    context.options |= ssl.OP_NO_TICKET
    context.num_tickets = 0
    return context


@contextmanager
def _as_file(content: bytes) -> Iterator[str]:
    """The ssl module reads keys from files only: one in memory where there is such, else one of ours alone, briefly."""
    if sys.platform == "linux":
        descriptor = os.memfd_create("grove-certificate")
        try:
            with open(descriptor, "wb", closefd=False) as file:
                file.write(content)
            yield f"/proc/self/fd/{descriptor}"
        finally:
            os.close(descriptor)
    else:
        with tempfile.NamedTemporaryFile(suffix=".pem") as file:
            file.write(content)
            file.flush()
            yield file.name
