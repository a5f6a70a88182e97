"""Hosts of this machine for tests: fresh directories, in a mount namespace that dies with the process."""

from __future__ import annotations

import ctypes
import itertools
import os
from pathlib import Path
from types import TracebackType
from typing import Self

from volmgr.host.files import LocalFiles
from volmgr.host.interface import Host
from volmgr.host.local import local_host

CLONE_NEWNS = 0x00020000
MS_REC_PRIVATE = 0x4000 | 1 << 18


def enter_private_namespace() -> None:
    """Leave the machine's mount namespace for a copy from which nothing propagates back; raises OSError."""
    libc = ctypes.CDLL(None, use_errno=True)
    for failed in (
        libc.unshare(CLONE_NEWNS),
        libc.mount(None, b"/", None, ctypes.c_ulong(MS_REC_PRIVATE), None),
    ):
        if failed:
            number = ctypes.get_errno()
            raise OSError(number, f"cannot have a mount namespace of its own: {os.strerror(number)}")


class RealHosts:
    """Fresh hosts of this machine, each with a root of its own below one directory."""

    def __init__(self, base: Path) -> None:
        self._base = base
        self._numbers = itertools.count()
        self._hosts: list[Host] = []

    def __enter__(self) -> Self:
        enter_private_namespace()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.clear()

    def clear(self) -> None:
        """Take away what is mounted below the roots given so far, which end here, and the files beside them.

        Most are disk images, and a suite makes hundreds: left for a later run to remove, all would be written to disk.
        """
        while self._hosts:
            host = self._hosts.pop()
            images = _images(host.paths.root.parent / "top")
            loops = [loop for image in images for loop in host.block.find_loops(image)]
            for lock in (lock for loop in loops for lock in host.block.find_loops(loop)):
                host.block.detach_loop(lock)
            for entry in host.mounts.below(host.paths.root):
                host.mounts.unmount(entry.target, lazy=True)
            for loop in loops:
                host.block.detach_loop(loop)
            for image in images:
                image.unlink()
            if isinstance(host.files, LocalFiles):
                host.files.settle()

    def fresh(self) -> tuple[Host, Path]:
        """Give a host whose root is empty, and an empty directory outside of it."""
        place = self._base / str(next(self._numbers))
        for directory in (place / "root", place / "top"):
            directory.mkdir(parents=True)
        host = local_host(place / "root")
        self._hosts.append(host)
        return host, place / "top"


def _images(top: Path) -> list[Path]:
    return [path for path in top.iterdir() if path.is_file() and not path.is_symlink()] if top.is_dir() else []
