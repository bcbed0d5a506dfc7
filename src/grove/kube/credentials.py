"""Client credentials: a token and the certificates to connect with. They can change while the process runs.

There are two kinds: `FileCredentials` from the kubeconfig or files, and `PluginCredentials` from a credential plugin
(`exec_credential.py` runs it). When the server rejects them, `http_transport.py` renews them once.
"""

import asyncio
from datetime import datetime, timedelta
from pathlib import Path
from typing import Protocol

import msgspec

from grove.clock import Clock
from grove.errors import UserError
from grove.kube.api_errors import NoCredentials
from grove.kube.exec_credential import PluginCredential, run_plugin
from grove.kube.kubeconfig import Access, ExecPlugin, is_token
from grove.kube.tls import Tls, tls_context

# How long the content of a file is cached. The kubelet replaces tokens long before they expire.
FILE_SECONDS = 60.0
# A plugin runs again this long before its credential expires, or a tenth of its lifetime if that is less ...
EARLY_SECONDS = 60.0
# ... but not at every request, whatever the expiry is.
SHORTEST_LIFE_SECONDS = 5.0
# A plugin that failed while its last credential is still valid does not run again for this long ...
PLUGIN_PAUSE_SECONDS = 10.0
# ... nor does one whose credentials the server rejects: else every rejected request would start a process.
REJECTED_PAUSE_SECONDS = 10.0


