"""The floor: the system calls that one Pod needs whoever makes them, with the fsyncs of volmgr's records.

For a Pod: its record (temporary file, fsync, rename, fsync of the directory). For each volume: a record before and
after (not durable: a mount does not outlive a reboot, either), its directories, its mount, its mode, its marker, and
a look at what came of it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from volmgr.host import syscalls

_RECORD = b"x" * 700  # about what a record of ours has
_DIRECTORIES = ("plugins/kubernetes.io~empty-dir", "plugins", "volumes/kubernetes.io~empty-dir", "volumes")


class Floor:
    """Makes and unmakes Pods below a root of its own."""

    def __init__(self, root: Path) -> None:
        """Lay out the root."""
        self.root = root
        self._state = root / "volmgr"
        for path in (root / "pods", self._state / "pods", self._state / "mounts"):
            path.mkdir(parents=True, exist_ok=True)

    def make(self, uid: str, sources: Sequence[Mapping[str, object]]) -> None:
        """Do for a Pod what a daemon does from its acceptance until its volumes are there."""
        _write(f"{self._state}/pods/{uid}.json", durable=True)
        pod = f"{self.root}/pods/{uid}"
        os.mkdir(f"{self._state}/mounts/{uid}", 0o700)
        for index, source in enumerate(sources):
            record = f"{self._state}/mounts/{uid}/v{index}.json"
            _write(record)
            if "hostPath" in source:
                os.stat(self.root)
            else:
                self._make_empty_dir(pod, index, in_memory=_in_memory(source))
            _write(record)

    def unmake(self, uid: str, sources: Sequence[Mapping[str, object]]) -> None:
        """Do what a daemon does from the end of a Pod until nothing of it is left."""
        _write(f"{self._state}/pods/{uid}.json", durable=True)
        pod = f"{self.root}/pods/{uid}"
        directories: list[str] = []
        for index, source in enumerate(sources):
            record = f"{self._state}/mounts/{uid}/v{index}.json"
            _write(record)
            if "hostPath" not in source:
                target = f"{pod}/volumes/kubernetes.io~empty-dir/v{index}"
                os.unlink(f"{pod}/plugins/kubernetes.io~empty-dir/v{index}/ready")
                os.rmdir(f"{pod}/plugins/kubernetes.io~empty-dir/v{index}")
                if _in_memory(source):
                    syscalls.umount(target)
                os.rmdir(target)
                directories = [*_DIRECTORIES]
            os.unlink(record)
        for directory in directories:
            os.rmdir(f"{pod}/{directory}")
        if directories:
            os.rmdir(pod)
        os.rmdir(f"{self._state}/mounts/{uid}")
        os.unlink(f"{self._state}/pods/{uid}.json")
        _sync(f"{self._state}/pods")

    def _make_empty_dir(self, pod: str, index: int, *, in_memory: bool) -> None:
        target = f"{pod}/volumes/kubernetes.io~empty-dir/v{index}"
        marker = f"{pod}/plugins/kubernetes.io~empty-dir/v{index}"
        if index == 0:
            os.makedirs(os.path.dirname(target))
            os.makedirs(os.path.dirname(marker))
        os.mkdir(target)
        if in_memory:
            syscalls.mount("tmpfs", target, "tmpfs", 0, "size=1048576")
        os.chmod(target, 0o777)
        os.mkdir(marker)
        os.close(os.open(f"{marker}/ready", os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC))
        syscalls.statx(target)


def _in_memory(source: Mapping[str, object]) -> bool:
    match source:
        case {"emptyDir": {"medium": "Memory"}}:
            return True
        case _:
            return False


def _write(path: str, *, durable: bool = False) -> None:
    descriptor = os.open(f"{path}.tmp", os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    os.write(descriptor, _RECORD)
    if durable:
        os.fsync(descriptor)
    os.close(descriptor)
    os.rename(f"{path}.tmp", path)
    if durable:
        _sync(os.path.dirname(path))


def _sync(directory: str) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    os.fsync(descriptor)
    os.close(descriptor)
