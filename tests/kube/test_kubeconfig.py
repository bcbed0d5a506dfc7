"""Which cluster a command talks to, and who it is there: kubeconfig files and service accounts."""

import base64
import re
import socket
from pathlib import Path
from typing import Any

import pytest
import yaml

import grove.kube.kubeconfig
from grove.api.types.meta import JsonObject
from grove.errors import UserError
from grove.kube.kubeconfig import Access, ExecPlugin, InteractiveMode, find_access
from grove.kube.local_cluster import OWN_KUBECONFIG, forget_end, is_answering, record_end

GROUP = "client.authentication.k8s.io"
EXEC: JsonObject = {"apiVersion": f"{GROUP}/v1", "command": "aws", "interactiveMode": "Never"}


def kubeconfig(
    name: str = "mine", *, cluster: JsonObject | None = None, user: JsonObject | None = None, namespace: str = ""
) -> JsonObject:
    """A kubeconfig with one context, cluster and user of the same name."""
    context = {"cluster": name, "user": name, **({"namespace": namespace} if namespace else {})}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": name,
        "contexts": [{"name": name, "context": context}],
        "clusters": [{"name": name, "cluster": {"server": f"https://{name}.example:6443", **(cluster or {})}}],
        "users": [{"name": name, "user": user or {}}],
    }


