"""One Pod with a volume of every type: over restarts, without its records, and gone while no daemon ran."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.eventually import eventually
from tests.root.acceptance.objects import (
    Document,
    claim,
    config,
    local,
    projected,
    secret,
    shows_config,
    shows_secret,
)
from tests.root.acceptance.outside import Outside, disk, host_path, memory, pod
from tests.root.acceptance.test_images import layer, layout, repository

DOWNWARD: Document = {
    "name": "d",
    "downwardAPI": {"items": [{"path": "n", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}}]},
}
SOURCES: tuple[Document, ...] = ({"secret": {"name": "login"}}, {"serviceAccountToken": {"path": "token"}})


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Outside]:
    """A node that may do everything, with one Pod that does."""
    plugins = {"kubernetes.io/git-repo": {"enabled": True, "local_below": [str(tmp_path / "repositories")]}}
    configuration = {"token_issuer": "https://issuer.example", "plugins": plugins}
    (tmp_path / "config.json").write_text(json.dumps(configuration))
    for name in ("repositories", "data", "host"):
        (tmp_path / name).mkdir()
    (tmp_path / "data" / "file").write_text("kept")
    layout(tmp_path / "layout", layer({"file": "x"}))
    repository(tmp_path / "repositories" / "ours")
    with Outside(tmp_path, "--config", str(tmp_path / "config.json")) as node:
        node.put("objects.json", secret("login", a="1"), config("settings", a="1"))
        node.put("storage.json", local("disk", tmp_path / "data"), claim())
        volumes = (
            disk("e"),
            memory("m"),
            host_path(tmp_path / "host", name="h"),
            shows_secret("login"),
            shows_config("settings"),
            DOWNWARD,
            projected(*SOURCES),
            {"name": "g", "gitRepo": {"repository": str(tmp_path / "repositories/ours"), "directory": "."}},
            {"name": "i", "image": {"reference": f"oci:{tmp_path}/layout:v1"}},
            {"name": "l", "persistentVolumeClaim": {"claimName": "orders"}},
        )
        shop = pod("shop", *volumes, securityContext={"fsGroup": 4321})
        mounts: list[Document] = shop["spec"]["containers"][0]["volumeMounts"]
        mounts += [
            {"name": name, "mountPath": f"/part-{name}", "subPath": "file" if name == "l" else "a"} for name in "emscpl"
        ]
        node.put("shop.json", shop)
        node.wait("shop")
        node.volmgr("mounts", "shop")
        yield node


def content(node: Outside) -> dict[str, str]:
    """Give each file of the Pod's volumes."""
    top = node.root / "pods/uid-shop/volumes"
    names = (path for path in top.rglob("*") if path.is_file() and "/.git/" not in str(path))
    return {str(path.relative_to(top)): path.read_text() for path in names}


def gone(node: Outside) -> bool:
    pods = node.root / "pods"
    return not node.mounts() and not (pods.exists() and list(pods.iterdir()))


def test_nothing_is_touched_by_kills_and_restarts(node: Outside) -> None:
    before = node.mounts(), content(node)
    for end in (node.kill, node.stop, node.kill):
        end()
        node.start()
        node.wait("shop")
        node.volmgr("mounts", "shop")
        assert (node.mounts(), content(node)) == before


def test_everything_goes_when_its_pod_and_all_objects_left_while_no_daemon_ran(node: Outside) -> None:
    node.kill()
    for file in node.manifests.iterdir():
        file.unlink()
    node.start()
    node.wait("uid-shop", "unmounted")
    eventually(lambda: gone(node), lambda: f"the end of {node.mounts()}")
    assert (node.top / "data/file").read_text() == "kept"
    assert (node.top / "host").is_dir()


def test_everything_is_found_again_without_records_of_what_is_mounted(node: Outside) -> None:
    before = node.mounts(), content(node)
    node.kill()
    for kind in ("mounts", "volumes"):
        shutil.rmtree(node.root / "volmgr" / kind)
    node.start()
    node.wait("shop")
    node.volmgr("mounts", "shop")
    assert (node.mounts(), content(node)) == before
    node.kill()
    for kind in ("mounts", "volumes"):
        shutil.rmtree(node.root / "volmgr" / kind)
    for file in node.manifests.iterdir():
        file.unlink()
    node.start()
    node.wait("uid-shop", "unmounted")
    eventually(lambda: gone(node), lambda: f"the end of {node.mounts()}")
    assert (node.top / "data/file").read_text() == "kept"
