"""The identity of a cluster: certificates, token and port. It is persisted so that an old kubeconfig keeps working."""

from datetime import datetime, timedelta

import msgspec
from cryptography import x509

from grove.cluster.http.loopback_certificates import Certificates, make_certificates

# Renewed this long before the certificates expire: a cluster may run for weeks.
_RENEWED_BEFORE_END = timedelta(days=30)


class ClusterIdentity(msgspec.Struct, frozen=True, kw_only=True):
    """The credentials and port of a cluster. It contains secrets."""

    token: str
    certificates: Certificates
    # The port of the last run; 0: never served.
    port: int = 0

    def to_json(self) -> bytes:
        return msgspec.json.encode(self)


def new_identity(token: str, now: datetime) -> ClusterIdentity:
    return ClusterIdentity(token=token, certificates=make_certificates(now))


def read_identity(text: bytes | None, now: datetime) -> ClusterIdentity | None:
    """Decode a persisted identity; None if there is none, it cannot be decoded, or its certificates expire soon."""
    if text is None:
        return None
    try:
        identity = msgspec.json.decode(text, type=ClusterIdentity)
        ends_at = x509.load_pem_x509_certificate(identity.certificates.certificate).not_valid_after_utc
    except (msgspec.DecodeError, ValueError):
        return None
    return identity if ends_at - now > _RENEWED_BEFORE_END else None
