"""Volumes whose server is dead or silent: when they are unmounted by force, and when not (I32, I33)."""

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.root.host.fuse import SilentFuse
from volmgr.errors import BusyError, OverdueError, UncertainError, says_silent
from volmgr.host.interface import Host
from volmgr.host.mount_points import unmount_served

PATIENCE = 0.5


@pytest.fixture
def silent(target: Path) -> Iterator[SilentFuse]:
    with SilentFuse(target) as fuse:
        fuse.serve_until_asked()
        yield fuse


@pytest.fixture
def user(target: Path) -> Iterator[int]:
    """A descriptor of the mount's root, which asks no server."""
    descriptor = os.open(target, os.O_PATH)
    yield descriptor
    os.close(descriptor)


def test_an_idle_mount_of_a_silent_server_goes(host: Host, target: Path, silent: SilentFuse) -> None:
    unmount_served(target, host, force_after=PATIENCE)
    assert host.mounts.entry(target) is None
    assert not silent.was_asked()


def test_a_mount_whose_handles_are_stale_goes(host: Host, target: Path) -> None:
    with SilentFuse(target) as fuse:
        fuse.refuse_all(errno.ESTALE)
        unmount_served(target, host, force_after=PATIENCE)
        assert host.mounts.entry(target) is None


def test_a_mount_that_is_used_is_named_as_busy_when_its_server_answers(host: Host, target: Path) -> None:
    with SilentFuse(target) as fuse:
        fuse.refuse_all(errno.EIO)
        user = os.open(target, os.O_PATH)
        with pytest.raises(BusyError, match=f"held by {os.getpid()}"):
            unmount_served(target, host, force_after=5)
        assert host.mounts.is_mount_point(target)
        os.close(user)


def test_a_helper_of_the_type_that_asks_the_server_first_does_not_keep_force_waiting(
    host: Host, target: Path, silent: SilentFuse
) -> None:
    helper = Path("/sbin/umount.fuse.silent")  # as umount.nfs, which tells a server of version 3
    helper.write_text("#!/bin/sh\nexec sleep 100\n")
    helper.chmod(0o755)
    try:
        unmount_served(target, host, force_after=PATIENCE)
    finally:
        helper.unlink()
    assert host.mounts.entry(target) is None
    assert not silent.was_asked()


@pytest.mark.usefixtures("silent", "user")
def test_without_time_to_wait_for_the_server_nothing_is_forced(host: Host, target: Path) -> None:
    for left in (-1.0, 0.0, 0.3):
        with pytest.raises(UncertainError, match="no time is left") as caught:
            unmount_served(target, host, force_after=60, until=host.clock() + left)
        assert not says_silent(caught.value)
    assert host.mounts.is_mount_point(target)


@pytest.mark.usefixtures("silent", "user")
def test_who_uses_a_mount_of_a_silent_server_keeps_it(host: Host, target: Path) -> None:
    with pytest.raises(OverdueError, match=r"also not by force: .* in use; held by"):
        unmount_served(target, host, force_after=PATIENCE)
    assert host.mounts.is_mount_point(target)


@pytest.mark.usefixtures("silent", "user")
def test_the_policy_detaches_a_mount_from_who_uses_it(host: Host, target: Path) -> None:
    unmount_served(target, host, force_after=PATIENCE, lazy=True)
    assert host.mounts.entry(target) is None


def test_the_policy_detaches_a_dead_mount_from_who_uses_it_too(host: Host, target: Path) -> None:
    with SilentFuse(target) as fuse:
        fuse.refuse_all(errno.EIO)
        user = os.open(target, os.O_PATH)
    try:
        with pytest.raises(BusyError, match="in use"):
            unmount_served(target, host, force_after=5)
        unmount_served(target, host, force_after=5, lazy=True)
        assert host.mounts.entry(target) is None
    finally:
        os.close(user)


@pytest.mark.usefixtures("silent", "user")
def test_another_mount_of_the_same_file_system_forbids_force(host: Host, target: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    host.mounts.ensure_bound(target, other)
    try:
        with pytest.raises(OverdueError, match=f"use the same file system: {other}"):
            unmount_served(target, host, force_after=PATIENCE)
        assert host.mounts.is_mount_point(target)
    finally:
        host.mounts.unmount(other, lazy=True)


@pytest.mark.usefixtures("silent")
def test_what_others_mounted_inside_goes_first(host: Host, target: Path) -> None:
    host.mounts.unmount(target)
    host.mounts.ensure_mounted(target, "tmpfs")
    inner = target / "inner"
    inner.mkdir()
    with SilentFuse(inner) as fuse:
        fuse.serve_until_asked()
        unmount_served(target, host, force_after=PATIENCE)
    assert host.mounts.below(target) == ()
