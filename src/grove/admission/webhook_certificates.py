"""Certificates of the webhook server: an authority of our own, what it signs, and when either is made anew.

Everything is a function of what a Secret holds and of the time, so that every replica comes to the same verdict. Where
they are kept and served is not here (`cert_rotator.py`, `tls.py`).
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from enum import StrEnum

import msgspec
from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization

from grove.certificates import SigningKey, key_pem_of, make_authority, make_key, make_server_certificate, pem_of

CERTIFICATE = "tls.crt"
KEY = "tls.key"
AUTHORITIES = "ca.crt"
AUTHORITY_KEY = "ca.key"


class Lifetimes(msgspec.Struct, frozen=True, kw_only=True):
    """How long things live; both kinds of certificate are replaced when two thirds of their life are over."""

    authority: timedelta = timedelta(days=3650)
    certificate: timedelta = timedelta(days=365)
    # The clock of whoever judges a certificate may be behind ours.
    leeway: timedelta = timedelta(hours=1)
    # How long a new authority is trusted by the API server that we see, before we rely on all of them having seen it.
    settling: timedelta = timedelta(minutes=1)


class KeyMaterial(msgspec.Struct, frozen=True, kw_only=True):
    """PEM. `authorities` is the bundle that clients trust, the one that signs first; `authority_key` is its key."""

    certificate: bytes
    key: bytes
    authorities: bytes
    authority_key: bytes = b""

    def __repr__(self) -> str:
        return "KeyMaterial(...)"


class RotationStep(StrEnum):
    """What is to be made anew."""

    NOTHING = "nothing"
    CERTIFICATE = "certificate"
    AUTHORITY = "authority"
    # An old authority leaves the bundle: nothing that it signed is valid any more.
    BUNDLE = "bundle"


def material_of(data: Mapping[str, bytes]) -> KeyMaterial:
    """What a Secret's data holds, good or bad."""
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


def due(material: KeyMaterial, names: tuple[str, ...], now: datetime, lifetimes: Lifetimes) -> RotationStep:
    """The first thing that is not as it should be. Names that the certificate has besides ours may stay."""
    authorities = read_certificates(material.authorities)
    signing = _signing_authority(material, authorities)
    if signing is None or now >= _renewal(signing):
        return RotationStep.AUTHORITY
    served = _served_certificate(material)
    if served is None or not _is_signed_by(served, signing):
        return RotationStep.CERTIFICATE
    if now >= _renewal(served) or frozenset(names) - frozenset(names_of(served)):
        return RotationStep.CERTIFICATE
    return RotationStep.NOTHING if _kept(authorities, signing, now, lifetimes) == authorities else RotationStep.BUNDLE


def next_due(material: KeyMaterial, lifetimes: Lifetimes) -> datetime | None:
    """When there will be something to do, if nobody changes anything; None: now."""
    authorities = read_certificates(material.authorities)
    signing, served = _signing_authority(material, authorities), _served_certificate(material)
    if signing is None or served is None:
        return None
    retired = [_retirement(one, signing, lifetimes) for one in authorities if one != signing]
    return min((_renewal(signing), _renewal(served), *retired))


def renewed(
    material: KeyMaterial, what: RotationStep, names: tuple[str, ...], now: datetime, lifetimes: Lifetimes
) -> KeyMaterial:
    """The material with what was due made anew. The bundle keeps every authority that may still be needed."""
    authorities = read_certificates(material.authorities)
    key, signing = _load_key(material.authority_key), _signing_authority(material, authorities)
    if what is RotationStep.AUTHORITY or key is None or signing is None:
        key = make_key()
        signing = make_authority(key, "Grove-CA", now - lifetimes.leeway, now + lifetimes.authority)
        what = RotationStep.AUTHORITY
    kept = _kept((signing, *(one for one in authorities if one != signing)), signing, now, lifetimes)
    material = msgspec.structs.replace(material, authorities=pem_of(kept), authority_key=key_pem_of(key))
    if what is RotationStep.BUNDLE:
        return material
    served_key = make_key()
    all_names = tuple(dict.fromkeys((*names, *_names_before(material))))
    end = min(now + lifetimes.certificate, signing.not_valid_after_utc)
    served = make_server_certificate(served_key, all_names, signing, key, now - lifetimes.leeway, end)
    return msgspec.structs.replace(material, certificate=pem_of((served,)), key=key_pem_of(served_key))


def issuer_of(material: KeyMaterial) -> bytes:
    """The authority, of those in the bundle, that signed the served certificate: PEM, or empty."""
    served = _served_certificate(material)
    if served is None:
        return b""
    found = (one for one in read_certificates(material.authorities) if _is_signed_by(served, one))
    return next((pem_of((one,)) for one in found), b"")


def is_valid_at(certificate: bytes, now: datetime) -> bool:
    found = read_certificates(certificate)
    return bool(found) and found[0].not_valid_before_utc <= now < found[0].not_valid_after_utc


def born_at(certificate: bytes, lifetimes: Lifetimes) -> datetime | None:
    """When the first certificate of the PEM was made, by our own reckoning."""
    found = read_certificates(certificate)
    return found[0].not_valid_before_utc + lifetimes.leeway if found else None


def contains(bundle: bytes, authority: bytes) -> bool:
    """Is every certificate of `authority` in the bundle, however it is written there?"""
    known = read_certificates(bundle)
    wanted = read_certificates(authority)
    return bool(wanted) and all(one in known for one in wanted)


def _kept(
    authorities: tuple[x509.Certificate, ...], signing: x509.Certificate, now: datetime, lifetimes: Lifetimes
) -> tuple[x509.Certificate, ...]:
    return tuple(one for one in authorities if one == signing or now < _retirement(one, signing, lifetimes))


def _retirement(old: x509.Certificate, signing: x509.Certificate, lifetimes: Lifetimes) -> datetime:
    """When nothing that `old` signed can be valid any more: it has signed nothing since the present one was made."""
    return min(old.not_valid_after_utc, signing.not_valid_before_utc + lifetimes.leeway + lifetimes.certificate)


def _renewal(certificate: x509.Certificate) -> datetime:
    start, end = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    return start + (end - start) * 2 / 3


def _signing_authority(
    material: KeyMaterial, authorities: tuple[x509.Certificate, ...]
) -> x509.Certificate | None:  # fmt: skip
    """The authority of the bundle that `authority_key` belongs to. Without its key nothing more can be signed."""
    key = _load_key(material.authority_key)
    if key is None:
        return None
    return next((one for one in authorities if one.public_key() == key.public_key()), None)


def _served_certificate(material: KeyMaterial) -> x509.Certificate | None:
    """The first of its chain, if the key is its key."""
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
    """The certificates of a bundle; none if it is not one."""
    try:
        return tuple(x509.load_pem_x509_certificates(pem)) if pem.strip() else ()
    except ValueError:
        return ()


def names_of(certificate: x509.Certificate) -> tuple[str, ...]:
    """The DNS names and addresses that a certificate is good for."""
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
