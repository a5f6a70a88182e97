"""Exports of a living server: versions, options, Pods that share one, restarts, what is refused, parts of volumes."""

from __future__ import annotations

import errno
import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.eventually import eventually
from tests.root.acceptance.outside import pod
from tests.vm.nfs.node import NfsNode, claimed, nfs, volume_and_claim
from tests.vm.servers.guest import tell
from tests.vm.servers.nfs import KernelNfs

VERSIONS = {
    "v3": ("vers=3", "nolock"),
    "v4.0": ("vers=4.0",),
    "v4.1": ("vers=4.1", "noatime"),
    "v4.2": ("vers=4.2",),
    "udp-less": ("proto=tcp", "port=2049"),
}


def test_every_version_is_mounted_with_its_options_written_and_taken_away(node: NfsNode, server: KernelNfs) -> None:
    exported = {name: server.export(f"version-{name}") for name in VERSIONS}
    for name, options in VERSIONS.items():
        node.put(f"pv-{name}.json", *volume_and_claim(name, exported[name], *options))
    node.mounted_pod("all", *(claimed(name, f"v{number}") for number, name in enumerate(VERSIONS)))
    lines = {name: node.line("all", name) for name in VERSIONS}
    for name, word in (("v3", "vers=3"), ("v4.0", "vers=4.0"), ("v4.1", "vers=4.1"), ("v4.2", "vers=4.2")):
        assert word in lines[name], lines
    assert " nfs 127.0.0.1:/srv/nfs/version-v3 " in lines["v3"]
    assert " nfs4 127.0.0.1:" in lines["v4.2"]
    assert "noatime" in lines["v4.1"]
    for name, directory in exported.items():
        (node.place("all", name) / "file").write_text(name)
        assert (directory / "file").read_text() == name
    node.remove_pod("all")
    assert node.mounts() == {}
    assert all((directory / "file").exists() for directory in exported.values())


@pytest.mark.slow
def test_an_address_of_ipv6_is_mounted_and_a_volume_that_may_only_be_read_so(node: NfsNode, server: KernelNfs) -> None:
    directory = server.export("six")
    node.put("pv.json", *volume_and_claim("read", directory))
    volumes = (nfs(directory, "six", server="::1"), nfs(directory, "inline", readOnly=True))
    node.mounted_pod("six", *volumes, claimed("read", readOnly=True))
    assert f"[::1]:{directory}" in node.line("six", "six")
    (node.place("six", "six") / "file").write_text("by IPv6")
    assert (directory / "file").read_text() == "by IPv6"
    for name in ("inline", "read"):
        with pytest.raises(OSError, match=os.strerror(errno.EROFS)):
            (node.place("six", name) / "other").touch()


def test_two_pods_share_an_export_over_kills_and_restarts(node: NfsNode, server: KernelNfs) -> None:
    directory = server.export("shared")
    node.mounted_pod("one", nfs(directory))
    (node.place("one") / "file").write_text("of one")
    before = node.line("one")
    node.restart()
    node.mounted_pod("two", nfs(directory))
    assert node.line("one") == before
    assert (node.place("two") / "file").read_text() == "of one"
    node.kill()
    (node.manifests / "one.json").unlink()
    node.start()
    node.wait("one", "unmounted")
    assert list(node.mounts()) == [str(node.place("two"))]
    assert (node.place("two") / "file").read_text() == "of one"


@pytest.mark.slow
def test_an_export_that_comes_later_is_mounted_then(node: NfsNode, server: KernelNfs) -> None:
    node.put_pod("early", nfs("/srv/nfs/late"), restartPolicy="Never")
    node.until_why("early", "the server does not export it to this node: see `exportfs -v` there")
    assert not node.place("early").exists()
    server.export("late")
    node.wait("early")


@pytest.mark.slow
def test_a_wrong_option_is_named_and_mended_by_the_next_manifest(node: NfsNode, server: KernelNfs) -> None:
    directory = server.export("options")
    node.put("pv.json", *volume_and_claim("options", directory, "vers=4.1", "nonsense"))
    node.put_pod("typo", claimed("options"))
    node.until_why("typo", "check the mount options against nfs(5)")
    node.put("pv.json", *volume_and_claim("options", directory, "vers=4.1"))
    node.wait("typo")


@pytest.mark.slow
def test_a_share_that_squashes_root_is_mounted_for_a_group_without_touching_its_files(
    node: NfsNode, server: KernelNfs
) -> None:
    directory = server.export("squashed", root_squash=True)
    os.chown(directory, 3001, 3001)
    directory.chmod(0o700)
    for _ in range(2):
        node.mounted_pod("group", nfs(directory), securityContext={"fsGroup": 3001})
        node.remove_pod("group")
    found = directory.stat()
    assert (found.st_uid, found.st_gid, found.st_mode & 0o7777) == (3001, 3001, 0o700)


