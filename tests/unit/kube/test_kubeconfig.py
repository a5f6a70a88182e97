"""What is wrong with a kubeconfig is said with its file, its field and a remedy, and shows no credentials."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.kube.recording import Kubeconfigs
from volmgr.errors import OperationError
from volmgr.kube.api import configured
from volmgr.kube.kubeconfig import read_kubeconfig
from volmgr.model.kube import KubeSettings

CLUSTERS = "clusters: [{name: c, cluster: {server: 'https://127.0.0.1:1'}}]\n"
CONTEXTS = "contexts: [{name: here, context: {cluster: c, user: u}}]\n"
CURRENT = "current-context: here\n"
USERS = "users: [{name: u, user: {token: open-sesame}}]\n"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("users: [{token: open-sesame\n", ["no YAML", "line 2"]),
        ("token: open-sesame\n\tbad", ["no YAML", "line 2"]),
        ("open-sesame", ["no mapping", "kind Config"]),
        ("", ["no mapping"]),
        (CLUSTERS + CONTEXTS + USERS, ["current-context is missing", "kubectl config use-context"]),
        (CURRENT + CLUSTERS + USERS, ["contexts has none named 'here'"]),
        (CURRENT + CONTEXTS + USERS, ["clusters has none named 'c'"]),
        (CURRENT + CONTEXTS + CLUSTERS, ["users has none named 'u'"]),
        (CURRENT + CLUSTERS + "contexts: [{name: here, context: {user: u}}]", ["contexts[name=here].context.cluster"]),
        (CURRENT + CONTEXTS + USERS + "clusters: [{name: c, cluster: {}}]", ["clusters[name=c].cluster.server"]),
        (
            CURRENT + CONTEXTS + CLUSTERS + "users: [{name: u, user: {client-key-data: open-sesame-x}}]",
            ["users[name=u].user.client-key-data is no base64"],
        ),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, text: str, words: list[str]) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text(text)

    with pytest.raises(OperationError) as caught:
        configured(path, KubeSettings())

    said = str(caught.value)
    assert [word for word in [str(path), ";", *words] if word not in said] == []
    assert "sesame" not in said


def test_a_file_that_is_not_there_is_named_with_the_option(tmp_path: Path) -> None:
    with pytest.raises(
        OperationError, match=r"kubeconfig .*none: No such file or directory; name another by --kubeconfig"
    ):
        configured(tmp_path / "none", KubeSettings())


def test_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    path.write_bytes(b"\xff\xfe\x00")

    with pytest.raises(OperationError, match="no text"):
        configured(path, KubeSettings())


def test_a_colon_in_the_path_is_refused_since_it_separates_files(tmp_path: Path) -> None:
    with pytest.raises(OperationError, match="colon"):
        configured(tmp_path / "a:b", KubeSettings())


@pytest.mark.parametrize(
    ("user", "cluster", "words"),
    [
        ({}, {"certificate-authority": "missing.crt"}, ["missing.crt"]),
        ({"tokenFile": "missing.token"}, {}, ["missing.token", "No such file"]),
        ({}, {"certificate-authority": "junk"}, ["certificate-authority is no certificate", "PEM"]),
        ({"client-certificate": "junk", "client-key": "junk"}, {}, ["client-certificate and client-key", "PEM"]),
    ],
)
def test_a_file_that_it_names_is_named(
    kubeconfigs: Kubeconfigs, user: dict[str, str], cluster: dict[str, str], words: list[str]
) -> None:
    (kubeconfigs.directory / "junk").write_text("no certificate")
    path = kubeconfigs.write("https://127.0.0.1:1", user or None, cluster)

    with pytest.raises(OperationError) as caught:
        configured(path, KubeSettings())

    assert [word for word in [str(path), *words] if word not in str(caught.value)] == []


def test_it_says_which_files_it_stands_on(kubeconfigs: Kubeconfigs) -> None:
    path = kubeconfigs.write("https://127.0.0.1:1/", {"tokenFile": "token"}, {"proxy-url": "http://proxy.test:3128"})

    chosen = read_kubeconfig(path)

    assert (chosen.context, chosen.server, chosen.proxy) == ("here", "https://127.0.0.1:1/", "http://proxy.test:3128")
    assert chosen.files == (path, kubeconfigs.certificates.authority, path.parent / "token")
    assert not chosen.has_plugin


def test_outside_a_cluster_and_without_a_file_the_option_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)

    with pytest.raises(OperationError, match=r"KUBERNETES_SERVICE_HOST.*--kubeconfig"):
        configured(None, KubeSettings())
