"""TLS context with a certificate that can be replaced at run time: a handshake gets the current one."""

import os
import ssl
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager


class UnusableCertificateError(Exception):
    """An error for a malformed certificate, or for a key that does not match it."""


class LiveContext:
    """A TLS context for the socket of the server. Before the first `use` every handshake fails."""

    def __init__(self) -> None:
        self.context = _new_context()
        # One context per certificate: in one context, OpenSSL might serve an old certificate with another type of key.
        self.context.sni_callback = self._choose
        self._current: ssl.SSLContext | None = None
        self.certificate = b""
        """The served certificate as PEM; empty: none."""

    def use(self, certificate: bytes, key: bytes) -> None:
        """Serve this certificate from the next handshake on. Raises `UnusableCertificateError`."""
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
    # A resumed session would use the certificate of the first one.
    context.options |= ssl.OP_NO_TICKET
    context.num_tickets = 0
    return context


@contextmanager
def _as_file(content: bytes) -> Iterator[str]:
    """Yield the path of a file with this content, in memory on Linux: the ssl module reads keys from files only."""
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
