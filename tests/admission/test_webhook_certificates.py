"""Certificates over the years: what is made, when it is made anew, who is trusted meanwhile. Time is an argument."""

from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import NameOID

from grove.admission.tls import LiveContext, UnusableCertificateError
from grove.admission.webhook_certificates import (
    KeyMaterial,
    Lifetimes,
    RotationStep,
    contains,
    data_of,
    is_valid_at,
    issuer_of,
    material_of,
    names_of,
    next_rotation_at,
    next_rotation_step,
    read_certificates,
    rotate,
)

START = datetime(2026, 1, 1, tzinfo=UTC)
NAMES = ("grove-operator.grove-system.svc", "grove-operator.grove-system.svc.cluster.local")
LIFETIMES = Lifetimes()
EMPTY = material_of({})
A_MOMENT = timedelta(microseconds=1)


def made(now: datetime = START, names: tuple[str, ...] = NAMES) -> KeyMaterial:
    return rotate(EMPTY, RotationStep.AUTHORITY, names, now, LIFETIMES)


def test_nothing_at_all_needs_everything() -> None:
    assert (next_rotation_step(EMPTY, NAMES, START, LIFETIMES), next_rotation_at(EMPTY, LIFETIMES)) == (
        RotationStep.AUTHORITY,
        None,
    )


def test_what_was_just_made_is_complete() -> None:
    assert next_rotation_step(made(), NAMES, START, LIFETIMES) is RotationStep.NOTHING


def test_a_certificate_is_good_for_its_names_and_addresses() -> None:
    (certificate,) = read_certificates(made(names=("host.example", "127.0.0.1", "::1")).certificate)
    assert names_of(certificate) == ("host.example", "127.0.0.1", "::1")


def test_certificates_pass_the_strict_checks_of_new_clients() -> None:
    """Key usage, and identifiers of subject and authority, on both."""
    material = made()
    (certificate,), (authority,) = read_certificates(material.certificate), read_certificates(material.authorities)
    for one in (certificate, authority):
        found = [extension.value for extension in one.extensions]
        assert {type(value) for value in found} >= {
            x509.KeyUsage,
            x509.SubjectKeyIdentifier,
            x509.AuthorityKeyIdentifier,
            x509.BasicConstraints,
        }
    issuer = certificate.extensions.get_extension_for_class(x509.AuthorityKeyIdentifier).value.key_identifier
    assert issuer == authority.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value.digest


def test_lives_are_ten_years_and_one() -> None:
    material = made()
    ends = [read_certificates(pem)[0].not_valid_after_utc for pem in (material.authorities, material.certificate)]
    assert ends == [START + timedelta(days=3650), START + timedelta(days=365)]


def test_a_client_whose_clock_is_behind_accepts_a_new_certificate() -> None:
    assert is_valid_at(made().certificate, START - timedelta(minutes=59))


def test_a_certificate_is_renewed_when_two_thirds_of_its_life_are_over() -> None:
    material = made()
    at = next_rotation_at(material, LIFETIMES)
    assert at is not None
    assert START + timedelta(days=243) < at < START + timedelta(days=244)
    assert [next_rotation_step(material, NAMES, now, LIFETIMES) for now in (at - A_MOMENT, at)] == [
        RotationStep.NOTHING,
        RotationStep.CERTIFICATE,
    ]


def test_a_renewed_certificate_comes_from_the_same_authority() -> None:
    material = made()
    later = START + timedelta(days=250)
    new = rotate(material, next_rotation_step(material, NAMES, later, LIFETIMES), NAMES, later, LIFETIMES)
    assert (new.authorities, new.authority_key) == (material.authorities, material.authority_key)
    assert new.certificate != material.certificate
    assert next_rotation_step(new, NAMES, later, LIFETIMES) is RotationStep.NOTHING


def test_other_names_need_another_certificate_that_is_good_for_both() -> None:
    """Two installations that share a Secret by mistake do not fight for ever."""
    other = ("127.0.0.1",)
    material = made()
    assert next_rotation_step(material, other, START, LIFETIMES) is RotationStep.CERTIFICATE
    both = rotate(material, RotationStep.CERTIFICATE, other, START, LIFETIMES)
    assert [next_rotation_step(both, names, START, LIFETIMES) for names in (NAMES, other)] == [
        RotationStep.NOTHING,
        RotationStep.NOTHING,
    ]


def test_a_life_of_forty_years_is_trusted_at_every_moment() -> None:
    """Whoever holds the bundle of one renewal ago trusts today's certificate, unless the authority is new."""
    material, now, authorities = made(), START, 0
    while now < START + timedelta(days=40 * 365):
        wake = next_rotation_at(material, LIFETIMES)
        assert wake is not None
        now = max(wake, now)
        what = next_rotation_step(material, NAMES, now, LIFETIMES)
        assert what is not RotationStep.NOTHING
        new = rotate(material, what, NAMES, now, LIFETIMES)
        assert is_valid_at(material.certificate, now), "renewed before it ended"
        assert contains(new.authorities, issuer_of(new)), "the bundle knows who signed"
        if what is RotationStep.AUTHORITY:
            authorities += 1
            assert contains(new.authorities, issuer_of(material)), "what was served before is trusted on"
        if what is RotationStep.BUNDLE:
            assert not contains(new.authorities, material.authorities)
        assert next_rotation_step(new, NAMES, now, LIFETIMES) is RotationStep.NOTHING, "one write does it"
        material = new
    assert authorities == 6


