"""Certificates of an embedded cluster: an authority of its own, and a server certificate for this machine's loopback.

Made anew for every run; only the authority's certificate leaves the process, in the kubeconfig.
"""

import ssl
import tempfile
from datetime import datetime, timedelta
from pathlib import Path

import msgspec

from grove.certificates import key_pem_of, make_authority, make_key, make_server_certificate, pem_of

_LIFETIME = timedelta(days=365)
# A client's clock may be a little behind.
_LEEWAY = timedelta(hours=1)
_NAMES = ("localhost", "127.0.0.1", "::1")


class Certificates(msgspec.Struct, frozen=True, kw_only=True):
    """PEM. The authority's key is not kept: nothing else will ever be signed with it."""

    ca: bytes
    certificate: bytes
    key: bytes

    def server_context(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        # The ssl module reads keys from files only; this one is ours alone (0700) and gone at once.
        with tempfile.TemporaryDirectory(prefix="grove-") as folder:
            chain = Path(folder, "server.pem")
            chain.write_bytes(self.key + self.certificate)
            context.load_cert_chain(chain)
        return context


def make_certificates(now: datetime) -> Certificates:
    """`now` comes from the machine's own clock: certificates are judged by it, also where the cluster's is another."""
    start, end = now - _LEEWAY, now + _LIFETIME
    authority_key, key = make_key(), make_key()
    authority = make_authority(authority_key, "grove embedded cluster", start, end)
    server = make_server_certificate(key, _NAMES, authority, authority_key, start, end)
    return Certificates(ca=pem_of((authority,)), certificate=pem_of((server,)), key=key_pem_of(key))
