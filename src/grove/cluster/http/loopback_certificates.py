"""Certificates of an embedded cluster: its own CA, and a server certificate for the loopback addresses.

Clients get only the CA certificate, in the kubeconfig.
"""

import ssl
import tempfile
from datetime import datetime, timedelta
from pathlib import Path

import msgspec

from grove.certificates import encode_certificates, encode_key, make_ca, make_key, make_server_certificate

_LIFETIME = timedelta(days=365)
# A client's clock may be a little behind.
_LEEWAY = timedelta(hours=1)
_NAMES = ("localhost", "127.0.0.1", "::1")


class Certificates(msgspec.Struct, frozen=True, kw_only=True):
    """The CA certificate, server certificate and server key, as PEM. The CA key is discarded after signing."""

    ca: bytes
    certificate: bytes
    key: bytes

    def server_context(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        # The ssl module reads keys from files only. The folder has mode 0700 and is removed at once.
        with tempfile.TemporaryDirectory(prefix="grove-") as folder:
            chain = Path(folder, "server.pem")
            chain.write_bytes(self.key + self.certificate)
            context.load_cert_chain(chain)
        return context


def make_certificates(now: datetime) -> Certificates:
    """Create certificates. `now` is the machine's time: clients check validity by it, not by the cluster's clock."""
    start, end = now - _LEEWAY, now + _LIFETIME
    ca_key, key = make_key(), make_key()
    ca = make_ca(ca_key, "grove embedded cluster", start, end)
    server = make_server_certificate(key, _NAMES, ca, ca_key, start, end)
    return Certificates(ca=encode_certificates((ca,)), certificate=encode_certificates((server,)), key=encode_key(key))
