"""Runs a credential plugin of the kubeconfig, with a timeout.

The protocol is `client.authentication.k8s.io` v1 and v1beta1. `credentials.py` caches the result; `kubeconfig.py` reads
the configuration of the plugin. Errors never quote the output of the plugin.
"""

import asyncio
import base64
import os
import signal
import sys
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from typing import Annotated

import msgspec

from grove.api.types.meta import JsonObject
from grove.kube.api_errors import NoCredentials
from grove.kube.kubeconfig import Access, ExecPlugin, InteractiveMode, is_token

TIMEOUT_SECONDS = 60.0
# With a user at the terminal: time to log in.
LOGIN_SECONDS = 300.0
_KILL_SECONDS = 2.0
_QUOTED_CHARACTERS = 500
# A credential has a few thousand bytes.
_LONGEST_BYTES = 1 << 20


class PluginCredential(msgspec.Struct, frozen=True, kw_only=True):
    """A token, a client certificate with its key, or both. Without expiry: valid until the server rejects it."""

    token: str = ""
    certificate: bytes | None = None
    key: bytes | None = None
    expires_at: datetime | None = None

    def __repr__(self) -> str:
        return f"PluginCredential(expires_at={self.expires_at!r})"


class _Status(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    token: str | None = None
    client_certificate_data: str | None = None
    client_key_data: str | None = None
    expiration_timestamp: Annotated[datetime, msgspec.Meta(tz=True)] | None = None


class _ExecCredential(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    api_version: str
    kind: str
    status: _Status | None = None


async def run_plugin(plugin: ExecPlugin, access: Access) -> PluginCredential:
    """Run the plugin and return its credential. Raises `NoCredentials` if that fails."""
    is_interactive = _is_interactive(plugin)
    environment = {**os.environ, **dict(plugin.environment)}
    environment["KUBERNETES_EXEC_INFO"] = msgspec.json.encode(_exec_info(plugin, access, is_interactive)).decode()
    return _decode_credential(plugin, await _run(plugin, environment, is_interactive=is_interactive))


def _is_interactive(plugin: ExecPlugin) -> bool:
    has_terminal = sys.stdin is not None and sys.stdin.isatty()
    if plugin.interactive_mode is InteractiveMode.ALWAYS and not has_terminal:
        raise _failure(plugin, "needs a terminal to prompt the user, and there is none; log in with it by hand first")
    return has_terminal and plugin.interactive_mode is not InteractiveMode.NEVER


def _exec_info(plugin: ExecPlugin, access: Access, is_interactive: bool) -> JsonObject:
    spec: JsonObject = {"interactive": is_interactive}
    if plugin.provide_cluster_info:
        spec["cluster"] = _cluster(plugin, access)
    return {"apiVersion": plugin.api_version, "kind": "ExecCredential", "spec": spec}


def _cluster(plugin: ExecPlugin, access: Access) -> JsonObject:
    authority = access.certificate_authority
    fields: JsonObject = {
        "server": access.server,
        "tls-server-name": access.tls_server_name,
        "insecure-skip-tls-verify": access.is_insecure,
        "certificate-authority-data": base64.b64encode(authority).decode() if authority else "",
        "proxy-url": access.proxy_url,
        "config": plugin.cluster_config,
    }
    return {name: value for name, value in fields.items() if value}


async def _run(plugin: ExecPlugin, environment: Mapping[str, str], *, is_interactive: bool) -> bytes:
    """Return what the plugin printed. Its standard error goes to the terminal if interactive, else into the error."""
    try:
        process = await asyncio.create_subprocess_exec(
            plugin.command,
            *plugin.arguments,
            env=environment,
            stdin=None if is_interactive else asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=None if is_interactive else asyncio.subprocess.PIPE,
            # Its own process group, so that its children are killed too; but only the foreground group may read input.
            start_new_session=not is_interactive,
        )
    except (OSError, ValueError) as error:
        hint = plugin.install_hint or "install it, or correct exec.command in the kubeconfig"
        raise _failure(plugin, f"cannot be started ({getattr(error, 'strerror', None) or error}); {hint}") from error
    running = _RunningPlugin(process=process, is_group=not is_interactive)
    seconds = LOGIN_SECONDS if is_interactive else TIMEOUT_SECONDS
    try:
        async with asyncio.timeout(seconds):
            output, errors = await asyncio.gather(
                *(_read(stream, running) for stream in (process.stdout, process.stderr))
            )
            await process.wait()
    except TimeoutError as error:
        raise _failure(
            plugin, f"did not answer within {seconds:g} s and was stopped; run it in a shell to see why"
        ) from error
    finally:
        await _stop(running)
    if max(len(output), len(errors)) > _LONGEST_BYTES:
        raise _failure(plugin, "printed more than 1 MiB and was stopped; run it in a shell and check its output")
    if process.returncode != 0:
        stderr = " ".join(errors.decode("utf-8", "replace").split())[-_QUOTED_CHARACTERS:]
        raise _failure(plugin, f"failed with code {process.returncode}: {stderr or 'no error message'}")
    return output


class _RunningPlugin(msgspec.Struct, frozen=True, kw_only=True):
    """A running plugin, perhaps with its own process group."""

    process: asyncio.subprocess.Process
    is_group: bool

    def kill(self) -> None:
        with suppress(ProcessLookupError):
            if self.is_group:
                os.killpg(self.process.pid, signal.SIGKILL)
            else:
                self.process.kill()


async def _read(stream: asyncio.StreamReader | None, running: _RunningPlugin) -> bytes:
    """Return all output; if it is too long, kill the plugin and return one byte more than the limit."""
    if stream is None:
        return b""
    try:
        content = await stream.readexactly(_LONGEST_BYTES + 1)
    except asyncio.IncompleteReadError as end:
        return end.partial
    running.kill()
    # The pipe closes after the remaining output was read.
    while await stream.read(_LONGEST_BYTES):
        pass
    return content


async def _stop(running: _RunningPlugin) -> None:
    if running.process.returncode is not None:
        return
    running.kill()
    # Bounded: a child that left the group may still hold the pipe.
    with suppress(TimeoutError):
        async with asyncio.timeout(_KILL_SECONDS):
            await running.process.wait()


def _decode_credential(plugin: ExecPlugin, output: bytes) -> PluginCredential:
    try:
        credential = msgspec.json.decode(output, type=_ExecCredential)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise _failure(
            plugin, f"did not print an ExecCredential ({error}); run it in a shell and check its output"
        ) from error
    if (credential.kind, credential.api_version) != ("ExecCredential", plugin.api_version):
        found = f"{credential.kind} of {credential.api_version}"
        raise _failure(plugin, f"returned {found}, not ExecCredential of {plugin.api_version}; correct apiVersion")
    status = credential.status or _Status()
    token = (status.token or "").strip()
    if token and not is_token(token):
        raise _failure(plugin, "returned a token with invalid characters; run it in a shell and check its output")
    if bool(status.client_certificate_data) != bool(status.client_key_data):
        raise _failure(plugin, "returned only one of clientCertificateData and clientKeyData; both are required")
    if not token and not status.client_certificate_data:
        raise _failure(plugin, "returned neither a token nor a certificate; run it in a shell and check its output")
    return PluginCredential(
        token=token,
        certificate=_pem(status.client_certificate_data),
        key=_pem(status.client_key_data),
        expires_at=status.expiration_timestamp,
    )


def _pem(text: str | None) -> bytes | None:
    """Encode PEM. Unlike in a kubeconfig, it is not base64."""
    return text.encode() if text else None


def _failure(plugin: ExecPlugin, what: str) -> NoCredentials:
    return NoCredentials(f"the credential plugin {plugin.command!r} {what}")
