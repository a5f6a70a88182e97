"""A real volmgrd and images: restarts, kills while it unpacks, a registry that does not answer, secrets."""

import base64
import json
import signal
import socket
import sys
from pathlib import Path

import pytest

from tests.live_node import PATIENCE, LiveNode
from tests.loopback_registry import PASSWORD, USER, docker_config, running
from volmgr.cli.client import Client
from volmgr.host import syscalls
from volmgr.testing.node import pod
from volmgr_image.contract import Files, layout, tar

PYTHON = Path(sys.executable)
LARGE = 256 << 20
"""Bytes of a file that takes some hundred milliseconds to unpack."""


def node_with(top: Path, **settings: object) -> LiveNode:
    """Start a daemon with these settings of images."""
    path = top / "config.json"
    path.write_text(json.dumps({"plugins": {"kubernetes.io/image": settings}}))
    return LiveNode(PYTHON, top, "--config", str(path))


def write(path: Path, files: Files) -> None:
    for name, content in files.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_bytes(content or b"")


def place(node: LiveNode, name: str) -> Path:
    """Give where a Pod's image is mounted."""
    return node.root / "volmgr" / "images" / "mounts" / f"uid-{name}" / "v"


def image(reference: str, **fields: object) -> dict[str, object]:
    return {"image": {"reference": reference, **fields}}


def test_an_image_stays_mounted_over_a_restart_and_a_kill_and_goes_with_its_pod(tmp_path: Path) -> None:
    write(tmp_path / "layout", layout([tar({"file": b"1"})]))
    with node_with(tmp_path, image_cache_limit="0") as node:
        node.put("web", image(f"oci:{tmp_path}/layout:v1"))
        node.tell("wait", "web", "--for", "mounted")
        before = node.mount_ids()
        assert list(before) == [str(place(node, "web"))]
        assert str(place(node, "web")) in node.tell("status", "web", "-o", "json")
        for number in (signal.SIGKILL, signal.SIGTERM):
            node.daemon.send_signal(number)
            node.daemon.wait(PATIENCE)
            node.start()
            node.tell("wait", "web", "--for", "mounted")
            assert node.mount_ids() == before
            assert (place(node, "web") / "file").read_bytes() == b"1"
        node.remove("web")
        node.tell("wait", "web", "--for", "unmounted")
        assert node.mount_ids() == {}
        assert list((node.root / "volmgr" / "images" / "content").iterdir()) == []
        assert not (node.root / "pods" / "uid-web").exists()


@pytest.mark.parametrize("down", [False, True])
def test_an_image_that_somebody_unmounted_is_mounted_again(tmp_path: Path, *, down: bool) -> None:
    write(tmp_path / "layout", layout([tar({"file": b"1"})]))
    with node_with(tmp_path) as node:
        node.put("web", image(f"oci:{tmp_path}/layout:v1"))
        node.tell("wait", "web", "--for", "mounted")
        if down:
            node.kill()
            syscalls.umount(str(place(node, "web")))
            node.start()
        else:
            client = Client(str(node.socket))
            syscalls.umount(str(place(node, "web")))
            reasons = (json.loads(line)["reason"] for line in client.follow())
            assert next(reason for reason in reasons if reason == "VolumeVanished")
            client.close()
        node.tell("wait", "web", "--for", "mounted")
        assert (place(node, "web") / "file").read_bytes() == b"1"


def test_a_daemon_that_is_killed_while_it_unpacks_begins_anew_and_leaves_nothing(tmp_path: Path) -> None:
    write(tmp_path / "layout", layout([tar({"first": b"1"}), tar({"large": bytes(LARGE)})]))
    with node_with(tmp_path) as node:
        images = node.root / "volmgr" / "images"
        node.put("web", image(f"oci:{tmp_path}/layout:v1"))
        while not list(images.glob("work/*/uid-web.v/image/rootfs/large")):
            assert node.daemon.poll() is None
        node.kill()
        assert list(images.glob("content/*")) == []
        left = [path.name for path in images.glob("work/*")]
        node.start()
        node.tell("wait", "web", "--for", "mounted")
        assert (place(node, "web") / "large").stat().st_size == LARGE
        assert not set(left) & {path.name for path in images.glob("work/*")}
        assert list(images.glob("work/*/uid-web.v")) == []


def test_a_pod_that_leaves_while_its_image_is_pulled_is_not_kept_waiting(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        with node_with(tmp_path, insecure_registries=[address]) as node:
            node.put("web", image(f"{address}/app:1"))
            connection, _ = silent.accept()
            with connection:
                node.put("other", {"emptyDir": {}})
                node.tell("wait", "other", "--for", "mounted")
                assert f"asking for image {address}/app:1" in node.tell("why", "web")
                node.remove("web")
                node.tell("wait", "web", "--for", "unmounted")
            assert node.mount_ids() == {}


def test_the_client_does_not_outlive_a_killed_daemon(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        with node_with(tmp_path, insecure_registries=[address]) as node:
            node.put("web", image(f"{address}/app:1"))
            connection, _ = silent.accept()
            with connection:
                connection.settimeout(PATIENCE)
                node.kill()
                while connection.recv(4096):  # what it asked for, and then the end
                    pass
            assert [path.parent.name for path in map(Path, node.mount_ids())] == ["uid-web.v"]
            node.start()
            silent.accept()[0].close()
            node.remove("web")
            node.tell("wait", "web", "--for", "unmounted")
            assert node.mount_ids() == {}


def secret(host: str) -> dict[str, object]:
    data = base64.b64encode(json.dumps(docker_config(host)).encode()).decode()
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "pull", "namespace": "default"},
        "type": "kubernetes.io/dockerconfigjson",
        "data": {".dockerconfigjson": data},
    }


@pytest.mark.parametrize("late", [False, True])
def test_an_image_of_a_locked_registry_is_mounted_and_its_secret_is_nowhere(tmp_path: Path, *, late: bool) -> None:
    with running(tmp_path / "registry", locked=True) as registry:
        registry.push(layout([tar({"file": b"1"})]), "app:1")
        with node_with(tmp_path, insecure_registries=[registry.host]) as node:
            given = json.dumps(secret(registry.host))
            document = pod("web", {"name": "v", **image(f"{registry.host}/app:1")}, uid="uid-web")
            document["spec"] = {**document["spec"], "imagePullSecrets": [{"name": "pull"}]}
            if not late:
                (node.manifests / "secret.json").write_text(given)
            (node.manifests / "web.json").write_text(json.dumps(document))
            if late:
                node.await_why("web", "imagePullSecrets of the Pod that do not exist: pull")
                (node.manifests / "secret.json").write_text(given)
            node.tell("wait", "web", "--for", "mounted")
            assert (place(node, "web") / "file").read_bytes() == b"1"
            said = [node.tell(*command) for command in (("status", "-o", "json"), ("why", "web"), ("events",))]
            said += [(tmp_path / "log").read_text()]
            said += [path.read_bytes().decode(errors="replace") for path in node.root.rglob("*") if path.is_file()]
            encoded = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
            assert not [text for text in said if PASSWORD in text or encoded in text]
