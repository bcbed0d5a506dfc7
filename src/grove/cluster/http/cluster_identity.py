"""Who a cluster is to its clients: certificates, token and port. Kept, an old kubeconfig goes on working."""

from datetime import datetime, timedelta

import msgspec
from cryptography import x509

from grove.cluster.http.loopback_certificates import Certificates, make_certificates

# Earlier than they end: a cluster may run for weeks.
_RENEWED_BEFORE_END = timedelta(days=30)


class ClusterIdentity(msgspec.Struct, frozen=True, kw_only=True):
    """Holds secrets: keep it from others."""

    token: str
    certificates: Certificates
    # Where it was last served; 0: nowhere yet.
    port: int = 0

    def to_json(self) -> bytes:
        return msgspec.json.encode(self)


def new_identity(token: str, now: datetime) -> ClusterIdentity:
    return ClusterIdentity(token=token, certificates=make_certificates(now))


def read_identity(text: bytes | None, now: datetime) -> ClusterIdentity | None:
    """What was kept; None if nothing was, it cannot be read, or its certificates end soon."""
    if text is None:
        return None
    try:
        identity = msgspec.json.decode(text, type=ClusterIdentity)
        ends_at = x509.load_pem_x509_certificate(identity.certificates.certificate).not_valid_after_utc
    except (msgspec.DecodeError, ValueError):
        return None
    return identity if ends_at - now > _RENEWED_BEFORE_END else None
