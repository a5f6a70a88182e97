"""What emptyDir and hostPath promise."""

import os
import socket
import stat
from pathlib import Path
from typing import Any

from tests.eventually import eventually
from tests.root.acceptance.outside import Outside, disk, host_path, memory, pod


def size(node: Outside, name: str, volume: str = "v") -> int:
    found = os.statvfs(node.volume(name, volume))
    return found.f_blocks * found.f_frsize


def limits(memory: str, cpu: str = "1") -> dict[str, Any]:
    return {"resources": {"limits": {"memory": memory, "cpu": cpu}}}


def uses(name: str = "v") -> dict[str, Any]:
    return {"volumeMounts": [{"name": name, "mountPath": "/v"}]}


NODE = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}, "status": {"allocatable": {"memory": "64Mi"}}}
OTHER = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n2"}, "status": {"allocatable": {"memory": "8Mi"}}}


def test_memory_has_the_smallest_of_size_limit_pod_limit_and_allocatable(tmp_path: Path) -> None:
    with Outside(tmp_path, "--node-name", "n1") as node:
        node.put("0.json", NODE, OTHER)
        two = [{"name": "a", **uses(), **limits("16Mi")}, {"name": "b", **limits("8Mi")}]
        big = {"name": "i", **limits("40Mi")}
        side = {"name": "s", "restartPolicy": "Always", **limits("4Mi")}
        cases: list[tuple[str, dict[str, Any], dict[str, Any], int]] = [
            ("none", memory(), {}, 64),
            ("limit", memory(sizeLimit="2Mi"), {}, 2),
            ("zero", memory(sizeLimit="0"), {}, 64),
            ("above", memory(sizeLimit="1Gi"), {}, 64),
            ("pod", memory(), {"containers": two}, 24),
            ("both", memory(sizeLimit="20Mi"), {"containers": two}, 20),
            ("init", memory(), {"containers": two, "initContainers": [big]}, 40),
            ("side", memory(), {"containers": two, "initContainers": [side]}, 28),
            ("sideinit", memory(), {"containers": two, "initContainers": [side, big]}, 44),
            ("over", memory(), {"containers": two, "overhead": {"memory": "1Mi"}}, 25),
            ("podlevel", memory(), {"containers": two, "resources": {"limits": {"memory": "10Mi"}}}, 10),
            ("partly", memory(), {"containers": [two[0], {"name": "b"}]}, 16),
        ]
        for name, volume, spec, _ in cases:
            node.put(f"{name}.json", pod(name, volume, **spec))
        for name, _, _, expected in cases:
            node.wait(name)
            assert size(node, name) == expected << 20, name


def test_without_a_node_name_the_machine_is_the_cap(node: Outside) -> None:
    node.put("0.json", NODE)
    node.put("shop.json", pod("shop", memory()))
    node.put("huge.json", pod("huge", memory(sizeLimit="100Ti")))
    node.wait("shop")
    node.wait("huge")
    total = int(Path("/proc/meminfo").read_text().split()[1]) * 1024
    assert size(node, "shop") == size(node, "huge") == total // 4096 * 4096


def test_memory_is_never_swapped_out(node: Outside) -> None:
    node.put("shop.json", pod("shop", memory()))
    node.wait("shop")
    (row,) = node.mounts().values()
    assert " - tmpfs tmpfs " in row
    assert "noswap" in row
    assert "size=" in row


def test_a_medium_that_cannot_be_is_said(node: Outside) -> None:
    cases: tuple[tuple[str, dict[str, str], str], ...] = (
        ("HugePages", {}, "no resource request for huge pages"),
        ("HugePages", {"hugepages-2Mi": "2Mi", "hugepages-1Gi": "1Gi"}, "multiple huge page sizes"),
        ("HugePages-1Gi", {"hugepages-2Mi": "2Mi"}, "HugePages-1Gi"),
        ("Disk", {}, 'unknown storage medium "Disk"'),
        ("HugePages-x", {}, "HugePages-x"),
    )
    for number, (medium, requests, _) in enumerate(cases):
        container = {"name": "c", **uses(), "resources": {"requests": requests, "limits": requests}}
        volume = {"name": "v", "emptyDir": {"medium": medium}}
        node.put(f"{number}.json", pod(f"p{number}", volume, containers=[container]))
    for number, (_, _, part) in enumerate(cases):
        node.until_why(f"p{number}", part)
    assert not node.mounts()


def test_fs_group_owns_an_empty_dir(node: Outside) -> None:
    node.put("shop.json", pod("shop", disk(), memory("m"), securityContext={"fsGroup": 4321}))
    node.wait("shop")
    for name in ("v", "m"):
        found = node.volume("shop", name).stat()
        assert found.st_gid == 4321
        assert stat.S_IMODE(found.st_mode) == 0o2777


def test_an_empty_dir_goes_with_its_pod_whatever_is_in_it(node: Outside) -> None:
    file = node.put("shop.json", pod("shop", disk(), memory("m")))
    node.wait("shop")
    outside = node.top / "outside"
    outside.mkdir()
    (outside / "file").write_text("kept")
    for name in ("v", "m"):
        volume = node.volume("shop", name)
        (volume / "link").symlink_to(outside)
        (volume / "a" / "b").mkdir(parents=True)
        (volume / "a" / "b" / "c\nd e").write_text("x")
        (volume / "a").chmod(0)
        os.mkfifo(volume / "fifo")
    for number in range(3000):
        (node.volume("shop") / f"{number}").touch()
    file.unlink()
    node.wait("shop", "unmounted")
    assert not (node.root / "pods/uid-shop").exists()
    assert (outside / "file").read_text() == "kept"
    eventually(lambda: not list((node.root / "volmgr/trash").iterdir()))


