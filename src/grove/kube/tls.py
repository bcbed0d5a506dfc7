"""Builds the TLS context of an `Access`.

`credentials.py` provides the current certificates.
"""

import ssl
import tempfile

from grove.errors import UserError
from grove.kube.kubeconfig import Access

# True: the default of the library, which is no TLS for plain HTTP.
Tls = ssl.SSLContext | bool


def tls_context(access: Access) -> Tls:
    """Return the TLS context. Raises `UserError` for an invalid certificate or key."""
    if not access.server.startswith("https://"):
        return True
    try:
        context = ssl.create_default_context(cadata=_text(access.certificate_authority))
        # Since Python 3.13 strict checks are on, which the CAs of many clusters do not pass.
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        if access.is_insecure:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if access.client_certificate is not None and access.client_key is not None:
            _load_client_certificate(context, access.client_certificate, access.client_key)
    except (ssl.SSLError, ValueError) as error:
        raise UserError(f"{access.source}: a certificate or key is not valid PEM ({error}); copy it again") from error
    return context


def _load_client_certificate(context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    # The standard library accepts only files; this one is private and deleted at once.
    with tempfile.NamedTemporaryFile(suffix=".pem") as file:
        file.write(certificate + b"\n" + key)
        file.flush()
        # Without a password, an encrypted key would prompt for one at the terminal and block the process.
        context.load_cert_chain(file.name, password=b"")


def _text(certificate: bytes | None) -> str | None:
    return None if certificate is None else certificate.decode("ascii")
