"""How to reach a cluster: kubeconfig files, or the service account of the pod we run in.

kubectl's rules, with one addition: a `.grove/kubeconfig` in the working directory, which `grove up` writes, comes
first. Connecting is in `http.py`. Not built yet: credential plugins (`exec`), which are refused by name.
"""

import base64
import binascii
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar, dataclass_transform
from urllib.parse import urlsplit

import msgspec
import yaml

from grove.errors import UserError

OWN_KUBECONFIG = Path(".grove/kubeconfig")
SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


class Access(msgspec.Struct, frozen=True, kw_only=True):
    """One cluster and who we are there. `source` is where the user finds this, for error messages."""

    server: str
    source: str
    namespace: str = "default"
    certificate_authority: bytes | None = None
    is_insecure: bool = False
    tls_server_name: str = ""
    proxy_url: str = ""
    token: str = ""
    # Read again and again: tokens of service accounts are replaced while we run.
    token_file: Path | None = None
    client_certificate: bytes | None = None
    client_key: bytes | None = None


def find_access(environment: Mapping[str, str], *, kubeconfig: Path | None = None, context: str = "") -> Access:
    """The cluster a command shall talk to. Raises `UserError` if there is none, or its description is wrong."""
    paths = _kubeconfig_paths(environment, kubeconfig)
    if paths:
        return _access_of(_merge([_read(path) for path in paths]), context, ", ".join(str(path) for path in paths))
    in_cluster = _in_cluster(environment)
    if in_cluster is not None:
        return in_cluster
    raise UserError("no cluster to talk to; start one with `grove up`, or name one with --kubeconfig or KUBECONFIG")


def is_listening(access: Access) -> bool:
    """Does anybody answer at this address, whoever it is?"""
    url = urlsplit(access.server)
    with socket.socket() as probe:
        probe.settimeout(1.0)
        return probe.connect_ex((url.hostname or "", url.port or 443)) == 0


def _kubeconfig_paths(environment: Mapping[str, str], kubeconfig: Path | None) -> list[Path]:
    """The files that count, in the order of their weight."""
    if kubeconfig is not None:
        if not kubeconfig.is_file():
            raise UserError(f"{kubeconfig}: no such file; check --kubeconfig")
        return [kubeconfig]
    if OWN_KUBECONFIG.is_file():
        return [OWN_KUBECONFIG]
    named = [Path(text) for text in environment.get("KUBECONFIG", "").split(":") if text]
    found = [path for path in named if path.is_file()]
    if named and not found:
        raise UserError(f"KUBECONFIG={environment['KUBECONFIG']}: no such file; correct or unset KUBECONFIG")
    home = environment.get("HOME", "")
    usual = Path(home, ".kube", "config")
    return found or ([usual] if home and usual.is_file() else [])


# --- the file --------------------------------------------------------------------------------------------------------


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(msgspec.field,))
class _Part(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """Anything in a kubeconfig; what we do not know is ignored, as kubectl does."""


class _Cluster(_Part):
    server: str = ""
    certificate_authority: str = ""
    certificate_authority_data: str = ""
    insecure_skip_tls_verify: bool = False
    tls_server_name: str = ""
    proxy_url: str = ""


class _User(_Part):
    token: str = ""
    token_file: str = msgspec.field(default="", name="tokenFile")
    client_certificate: str = ""
    client_certificate_data: str = ""
    client_key: str = ""
    client_key_data: str = ""
    exec: object = None
    auth_provider: object = None
    username: str = ""


class _Context(_Part):
    cluster: str = ""
    user: str = ""
    namespace: str = ""


class _NamedCluster(_Part):
    name: str
    cluster: _Cluster = _Cluster()


class _NamedUser(_Part):
    name: str
    user: _User = _User()


class _NamedContext(_Part):
    name: str
    context: _Context = _Context()


class _File(_Part):
    current_context: str = ""
    clusters: tuple[_NamedCluster, ...] | None = None
    users: tuple[_NamedUser, ...] | None = None
    contexts: tuple[_NamedContext, ...] | None = None


class _Config(msgspec.Struct, frozen=True, kw_only=True):
    """One or several files, by name."""

    current_context: str
    clusters: dict[str, _Cluster]
    users: dict[str, _User]
    contexts: dict[str, _Context]


def _read(path: Path) -> _Config:
    try:
        content = yaml.safe_load(path.read_text())
        file = msgspec.convert({} if content is None else content, _File, strict=False)
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror}); check its permissions") from error
    except (yaml.YAMLError, msgspec.ValidationError, UnicodeDecodeError) as error:
        first_line = str(error).splitlines()[0]
        raise UserError(f"{path}: not a kubeconfig ({first_line}); correct it, or name another one") from error
    folder = path.absolute().parent
    return _Config(
        current_context=file.current_context,
        clusters={entry.name: _in_folder(entry.cluster, folder) for entry in file.clusters or ()},
        users={entry.name: _in_folder(entry.user, folder) for entry in file.users or ()},
        contexts={entry.name: entry.context for entry in file.contexts or ()},
    )


