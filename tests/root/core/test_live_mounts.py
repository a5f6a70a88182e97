"""`volmgr mounts` of a real daemon: subPaths on the kernel, over changes, crashes and attacks."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.live_node import PATIENCE, LiveNode
from tests.root.host.fuse import SilentFuse

PYTHON = Path(sys.executable)
ESTALE = 116


@pytest.fixture
def node(tmp_path: Path) -> Iterator[LiveNode]:
    with LiveNode(PYTHON, tmp_path) as node:
        yield node


def offer(node: LiveNode, *documents: dict[str, Any], name: str = "web") -> None:
    """Let a manifest hold these documents."""
    draft = node.manifests / f".{name}"
    draft.write_text("\n---\n".join(map(json.dumps, documents)))
    draft.rename(node.manifests / f"{name}.yaml")


def web(mounts: list[dict[str, Any]], volumes: list[dict[str, Any]], name: str = "web") -> dict[str, Any]:
    spec = {"containers": [{"name": "main", "volumeMounts": mounts}], "volumes": volumes}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "uid": f"uid-{name}"}, "spec": spec}


def config(**data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}, "data": data}


SCRATCH: dict[str, Any] = {"name": "v", "emptyDir": {}}
SETTINGS: dict[str, Any] = {"name": "c", "configMap": {"name": "settings"}}


def subpath(node: LiveNode, index: int, volume: str = "v", name: str = "web") -> Path:
    return node.root / "pods" / f"uid-{name}" / "volume-subpaths" / volume / "main" / str(index)


def subpath_mounts(node: LiveNode) -> dict[str, str]:
    return {path: number for path, number in node.mount_ids().items() if "/volume-subpaths/" in path}


def test_what_a_runtime_is_told_is_bound_and_goes_with_the_pod(node: LiveNode) -> None:
    mounts: list[dict[str, Any]] = [
        {"name": "v", "mountPath": "/data", "subPath": "a/b"},
        {"name": "v", "mountPath": "/all", "readOnly": True},
    ]
    offer(node, web(mounts, [SCRATCH]))
    node.tell("wait", "web")

    told = json.loads(node.tell("mounts", "web", "--format", "json"))
    fragment = json.loads(node.tell("mounts", "web", "--container", "main", "--format", "oci"))

    volume = node.volume("web", "kubernetes.io/empty-dir")
    data, everything = told["containers"][0]["mounts"]
    assert (data["source"], everything["source"]) == (str(subpath(node, 0)), str(volume))
    assert fragment["mounts"] == [
        {"destination": "/data", "type": "bind", "source": data["source"], "options": ["rbind", "rprivate", "rw"]},
        {"destination": "/all", "type": "bind", "source": str(volume), "options": ["rbind", "rprivate", "ro"]},
    ]
    assert json.loads(node.tell("mounts", "web", "--format", "oci")) == {"main": fragment}
    assert str(subpath(node, 0)) in node.tell("mounts", "web")
    (subpath(node, 0) / "file").write_text("seen")
    assert (volume / "a" / "b" / "file").read_text() == "seen"
    (node.manifests / "web.yaml").unlink()
    node.tell("wait", "web", "--for", "unmounted")
    assert node.mount_ids() == {}
    assert list((node.root / "pods").iterdir()) == []


def test_a_refused_sub_path_is_named_and_ends_with_one(node: LiveNode) -> None:
    mounts = [{"name": "v", "mountPath": f"/{each}", "subPath": each} for each in ("good", "out/passwd", "out/new")]
    offer(node, web(mounts, [SCRATCH]))
    node.tell("wait", "web")
    volume = node.volume("web", "kubernetes.io/empty-dir")
    (volume / "out").symlink_to("/etc")

    done = node.run("mounts", "web", "--format", "json")

    assert done.returncode == 1
    assert "subPath out/passwd of volume v: refused" in done.stderr
    assert "its link out -> /etc leads out of the volume" in done.stderr
    assert [bool(mount["source"]) for mount in json.loads(done.stdout)["containers"][0]["mounts"]] == [
        True,
        False,
        False,
    ]
    assert list(subpath_mounts(node)) == [str(subpath(node, 0))]
    assert not Path("/etc/new").exists()
    assert node.run("mounts", "nobody").returncode == 1
    assert "has no container" in node.run("mounts", "web", "--container", "x").stderr


def test_a_changed_key_is_bound_anew_by_the_next_preparation_also_after_a_crash(node: LiveNode) -> None:
    pod = web([{"name": "c", "mountPath": "/etc/extra.ini", "subPath": "extra.ini"}], [SETTINGS])
    offer(node, pod)
    offer(node, config(**{"extra.ini": "one"}), name="settings")
    node.tell("wait", "web")
    node.tell("mounts", "web")
    place = subpath(node, 0, "c")
    before = subpath_mounts(node)

    node.kill()
    assert place.read_text() == "one"
    node.start()
    node.tell("wait", "web")
    node.tell("mounts", "web")
    assert subpath_mounts(node) == before
    offer(node, config(**{"extra.ini": "two"}), name="settings")
    whole = node.root / "pods/uid-web/volumes/kubernetes.io~configmap/c/extra.ini"
    while whole.read_text() != "two":  # the test's own time limit ends this
        pass

    assert place.read_text() == "one"
    assert "shows an older version of volume c" in node.tell("why", "web")
    assert "it showed an older version" in node.tell("mounts", "web")
    assert place.read_text() == "two"
    assert "older version" not in node.tell("why", "web")


def test_preparing_never_outlives_the_pod_it_is_for(node: LiveNode) -> None:
    mounts = [{"name": "v", "mountPath": f"/{number}", "subPath": str(number)} for number in range(20)]
    for _ in range(5):
        offer(node, web(mounts, [SCRATCH]))
        node.tell("wait", "web")
        running = [subprocess.Popen(node.argv("mounts", "web"), stdout=-3, stderr=-3) for _ in range(4)]
        (node.manifests / "web.yaml").unlink()
        node.tell("wait", "web", "--for", "unmounted")
        for process in running:
            assert process.wait(PATIENCE) in {0, 1}
        assert node.mount_ids() == {}
        assert list((node.root / "pods").iterdir()) == []


def test_a_volume_whose_server_hangs_keeps_only_its_own_containers_waiting(node: LiveNode, tmp_path: Path) -> None:
    (tmp_path / "share").mkdir()
    share = {"name": "v", "hostPath": {"path": str(tmp_path / "share")}}
    with SilentFuse(tmp_path / "share") as fuse:
        fuse.serve_until_asked()
        offer(node, web([{"name": "v", "mountPath": "/a", "subPath": "x"}], [share], "hung"), name="hung")
        offer(node, web([{"name": "v", "mountPath": "/a", "subPath": "x"}], [SCRATCH]))
        node.tell("wait", "hung")
        node.tell("wait", "web")

        done = node.run("mounts", "hung", "--timeout", "0.2s")

        assert done.returncode == 1
        assert "waits for the subPaths of kubernetes.io/host-path/uid-hung-v to be bound" in done.stderr
        assert fuse.asked()
        node.tell("mounts", "web")
    failed = node.run("mounts", "hung")  # the server is dead now
    assert failed.returncode == 1
    assert "subPath x of volume v" in failed.stderr


def test_a_stale_file_handle_below_a_sub_path_does_not_stop_the_teardown(node: LiveNode) -> None:
    offer(node, web([{"name": "v", "mountPath": "/a", "subPath": "x"}], [SCRATCH]))
    node.tell("wait", "web")
    place = subpath(node, 1)
    place.mkdir(parents=True)
    with SilentFuse(place) as fuse:
        fuse.refuse_all(ESTALE)
        (node.manifests / "web.yaml").unlink()

        node.tell("wait", "web", "--for", "unmounted")

        assert node.mount_ids() == {}
        assert list((node.root / "pods").iterdir()) == []
