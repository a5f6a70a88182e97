"""Files, directories and links of the node."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from volmgr.model.payload import Payload


@dataclass(frozen=True, slots=True)
class FileInfo:
    """What lstat or stat says; `kind` is one of directory, file, symlink, socket, fifo, char, block."""

    kind: str
    mode: int
    uid: int
    gid: int
    size: int
    device: int
    inode: int
    rdev: int = 0


@dataclass(frozen=True, slots=True)
class Identity:
    """Proof that a path is what it was: its unique mount id if it is a mount, else its device and inode."""

    mount: int | None
    device: int
    inode: int


class Files(Protocol):
    """Files and directories below the root directory (and host paths that a manifest names)."""

    def info(self, path: Path, *, follow: bool = False) -> FileInfo | None:
        """Stat `path`; None when it (or, following, its target) is missing.

        A server that answers for it has `look_deadline` of the configuration: past it UncertainError is raised.
        """
        ...

    def identity(self, path: Path) -> Identity | None:
        """Give the identity of `path`, not following a last symbolic link; None when missing."""
        ...

    def names(self, path: Path) -> tuple[str, ...]:
        """List a directory, sorted; a missing one is empty."""
        ...

    def ensure_directory(self, path: Path, mode: int, *, exact: bool = False, parents_mode: int = 0o750) -> bool:
        """Make a directory and its parents; `exact` also sets the mode of one that exists. True when made."""
        ...

    def ensure_file(self, path: Path, mode: int = 0o640) -> bool:
        """Make an empty regular file in an existing directory, never through a symbolic link; True when made."""
        ...

    def read(self, path: Path, limit: int = 1 << 20) -> bytes | None:
        """Read a small file; None when missing. Raises OperationError when longer than `limit` bytes."""
        ...

    def write(self, path: Path, data: bytes, mode: int = 0o600, *, durable: bool = False) -> None:
        """Replace a file in an existing directory at once (temporary name, rename); `durable` syncs both."""
        ...

    def ensure_symlink(self, path: Path, target: str) -> None:
        """Make or replace a symbolic link at once; refuses to replace anything else."""
        ...

    def read_link(self, path: Path) -> str | None:
        """Read a symbolic link; None when it is missing or none."""
        ...

    def links(self, path: Path) -> Mapping[str, str | None]:
        """Give the names in a directory, each with what it links to (None: it is no link); missing is empty."""
        ...

    def make_tree(self, path: Path, files: Payload) -> None:
        """Make a new directory (0755, as all in it) of new files, each with exactly its mode and owner.

        What is there is refused. A failure may leave a part of it.
        """
        ...

    def has_tree(self, path: Path, files: Payload) -> bool:
        """Say whether a directory holds exactly these files, with their content, modes and owners, and no more.

        An owner or group of -1 is that of the directory.
        """
        ...

    def rename(self, source: Path, target: Path) -> None:
        """Rename within one file system."""
        ...

    def remove_file(self, path: Path, *, durable: bool = False) -> None:
        """Remove a file or symbolic link; missing is success. `durable` syncs the directory."""
        ...

    def remove_directory(self, path: Path) -> bool:
        """Remove an empty directory; missing is success, False when it is not empty, a mount, or none."""
        ...

    def remove_tree(self, path: Path, *, cancelled: Callable[[], bool] = ...) -> None:
        """Remove a tree that we made: never across a mount, never through a symbolic link.

        Raises BusyError when something is mounted in it.
        """
        ...

    def discard(self, path: Path) -> None:
        """Take a tree away at once: renamed into the trash and deleted in the background, also after a crash.

        A tree on another file system than the trash is removed in place. Raises BusyError as remove_tree does.
        """
        ...

    def resume_discards(self) -> None:
        """Delete in the background what a crash left in the trash; for the daemon that holds the root's lock."""
        ...

    def chmod(self, path: Path, mode: int) -> None:
        """Set the mode, never through a symbolic link."""
        ...

    def chown(self, path: Path, uid: int, gid: int) -> None:
        """Set the owner (-1: as it is), never through a symbolic link."""
        ...