def test_an_empty_dir_on_disk_keeps_its_files_over_kill_and_its_mode_is_not_forced_again(node: Outside) -> None:
    node.put("shop.json", pod("shop", disk()))
    node.wait("shop")
    (node.volume("shop") / "file").write_text("x")
    node.volume("shop").chmod(0o700)
    node.kill()
    node.start()
    node.wait("shop")
    assert (node.volume("shop") / "file").read_text() == "x"
    assert stat.S_IMODE(node.volume("shop").stat().st_mode) == 0o700


def test_host_paths_of_every_type(node: Outside, tmp_path: Path) -> None:
    (tmp_path / "dir").mkdir()
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to("dir")
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "dangling").symlink_to(tmp_path / "through")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "sock"))
        good: list[tuple[Path | str, str]] = [
            ("/no/such/thing", ""),
            (tmp_path / "dir", "Directory"),
            (tmp_path / "link", "Directory"),
            (tmp_path / "file", "File"),
            (tmp_path / "sock", "Socket"),
            ("/dev/null", "CharDevice"),
            (tmp_path / "new/deep", "DirectoryOrCreate"),
            (tmp_path / "dir", "DirectoryOrCreate"),
            (tmp_path / "newfile", "FileOrCreate"),
            (tmp_path / "file", "FileOrCreate"),
        ]
        for number, (path, kind) in enumerate(good):
            node.put(f"g{number}.json", pod(f"g{number}", host_path(path, kind)))
        for number, (path, _) in enumerate(good):
            node.wait(f"g{number}")
            assert node.json("status", f"g{number}")["volumes"][0]["path"] == str(path)
        assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o755
        assert stat.S_IMODE((tmp_path / "new/deep").stat().st_mode) == 0o755
        assert stat.S_IMODE((tmp_path / "newfile").stat().st_mode) == 0o644
        bad: list[tuple[Path | str, str, str]] = [
            (tmp_path / "file", "Directory", "is not a directory"),
            (tmp_path / "dir", "File", "is not a file"),
            (tmp_path / "fifo", "File", "is not a file"),
            (tmp_path / "missing", "Directory", "missing"),
            (tmp_path / "missing", "File", "missing"),
            (tmp_path / "dir", "Socket", "is not a socket"),
            (tmp_path / "file", "CharDevice", "is not a character device"),
            (tmp_path / "file", "BlockDevice", "is not a block device"),
            (tmp_path / "nodir/file", "FileOrCreate", "nodir"),
            (tmp_path / "dangling", "DirectoryOrCreate", "dangling"),
            (tmp_path / "dangling", "FileOrCreate", "dangling"),
            (tmp_path / "dir", "Nonsense", "Nonsense"),
            (f"{tmp_path}/dir/../dir", "", ".."),
        ]
        for number, (path, kind, _) in enumerate(bad):
            node.put(f"b{number}.json", pod(f"b{number}", host_path(path, kind)))
        for number, (_, _, part) in enumerate(bad):
            node.until_why(f"b{number}", part)
        assert not (tmp_path / "through").exists()
        assert (tmp_path / "dangling").is_symlink()
        (tmp_path / "missing").mkdir()
        node.wait("b3")
    node.volmgr("drain")
    assert (tmp_path / "new/deep").is_dir()
    assert not (node.root / "pods").exists() or not any(node.root.glob("pods/*/volumes/kubernetes.io~host-path/*"))


def test_a_block_device_is_told_from_others(node: Outside, tmp_path: Path) -> None:
    device = tmp_path / "device"
    os.mknod(device, stat.S_IFBLK | 0o600, os.makedev(7, 200))
    node.put("shop.json", pod("shop", host_path(device, "BlockDevice")))
    node.wait("shop")


def test_a_type_that_nobody_serves_names_what_took_its_place(node: Outside) -> None:
    node.put("a.json", pod("a", {"name": "v", "rbd": {"monitors": ["s"], "image": "i"}}, memory("m")))
    node.put("b.json", pod("b", {"name": "v", "persistentVolumeClaim": {"claimName": "c"}}, memory("m")))
    node.put("c.json", pod("c", {"name": "v", "flocker": {"datasetName": "s"}}))
    node.put("e.json", pod("e", {"name": "v", "unheard": {"name": "c"}}))
    eventually(lambda: len(node.mounts()) == 2)
    node.until_why("a", "rbd.csi.ceph.com")
    node.until_why("b", "default/c does not exist")
    node.until_why("c", "its project has ended")
    node.until_why("e", "unheard")


def test_a_claim_is_resolved_among_the_manifests(node: Outside) -> None:
    claim = {
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "c", "uid": "pvc-1"},
        "spec": {"volumeName": "pv1", "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
        "status": {"phase": "Bound"},
    }  # fmt: skip
    volume = {
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "pv1"},
        "spec": {
            "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/srv"},
            "claimRef": {"namespace": "default", "name": "c", "uid": "pvc-1"},
        },
    }  # fmt: skip
    node.put("shop.json", pod("shop", {"name": "v", "persistentVolumeClaim": {"claimName": "c"}}))
    eventually(lambda: "c" in node.volmgr("why", "shop", code=None).stdout)
    node.put("claim.json", claim)
    node.put("pv.json", volume)
    node.wait("shop")
    assert node.json("status", "shop")["volumes"][0]["path"] == "/srv"
