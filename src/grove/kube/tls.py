"""How a server proves itself to us, and we to it: the TLS side of an `Access`.

Which certificates these are at a given moment is known by `credentials.py`.
"""

import ssl
import tempfile

from grove.errors import UserError
from grove.kube.kubeconfig import Access

# True: as the library does by default, which for plain HTTP is nothing.
Tls = ssl.SSLContext | bool


def tls_context(access: Access) -> Tls:
    """What to connect with. Raises `UserError` for what is not a certificate or key."""
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
    # The standard library takes files only; this one is readable by us alone, and gone at once.
    with tempfile.NamedTemporaryFile(suffix=".pem") as file:
        file.write(certificate + b"\n" + key)
        file.flush()
        # Without a password an encrypted key would ask for one at the terminal, and everything would stand still.
        context.load_cert_chain(file.name, password=b"")


def _text(certificate: bytes | None) -> str | None:
    return None if certificate is None else certificate.decode("ascii")
