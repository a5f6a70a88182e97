"""A real host on a temporary root, and file systems to be cruel to."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from volmgr.host import syscalls
from volmgr.host.commands import LocalCommands
from volmgr.host.files import LocalFiles
from volmgr.host.interface import Host
from volmgr.host.local import local_host
from volmgr.host.mounts import KernelMounts
from volmgr.host.paths import Paths


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Path]:
    """A root directory on a tmpfs; everything mounted in the test's directory goes with it."""
    root = tmp_path / "root"
    root.mkdir()
    syscalls.mount("tmpfs", str(root), "tmpfs", 0, "size=64m")
    yield root
    mounts = KernelMounts(LocalCommands())
    for entry in mounts.below(tmp_path):
        mounts.unmount(entry.target, lazy=True)


@pytest.fixture
def host(root: Path) -> Host:
    return local_host(root)


@pytest.fixture
def files(root: Path) -> LocalFiles:
    return LocalFiles(Paths(root))


@pytest.fixture
def mounts() -> KernelMounts:
    return KernelMounts(LocalCommands())


@pytest.fixture
def target(root: Path) -> Path:
    target = root / "target"
    target.mkdir()
    return target


@pytest.fixture
def descriptors() -> Iterator[None]:
    """Nothing that a test does leaves a descriptor open."""
    before = set(os.listdir("/proc/self/fd"))
    yield
    assert len(os.listdir("/proc/self/fd")) == len(before)