class ClientIdentity(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """The token and TLS context of a request. A change creates a new identity, so they are compared with `is`."""

    token: str
    tls: Tls

    def __repr__(self) -> str:
        return f"ClientIdentity({'with' if self.token else 'without'} a token)"


class Credentials(Protocol):
    """The credentials of a client."""

    async def current(self) -> ClientIdentity:
        """Return the current identity. Raises `NoCredentials` if there is none."""
        ...

    async def renew(self, rejected: ClientIdentity) -> bool:
        """Renew credentials that the server rejected; return whether there are others to try now."""
        ...


def credentials_of(access: Access, clock: Clock) -> Credentials:
    """Return the credentials for this access. Raises `UserError` for an invalid certificate, key or token."""
    return FileCredentials(access, clock) if access.plugin is None else PluginCredentials(access, access.plugin, clock)


class FileCredentials:
    """Static credentials. Files are read again every minute, and at once when the server rejects the credentials."""

    def __init__(self, access: Access, clock: Clock) -> None:
        self._access = access
        self._clock = clock
        self._identity = ClientIdentity(token=access.token, tls=tls_context(access))
        self._read_at = float("-inf")

    async def current(self) -> ClientIdentity:
        if self._clock.monotonic() - self._read_at > FILE_SECONDS:
            self._read_files()
        return self._identity

    async def renew(self, rejected: ClientIdentity) -> bool:
        if self._identity is rejected:
            self._read_files()
        return self._identity is not rejected

    def _read_files(self) -> None:
        token, tls = self._read_token(), self._read_certificates()
        self._read_at = self._clock.monotonic()
        if (token, tls) != (self._identity.token, self._identity.tls):
            self._identity = ClientIdentity(token=token, tls=tls)

    def _read_token(self) -> str:
        path = self._access.token_file
        if path is None:
            return self._identity.token
        token = (_read(path) or b"").decode("utf-8", "replace").strip()
        if is_token(token):
            return token
        if self._identity.token:
            # The file is being replaced: the old token is still valid for a while.
            return self._identity.token
        raise NoCredentials(f"{path}: no token can be read; check tokenFile and its permissions")

    def _read_certificates(self) -> Tls:
        """Return the TLS context; a new one only if the certificates changed and are valid."""
        before = self._access
        now = msgspec.structs.replace(
            before,
            certificate_authority=_read(before.certificate_authority_file) or before.certificate_authority,
            client_certificate=_read(before.client_certificate_file) or before.client_certificate,
            client_key=_read(before.client_key_file) or before.client_key,
        )
        if now == before:
            return self._identity.tls
        try:
            context = tls_context(now)
        except UserError:
            # Partly written, or the certificate without its key yet: retry later.
            return self._identity.tls
        self._access = now
        return context


class PluginCredentials:
    """Credentials of a plugin, cached until shortly before they expire. One run serves all waiting requests."""

    def __init__(self, access: Access, plugin: ExecPlugin, clock: Clock) -> None:
        self._access = access
        self._plugin = plugin
        self._clock = clock
        self._tls = tls_context(access)
        self._credential = PluginCredential()
        self._identity: ClientIdentity | None = None
        self._refresh_at: datetime | None = None
        self._lock = asyncio.Lock()
        self._run_count = 0
        self._error: NoCredentials | None = None
        self._rejected_at = float("-inf")

    async def current(self) -> ClientIdentity:
        run_count = self._run_count
        if self._identity is not None and (not self._is_due() or self._is_refreshing()):
            return self._identity
        async with self._lock:
            # A run that was waited for counts, even if it failed: waiting requests must not run the plugin one by one.
            if self._run_count == run_count:
                await self._refresh()
        if self._identity is None or (self._error is not None and not self._is_valid()):
            raise NoCredentials(self._error.message if self._error is not None else "there are no credentials yet")
        return self._identity

    async def renew(self, rejected: ClientIdentity) -> bool:
        async with self._lock:
            if self._identity is not rejected:
                return True
            if self._clock.monotonic() - self._rejected_at < REJECTED_PAUSE_SECONDS:
                return False
            run_count = self._run_count
            try:
                await self._run_plugin()
            finally:
                # Not if this request was cancelled: then the next one runs the plugin.
                if self._run_count != run_count:
                    self._rejected_at = self._clock.monotonic()
            return True

    def _is_due(self) -> bool:
        return self._refresh_at is not None and self._clock.now() >= self._refresh_at

    def _is_refreshing(self) -> bool:
        """Return whether another request runs the plugin and the last credential is still valid: no need to wait."""
        return self._lock.locked() and self._is_valid()

    async def _refresh(self) -> None:
        """Run the plugin; ignore a failure while the last credential is still valid."""
        try:
            await self._run_plugin()
        except NoCredentials:
            if self._identity is None or not self._is_valid():
                raise
            self._refresh_at = self._clock.now() + timedelta(seconds=PLUGIN_PAUSE_SECONDS)

    async def _run_plugin(self) -> None:
        try:
            credential = await run_plugin(self._plugin, self._access)
            tls = self._tls_with(credential)
        except NoCredentials as error:
            self._run_count += 1
            self._error = error
            raise
        self._run_count += 1
        self._error = None
        self._credential, self._tls = credential, tls
        self._identity = ClientIdentity(token=credential.token, tls=tls)
        self._refresh_at = _refresh_at(credential.expires_at, self._clock.now())

    def _is_valid(self) -> bool:
        expires_at = self._credential.expires_at
        return expires_at is None or self._clock.now() < expires_at

    def _tls_with(self, credential: PluginCredential) -> Tls:
        """Return the TLS context; the same one for the same certificate, because connections are kept per context."""
        if credential.certificate == self._credential.certificate and credential.key == self._credential.key:
            return self._tls
        certificate, key = credential.certificate, credential.key
        if certificate is None:
            certificate, key = self._access.client_certificate, self._access.client_key
        try:
            return tls_context(msgspec.structs.replace(self._access, client_certificate=certificate, client_key=key))
        except UserError as error:
            raise NoCredentials(
                f"the credential plugin {self._plugin.command!r} returned a certificate or key that cannot be"
                " used; run it in a shell and check clientCertificateData"
            ) from error


def _refresh_at(expires_at: datetime | None, now: datetime) -> datetime | None:
    """Return when to run the plugin again; None: only when the server rejects the credential."""
    if expires_at is None:
        return None
    early = min(timedelta(seconds=EARLY_SECONDS), (expires_at - now) / 10)
    return max(expires_at - early, now + timedelta(seconds=SHORTEST_LIFE_SECONDS))


def _read(path: Path | None) -> bytes | None:
    """Return the content of the file; None if it cannot be read."""
    try:
        return None if path is None else path.read_bytes()
    except OSError:
        return None
