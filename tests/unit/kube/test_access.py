"""Credentials: which are sent, that they stay fresh, and that keys are not left behind."""

from __future__ import annotations

import importlib
import subprocess
import sys
from base64 import b64encode
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from threading import Thread
from typing import cast

import pytest

from tests.unit.kube.recording import Kubeconfigs
from tests.unit.kube.scripted_server import WAIT, Certificates, Exchange, ScriptedServer
from volmgr.kube.access import in_cluster
from volmgr.kube.api import ApiServer, configured
from volmgr.kube.errors import ApiError
from volmgr.model.kube import KubeSettings

SETTINGS = KubeSettings()
PATH = "/api/v1/nodes/n1"


def authorization(server: ScriptedServer, api: ApiServer, answer: Callable[[Exchange], None] | None = None) -> str:
    """Ask once, and tell which credentials came."""
    asking = Thread(target=lambda: _quietly(api))
    asking.start()
    exchange = server.next()
    (answer or agree)(exchange)
    asking.join(WAIT)
    return exchange.headers.get("authorization", "")


def _quietly(api: ApiServer) -> None:
    with suppress(ApiError):
        api.get(PATH)


def agree(exchange: Exchange) -> None:
    exchange.answer({})


def unauthorized(exchange: Exchange) -> None:
    exchange.refuse(401, "Unauthorized", "Unauthorized")


def test_a_token_is_sent(server: ScriptedServer, kubeconfigs: Kubeconfigs) -> None:
    api = configured(kubeconfigs.write(server.address), SETTINGS)

    assert authorization(server, api) == "Bearer open-sesame"


@pytest.mark.parametrize("token", ["open\nsesame", "open-s\u00e9same"])
def test_a_token_that_no_header_may_have_is_refused_and_not_shown(
    kubeconfigs: Kubeconfigs, token: str, caplog: pytest.LogCaptureFixture
) -> None:
    api = configured(kubeconfigs.write("https://127.0.0.1:1", {"token": token}), SETTINGS)
    target = api.watch_target()
    assert target is not None

    for ask in (lambda: api.get(PATH), lambda: target.connect(PATH, {})):
        with pytest.raises(ApiError, match=r"token of kubeconfig .* has characters") as caught:
            ask()
        assert "same" not in str(caught.value)
    assert caplog.records == []


def test_name_and_password_are_sent(server: ScriptedServer, kubeconfigs: Kubeconfigs) -> None:
    api = configured(kubeconfigs.write(server.address, {"username": "u", "password": "p"}), SETTINGS)

    assert authorization(server, api) == f"Basic {b64encode(b'u:p').decode()}"


def test_a_token_file_that_changed_is_read_again(
    server: ScriptedServer, kubeconfigs: Kubeconfigs, tmp_path: Path
) -> None:
    token = tmp_path / "token"
    token.write_text("one\n")
    api = configured(kubeconfigs.write(server.address, {"tokenFile": "token"}), SETTINGS)
    assert authorization(server, api) == "Bearer one"

    (tmp_path / "next").write_text("two\n")
    (tmp_path / "next").rename(token)

    assert authorization(server, api) == "Bearer two"
    assert server.sees_one_closed(), "that of the old one"


def test_a_token_file_that_is_gone_for_a_moment_leaves_the_last_one(
    server: ScriptedServer, kubeconfigs: Kubeconfigs, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    token = tmp_path / "token"
    token.write_text("one")
    api = configured(kubeconfigs.write(server.address, {"tokenFile": "token"}), SETTINGS)
    token.unlink()

    assert [authorization(server, api) for _ in range(2)] == ["Bearer one"] * 2

    assert [record.levelname for record in caplog.records] == ["WARNING"], "said once, not at each request"
    token.write_text("two")
    assert authorization(server, api) == "Bearer two"


def test_inside_a_cluster_the_service_account_is_used_and_read_again(
    server: ScriptedServer, certificates: Certificates, tmp_path: Path
) -> None:
    (tmp_path / "token").write_text("one")
    (tmp_path / "ca.crt").write_bytes(certificates.authority.read_bytes())
    host, port = server.address.removeprefix("https://").split(":")
    environ = {"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": port}
    api = ApiServer(in_cluster(tmp_path, 1, environ), SETTINGS)
    assert api.address == server.address
    assert authorization(server, api).removeprefix("bearer ") == "one"

    (tmp_path / "token").write_text("two-longer")

    assert authorization(server, api).removeprefix("bearer ") == "two-longer"


def test_a_command_gives_the_token_when_it_is_first_needed_and_again_after_it_was_refused(
    server: ScriptedServer, kubeconfigs: Kubeconfigs, tmp_path: Path
) -> None:
    answer, runs = tmp_path / "answer", tmp_path / "runs"
    command = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": "sh",
        "args": ["-c", f"echo run >> {runs}; cat {answer}"],
        "interactiveMode": "Never",
    }

    def gives(token: str) -> None:
        answer.write_text(
            '{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential",'
            f'"status":{{"token":"{token}","expirationTimestamp":"2999-01-01T00:00:00Z"}}}}'
        )

    gives("one")
    api = configured(kubeconfigs.write(server.address, {"exec": command}), SETTINGS)
    assert not runs.exists(), "a node without a network starts all the same"

    assert authorization(server, api) == "Bearer one"
    assert authorization(server, api) == "Bearer one"
    assert runs.read_text() == "run\n"
    gives("two")
    assert authorization(server, api, unauthorized) == "Bearer one"
    assert authorization(server, api) == "Bearer two"


