"""What the manifests directory promises."""

import json
import os
import socket
import subprocess
from pathlib import Path

from tests.eventually import eventually
from tests.root.acceptance.outside import Outside, memory, mounts_below, pod


def test_files_are_followed_as_they_come_change_move_and_go(node: Outside) -> None:
    node.put("a.yaml", pod("a", memory()))
    node.wait("a")
    before = node.mounts()
    (node.manifests / "a.yaml").rename(node.manifests / "b.yaml")
    eventually(lambda: node.json("status", "a")["origin"].endswith("b.yaml"))
    assert node.mounts() == before
    (node.manifests / "sub").mkdir()
    (node.manifests / "sub" / "c.yaml").write_text(json.dumps(pod("sub", memory())))
    (node.manifests / ".dot.yaml").write_text(json.dumps(pod("dot", memory())))
    (node.manifests / "saved.yaml~").write_text(json.dumps(pod("saved", memory())))
    outside = node.top / "moved.yaml"
    outside.write_text(json.dumps(pod("moved", memory())))
    outside.rename(node.manifests / "moved.yaml")
    node.wait("moved")
    assert set(node.uids()) == {"uid-a", "uid-moved"}
    (node.manifests / "moved.yaml").rename(outside)
    (node.manifests / "b.yaml").unlink()
    node.wait("moved", "unmounted")
    node.wait("a", "unmounted")
    assert not node.mounts()


def test_a_file_that_is_written_slowly_in_place_is_read_when_it_is_closed(node: Outside) -> None:
    text = json.dumps(pod("shop", memory()))
    with (node.manifests / "shop.json").open("w") as file:
        file.write(text[:40])
        file.flush()
        node.put("other.json", pod("other", memory()))
        node.wait("other")
        assert "shop.json" not in node.volmgr("status").stdout + node.log.read_text()
        file.write(text[40:])
    node.wait("shop")
    before = node.mounts()
    with (node.manifests / "shop.json").open("w") as file:
        file.flush()
        node.settle()
        assert node.mounts() == before
        file.write(text)
    node.put("third.json", pod("third", memory()))
    node.wait("third")
    assert before.items() <= node.mounts().items()


def test_an_editor_that_saves_by_rename_changes_no_mount(node: Outside) -> None:
    file = node.put("shop.json", pod("shop", memory()))
    node.wait("shop")
    before = node.mounts()
    backup = file.rename(node.manifests / "shop.json~")
    file.write_text(json.dumps(pod("shop", memory())))
    backup.unlink()
    file.unlink()
    file.write_text(json.dumps(pod("shop", memory())))
    node.settle()
    assert node.mounts() == before


def test_a_layout_of_links_as_configmaps_have_it_is_followed(node: Outside) -> None:
    (node.manifests / "..1").mkdir()
    (node.manifests / "..1" / "shop.yaml").write_text(json.dumps(pod("shop", memory())))
    (node.manifests / "..data").symlink_to("..1")
    (node.manifests / "shop.yaml").symlink_to("..data/shop.yaml")
    node.wait("shop")
    (node.manifests / "..2").mkdir()
    (node.manifests / "..2" / "shop.yaml").write_text(json.dumps(pod("shop", memory(), uid="uid-two")))
    (node.manifests / "..data_tmp").symlink_to("..2")
    (node.manifests / "..data_tmp").rename(node.manifests / "..data")
    node.wait("uid-two")
    node.wait("uid-shop", "unmounted")


def test_fifos_sockets_and_devices_are_ignored(node: Outside) -> None:
    os.mkfifo(node.manifests / "fifo.yaml")
    os.mknod(node.manifests / "null.yaml", 0o20666, os.makedev(1, 3))
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(node.manifests / "socket.yaml"))
        (node.manifests / "link.yaml").symlink_to("fifo.yaml")
        (node.manifests / "zero.yaml").symlink_to("/dev/zero")
        node.put("shop.json", pod("shop", memory()))
        node.wait("shop")
        node.kill()
        node.start()
    log = node.log.read_text()
    assert "WARN" not in log
    assert "ERROR" not in log


def test_a_file_above_10_mib_is_refused_and_named(node: Outside) -> None:
    with (node.manifests / ".big").open("w") as file:
        file.truncate(200 << 20)
    (node.manifests / ".big").rename(node.manifests / "big.yaml")
    eventually(lambda: "big.yaml" in node.log.read_text())
    assert "10 MiB" in node.log.read_text()
    assert "big.yaml" in node.volmgr("doctor", code=1).stdout
    peak = int(next(x for x in Path(f"/proc/{node.pid}/status").read_text().splitlines() if "VmHWM" in x).split()[1])
    assert peak < 100_000
    node.put("shop.json", pod("shop", memory()))
    node.wait("shop")
    (node.manifests / "big.yaml").unlink()
    text = json.dumps(pod("large", memory()))
    node.put_text("large.yaml", "# " + "x" * ((10 << 20) - len(text) - 10) + "\n" + text)
    node.wait("large")


def test_one_bad_document_never_stops_the_others(node: Outside) -> None:
    bad = pod("bad", {"name": "v", "emptyDir": {"medium": "Memory", "sizelimit": "1Mi"}}, memory("w"))
    node.put("mix.yaml", pod("first", memory()), bad, pod("last", memory()))
    node.wait("first")
    node.wait("last")
    text = node.why("bad")
    for part in ("mix.yaml", "document 2", "spec.volumes[0].emptyDir.sizelimit", "sizeLimit"):
        assert part in text, text
    assert "uid-bad" not in node.uids()
    assert not (node.root / "pods/uid-bad").exists()