def test_an_old_authority_is_trusted_until_all_it_signed_has_ended() -> None:
    old = made()
    rotated_at = START + timedelta(days=2434)
    new = rotate(old, next_rotation_step(old, NAMES, rotated_at, LIFETIMES), NAMES, rotated_at, LIFETIMES)
    year_later = rotated_at + timedelta(days=365)
    assert contains(new.authorities, old.authorities)
    fresh = rotate(new, RotationStep.CERTIFICATE, NAMES, year_later - timedelta(days=1), LIFETIMES)
    assert contains(fresh.authorities, old.authorities)
    assert [next_rotation_step(fresh, NAMES, now, LIFETIMES) for now in (year_later - A_MOMENT, year_later)] == [
        RotationStep.NOTHING,
        RotationStep.BUNDLE,
    ]
    trimmed = rotate(fresh, RotationStep.BUNDLE, NAMES, year_later, LIFETIMES)
    assert len(read_certificates(trimmed.authorities)) == 1
    assert (trimmed.certificate, trimmed.key) == (fresh.certificate, fresh.key)


def test_whoever_removes_the_authoritys_key_gets_a_new_authority_and_an_overlap() -> None:
    material = msgspec.structs.replace(made(), authority_key=b"")
    what = next_rotation_step(material, NAMES, START, LIFETIMES)
    new = rotate(material, what, NAMES, START, LIFETIMES)
    assert (what, contains(new.authorities, material.authorities)) == (RotationStep.AUTHORITY, True)
    assert issuer_of(new) not in (b"", issuer_of(material))


@pytest.mark.parametrize(
    ("field", "value", "what"),
    [
        pytest.param("tls.crt", b"", RotationStep.CERTIFICATE, id="no certificate"),
        pytest.param("tls.crt", b"rubbish", RotationStep.CERTIFICATE, id="a certificate that is none"),
        pytest.param("tls.key", b"", RotationStep.CERTIFICATE, id="no key"),
        pytest.param("tls.key", made().key, RotationStep.CERTIFICATE, id="the key of another certificate"),
        pytest.param("ca.crt", b"", RotationStep.AUTHORITY, id="no authority"),
        pytest.param("ca.crt", b"\xff\x00", RotationStep.AUTHORITY, id="an authority that is none"),
        pytest.param("ca.crt", made().authorities, RotationStep.AUTHORITY, id="another authority"),
        pytest.param("ca.key", b"rubbish", RotationStep.AUTHORITY, id="a key that is none"),
    ],
)
def test_a_secret_that_somebody_spoiled_is_made_whole(field: str, value: bytes, what: RotationStep) -> None:
    spoiled = material_of({**data_of(made()), field: value})
    found = next_rotation_step(spoiled, NAMES, START, LIFETIMES)
    whole = rotate(spoiled, found, NAMES, START, LIFETIMES)
    assert (found, next_rotation_step(whole, NAMES, START, LIFETIMES)) == (what, RotationStep.NOTHING)
    LiveContext().use(whole.certificate, whole.key)


def test_a_certificate_of_an_authority_that_is_no_longer_ours_is_replaced() -> None:
    stranger = made()
    mixed = msgspec.structs.replace(made(), certificate=stranger.certificate, key=stranger.key)
    assert next_rotation_step(mixed, NAMES, START, LIFETIMES) is RotationStep.CERTIFICATE


def test_the_authority_of_an_older_installation_signs_on() -> None:
    """Grove in Go leaves an RSA authority under the same names."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Grove-CA")])
    authority = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(START)
        .not_valid_after(START + timedelta(days=3650))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    inherited = material_of(
        {
            "ca.crt": authority.public_bytes(pem),
            "ca.key": key.private_bytes(
                pem, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
            ),
        }
    )
    found = next_rotation_step(inherited, NAMES, START, LIFETIMES)
    new = rotate(inherited, found, NAMES, START, LIFETIMES)
    assert (found, new.authorities) == (RotationStep.CERTIFICATE, inherited.authorities)
    assert next_rotation_step(new, NAMES, START, LIFETIMES) is RotationStep.NOTHING
    LiveContext().use(new.certificate, new.key)


def test_a_certificate_without_its_key_is_not_served() -> None:
    other = ec.generate_private_key(ec.SECP256R1()).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    live = LiveContext()
    with pytest.raises(UnusableCertificateError):
        live.use(made().certificate, other)
    assert live.certificate == b""


def test_keys_are_not_shown() -> None:
    assert repr(made()) == "KeyMaterial(...)"