P = TypeVar("P", _Cluster, _User)

_PATHS = ("certificate_authority", "token_file", "client_certificate", "client_key")


def _in_folder(part: P, folder: Path) -> P:
    """Paths in a kubeconfig are relative to the file they stand in."""
    named = {name: getattr(part, name, "") for name in _PATHS}
    return msgspec.structs.replace(part, **{name: str(folder / path) for name, path in named.items() if path})


def _merge(configs: list[_Config]) -> _Config:
    """The first file that says something about a name is right."""
    merged = _Config(current_context="", clusters={}, users={}, contexts={})
    for config in configs:
        merged = _Config(
            current_context=merged.current_context or config.current_context,
            clusters=config.clusters | merged.clusters,
            users=config.users | merged.users,
            contexts=config.contexts | merged.contexts,
        )
    return merged


def _access_of(config: _Config, context_name: str, source: str) -> Access:
    name = context_name or config.current_context
    if not name:
        raise UserError(f"{source}: has no current-context; choose one with --context{_choice(config.contexts)}")
    context = config.contexts.get(name)
    if context is None:
        raise UserError(f"{source}: has no context {name!r}; choose another one{_choice(config.contexts)}")
    cluster = config.clusters.get(context.cluster)
    if cluster is None or not cluster.server:
        raise UserError(f"{source}: context {name!r} names cluster {context.cluster!r}, which has no server; add it")
    user = config.users.get(context.user) if context.user else _User()
    if user is None:
        raise UserError(f"{source}: context {name!r} names user {context.user!r}, which is not there; add it")
    _refuse_unbuilt(user, context.user, source)
    return Access(
        server=cluster.server.rstrip("/"),
        source=source,
        namespace=context.namespace or "default",
        certificate_authority=_content(
            cluster.certificate_authority_data, cluster.certificate_authority, "certificate-authority", source
        ),
        is_insecure=cluster.insecure_skip_tls_verify,
        tls_server_name=cluster.tls_server_name,
        proxy_url=cluster.proxy_url,
        token=user.token,
        token_file=Path(user.token_file) if user.token_file and not user.token else None,
        client_certificate=_content(
            user.client_certificate_data, user.client_certificate, "client-certificate", source
        ),
        client_key=_content(user.client_key_data, user.client_key, "client-key", source),
    )


def _choice(contexts: dict[str, _Context]) -> str:
    return f" (there are: {', '.join(sorted(contexts))})" if contexts else ""


def _refuse_unbuilt(user: _User, name: str, source: str) -> None:
    instead = "use a token, a tokenFile or a client certificate"
    if user.exec is not None:
        raise UserError(f"{source}: user {name!r} asks a credential plugin (exec), which comes later; {instead}")
    if user.auth_provider is not None:
        raise UserError(f"{source}: user {name!r} has an auth-provider, which Kubernetes removed; {instead}")
    if user.username:
        raise UserError(f"{source}: user {name!r} has a password, which Kubernetes no longer accepts; {instead}")


def _content(data: str, path: str, field: str, source: str) -> bytes | None:
    """What stands in the file itself (`...-data`), or in the file it names."""
    if data:
        try:
            return base64.b64decode(data, validate=True)
        except binascii.Error as error:
            raise UserError(f"{source}: {field}-data is not base64; copy it again") from error
    if not path:
        return None
    return _read_bytes(Path(path), f"{source}: {field}")


def _read_bytes(path: Path, what: str) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise UserError(f"{what} {path} cannot be read ({error.strerror}); check the path") from error


# --- in a pod --------------------------------------------------------------------------------------------------------


def _in_cluster(environment: Mapping[str, str]) -> Access | None:
    host, port = environment.get("KUBERNETES_SERVICE_HOST", ""), environment.get("KUBERNETES_SERVICE_PORT", "443")
    token_file = SERVICE_ACCOUNT / "token"
    if not host or not token_file.is_file():
        return None
    namespace_file = SERVICE_ACCOUNT / "namespace"
    return Access(
        server=f"https://{f'[{host}]' if ':' in host else host}:{port}",
        source=str(SERVICE_ACCOUNT),
        namespace=namespace_file.read_text().strip() if namespace_file.is_file() else "default",
        certificate_authority=_read_bytes(SERVICE_ACCOUNT / "ca.crt", "the service account's"),
        token_file=token_file,
    )
