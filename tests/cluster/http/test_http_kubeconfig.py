"""The kubeconfig: complete, private, and gone with its cluster."""

import base64
import stat
from pathlib import Path

import yaml

from grove.cluster.http.kubeconfig_writer import remove_kubeconfig, write_kubeconfig

URL = "https://127.0.0.1:6443"


def _write(path: Path, url: str = URL) -> None:
    write_kubeconfig(path, url=url, ca=b"PEM", token="t")


def test_it_names_the_cluster_the_authority_and_the_token(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "kubeconfig"
    _write(path)
    config = yaml.safe_load(path.read_text())
    assert config["clusters"][0]["cluster"] == {
        "server": URL,
        "certificate-authority-data": base64.b64encode(b"PEM").decode(),
    }
    assert config["users"][0]["user"] == {"token": "t"}
    assert config["current-context"] == config["contexts"][0]["name"]


def test_only_its_owner_may_read_it(tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text("old, and readable by all")
    path.chmod(0o644)
    _write(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [each.name for each in tmp_path.iterdir()] == ["kubeconfig"]


def test_it_goes_unless_another_cluster_took_its_place(tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    _write(path, "https://127.0.0.1:7777")
    remove_kubeconfig(path, url=URL)
    assert path.exists()
    remove_kubeconfig(path, url="https://127.0.0.1:7777")
    assert not path.exists()
    remove_kubeconfig(path, url=URL)
