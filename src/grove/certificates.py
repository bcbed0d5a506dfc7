"""Making certificates: an authority, and what it signs for a server. Whose they are and how long they last is said by
those who need them (`admission/webhook_certificates.py`, `cluster/http/loopback_certificates.py`).
"""

from collections.abc import Iterable
from datetime import UTC, datetime
from ipaddress import ip_address

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

# Ours are elliptic; somebody else's may be of the other kind.
SigningKey = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey


def make_key() -> SigningKey:
    return ec.generate_private_key(ec.SECP256R1())


def make_authority(key: SigningKey, common_name: str, start: datetime, end: datetime) -> x509.Certificate:
    """Signed by itself."""
    name = _name(common_name)
    return _signed(_begun(name, start, end, key, is_authority=True), name, key)


def make_server_certificate(
    key: SigningKey,
    names: tuple[str, ...],
    authority: x509.Certificate,
    authority_key: SigningKey,
    start: datetime,
    end: datetime,
) -> x509.Certificate:
    """Good for these DNS names and addresses."""
    builder = (
        _begun(_name(names[0]), start, end, key, is_authority=False)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName([_general_name(name) for name in names]), critical=False)
    )
    return _signed(builder, authority.subject, authority_key)


def pem_of(certificates: Iterable[x509.Certificate]) -> bytes:
    return b"".join(one.public_bytes(serialization.Encoding.PEM) for one in certificates)


def key_pem_of(key: SigningKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _begun(
    subject: x509.Name, start: datetime, end: datetime, key: SigningKey, *, is_authority: bool
) -> x509.CertificateBuilder:
    constraints = x509.BasicConstraints(ca=is_authority, path_length=0 if is_authority else None)
    usage = x509.KeyUsage(
        digital_signature=not is_authority,
        key_cert_sign=is_authority,
        crl_sign=is_authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(start.astimezone(UTC))
        .not_valid_after(end.astimezone(UTC))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(constraints, critical=True)
        .add_extension(usage, critical=True)
    )


def _signed(builder: x509.CertificateBuilder, issuer: x509.Name, key: SigningKey) -> x509.Certificate:
    identifier = x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key())
    return builder.issuer_name(issuer).add_extension(identifier, critical=False).sign(key, hashes.SHA256())


def _name(common_name: str) -> x509.Name:
    # A common name may have 64 characters; clients look at the subject alternative names anyway.
    return x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, "Grove"),
            x509.NameAttribute(NameOID.COMMON_NAME, common_name[:64]),
        ]
    )


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(name))
    except ValueError:
        return x509.DNSName(name)
