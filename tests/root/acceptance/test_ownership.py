"""What an fsGroup does to the files of a volume, and what it never touches."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from tests.root.acceptance.objects import CLAIMED, Document, claim, local
from tests.root.acceptance.outside import Outside, host_path, pod

LOCAL = "kubernetes.io~local-volume"
GROUP = 4321


def context(policy: str = "", group: int = GROUP) -> Document:
    return {"fsGroup": group, **({"fsGroupChangePolicy": policy} if policy else {})}


def owned(path: Path) -> tuple[int, int]:
    """Give the group and mode of a path itself."""
    found = path.lstat()
    return found.st_gid, stat.S_IMODE(found.st_mode)


def tree(top: Path) -> Path:
    """Make directories, files and links of all kinds, one of them to a file outside."""
    (top / "deep" / "er").mkdir(parents=True)
    for name, mode in (("open", 0o600), ("closed", 0o400), ("run", 0o700), ("deep/er/file", 0o640)):
        (top / name).write_text("x")
        (top / name).chmod(mode)
    outside = top.parent / "outside"
    outside.write_text("x")
    outside.chmod(0o600)
    (top / "link").symlink_to(outside)
    os.mkfifo(top / "fifo", 0o600)
    return top


def offer(node: Outside, path: Path) -> None:
    node.put("pv.json", local("disk", path), claim())


def test_every_file_of_a_volume_becomes_the_group_s_and_links_are_not_followed(node: Outside, tmp_path: Path) -> None:
    top = tree(tmp_path / "data")
    offer(node, top)
    node.put("shop.json", pod("shop", CLAIMED, securityContext=context()))
    node.wait("shop")
    seen = node.volume("shop", "disk", LOCAL)
    assert owned(seen) == owned(seen / "deep") == owned(seen / "deep/er") == (GROUP, 0o2775)
    names = ("open", "closed", "run", "deep/er/file", "fifo")
    assert [owned(seen / name) for name in names] == [(GROUP, each) for each in (0o660, 0o660, 0o760, 0o660, 0o660)]
    assert (seen / "link").lstat().st_gid == GROUP
    assert owned(tmp_path / "outside") == (0, 0o600)


def test_on_root_mismatch_leaves_what_has_the_group_at_its_root_and_always_does_not(
    node: Outside, tmp_path: Path
) -> None:
    top = tree(tmp_path / "data")
    offer(node, top)
    late = top / "late"
    for policy, after in (
        ("OnRootMismatch", (GROUP, 0o660)),
        ("OnRootMismatch", (0, 0o600)),
        ("Always", (GROUP, 0o660)),
    ):
        late.write_text("x")
        os.chown(late, 0, 0)
        late.chmod(0o600)
        file = node.put("shop.json", pod("shop", CLAIMED, securityContext=context(policy)))
        node.wait("shop")
        assert owned(late) == after, policy
        file.unlink()
        node.wait("shop", "unmounted")


def test_read_only_claims_and_host_paths_keep_their_owners(node: Outside, tmp_path: Path) -> None:
    top = tree(tmp_path / "data")
    (tmp_path / "host").mkdir()
    before = owned(top), owned(top / "open"), owned(tmp_path / "host")
    offer(node, top)
    read_only = {"name": "v", "persistentVolumeClaim": {"claimName": "orders", "readOnly": True}}
    node.put("shop.json", pod("shop", read_only, host_path(tmp_path / "host", name="h"), securityContext=context()))
    node.wait("shop")
    assert (owned(top), owned(top / "open"), owned(tmp_path / "host")) == before


def test_a_kill_in_the_middle_of_a_large_volume_loses_nothing(node: Outside, tmp_path: Path) -> None:
    top = tmp_path / "data"
    for number in range(200):
        (top / str(number)).mkdir(parents=True)
        for file in range(50):
            (top / str(number) / str(file)).touch(0o600)
    offer(node, top)
    node.put("shop.json", pod("shop", CLAIMED, securityContext=context("OnRootMismatch")))
    node.kill()
    node.start()
    node.wait("shop")
    assert {owned(path) for path in top.glob("*/*")} == {(GROUP, 0o660)}
    assert {owned(path) for path in (top, *top.glob("*"))} == {(GROUP, 0o2775)}
