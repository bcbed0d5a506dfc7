"""Reads the access to a cluster from kubeconfig files, or from the service account of the pod.

The order: `--kubeconfig`, `KUBECONFIG`, the `.grove/kubeconfig` of a local cluster that answers (`local_cluster.py`),
then kubectl's default. `http_transport.py` connects, `credentials.py` provides current credentials,
`exec_credential.py` runs credential plugins.
"""

import base64
import binascii
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import TypeVar, dataclass_transform
from urllib.parse import urlsplit

import msgspec
import yaml

from grove.errors import UserError
from grove.kube.local_cluster import OWN_KUBECONFIG, find_ended, is_answering, is_local

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


EXEC_VERSIONS = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")
# The name of the cluster extension that is passed to the plugin.
EXEC_EXTENSION = "client.authentication.k8s.io/exec"


class InteractiveMode(StrEnum):
    """The modes in which a plugin may, or may not, prompt the user at the terminal."""

    NEVER = "Never"
    IF_AVAILABLE = "IfAvailable"
    ALWAYS = "Always"


class ExecPlugin(msgspec.Struct, frozen=True, kw_only=True):
    """A credential plugin as configured in a kubeconfig (`users[].user.exec`)."""

    api_version: str
    command: str
    arguments: tuple[str, ...] = ()
    # Added to the environment of this process.
    environment: tuple[tuple[str, str], ...] = ()
    install_hint: str = ""
    provide_cluster_info: bool = False
    cluster_config: object = None
    interactive_mode: InteractiveMode = InteractiveMode.IF_AVAILABLE

    def __repr__(self) -> str:
        # Arguments and environment may hold secrets.
        return f"ExecPlugin({self.command!r})"


class Access(msgspec.Struct, frozen=True, kw_only=True):
    """The address of one cluster and the credentials for it. `source` is the file, for error messages.

    Paths of files are kept beside their content: they are read again, because certificates and tokens are replaced
    while the process runs.
    """

    server: str
    source: str
    # Empty in a pod.
    context: str = ""
    # The address of a local cluster that is gone, if this access was found only because of that.
    gone_local: str = ""
    namespace: str = "default"
    certificate_authority: bytes | None = None
    certificate_authority_file: Path | None = None
    is_insecure: bool = False
    tls_server_name: str = ""
    proxy_url: str = ""
    token: str = ""
    token_file: Path | None = None
    client_certificate: bytes | None = None
    client_certificate_file: Path | None = None
    client_key: bytes | None = None
    client_key_file: Path | None = None
    plugin: ExecPlugin | None = None

    def __repr__(self) -> str:
        # Keys and tokens must not end up in a log or a traceback.
        return f"Access({self.server!r}, source={self.source!r})"

    def __str__(self) -> str:
        return f"{self.server} ({f'context {self.context} of ' if self.context else ''}{self.source})"

    @property
    def is_local(self) -> bool:
        """Whether `grove up` wrote this kubeconfig."""
        return is_local(self.server, self.context)


def find_access(environment: Mapping[str, str], *, kubeconfig: Path | None = None, context: str = "") -> Access:
    """Return the access to the cluster of a command. Raises `UserError` if there is none, or it is invalid."""
    named = _named_paths(environment, kubeconfig)
    if named:
        return _load(named, context)
    local, gone = _find_local(environment, context)
    if local is not None:
        return local
    found = _find_default(environment, context)
    if found is not None:
        # Who names a context knows which cluster it is.
        return msgspec.structs.replace(found, gone_local="" if context else gone)
    if gone and OWN_KUBECONFIG.is_file():
        raise UserError(
            f"cannot reach {gone} (from {OWN_KUBECONFIG}): it does not answer; "
            "is the cluster running? `grove up` starts one"
        )
    raise UserError("no cluster found; start one with `grove up`, or name one with --kubeconfig or KUBECONFIG")


def _named_paths(environment: Mapping[str, str], kubeconfig: Path | None) -> list[Path]:
    """Return the kubeconfig files that the user names with the option or the environment variable."""
    if kubeconfig is not None:
        if not kubeconfig.is_file():
            what = "is a directory, not a file" if kubeconfig.is_dir() else "no such file"
            raise UserError(f"{kubeconfig}: {what}; check --kubeconfig")
        return [kubeconfig]
    named = [Path(text) for text in environment.get("KUBECONFIG", "").split(":") if text]
    found = [path for path in named if path.is_file()]
    if named and not found:
        raise UserError(f"KUBECONFIG={environment['KUBECONFIG']}: no such file; correct or unset KUBECONFIG")
    return found


