"""Nodes that start without a network: what is on record is mounted, nothing is taken away, and what is secret waits."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.eventually import eventually
from tests.kube.cluster import Cluster
from tests.kube.kube_node import KubeNode, NodeIdentity
from tests.kube.objects import (
    CONFIG_MAP,
    EMPTY_DIR,
    HOST_PATH,
    MEMORY,
    NO_TOKEN,
    PROJECTED,
    SECRET,
    Document,
    claim,
    config_map,
    from_claim,
    from_config_map,
    from_secret,
    persistent_volume,
    secret,
)
from tests.kube.proxy import Proxy
from volmgr.kube.resources import CLAIMS, CONFIG_MAPS, PODS, SECRETS, TRUST_BUNDLES

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
SETTING = "kubernetes.checkpoint_secrets: true"
PASSWORD = "a password that is never on disk"
TOKEN: Document = {
    "name": "v",
    "projected": {"sources": [{"serviceAccountToken": {"path": "token", "expirationSeconds": 3600}}]},
}


class EdgeNode(KubeNode):
    """A node at the end of a line that a test cuts."""

    def __init__(
        self, identity: NodeIdentity, proxy: Proxy, top: Path, *, reaches: bool = True, **settings: object
    ) -> None:
        self.proxy = proxy
        self.reaches = reaches
        self.config = top / "config.json"
        self.configure(**settings)
        super().__init__(identity.behind(proxy.url), top, "--config", str(self.config))

    def configure(self, **settings: object) -> None:
        """Let the next start have these settings of Kubernetes mode."""
        self.config.write_text(json.dumps({"kubernetes": settings}))

    def run_pod(self, namespace: str, name: str, volume: Mapping[str, Any], **spec: Any) -> Document:  # noqa: ANN401 - of the Pod
        """Create a Pod."""
        return self.identity.run_pod(namespace, name, volume, **spec)

    def cut(self) -> None:
        """Take the network away."""
        self.reaches = False
        self.proxy.refuse()
        self.proxy.cut()

    def reboot(self) -> None:
        """Take from the machine what a loss of power takes: its processes, its mounts, and its boot id."""
        if self.daemon.poll() is None:
            self.kill()
        for target in sorted(self.mount_ids(), reverse=True):
            subprocess.run(["umount", "--", target], check=True)
        (self.top / "boot_id").write_text(f"{uuid.uuid4()}\n")
        subprocess.run(["mount", "--bind", self.top / "boot_id", BOOT_ID], check=True)

    def start(self) -> None:
        """Start the daemon, and return when it is ready; without a network, when it answers."""
        if self.reaches:
            super().start()
            return
        with (self.top / "log").open("a") as log:
            self.daemon = subprocess.Popen(self.command(*self.options), stderr=log, text=True)
        eventually(lambda: self.run("status").returncode == 0, "the daemon answers")

    def start_without_network(self) -> None:
        """Reboot where there is no network."""
        self.cut()
        self.reboot()
        self.start()

    def until_ready(self) -> None:
        """Give the network back, and return when all was read."""
        self.proxy.resume()
        self.reaches = True
        eventually(lambda: bool(self.status()["ready"]), "the daemon is ready")

    def log(self) -> str:
        """Give what the daemon has logged."""
        return (self.top / "log").read_text()


@pytest.fixture(autouse=True)
def boot_id() -> Iterator[None]:
    """Give the machine its own boot id back."""
    yield
    while BOOT_ID.is_mount():
        subprocess.run(["umount", BOOT_ID], check=True)


@pytest.fixture
def start_node(kube_node: NodeIdentity, proxy: Proxy, tmp_path: Path) -> Iterator[Callable[..., EdgeNode]]:
    """Start the node's daemon with settings of Kubernetes mode; everything of it is gone after the test."""
    started: list[EdgeNode] = []

    def start(*, reaches: bool = True, **settings: object) -> EdgeNode:
        started.append(EdgeNode(kube_node, proxy, tmp_path, reaches=reaches, **settings))
        return started[-1]

    yield start
    for node in started:
        proxy.resume()
        node.reaches = True
        if node.daemon.poll() is not None:
            node.start()
        node.until_ready()
        with node:
            pass


def secret_forms(value: str) -> list[bytes]:
    """Give what a value looks like in files: as it is, and in base64 at each of the three offsets."""
    raw = value.encode()
    encoded = [base64.b64encode(b"x" * offset + raw).rstrip(b"=")[4:-4] for offset in range(3)]
    return [raw, base64.b64encode(raw).rstrip(b"="), *encoded]


