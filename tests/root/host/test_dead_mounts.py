"""Mounts whose server is gone or does not answer (scenario 175)."""

import errno
import os
import re
from pathlib import Path

import pytest

from tests.root.host.fuse import SilentFuse
from volmgr.errors import BusyError, UncertainError
from volmgr.host.files import LocalFiles
from volmgr.host.mounts import KernelMounts


@pytest.fixture
def dead(target: Path) -> Path:
    SilentFuse(target).die()
    with pytest.raises(OSError, match="not connected"):
        (target / "file").stat()
    return target


def test_a_dead_mount_is_a_mount(mounts: KernelMounts, dead: Path) -> None:
    assert mounts.is_mount_point(dead)
    entry = mounts.entry(dead)
    assert entry is not None
    assert entry.fstype == "fuse.silent"
    assert entry == mounts.below(dead)[0]


def test_a_dead_mount_is_unmounted(mounts: KernelMounts, dead: Path) -> None:
    mounts.unmount(dead)
    assert not mounts.is_mount_point(dead)
    assert list(dead.iterdir()) == []


def test_a_dead_mount_below_a_volume_is_unmounted_with_it(mounts: KernelMounts, dead: Path) -> None:
    mounts.unmount_below(dead.parent / "target")
    assert not mounts.is_mount_point(dead)


def test_a_dead_mount_is_replaced_by_the_one_that_is_wanted(mounts: KernelMounts, dead: Path) -> None:
    mounts.ensure_mounted(dead, "tmpfs")
    entry = mounts.entry(dead)
    assert entry is not None
    assert entry.fstype == "tmpfs"
    assert len(mounts.below(dead)) == 1


def test_a_tree_with_a_dead_mount_in_it_is_not_removed(files: LocalFiles, mounts: KernelMounts, dead: Path) -> None:
    (dead.parent / "beside").touch()
    for path in (dead, dead.parent):
        for verb in (files.remove_tree, files.discard):
            with pytest.raises(BusyError, match="mount"):
                verb(path)
    assert mounts.is_mount_point(dead)
    assert files.info(dead.parent / "beside") is not None


def test_a_mount_that_does_not_answer_is_not_taken_for_ready(mounts: KernelMounts, target: Path) -> None:
    with SilentFuse(target) as fuse:
        fuse.serve_until_asked()
        with pytest.raises(UncertainError, match=r"has not answered within 0\.3 s"):
            mounts.ensure_mounted(target, "fuse.silent", deadline=0.3)
        assert fuse.asked()


def test_a_mount_that_does_not_answer_is_looked_at_without_waiting(mounts: KernelMounts, target: Path) -> None:
    with SilentFuse(target) as fuse:
        fuse.serve_until_asked()
        assert mounts.is_mount_point(target)
        entry = mounts.entry(target)
        assert entry is not None
        assert entry.fstype == "fuse.silent"


def test_a_mount_that_does_not_answer_is_unmounted(mounts: KernelMounts, target: Path) -> None:
    with SilentFuse(target) as fuse:
        fuse.serve_until_asked()
        mounts.unmount(target, deadline=5)
        assert not mounts.is_mount_point(target)


@pytest.mark.parametrize("error", [errno.ESTALE, errno.EIO, errno.EACCES, errno.ETIMEDOUT])
def test_a_mount_that_answers_with_an_error_is_a_mount_and_unmounted_all_the_same(
    files: LocalFiles, mounts: KernelMounts, target: Path, error: int
) -> None:
    with SilentFuse(target) as fuse:
        fuse.refuse_all(error)
        with pytest.raises(OSError, match=re.escape(os.strerror(error))):
            target.stat()
        assert mounts.is_mount_point(target)
        for _ in range(2):
            mounts.unmount_below(target)
            assert files.remove_directory(target)
        assert not target.exists()
