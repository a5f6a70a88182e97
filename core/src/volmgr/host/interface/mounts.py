"""Mounting, the mount table, and what a file system says of itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol


@dataclass(frozen=True, slots=True)
class MountEntry:
    """One line of the mount table, decoded.

    `mount_id` is the reused 31-bit id of mountinfo; `root` is the path within the file system that is mounted
    here; `deleted` says that this path was deleted (`//deleted` in mountinfo).
    """

    mount_id: int
    parent_id: int
    device: str
    root: str
    target: Path
    options: tuple[str, ...]
    fstype: str
    source: str
    super_options: tuple[str, ...] = ()
    propagation: tuple[str, ...] = ()
    deleted: bool = False

    @property
    def read_only(self) -> bool:
        """Say whether the mount or its file system is read-only."""
        return "ro" in self.options or "ro" in self.super_options


class SeenMount(NamedTuple):
    """What is to be looked at again and again of a mount; `fuse` is the device of a FUSE file system, else empty."""

    read_only: bool
    fuse: str = ""


@dataclass(frozen=True, slots=True)
class FileSystem:
    """What statfs says: type name as in mount(8) (`tmpfs`, `ext`, or `0x…` when unknown) and sizes in bytes."""

    type: str
    size: int
    available: int
    inodes: int = 0
    inodes_free: int = 0


class Mounts(Protocol):
    """Mounting and unmounting; local types by system call, network and FUSE types by a killable helper."""

    def table(self) -> tuple[MountEntry, ...]:
        """Read the whole mount table, oldest mount first."""
        ...

    def below(self, path: Path) -> tuple[MountEntry, ...]:
        """Give the mounts at or below `path`, deepest and newest first."""
        ...

    def seen_below(self, path: Path) -> Mapping[str, SeenMount]:
        """Give the targets of all mounts at or below `path`, and a little of each; quick on long tables."""
        ...

    def is_mount_point(self, path: Path) -> bool:
        """Say whether `path` itself is the root of a mount (bind mounts too); a missing path is none."""
        ...

    def lives(self, target: Path, *, deadline: float | None = None) -> bool:
        """Say whether something is mounted on a directory that answers; what is dead for good is taken away.

        `deadline` is in seconds from now, for types that wait for a server; past it UncertainError is raised. Raises
        OperationError for a directory that is missing.
        """
        ...

    def aside(self, target: Path) -> AbstractContextManager[Path]:
        """Give, while within, another path to what is mounted on `target`, for a helper that may wait for its server.

        One that waits there keeps no mount busy. Where nothing is mounted, or it cannot be had, it is `target`.
        """
        ...

    def entry(self, path: Path) -> MountEntry | None:
        """Give the topmost mount at exactly `path`."""
        ...

    def ensure_mounted(
        self,
        target: Path,
        fstype: str,
        *,
        source: str = "",
        options: Sequence[str] = (),
        sensitive: Sequence[str] = (),
        deadline: float | None = None,
    ) -> None:
        """Mount a file system on `target` unless something is mounted there; `options` as in mount(8).

        `sensitive` are further options, which no message, log or command line shows. `deadline` is in seconds from
        now. Raises OperationError; UncertainError when the deadline passed.
        """
        ...

    def ensure_bound(self, source: Path, target: Path, *, options: Sequence[str] = ()) -> None:
        """Bind `source` on `target` unless it is already there; `ro` and the like are applied to the bind only."""
        ...

    def remount(self, target: Path, options: Sequence[str]) -> None:
        """Change the options of a mounted file system."""
        ...

    def unmount(self, target: Path, *, lazy: bool = False, force: bool = False, deadline: float | None = None) -> None:
        """Unmount everything stacked on `target`; not mounted is success. Raises BusyError naming the holders.

        `deadline` is in seconds from now, for what may wait for a server, or for a disk of a network; past it
        UncertainError is raised.
        """
        ...

    def unmount_below(self, path: Path, *, deadline: float | None = None) -> None:
        """Unmount all mounts at and below `path`, deepest first; `deadline` as for `unmount`, each."""
        ...

    def file_system(self, path: Path) -> FileSystem:
        """Ask statfs about `path`; raises OperationError when it is missing.

        A server that answers for it has `look_deadline` of the configuration: past it UncertainError is raised.
        """
        ...