BOMB = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{name}: &{name} [{','.join([f'*{before}'] * 9)}]\n" for before, name in zip("abcdefghi", "bcdefghij", strict=True)
)
NO_MANIFESTS = {
    "bomb": (BOMB, "alias"),
    "syntax": ("kind: [", "line"),
    "nul": ("\0\1", "document 1"),
    "text": ("just a text", "Kubernetes object"),
    "list": ("- 1\n- 2", "Kubernetes object"),
    "nameless": ("apiVersion: v1\nkind: Pod", "metadata"),
    "shape": ("apiVersion: v1\nkind: Pod\nmetadata: {name: x}\nspec: {volumes: 3}", "spec.volumes"),
    "deep": ("[" * 50_000, "deep"),
    "twice": ("apiVersion: v1\nkind: Pod\nmetadata: {name: x, name: y}", "name"),
    "code": ("!!python/object/apply:os.system ['touch pwned']", "tag"),
}


def test_what_is_no_manifest_is_named_and_stops_nobody(node: Outside) -> None:
    for name, (text, _) in NO_MANIFESTS.items():
        node.put_text(f"{name}.yaml", text)
    node.put("shop.json", pod("shop", memory()))
    node.wait("shop")
    eventually(lambda: all(f"/{name}.yaml: " in node.log_text() for name in NO_MANIFESTS))
    for name, (_, part) in NO_MANIFESTS.items():
        assert any(f"/{name}.yaml: " in line and part in line for line in node.log_text().splitlines()), name
    assert "Traceback" not in node.log_text()
    assert node.http("GET", "/readyz")[0] == 200


def test_the_last_good_version_stays_when_a_file_is_damaged_and_over_restarts(node: Outside) -> None:
    file = node.put("shop.json", pod("shop", memory()))
    node.wait("shop")
    before = node.mounts()
    node.put_text("shop.json", "kind: [")
    eventually(lambda: "shop.json" in node.why("shop"))
    node.kill()
    node.start()
    assert "last good" in node.why("shop")
    assert node.mounts() == before
    file.write_text("")
    node.settle()
    assert node.mounts() == before
    file.unlink()
    node.wait("shop", "unmounted")


def test_what_kubectl_prints_is_taken(node: Outside) -> None:
    item = pod("shop", memory())
    item["metadata"] |= {
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "managedFields": [{"fieldsV1": {"f:x": {}}}],
        "resourceVersion": "12",
        "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{}"},
    }
    item["spec"] |= {"dnsPolicy": "ClusterFirst", "tolerations": [{"operator": "Exists"}], "nodeName": "n"}
    item["status"] = {"phase": "Running", "conditions": [{"type": "Ready"}], "qosClass": "BestEffort"}
    node.put_text("list.yaml", json.dumps({"apiVersion": "v1", "kind": "List", "metadata": {}, "items": [item]}))
    pods = {"apiVersion": "v1", "kind": "PodList", "items": [pod("two", memory())]}
    node.put("podlist.json", pods)
    node.wait("shop")
    node.wait("two")


def test_two_pods_with_one_uid_or_one_name_the_first_stays(node: Outside) -> None:
    node.put("a.json", pod("a", memory(), uid="same"))
    node.wait("a")
    before = node.mounts()
    node.put("b.json", pod("b", memory(), uid="same"))
    eventually(lambda: "b.json" in node.log.read_text())
    text = node.why("b")
    assert "a.json" in text
    assert "b.json" in text
    assert node.mounts() == before
    node.put("c.json", pod("a", memory(), uid="same"))
    eventually(lambda: "c.json" in node.log.read_text())
    (node.manifests / "a.json").unlink()
    eventually(lambda: node.json("status", "same")["origin"].endswith(("b.json", "c.json")))
    node.settle()
    assert node.mounts() == before


def test_a_manifests_directory_that_moved_to_another_file_system_is_accepted_by_the_doctor(node: Outside) -> None:
    node.put("shop.json", pod("shop", memory()))
    node.put("old.json", pod("old", memory()))
    node.wait("shop")
    node.wait("old")
    node.stop()
    before = node.mounts()
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", node.manifests], check=True)
    try:
        node.put("shop.json", pod("shop", memory()))
        node.start(ready=False)
        assert node.http("GET", "/readyz")[0] == 503
        assert node.mounts() == before
        done = node.volmgr("doctor", code=1)
        assert "--accept-manifests" in done.stdout
        node.volmgr("doctor", "--accept-manifests", code=None)
        node.wait("old", "unmounted")
        assert node.http("GET", "/readyz")[0] == 200
        assert list(node.mounts()) == [str(node.volume("shop"))]
        subprocess.run(["umount", "-l", node.manifests], check=True)
        eventually(lambda: node.http("GET", "/readyz")[0] == 503)
        assert list(node.mounts()) == [str(node.volume("shop"))]
    finally:
        subprocess.run(["umount", "-l", node.manifests], check=False, capture_output=True)
    node.volmgr("doctor", "--accept-manifests", code=None)
    assert mounts_below(node.manifests) == {}


def test_posted_pods_survive_restarts(node: Outside) -> None:
    assert node.http("POST", "/v1/pods", json.dumps(pod("api", memory())).encode())[0] == 200
    node.wait("api")
    before = node.mounts()
    node.kill()
    node.start()
    node.wait("api")
    assert node.mounts() == before
    assert node.http("DELETE", "/v1/pods/api")[0] == 200
    node.wait("api", "unmounted")
    node.kill()
    node.start()
    assert not list(node.uids())