def _find_local(environment: Mapping[str, str], context: str) -> tuple[Access | None, str]:
    """Return the access to the local cluster of this directory; or None, and its address if it is gone."""
    if not OWN_KUBECONFIG.is_file():
        return None, find_ended(environment, OWN_KUBECONFIG)
    config = _read(OWN_KUBECONFIG)
    if context and context not in config.contexts:
        return None, ""
    access = _access_of(config, context, str(OWN_KUBECONFIG))
    if is_answering(access.server, access.certificate_authority):
        return access, ""
    return None, access.server


def _find_default(environment: Mapping[str, str], context: str) -> Access | None:
    home = environment.get("HOME", "")
    usual = Path(home, ".kube", "config")
    if home and usual.is_file():
        return _load([usual], context)
    return _in_cluster(environment)


def _load(paths: list[Path], context: str) -> Access:
    return _access_of(_merge([_read(path) for path in paths]), context, ", ".join(str(path) for path in paths))


def is_token(text: str) -> bool:
    """Return whether the text is valid in an HTTP header: anything else would be rejected or corrupt the request."""
    return text != "" and text.isascii() and text.isprintable() and " " not in text


# --- the file --------------------------------------------------------------------------------------------------------


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(msgspec.field,))
class _Part(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """The base class of kubeconfig types; unknown fields are ignored, as in kubectl."""


class _Extension(_Part):
    name: str = ""
    extension: object = None


class _Cluster(_Part):
    server: str = ""
    certificate_authority: str = ""
    certificate_authority_data: str = ""
    insecure_skip_tls_verify: bool = False
    tls_server_name: str = ""
    proxy_url: str = ""
    extensions: tuple[_Extension, ...] | None = None


class _Variable(_Part):
    name: str
    value: str = ""


class _Exec(_Part, rename="camel"):
    api_version: str = ""
    command: str = ""
    args: tuple[str, ...] | None = None
    env: tuple[_Variable, ...] | None = None
    install_hint: str | None = None
    provide_cluster_info: bool = False
    interactive_mode: str | None = None


class _User(_Part):
    token: str = ""
    token_file: str = msgspec.field(default="", name="tokenFile")
    client_certificate: str = ""
    client_certificate_data: str = ""
    client_key: str = ""
    client_key_data: str = ""
    exec: _Exec | None = None
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
    """The content of one or several kubeconfig files, by name."""

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
        raise UserError(f"{path}: not a kubeconfig ({first_line}); correct it, or choose another file") from error
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
    """Resolve paths, which are relative to the kubeconfig file."""
    named = {name: getattr(part, name, "") for name in _PATHS}
    changes: dict[str, object] = {name: str(folder / path) for name, path in named.items() if path}
    if isinstance(part, _User) and part.exec is not None and "/" in part.exec.command:
        # A bare name is searched on the PATH.
        changes["exec"] = msgspec.structs.replace(part.exec, command=str(folder / part.exec.command))
    return msgspec.structs.replace(part, **changes)


def _merge(configs: list[_Config]) -> _Config:
    """Merge the files. The first file that defines a name wins."""
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
        raise UserError(f"{source}: has no current-context; choose one with --context{_list_contexts(config.contexts)}")
    context = config.contexts.get(name)
    if context is None:
        raise UserError(f"{source}: has no context {name!r}; choose another one{_list_contexts(config.contexts)}")
    cluster = config.clusters.get(context.cluster)
    if cluster is None or not cluster.server:
        raise UserError(f"{source}: context {name!r} names cluster {context.cluster!r}, which has no server; add it")
    user = config.users.get(context.user) if context.user else _User()
    if user is None:
        raise UserError(f"{source}: context {name!r} names user {context.user!r}, which does not exist; add it")
    _reject_removed_auth(user, context.user, source)
    _reject_missing_key(user, context.user, source)
    return Access(
        server=_server_url(cluster.server, source),
        source=source,
        context=name,
        namespace=context.namespace or "default",
        certificate_authority=_read_content(
            cluster.certificate_authority_data, cluster.certificate_authority, "certificate-authority", source
        ),
        certificate_authority_file=_file(cluster.certificate_authority_data, cluster.certificate_authority),
        is_insecure=cluster.insecure_skip_tls_verify,
        tls_server_name=cluster.tls_server_name,
        proxy_url=_proxy_url(cluster.proxy_url, source),
        token=_token(user.token, source),
        token_file=_file(user.token, user.token_file),
        client_certificate=_read_content(
            user.client_certificate_data, user.client_certificate, "client-certificate", source
        ),
        client_certificate_file=_file(user.client_certificate_data, user.client_certificate),
        client_key=_read_content(user.client_key_data, user.client_key, "client-key", source),
        client_key_file=_file(user.client_key_data, user.client_key),
        plugin=_plugin_of(user, cluster, f"{source}: user {context.user!r}"),
    )


def _list_contexts(contexts: dict[str, _Context]) -> str:
    return f" (there are: {', '.join(sorted(contexts))})" if contexts else ""


def _reject_removed_auth(user: _User, name: str, source: str) -> None:
    instead = "use a token, a tokenFile, a client certificate or a credential plugin (exec)"
    if user.auth_provider is not None:
        raise UserError(f"{source}: user {name!r} has an auth-provider, which Kubernetes removed; {instead}")
    if user.username:
        raise UserError(f"{source}: user {name!r} has a password, which Kubernetes no longer accepts; {instead}")


def _reject_missing_key(user: _User, name: str, source: str) -> None:
    """Reject a certificate without its key: it would not be sent, and requests would be anonymous."""
    has_certificate = user.client_certificate or user.client_certificate_data
    if has_certificate and not (user.client_key or user.client_key_data):
        raise UserError(f"{source}: user {name!r} has a client-certificate and no client-key; add it")


def _server_url(text: str, source: str) -> str:
    if not _is_web_address(text):
        raise UserError(f"{source}: server {text!r} is not a URL; write https://host:port")
    return text.rstrip("/")


def _is_web_address(text: str) -> bool:
    try:
        url = urlsplit(text)
        # An invalid port raises only when it is read.
        return url.scheme in ("http", "https") and bool(url.hostname) and (url.port is None or url.port > 0)
    except ValueError:
        return False


def _token(text: str, source: str) -> str:
    token = text.strip()
    if token and not is_token(token):
        raise UserError(f"{source}: the token contains invalid characters; copy it again")
    return token


def _proxy_url(text: str, source: str) -> str:
    if not text:
        return ""
    scheme = text.partition(":")[0].lower()
    if scheme.startswith("socks"):
        raise UserError(
            f"{source}: proxy-url is a {scheme} proxy, which is not supported; use an http:// or https:// proxy,"
            " or forward a local port to the server and name that as server, with tls-server-name"
        )
    if not _is_web_address(text):
        raise UserError(f"{source}: proxy-url is not a URL of an http or https proxy; write http://host:port")
    return text


def _plugin_of(user: _User, cluster: _Cluster, who: str) -> ExecPlugin | None:
    """Return the plugin, or None. As in kubectl, a static token takes precedence."""
    found = user.exec
    if found is None or user.token or user.token_file:
        return None
    if found.api_version not in EXEC_VERSIONS:
        versions = " or ".join(EXEC_VERSIONS)
        raise UserError(f"{who}: exec.apiVersion is {found.api_version!r}; update the plugin to {versions}")
    if not found.command:
        raise UserError(f"{who}: exec.command is missing; name the credential plugin")
    extensions = {entry.name: entry.extension for entry in cluster.extensions or ()}
    return ExecPlugin(
        api_version=found.api_version,
        command=found.command,
        arguments=found.args or (),
        environment=tuple((variable.name, variable.value) for variable in found.env or ()),
        install_hint=(found.install_hint or "").strip(),
        provide_cluster_info=found.provide_cluster_info,
        cluster_config=extensions.get(EXEC_EXTENSION),
        interactive_mode=_interactive_mode(found, who),
    )


def _interactive_mode(found: _Exec, who: str) -> InteractiveMode:
    modes = ", ".join(InteractiveMode)
    if found.interactive_mode:
        try:
            return InteractiveMode(found.interactive_mode)
        except ValueError as error:
            raise UserError(f"{who}: exec.interactiveMode is {found.interactive_mode!r}; use one of {modes}") from error
    if found.api_version.endswith("/v1"):
        raise UserError(f"{who}: exec.interactiveMode is missing; {found.api_version} requires one of {modes}")
    return InteractiveMode.IF_AVAILABLE


def _file(data: str, path: str) -> Path | None:
    """Return the file to read again, unless the kubeconfig has the content itself."""
    return Path(path) if path and not data else None


def _read_content(data: str, path: str, field: str, source: str) -> bytes | None:
    """Return the content of the `...-data` field, or of the file that the field names."""
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


def service_account_folder(environment: Mapping[str, str]) -> Path:
    """Return the folder of the service account token. A process that runs as a pod has it below `GROVE_ROOT`."""
    return Path(environment.get("GROVE_ROOT", "/")) / SERVICE_ACCOUNT.relative_to("/")


def _in_cluster(environment: Mapping[str, str]) -> Access | None:
    host, port = environment.get("KUBERNETES_SERVICE_HOST", ""), environment.get("KUBERNETES_SERVICE_PORT", "443")
    account = service_account_folder(environment)
    token_file = account / "token"
    if not host or not token_file.is_file():
        return None
    namespace_file = account / "namespace"
    return Access(
        server=f"https://{f'[{host}]' if ':' in host else host}:{port}",
        source=str(SERVICE_ACCOUNT),
        namespace=namespace_file.read_text().strip() if namespace_file.is_file() else "default",
        certificate_authority=_read_bytes(account / "ca.crt", "the service account's"),
        certificate_authority_file=account / "ca.crt",
        token_file=token_file,
    )