def write(path: Path, content: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
    return path


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, in which no cluster is known."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(grove.kube.kubeconfig, "SERVICE_ACCOUNT", tmp_path / "serviceaccount")
    return tmp_path


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


# --- which file ------------------------------------------------------------------------------------------------------


def test_the_search_goes_from_the_flag_over_the_variable_and_a_local_cluster_to_kubectls_default(folder: Path) -> None:
    home = {"HOME": str(folder / "home"), "XDG_RUNTIME_DIR": str(folder)}
    named = {**home, "KUBECONFIG": str(write(folder / "named", kubeconfig("named")))}
    usual = write(folder / "home" / ".kube" / "config", kubeconfig("usual"))
    with socket.create_server(("127.0.0.1", 0)) as server:
        local = f"http://127.0.0.1:{server.getsockname()[1]}"
        write(folder / ".grove" / "kubeconfig", kubeconfig("grove", cluster={"server": local}))
        assert find_access(named, kubeconfig=usual).context == "usual"
        assert find_access(named).context == "named"
        assert (find_access(home).server, find_access(home).source) == (local, ".grove/kubeconfig")
        assert find_access(home, context="usual").source == str(usual)
    gone = find_access(home)
    assert (gone.context, gone.gone_local) == ("usual", local)
    # Who names the context has chosen the cluster.
    assert find_access(home, context="usual").gone_local == ""
    usual.unlink()
    with pytest.raises(UserError, match=rf"cannot reach {local} .*is the cluster running\? `grove up` starts one"):
        find_access(home)


def test_a_local_cluster_that_ended_is_remembered_until_the_next_one_starts(folder: Path) -> None:
    environment = {"HOME": str(folder), "XDG_RUNTIME_DIR": str(folder / "run")}
    write(folder / ".kube" / "config", kubeconfig("usual"))
    assert find_access(environment).gone_local == ""
    record_end(environment, OWN_KUBECONFIG, "https://127.0.0.1:1")
    assert find_access(environment).gone_local == "https://127.0.0.1:1"
    forget_end(environment, OWN_KUBECONFIG)
    assert find_access(environment).gone_local == ""


def test_a_server_with_another_certificate_is_not_the_local_cluster(folder: Path) -> None:
    """Its port may belong to another program by now."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"https://127.0.0.1:{server.getsockname()[1]}"
        assert is_answering(address, None)
        assert not is_answering(address, b"no certificate")
    assert not is_answering(address, None)


def test_without_any_file_and_outside_a_pod_there_is_no_cluster(folder: Path) -> None:
    with pytest.raises(UserError, match=r"no cluster found; start one with `grove up`"):
        find_access({"HOME": str(folder)})


def test_several_files_are_merged_and_the_first_to_name_something_is_right(folder: Path) -> None:
    first = write(folder / "first", {**kubeconfig("a"), "current-context": ""})
    second = write(folder / "second", {**kubeconfig("b"), "clusters": kubeconfig("a")["clusters"]})
    third = write(folder / "third", kubeconfig("b", cluster={"server": "https://third.example"}))
    environment = {"KUBECONFIG": f"{first}:{folder / 'missing'}:{second}:{third}"}
    assert find_access(environment).server == "https://third.example"
    assert find_access(environment, context="a").server == "https://a.example:6443"


# --- what it says ----------------------------------------------------------------------------------------------------


def test_everything_that_is_needed_to_connect_is_read(folder: Path) -> None:
    path = write(
        folder / "config",
        kubeconfig(
            cluster={
                "server": "https://mine.example:6443/",
                "certificate-authority-data": encoded("CA"),
                "tls-server-name": "kubernetes",
                "proxy-url": "http://proxy.example:3128",
            },
            user={"client-certificate-data": encoded("CERT"), "client-key-data": encoded("KEY")},
            namespace="team",
        ),
    )
    assert find_access({}, kubeconfig=path) == Access(
        server="https://mine.example:6443",
        source=str(path),
        context="mine",
        namespace="team",
        certificate_authority=b"CA",
        tls_server_name="kubernetes",
        proxy_url="http://proxy.example:3128",
        client_certificate=b"CERT",
        client_key=b"KEY",
    )


def test_files_that_are_named_are_relative_to_the_file_that_names_them(folder: Path) -> None:
    path = write(
        folder / "far" / "config",
        kubeconfig(
            cluster={"certificate-authority": "pki/ca.crt", "insecure-skip-tls-verify": True},
            user={"tokenFile": "token", "client-certificate": "pki/me.crt", "client-key": str(folder / "me.key")},
        ),
    )
    write(folder / "far" / "pki" / "ca.crt", "CA")
    write(folder / "far" / "pki" / "me.crt", "CERT")
    write(folder / "me.key", "KEY")
    access = find_access({}, kubeconfig=path)
    assert (access.certificate_authority, access.client_certificate, access.client_key) == (b"CA", b"CERT", b"KEY")
    assert (access.token_file, access.is_insecure) == (folder / "far" / "token", True)
    assert access.certificate_authority_file == folder / "far" / "pki" / "ca.crt"
    assert access.client_certificate_file == folder / "far" / "pki" / "me.crt"
    assert access.client_key_file == folder / "me.key"


def test_a_token_is_stronger_than_a_token_file(folder: Path) -> None:
    path = write(folder / "config", kubeconfig(user={"token": "t", "tokenFile": "there"}))
    access = find_access({}, kubeconfig=path)
    assert (access.token, access.token_file) == ("t", None)


def test_everything_that_a_credential_plugin_needs_is_read(folder: Path) -> None:
    extensions = [{"name": "other", "extension": 1}, {"name": f"{GROUP}/exec", "extension": {"audience": "x"}}]
    described = {
        "apiVersion": f"{GROUP}/v1beta1",
        "command": "bin/login",
        "args": ["token", "--cluster=c"],
        "env": [{"name": "PROFILE", "value": "p"}],
        "installHint": "Get it at the help desk.\n",
        "provideClusterInfo": True,
    }
    path = write(folder / "config", kubeconfig(cluster={"extensions": extensions}, user={"exec": described}))
    assert find_access({}, kubeconfig=path).plugin == ExecPlugin(
        api_version=f"{GROUP}/v1beta1",
        command=str(folder / "bin" / "login"),
        arguments=("token", "--cluster=c"),
        environment=(("PROFILE", "p"),),
        install_hint="Get it at the help desk.",
        provide_cluster_info=True,
        cluster_config={"audience": "x"},
        interactive_mode=InteractiveMode.IF_AVAILABLE,
    )


def test_a_bare_command_is_left_to_the_path_and_null_means_nothing(folder: Path) -> None:
    path = write(folder / "config", kubeconfig(user={"exec": {**EXEC, "args": None, "env": None, "installHint": None}}))
    assert find_access({}, kubeconfig=path).plugin == ExecPlugin(
        api_version=f"{GROUP}/v1", command="aws", interactive_mode=InteractiveMode.NEVER
    )


def test_a_token_that_is_written_down_is_stronger_than_a_plugin(folder: Path) -> None:
    access = find_access({}, kubeconfig=write(folder / "config", kubeconfig(user={"exec": EXEC, "token": "t\n"})))
    assert (access.token, access.plugin) == ("t", None)


def test_secrets_do_not_show_when_an_access_is_printed(folder: Path) -> None:
    described = {**EXEC, "args": ["hidden"], "env": [{"name": "A", "value": "hidden"}]}
    with_plugin = kubeconfig(user={"exec": described, "client-key-data": encoded("hidden")})
    with_token = kubeconfig(user={"token": "hidden"})
    shown = [repr(find_access({}, kubeconfig=write(folder / "c", content))) for content in (with_plugin, with_token)]
    shown.append(repr(find_access({}, kubeconfig=write(folder / "c", with_plugin)).plugin))
    assert shown == [f"Access('https://mine.example:6443', source='{folder}/c')"] * 2 + ["ExecPlugin('aws')"]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{", "not a kubeconfig"),
        ("[]", "not a kubeconfig"),
        ({"clusters": 3}, "not a kubeconfig"),
        ({}, "has no current-context; choose one with --context"),
        ({**kubeconfig(), "current-context": "other"}, "has no context 'other'; choose another one (there are: mine)"),
        ({**kubeconfig(), "clusters": []}, "context 'mine' names cluster 'mine', which has no server; add it"),
        ({**kubeconfig(), "users": []}, "context 'mine' names user 'mine', which does not exist; add it"),
        (kubeconfig(user={"exec": {"command": "aws"}}), "user 'mine': exec.apiVersion is ''; update the plugin to"),
        (
            kubeconfig(user={"exec": {**EXEC, "apiVersion": f"{GROUP}/v1alpha1"}}),
            f"exec.apiVersion is '{GROUP}/v1alpha1'",
        ),
        (kubeconfig(user={"exec": {**EXEC, "command": ""}}), "exec.command is missing; name the credential plugin"),
        (kubeconfig(user={"exec": {"apiVersion": f"{GROUP}/v1", "command": "x"}}), "exec.interactiveMode is missing"),
        (
            kubeconfig(user={"exec": {**EXEC, "interactiveMode": "Maybe"}}),
            "exec.interactiveMode is 'Maybe'; use one of Never, IfAvailable, Always",
        ),
        (kubeconfig(user={"exec": {**EXEC, "args": 7}}), "not a kubeconfig"),
        (kubeconfig(user={"token": "a b"}), "the token contains invalid characters; copy it again"),
        (
            kubeconfig(cluster={"server": "mine.example:6443"}),
            "server 'mine.example:6443' is not a URL; write https://",
        ),
        (kubeconfig(cluster={"server": "https://mine.example:x"}), "is not a URL; write https://"),
        (
            kubeconfig(cluster={"proxy-url": "socks5://p.example:1080"}),
            "proxy-url is a socks5 proxy, which is not supported; use an http:// or https:// proxy",
        ),
        (kubeconfig(cluster={"proxy-url": "p.example:3128"}), "proxy-url is not a URL of an http or https proxy"),
        (kubeconfig(user={"auth-provider": {"name": "gcp"}}), "has an auth-provider, which Kubernetes removed"),
        (kubeconfig(user={"username": "me", "password": "x"}), "has a password, which Kubernetes no longer accepts"),
        (
            kubeconfig(user={"client-certificate-data": encoded("CERT")}),
            "has a client-certificate and no client-key; add it",
        ),
        (kubeconfig(cluster={"certificate-authority-data": "?"}), "certificate-authority-data is not base64"),
        (kubeconfig(cluster={"certificate-authority": "none"}), "certificate-authority "),
    ],
)
def test_what_is_wrong_with_a_file_is_said_in_one_line(folder: Path, content: Any, words: str) -> None:
    path = write(folder / "config", content)
    with pytest.raises(UserError, match=re.escape(words)) as caught:
        find_access({}, kubeconfig=path)
    assert str(caught.value).startswith(str(path))
    assert "\n" not in str(caught.value)


def test_a_named_file_that_does_not_exist_is_an_error(folder: Path) -> None:
    with pytest.raises(UserError, match=r"no such file; check --kubeconfig"):
        find_access({}, kubeconfig=folder / "none")
    with pytest.raises(UserError, match=r"no such file; correct or unset KUBECONFIG"):
        find_access({"KUBECONFIG": str(folder / "none")})


# --- in a pod --------------------------------------------------------------------------------------------------------


def test_in_a_pod_the_service_account_is_used(folder: Path) -> None:
    home = folder / "serviceaccount"
    for name, text in (("token", "t"), ("ca.crt", "CA"), ("namespace", "team\n")):
        write(home / name, text)
    environment = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "6443"}
    assert find_access(environment) == Access(
        server="https://[fd00::1]:6443",
        source=str(home),
        namespace="team",
        certificate_authority=b"CA",
        certificate_authority_file=home / "ca.crt",
        token_file=home / "token",
    )
