"""Certificates of the webhook server: the CA of the operator, the certificates that it signs, and their rotation.

All results depend only on the data of the Secret and the time, so that every replica decides the same.
`cert_source.py` stores the certificates, `tls.py` serves them.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from enum import StrEnum

import msgspec
from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization

from grove.certificates import SigningKey, encode_certificates, encode_key, make_ca, make_key, make_server_certificate

CERTIFICATE = "tls.crt"
KEY = "tls.key"
AUTHORITIES = "ca.crt"
AUTHORITY_KEY = "ca.key"


class Lifetimes(msgspec.Struct, frozen=True, kw_only=True):
    """The lifetimes of a CA and a certificate. Both are replaced after two thirds of their lifetime."""

    authority: timedelta = timedelta(days=3650)
    certificate: timedelta = timedelta(days=365)
    # The clock of a client may be behind.
    leeway: timedelta = timedelta(hours=1)
    # How long after the configurations trust a new CA every API server has seen them.
    settling: timedelta = timedelta(minutes=1)


class KeyMaterial(msgspec.Struct, frozen=True, kw_only=True):
    """Certificates and keys as PEM. `authorities` is the CA bundle, the signing CA first, with `authority_key`."""

    certificate: bytes
    key: bytes
    authorities: bytes
    authority_key: bytes = b""

    def __repr__(self) -> str:
        return "KeyMaterial(...)"


class RotationStep(StrEnum):
    """The next step of a rotation."""

    NOTHING = "nothing"
    CERTIFICATE = "certificate"
    AUTHORITY = "authority"
    # Remove an old CA from the bundle: nothing that it signed is valid any more.
    BUNDLE = "bundle"


def material_of(data: Mapping[str, bytes]) -> KeyMaterial:
    """Return the key material in the data of a Secret; it may be invalid."""
    return KeyMaterial(
        certificate=data.get(CERTIFICATE, b""),
        key=data.get(KEY, b""),
        authorities=data.get(AUTHORITIES, b""),
        authority_key=data.get(AUTHORITY_KEY, b""),
    )


def data_of(material: KeyMaterial) -> dict[str, bytes]:
    return {
        CERTIFICATE: material.certificate,
        KEY: material.key,
        AUTHORITIES: material.authorities,
        AUTHORITY_KEY: material.authority_key,
    }


# --- deciding --------------------------------------------------------------------------------------------------------


def next_rotation_step(
    material: KeyMaterial, names: tuple[str, ...], now: datetime, lifetimes: Lifetimes
) -> RotationStep:
    """Return the first step that is due. Additional names of the certificate may stay."""
    authorities = read_certificates(material.authorities)
    signing = _signing_authority(material, authorities)
    if signing is None or now >= _renewal(signing):
        return RotationStep.AUTHORITY
    served = _served_certificate(material)
    if served is None or not _is_signed_by(served, signing):
        return RotationStep.CERTIFICATE
    if now >= _renewal(served) or frozenset(names) - frozenset(names_of(served)):
        return RotationStep.CERTIFICATE
    return (
        RotationStep.NOTHING
        if _still_needed(authorities, signing, now, lifetimes) == authorities
        else RotationStep.BUNDLE
    )


def next_rotation_at(material: KeyMaterial, lifetimes: Lifetimes) -> datetime | None:
    """Return when the next step is due; None: now."""
    authorities = read_certificates(material.authorities)
    signing, served = _signing_authority(material, authorities), _served_certificate(material)
    if signing is None or served is None:
        return None
    retired = [_retirement(one, signing, lifetimes) for one in authorities if one != signing]
    return min((_renewal(signing), _renewal(served), *retired))


def rotate(
    material: KeyMaterial, what: RotationStep, names: tuple[str, ...], now: datetime, lifetimes: Lifetimes
) -> KeyMaterial:
    """Execute a step. The bundle keeps every CA that may still be needed."""
    authorities = read_certificates(material.authorities)
    key, signing = _load_key(material.authority_key), _signing_authority(material, authorities)
    if what is RotationStep.AUTHORITY or key is None or signing is None:
        key = make_key()
        signing = make_ca(key, "Grove-CA", now - lifetimes.leeway, now + lifetimes.authority)
        what = RotationStep.AUTHORITY
    kept = _still_needed((signing, *(one for one in authorities if one != signing)), signing, now, lifetimes)
    material = msgspec.structs.replace(material, authorities=encode_certificates(kept), authority_key=encode_key(key))
    if what is RotationStep.BUNDLE:
        return material
    served_key = make_key()
    all_names = tuple(dict.fromkeys((*names, *_names_before(material))))
    end = min(now + lifetimes.certificate, signing.not_valid_after_utc)
    served = make_server_certificate(served_key, all_names, signing, key, now - lifetimes.leeway, end)
    return msgspec.structs.replace(material, certificate=encode_certificates((served,)), key=encode_key(served_key))


def issuer_of(material: KeyMaterial) -> bytes:
    """Return the CA in the bundle that signed the served certificate, as PEM; empty: none."""
    served = _served_certificate(material)
    if served is None:
        return b""
    found = (one for one in read_certificates(material.authorities) if _is_signed_by(served, one))
    return next((encode_certificates((one,)) for one in found), b"")


def is_valid_at(certificate: bytes, now: datetime) -> bool:
    found = read_certificates(certificate)
    return bool(found) and found[0].not_valid_before_utc <= now < found[0].not_valid_after_utc


def created_at(certificate: bytes, lifetimes: Lifetimes) -> datetime | None:
    """Return when the first certificate of the PEM was created."""
    found = read_certificates(certificate)
    return found[0].not_valid_before_utc + lifetimes.leeway if found else None


def contains(bundle: bytes, authority: bytes) -> bool:
    """Return whether every certificate of `authority` is in the bundle, in any notation."""
    present = read_certificates(bundle)
    required = read_certificates(authority)
    return bool(required) and all(one in present for one in required)


def _still_needed(
    authorities: tuple[x509.Certificate, ...], signing: x509.Certificate, now: datetime, lifetimes: Lifetimes
) -> tuple[x509.Certificate, ...]:
    return tuple(one for one in authorities if one == signing or now < _retirement(one, signing, lifetimes))


def _retirement(old: x509.Certificate, signing: x509.Certificate, lifetimes: Lifetimes) -> datetime:
    """Return when no certificate of `old` can be valid any more: it signed nothing after the current CA was created."""
    return min(old.not_valid_after_utc, signing.not_valid_before_utc + lifetimes.leeway + lifetimes.certificate)


def _renewal(certificate: x509.Certificate) -> datetime:
    start, end = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    return start + (end - start) * 2 / 3


def _signing_authority(
    material: KeyMaterial, authorities: tuple[x509.Certificate, ...]
) -> x509.Certificate | None:  # fmt: skip
    """Return the CA in the bundle that `authority_key` belongs to; None: nothing can be signed."""
    key = _load_key(material.authority_key)
    if key is None:
        return None
    return next((one for one in authorities if one.public_key() == key.public_key()), None)


def _served_certificate(material: KeyMaterial) -> x509.Certificate | None:
    """Return the first certificate of the chain, if the key matches it."""
    certificates, key = read_certificates(material.certificate), _load_key(material.key)
    if not certificates or key is None or certificates[0].public_key() != key.public_key():
        return None
    return certificates[0]


def _is_signed_by(certificate: x509.Certificate, authority: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature, UnsupportedAlgorithm):
        return False
    return True


# --- reading ---------------------------------------------------------------------------------------------------------


def read_certificates(pem: bytes) -> tuple[x509.Certificate, ...]:
    """Return the certificates of a bundle; none if it is malformed."""
    try:
        return tuple(x509.load_pem_x509_certificates(pem)) if pem.strip() else ()
    except ValueError:
        return ()


def names_of(certificate: x509.Certificate) -> tuple[str, ...]:
    """Return the DNS names and addresses of a certificate."""
    try:
        found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (x509.ExtensionNotFound, ValueError):
        return ()
    addresses = found.get_values_for_type(x509.IPAddress)
    return (*found.get_values_for_type(x509.DNSName), *(str(address) for address in addresses))


def _names_before(material: KeyMaterial) -> tuple[str, ...]:
    served = _served_certificate(material)
    return () if served is None else names_of(served)


def _load_key(pem: bytes) -> SigningKey | None:
    try:
        key = serialization.load_pem_private_key(pem, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        return None
    return key if isinstance(key, SigningKey) else None
