"""A real root on a tmpfs, and something outside of it that nobody may touch."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from volmgr.host import syscalls
from volmgr.host.interface import Host
from volmgr.host.local import local_host


@pytest.fixture
def top(tmp_path: Path) -> Iterator[Path]:
    """One file system with the root and what lies outside; what is mounted in it goes with it."""
    syscalls.mount("tmpfs", str(tmp_path), "tmpfs", 0, "size=64m")
    for name in ("root", "outside"):
        (tmp_path / name).mkdir()
    yield tmp_path
    syscalls.umount(str(tmp_path), syscalls.UMOUNT_DETACH)


@pytest.fixture
def host(top: Path) -> Host:
    return local_host(top / "root")


@pytest.fixture
def outside(top: Path) -> Path:
    """A directory with a user's file, and a mount `v` with another."""
    outside = top / "outside"
    (outside / "v").mkdir()
    syscalls.mount("tmpfs", str(outside / "v"), "tmpfs", 1)  # MS_RDONLY
    (outside / "file").write_text("of a user")
    outside.chmod(0o700)
    return outside
