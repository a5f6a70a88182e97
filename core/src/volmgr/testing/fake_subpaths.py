"""The subPaths of FakeHost: what `volmgr.host.interface.Subpaths` promises, done on a Machine in memory."""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass
from pathlib import Path

from volmgr.errors import OperationError
from volmgr.host.subpaths import DIRECTORY_MODE, FILE_MODE, parts_of
from volmgr.testing.disks import Place
from volmgr.testing.fake_files import FakeFiles
from volmgr.testing.fake_services import FakeMounts, attempt, one_at_a_time
from volmgr.testing.machine import Machine

_LINKS = 40


@one_at_a_time
@dataclass
class FakeSubpaths:
    """Parts of volumes in memory."""

    machine: Machine
    files: FakeFiles
    mounts: FakeMounts

    def bind(self, volume: Path, sub_path: str, target: Path, *, create: bool = True) -> bool:
        parts = parts_of(sub_path)
        with attempt(f"open subPath {sub_path} of {volume}"):
            top = self._top(volume)
            source = _Walk(self.machine, volume, top, create=create).find(parts)
        self.files.ensure_directory(target.parent, DIRECTORY_MODE)
        with attempt(f"look at {target}"):
            mount = self.machine.mount_at(target)
        if mount is not None and mount.root is source[1]:
            return False
        self.mounts.unmount(target, lazy=True)
        self._make_target(source[1].kind == "directory", target)
        with attempt(f"bind subPath {sub_path} on {target}"):
            self.machine.bind(self.machine.path_of(source), target)
        return True

    def _top(self, volume: Path) -> Place:
        below = volume.is_relative_to(self.files.paths.root)
        top = self.machine.find(volume, links=not below)
        if top[1].kind != "directory":
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
        return top

    def _make_target(self, directory: bool, target: Path) -> None:  # noqa: FBT001 - private
        there = self.files.info(target)
        if there is not None and (there.kind == "directory") != directory:
            if there.kind == "file" and not there.size:
                self.files.remove_file(target)
            elif there.kind != "directory" or not self.files.remove_directory(target):
                message = f"cannot bind on {target}: a {there.kind} with content is in the way; move it away"
                raise OperationError(message)
        if directory:
            self.files.ensure_directory(target, DIRECTORY_MODE)
        else:
            self.files.ensure_file(target, FILE_MODE)


class _Walk:
    """Finds one subPath: every step is looked at, and none leaves the volume."""

    def __init__(self, machine: Machine, volume: Path, top: Place, *, create: bool) -> None:
        self._machine = machine
        self._names = (_split(str(volume)), _split(str(machine.path_of(top))))
        self._trail = [top]
        self._create = create

    def find(self, parts: list[str]) -> Place:
        """Walk; a part that a link named is never made."""
        pending, links = [(name, self._create) for name in reversed(parts)], _LINKS
        while pending:
            name, create = pending.pop()
            if name == "..":
                self._go_up()
                continue
            place = self._child(name, create=create)
            if place[1].kind != "symlink":
                self._trail.append(place)
                continue
            links -= 1
            if not links:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
            pending.extend((name, False) for name in reversed(self._inside(place[1].target)))
        return self._trail[-1]

    def _go_up(self) -> None:
        if len(self._trail) == 1:
            raise OSError(errno.EXDEV, "it leads out of the volume")
        self._trail.pop()

    def _child(self, name: str, *, create: bool) -> Place:
        path = self._machine.path_of(self._trail[-1]) / name
        try:
            return self._machine.find(path, follow=False)
        except FileNotFoundError:
            if not create:
                raise
        self._machine.make(path, "directory", 0o700)
        self._machine.chmod(path, self._trail[0][1].mode)
        return self._machine.find(path, follow=False)

    def _inside(self, target: str) -> list[str]:
        """Give what a link says, from where the trail ends; an absolute one goes on from the volume's root."""
        given = _split(target)
        if not target.startswith("/"):
            return given
        for names in self._names:
            if given[: len(names)] == names:
                del self._trail[1:]
                return given[len(names) :]
        raise OSError(errno.EXDEV, "it leads out of the volume")


def _split(path: str) -> list[str]:
    return [part for part in path.split("/") if part not in {"", "."}]
