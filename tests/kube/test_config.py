"""Which cluster a command talks to, and who it is there: kubeconfig files and service accounts."""

import base64
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from grove.api.meta import JsonObject
from grove.errors import UserError
from grove.kube import config
from grove.kube.config import Access, find_access


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
    monkeypatch.setattr(config, "SERVICE_ACCOUNT", tmp_path / "serviceaccount")
    return tmp_path


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


# --- which file ------------------------------------------------------------------------------------------------------


def test_the_search_goes_from_the_flag_over_our_own_file_to_kubectls_rules(folder: Path) -> None:
    environment = {"HOME": str(folder / "home"), "KUBECONFIG": str(folder / "named")}
    found = []
    usual = write(folder / "home" / ".kube" / "config", kubeconfig("usual"))
    found.append(find_access({"HOME": environment["HOME"]}).server)
    write(folder / "named", kubeconfig("named"))
    found.append(find_access(environment).server)
    write(folder / ".grove" / "kubeconfig", kubeconfig("own"))
    found.append(find_access(environment).server)
    found.append(find_access(environment, kubeconfig=usual).server)
    assert found == [f"https://{name}.example:6443" for name in ("usual", "named", "own", "usual")]


def test_without_any_file_and_outside_a_pod_there_is_no_cluster(folder: Path) -> None:
    with pytest.raises(UserError, match=r"no cluster to talk to; start one with `grove up`"):
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


def test_a_token_is_stronger_than_a_token_file(folder: Path) -> None:
    path = write(folder / "config", kubeconfig(user={"token": "t", "tokenFile": "there"}))
    access = find_access({}, kubeconfig=path)
    assert (access.token, access.token_file) == ("t", None)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{", "not a kubeconfig"),
        ("[]", "not a kubeconfig"),
        ({"clusters": 3}, "not a kubeconfig"),
        ({}, "has no current-context; choose one with --context"),
        ({**kubeconfig(), "current-context": "other"}, "has no context 'other'; choose another one (there are: mine)"),
        ({**kubeconfig(), "clusters": []}, "context 'mine' names cluster 'mine', which has no server; add it"),
        ({**kubeconfig(), "users": []}, "context 'mine' names user 'mine', which is not there; add it"),
        (
            kubeconfig(user={"exec": {"command": "aws"}}),
            "asks a credential plugin (exec), which comes later; use a token",
        ),
        (kubeconfig(user={"auth-provider": {"name": "gcp"}}), "has an auth-provider, which Kubernetes removed"),
        (kubeconfig(user={"username": "me", "password": "x"}), "has a password, which Kubernetes no longer accepts"),
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
        token_file=home / "token",
    )