def test_a_command_that_fails_is_named(kubeconfigs: Kubeconfigs) -> None:
    command = {"apiVersion": "client.authentication.k8s.io/v1", "command": "false", "interactiveMode": "Never"}
    path = kubeconfigs.write("https://127.0.0.1:1", {"exec": command})

    with pytest.raises(
        ApiError, match=rf"cannot get nodes n1 at https.*the command of exec in {path} gave no credentials"
    ):
        configured(path, SETTINGS).get(PATH)


def test_keys_in_a_kubeconfig_are_used_and_not_left_on_disk(
    server: ScriptedServer, kubeconfigs: Kubeconfigs, certificates: Certificates
) -> None:
    def inline(path: Path) -> str:
        return b64encode(path.read_bytes()).decode()

    user = {
        "client-certificate-data": inline(certificates.client),
        "client-key-data": inline(certificates.client_key),
    }
    cluster = {"certificate-authority": None, "certificate-authority-data": inline(certificates.authority)}
    path = kubeconfigs.write(server.address, user, cluster)
    api = configured(path, SETTINGS)

    for _ in range(2):
        names: list[object] = []
        authorization(server, api, lambda each, names=names: (names.append(each.client_name()), each.answer({}))[1])  # type: ignore[misc]
        assert names == ["n1"]
        path.write_text(path.read_text() + "\n")

    package = importlib.import_module("kubernetes.config.kube_config")
    written = cast("dict[str, str]", vars(package)["_temp_files"])
    assert len(written) >= 3, "the package has written them"
    assert [name for name in written.values() if Path(name).exists() or Path(name).parent.exists()] == []


def test_a_client_certificate_that_was_renewed_is_used(
    server: ScriptedServer, kubeconfigs: Kubeconfigs, certificates: Certificates, tmp_path: Path
) -> None:
    user = {"client-certificate": "client.crt", "client-key": "client.key"}
    for source, name in ((certificates.server, "client.crt"), (certificates.server_key, "client.key")):
        (tmp_path / name).write_bytes(source.read_bytes())
    api = configured(kubeconfigs.write(server.address, user), SETTINGS)
    names: list[object] = []

    def note(exchange: Exchange) -> None:
        names.append(exchange.client_name())
        exchange.answer({})

    authorization(server, api, note)
    for source, name in ((certificates.client, "client.crt"), (certificates.client_key, "client.key")):
        (tmp_path / name).write_bytes(source.read_bytes())
    authorization(server, api, note)

    assert names == ["api", "n1"]


def test_the_packages_models_are_never_imported(server: ScriptedServer, kubeconfigs: Kubeconfigs) -> None:
    script = (
        "import sys; from pathlib import Path; from volmgr.kube.api import configured;"
        " from volmgr.model.kube import KubeSettings; from volmgr.kube.reflector import Reflector;"
        f" configured(Path(sys.argv[1]), KubeSettings()).get('{PATH}');"
        " print([name for name in sys.modules if name.startswith('kubernetes.client.models.')])"
    )
    path = kubeconfigs.write(server.address)
    process = subprocess.Popen([sys.executable, "-c", script, str(path)], stdout=subprocess.PIPE, text=True)
    server.next().answer({})

    assert process.communicate(timeout=WAIT)[0] == "[]\n"