@pytest.mark.slow
def test_a_directory_on_such_a_share_cannot_be_given_to_a_group_and_the_pod_is_told_which_policy_helps(
    node: NfsNode, server: KernelNfs, top: Path
) -> None:
    directory = server.export("owned", root_squash=True)
    os.chown(directory, 3001, 3001)
    directory.chmod(0o700)
    share = top / "share"
    share.mkdir()
    volume, claim = volume_and_claim("owned", directory)
    volume["spec"] |= {"local": {"path": str(share)}}
    del volume["spec"]["nfs"]
    node.put("pv.json", volume, claim)
    with mounted(directory, share):
        node.put_pod("told", claimed("owned"), securityContext={"fsGroup": 3001})
        node.until_why("told", "set fsGroupChangePolicy: OnRootMismatch")
        assert (directory.stat().st_gid, directory.stat().st_mode & 0o7777) == (3001, 0o700)
        node.remove_pod("told")
        directory.chmod(0o2770)
        context = {"fsGroup": 3001, "fsGroupChangePolicy": "OnRootMismatch"}
        node.mounted_pod("heeds", claimed("owned"), securityContext=context)
        node.remove_pod("heeds")


@contextmanager
def mounted(directory: Path, place: Path) -> Generator[None]:
    """Mount an export as somebody else would; what the server says of a file is not remembered."""
    tell("mount", "-t", "nfs", "-o", "actimeo=0", f"127.0.0.1:{directory}", place)
    try:
        yield
    finally:
        tell("umount", place)


@pytest.mark.slow
def test_a_part_of_a_volume_is_bound_and_goes_with_it(node: NfsNode, server: KernelNfs) -> None:
    directory = server.export("parts")
    (directory / "inner").mkdir()
    (directory / "inner/file").write_text("inner")
    put_with_part(node, "part", directory)
    (bind,) = (path for path in node.mounts() if "volume-subpaths" in path)
    assert Path(bind, "file").read_text() == "inner"
    node.remove_pod("part")
    assert node.mounts() == {}


def put_with_part(node: NfsNode, name: str, directory: Path) -> None:
    """Let a Pod use a part of an export, and have it bound."""
    wanted = pod(name, nfs(directory))
    wanted["spec"]["containers"][0]["volumeMounts"][0]["subPath"] = "inner"
    node.put(f"{name}.json", wanted)
    node.wait(name)
    node.volmgr("mounts", name, "--timeout", "2m")  # a helper binds it, which takes seconds to start here


def test_handles_that_turned_stale_are_unmounted_with_the_parts_bound_from_them(
    node: NfsNode, server: KernelNfs
) -> None:
    directory = server.export("stale")
    (directory / "inner").mkdir()
    put_with_part(node, "stale", directory)
    server.replace("stale")
    with pytest.raises(OSError, match=os.strerror(errno.ESTALE)):
        os.listdir(node.place("stale"))
    node.remove_pod("stale")
    assert node.mounts() == {}
    node.mounted_pod("fresh", nfs(directory))
    (node.place("fresh") / "file").write_text("fresh")
    assert (directory / "file").read_text() == "fresh"


@pytest.mark.slow
def test_a_stale_volume_of_a_living_pod_is_mounted_anew_by_a_restart_that_knows_nothing_of_it(
    node: NfsNode, server: KernelNfs
) -> None:
    directory = server.export("renewed")
    node.mounted_pod("renewed", nfs(directory))
    server.replace("renewed")
    node.kill()
    for record in (node.root / "volmgr/mounts").rglob("*.json"):
        record.unlink()
    node.start()
    node.wait("renewed")
    (node.place("renewed") / "file").write_text("renewed")
    assert (directory / "file").read_text() == "renewed"


def test_what_only_kubelet_s_layout_describes_is_unmounted(node: NfsNode, server: KernelNfs) -> None:
    directory = server.export("left")
    node.stop()
    place = node.place("left")
    place.mkdir(parents=True)
    tell("mount", "-t", "nfs", f"127.0.0.1:{directory}", place)
    (place / "file").write_text("stays on the server")
    node.start()
    eventually(lambda: node.mounts() == {} and not place.exists(), "nothing left of a Pod that nobody knows")
    assert (directory / "file").read_text() == "stays on the server"


@pytest.mark.slow
def test_the_node_has_what_nfs_needs(node: NfsNode, server: KernelNfs) -> None:
    node.mounted_pod("used", nfs(server.export("used")))
    lines = node.volmgr("doctor", code=None).stdout.splitlines()
    found = [line for line in lines if "kubernetes.io/nfs" in line]
    assert len(found) == 4, lines
    assert all(line.startswith("ok") for line in found), found