def files_with(root: Path, value: str) -> list[Path]:
    """Give the files on the root's own file system that have a value in them; what is mounted there is not on disk."""
    device, forms = root.stat().st_dev, secret_forms(value)
    found: list[Path] = []
    for top, directories, names in os.walk(root):
        directories[:] = [name for name in directories if (Path(top) / name).lstat().st_dev == device]
        files = [path for path in (Path(top) / name for name in names) if path.is_file() and not path.is_symlink()]
        found += [path for path in files if any(form in bytes_of(path) for form in forms)]
    return found


def bytes_of(path: Path) -> bytes:
    """Give what is in a file, nothing of one that a running daemon has just renamed or removed."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""


def files_below(directory: Path) -> list[Path]:
    """Give all files, none when there is no such directory; a running daemon may write and remove there."""
    files = (Path(top) / name for top, _, names in os.walk(directory) for name in names)
    return [path for path in files if path.is_file()]


def uid_of(pod: Document) -> str:
    return str(pod["metadata"]["uid"])


def run_secret_pods(node: EdgeNode, namespace: str) -> tuple[Document, Document]:
    """Run a Pod with a Secret and one with a token, and return when both have them."""
    node.identity.cluster.admin.create(secret(namespace, "login", password=PASSWORD))
    login = node.run_pod(namespace, "login", from_secret("login"), **NO_TOKEN)
    bearer = node.run_pod(namespace, "token", TOKEN, **NO_TOKEN)
    for pod in (login, bearer):
        node.wait(uid_of(pod))
    return login, bearer


def test_a_node_that_reboots_without_a_network_mounts_its_pods_again(
    start_node: Callable[..., EdgeNode], namespace: str, cluster: Cluster, tmp_path: Path
) -> None:
    node = start_node()
    data = tmp_path / "data"
    data.mkdir()
    cluster.admin.create(config_map(namespace, "settings", a="1"))
    root = cluster.admin.get(CONFIG_MAPS.path("default", "kube-root-ca.crt"))["data"]["ca.crt"]
    signer = f"{namespace}.example/roots"
    bundles: Mapping[str, Document] = {
        f"{namespace}-roots": {},
        f"{signer.replace('/', ':')}:1": {"signerName": signer},
    }
    for name, spec in bundles.items():
        head = {"apiVersion": TRUST_BUNDLES.api_version, "kind": TRUST_BUNDLES.kind, "metadata": {"name": name}}
        cluster.admin.create({**head, "spec": {**spec, "trustBundle": root}})
    cluster.admin.create(persistent_volume(namespace, namespace, "data", hostPath={"path": str(data)}))
    cluster.admin.create(claim(namespace, "data"))
    cluster.admin.until(CLAIMS.path(namespace, "data"), lambda each: each["status"].get("phase") == "Bound")
    trusted: list[Document] = [
        {"clusterTrustBundle": {"name": f"{namespace}-roots", "path": "named.pem"}},
        {"clusterTrustBundle": {"signerName": signer, "labelSelector": {}, "path": "signed.pem"}},
    ]
    pods = {
        EMPTY_DIR: node.run_pod(namespace, "memory", MEMORY, **NO_TOKEN),
        CONFIG_MAP: node.run_pod(namespace, "files", from_config_map("settings"), **NO_TOKEN),
        HOST_PATH: node.run_pod(namespace, "claimed", from_claim("data"), **NO_TOKEN),
        PROJECTED: node.run_pod(namespace, "trusting", {"name": "v", "projected": {"sources": trusted}}, **NO_TOKEN),
    }
    for pod in pods.values():
        node.wait(uid_of(pod))
    pems = [node.volume_of(pods[PROJECTED], PROJECTED) / f"{name}.pem" for name in ("named", "signed")]
    assert [path.read_text() for path in pems] == [root, root]

    node.start_without_network()

    for pod in pods.values():
        node.wait(uid_of(pod))
    assert (node.volume_of(pods[CONFIG_MAP], CONFIG_MAP) / "a").read_text() == "1"
    assert [path.read_text() for path in pems] == [root, root]
    said = node.until_why(f"{namespace}/files", f"ConfigMap {namespace}/settings is as of 2", "was last heard of at 2")
    assert "source kubernetes" in said
    assert f"PersistentVolumeClaim {namespace}/data is as of 2" in node.why(f"{namespace}/claimed")
    assert any("was last heard of at" in line for line in node.status()["contact"])
    assert not node.status()["ready"]

    file = node.volume_of(pods[CONFIG_MAP], CONFIG_MAP)
    before = node.mount_ids(), (file / "..data").readlink(), (file / "a").stat()
    node.until_ready()
    cluster.admin.create(config_map(namespace, "proof"))
    proof = node.run_pod(namespace, "proof", from_config_map("proof"), **NO_TOKEN)
    node.wait(uid_of(proof))
    mount_ids = node.mount_ids()
    assert {target: mount_ids.get(target) for target in before[0]} == before[0]
    assert ((file / "..data").readlink(), (file / "a").stat()) == before[1:]
    node.until_why(f"{namespace}/files", "mounted")
    assert "as of" not in node.why(f"{namespace}/files")
    for name in bundles:
        cluster.admin.delete(TRUST_BUNDLES.path(name=name))


def test_what_changed_during_the_outage_is_caught_up_with_afterwards(
    start_node: Callable[..., EdgeNode], namespace: str, cluster: Cluster
) -> None:
    node = start_node()
    for name in ("changed", "deleted"):
        cluster.admin.create(config_map(namespace, name, a="1"))
    changed = node.run_pod(namespace, "changed", from_config_map("changed"), **NO_TOKEN)
    gone = node.run_pod(namespace, "gone", from_config_map("deleted"), **NO_TOKEN)
    for pod in (changed, gone):
        node.wait(uid_of(pod))
    node.start_without_network()
    file = node.volume_of(changed, CONFIG_MAP) / "a"
    for pod in (changed, gone):
        node.wait(uid_of(pod))
    cluster.admin.patch(CONFIG_MAPS.path(namespace, "changed"), {"data": {"a": "2"}})
    cluster.admin.delete(PODS.path(namespace, "gone"), gracePeriodSeconds=0)
    cluster.admin.delete(CONFIG_MAPS.path(namespace, "deleted"))
    assert file.read_text() == "1"

    node.until_ready()

    eventually(lambda: file.read_text() == "2", "the file has changed")
    node.wait(uid_of(gone), "unmounted")
    records = node.root / "volmgr/objects"
    eventually(lambda: not any("deleted" in each.name for each in records.iterdir()), "its record is gone")


def test_an_api_server_that_is_dead_at_the_start_changes_nothing_for_a_daemon_that_was_killed(
    start_node: Callable[..., EdgeNode], namespace: str, cluster: Cluster
) -> None:
    node = start_node()
    cluster.admin.create(config_map(namespace, "settings", a="1"))
    cluster.admin.create(secret(namespace, "login", password=PASSWORD))
    pods = [
        node.run_pod(namespace, "files", from_config_map("settings"), **NO_TOKEN),
        node.run_pod(namespace, "login", from_secret("login"), **NO_TOKEN),
    ]
    for pod in pods:
        node.wait(uid_of(pod))
    node.kill()
    before = node.mount_ids()
    password = node.volume_of(pods[1], SECRET) / "password"
    node.cut()
    node.start()
    node.wait(uid_of(pods[0]))
    node.until_why(f"{namespace}/login", SETTING)
    assert node.mount_ids() == before
    assert password.read_text() == PASSWORD
    node.until_ready()
    node.wait(uid_of(pods[1]))
    assert node.mount_ids() == before


def test_secrets_and_tokens_wait_for_the_server_and_the_setting_is_named(
    start_node: Callable[..., EdgeNode], namespace: str, cluster: Cluster
) -> None:
    node = start_node()
    cluster.admin.create(secret(namespace, "login", password=PASSWORD))
    pods = [
        node.run_pod(namespace, "login", from_secret("login"), **NO_TOKEN),
        node.run_pod(namespace, "token", TOKEN, **NO_TOKEN),
        node.run_pod(namespace, "memory", MEMORY, **NO_TOKEN),
    ]
    for pod in pods:
        node.wait(uid_of(pod))
    token = (node.volume_of(pods[1], PROJECTED) / "token").read_text()
    values = (PASSWORD, token)
    assert [files_with(node.root, value) for value in values] == [[], []]

    node.start_without_network()

    node.wait(uid_of(pods[2]))
    node.until_why(f"{namespace}/login", f"Secret {namespace}/login", SETTING)
    node.until_why(f"{namespace}/token", "the token of pod", SETTING)
    assert list(node.mount_ids()) == [str(node.volume_of(pods[2], EMPTY_DIR))]
    assert [files_with(node.root, value) for value in values] == [[], []]
    assert [value for value in values if value in node.log()] == []

    node.until_ready()

    for pod in pods:
        node.wait(uid_of(pod))
    node.kill()
    assert [files_with(node.root, value) for value in values] == [[], []]


def test_secrets_and_tokens_that_are_kept_are_mounted_without_a_network_and_go_with_their_pods(
    start_node: Callable[..., EdgeNode], namespace: str, cluster: Cluster
) -> None:
    node = start_node(checkpoint_secrets=True)
    login, bearer = run_secret_pods(node, namespace)
    password, token = node.volume_of(login, SECRET) / "password", node.volume_of(bearer, PROJECTED) / "token"
    issued = token.read_text()
    secrets = node.root / "volmgr/secrets"
    for value in (PASSWORD, issued):
        (found,) = files_with(node.root, value)
        assert found.is_relative_to(secrets)
    for path in (secrets, *secrets.rglob("*")):
        info = path.stat()
        assert (info.st_mode & 0o7777, info.st_uid) == (0o700 if path.is_dir() else 0o600, 0)

    node.start_without_network()

    for pod in (login, bearer):
        node.wait(uid_of(pod))
    assert (password.read_text(), token.read_text()) == (PASSWORD, issued)
    node.until_why(f"{namespace}/login", f"Secret {namespace}/login is as of 2")
    before = node.mount_ids()
    node.until_ready()
    node.wait(uid_of(login))
    assert node.mount_ids() == before
    assert token.read_text() == issued
    said = node.tell("status", "-o", "json") + node.tell("events", "-o", "json") + node.log()
    assert [value for value in (PASSWORD, issued) if value in said] == []

    for name in ("login", "token"):
        cluster.admin.delete(PODS.path(namespace, name), gracePeriodSeconds=0)
    for pod in (login, bearer):
        node.wait(uid_of(pod), "unmounted")
    eventually(lambda: not files_below(secrets), "nothing is kept")
    assert files_with(node.root, PASSWORD) == files_with(node.root, issued) == []


def test_a_kept_token_that_has_ended_and_a_kept_secret_that_is_damaged_wait_for_the_server(
    start_node: Callable[..., EdgeNode], namespace: str, cluster: Cluster
) -> None:
    node = start_node(checkpoint_secrets=True)
    login, bearer = run_secret_pods(node, namespace)
    node.cut()
    node.reboot()
    (kept_token,) = (node.root / "volmgr/secrets/tokens" / uid_of(bearer)).iterdir()
    kept_token.write_text(json.dumps(json.loads(kept_token.read_text()) | {"expires_at": 1.0}))
    (kept_secret,) = (node.root / "volmgr/secrets/objects").iterdir()
    kept_secret.write_text(kept_secret.read_text()[:-40])
    node.start()
    node.until_why(f"{namespace}/token", "the token of pod", "waits for the API server")
    node.until_why(f"{namespace}/login", f"Secret {namespace}/login")
    assert node.mount_ids() == {}
    assert str(kept_secret) in node.log()
    assert not [form for form in secret_forms(PASSWORD) if form in (node.top / "log").read_bytes()]
    node.until_ready()
    for pod in (login, bearer):
        node.wait(uid_of(pod))
    assert kept_secret in files_with(node.root, PASSWORD)


def test_what_was_kept_is_removed_when_the_setting_is_off_and_by_a_drain(
    start_node: Callable[..., EdgeNode], namespace: str, cluster: Cluster
) -> None:
    node = start_node(checkpoint_secrets=True)
    secrets = node.root / "volmgr/secrets"
    run_secret_pods(node, namespace)
    node.kill()
    assert len(files_below(secrets)) == 2
    before = node.mount_ids()
    node.configure()
    node.start()
    eventually(lambda: not secrets.exists(), "nothing is kept")
    assert "checkpoint_secrets is off: 2 Secrets and tokens that were kept on disk are removed" in node.log()
    assert node.mount_ids() == before

    node.kill()
    node.configure(checkpoint_secrets=True)
    node.start()
    eventually(lambda: len(files_below(secrets)) == 2, "both are kept")
    assert node.mount_ids() == before
    cluster.admin.patch(SECRETS.path(namespace, "login"), {"stringData": {"password": "another"}})
    eventually(lambda: bool(files_with(secrets, "another")), "the Secret is kept")
    node.tell("drain")
    eventually(lambda: not files_below(secrets), "nothing is kept")
    assert files_with(node.root, "another") == []


def test_a_server_that_never_answers_takes_nothing_from_a_root_with_volumes_of_unknown_pods(
    start_node: Callable[..., EdgeNode], proxy: Proxy, tmp_path: Path
) -> None:
    state, volumes = tmp_path / "root/volmgr", tmp_path / "root/pods/uid-of-another/volumes/kubernetes.io~empty-dir"
    state.mkdir(parents=True)
    (state / "root.json").write_text('{"kind": "root", "version": 1}')  # adopted
    for name in ("disk", "memory"):
        (volumes / name).mkdir(parents=True)
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", volumes / "memory"], check=True)
    for name in ("disk", "memory"):
        (volumes / name / "data").write_text(name)
    proxy.stall()

    node = start_node(reaches=False, request_timeout="1s")

    def reasons() -> str:
        return " ".join(node.status()["reasons"])

    eventually(lambda: proxy.url in reasons() and "kubernetes" in reasons(), "it says why it is not ready")
    assert "not ready" in node.tell("status")
    assert {name: (volumes / name / "data").read_text() for name in ("disk", "memory")} == {
        "disk": "disk",
        "memory": "memory",
    }
    assert list(node.mount_ids()) == [str(volumes / "memory")]
