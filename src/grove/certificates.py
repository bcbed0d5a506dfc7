"""Creates a CA and server certificates. Callers choose names and lifetimes.

Callers: `admission/webhook_certificates.py` and `cluster/http/loopback_certificates.py`.
"""

from collections.abc import Iterable
from datetime import UTC, datetime
from ipaddress import ip_address

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

# Grove creates elliptic curve keys; keys of users may be RSA.
SigningKey = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey


def make_key() -> SigningKey:
    return ec.generate_private_key(ec.SECP256R1())


def make_ca(key: SigningKey, common_name: str, start: datetime, end: datetime) -> x509.Certificate:
    """Return a self-signed CA certificate."""
    name = _name(common_name)
    return _sign(_builder(name, start, end, key, is_ca=True), name, key)


def make_server_certificate(
    key: SigningKey,
    names: tuple[str, ...],
    ca: x509.Certificate,
    ca_key: SigningKey,
    start: datetime,
    end: datetime,
) -> x509.Certificate:
    """Return a certificate for these DNS names and IP addresses."""
    builder = (
        _builder(_name(names[0]), start, end, key, is_ca=False)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName([_general_name(name) for name in names]), critical=False)
    )
    return _sign(builder, ca.subject, ca_key)


def encode_certificates(certificates: Iterable[x509.Certificate]) -> bytes:
    return b"".join(one.public_bytes(serialization.Encoding.PEM) for one in certificates)


def encode_key(key: SigningKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _builder(
    subject: x509.Name, start: datetime, end: datetime, key: SigningKey, *, is_ca: bool
) -> x509.CertificateBuilder:
    constraints = x509.BasicConstraints(ca=is_ca, path_length=0 if is_ca else None)
    usage = x509.KeyUsage(
        digital_signature=not is_ca,
        key_cert_sign=is_ca,
        crl_sign=is_ca,
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


def _sign(builder: x509.CertificateBuilder, issuer: x509.Name, key: SigningKey) -> x509.Certificate:
    identifier = x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key())
    return builder.issuer_name(issuer).add_extension(identifier, critical=False).sign(key, hashes.SHA256())


def _name(common_name: str) -> x509.Name:
    # A common name has at most 64 characters. Clients check the subject alternative names instead.
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
