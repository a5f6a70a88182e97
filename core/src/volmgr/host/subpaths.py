"""Binding what lies inside a volume for one container, while its containers may exchange anything there for a link.

Whatever is opened is opened from a descriptor of the volume's root, by openat2(2) with RESOLVE_BENEATH: the kernel
itself refuses each step out of the volume. What was opened is bound by its descriptor, so that nothing can be
exchanged in between.
"""

from __future__ import annotations

import errno
import json
import os
import stat
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from volmgr.errors import OperationError, SpecError
from volmgr.host import subpath_helper, syscalls
from volmgr.host.commands import LocalCommands
from volmgr.host.file_system_types import CORRUPTED, type_name
from volmgr.host.inquiries import Inquiries
from volmgr.host.interface import Files, Mounts
from volmgr.host.mount_options import MS_BIND
from volmgr.host.opening import GONE, Opener, remedy
from volmgr.host.paths import Paths
from volmgr.host.served import is_served

DIRECTORY_MODE = 0o750
FILE_MODE = 0o640
"""Modes of bind targets (behaviours §3.4): a directory for a directory, a file for anything else."""

_LINKS = 40  # as many as the kernel follows
_ATTEMPTS = 64  # how often what is renamed or deleted meanwhile is looked for again
_DIRECTORY = os.O_PATH | os.O_DIRECTORY
_NEW = 0o700  # nobody uses a new directory before it has its mode
_NAME = 200
_TAKEN = frozenset({errno.EEXIST, errno.ENOTDIR})  # what is said of a name, or a draft, that somebody else has


class LocalSubpaths:
    """Binds inside the mount namespace of this process."""

    def __init__(self, paths: Paths, files: Files, mounts: Mounts, inquiries: Inquiries | None = None) -> None:
        """Open volumes below the root without following links; host paths may lie behind some."""
        self._root = paths.root
        self._opener = Opener(paths.root)
        self._files = files
        self._mounts = mounts
        self._inquiries = inquiries or Inquiries(LocalCommands())

    def bind(self, volume: Path, sub_path: str, target: Path, *, create: bool = True) -> bool:
        """Bind a part of a volume on `target`; see the protocol. Where a server answers, a helper does."""
        parts_of(sub_path)
        if not is_served(volume, follow=True):
            return self.bind_here(volume, sub_path, target, create=create)
        order = subpath_helper.Order(
            root=str(self._root), volume=str(volume), sub_path=sub_path, target=str(target), create=create
        )
        accepted = (0, subpath_helper.REFUSED)
        said = self._inquiries.ask(
            volume,
            subpath_helper.command(),
            accept=accepted,
            stdin=json.dumps(order).encode(),
            changes=True,
            announced=True,
        )
        if said.exit_code:
            raise subpath_helper.failure(said.stdout)
        return bool(subpath_helper.answer_of(said.stdout)["bound"])

    def bind_here(self, volume: Path, sub_path: str, target: Path, *, create: bool) -> bool:
        """Bind by this process, which waits as long as the volume's server does not answer."""
        parts = parts_of(sub_path)
        for _ in range(_ATTEMPTS):
            try:
                with self._opened(volume, sub_path, parts, create=create) as inner:
                    self._files.ensure_directory(target.parent, DIRECTORY_MODE)
                    if self._is_bound(inner, target):
                        return False
                    self._make_target(inner, target)
                    if self._bind(inner, target, sub_path):
                        return True
            except OSError as error:  # a dead server, whatever it is asked
                raise syscalls.failed(f"bind subPath {sub_path} of {volume}", error) from error
        raise OperationError(f"cannot bind subPath {sub_path} of {volume}: it is deleted again and again meanwhile")

    @contextmanager
    def _opened(self, volume: Path, sub_path: str, parts: list[str], *, create: bool) -> Generator[int]:
        """Hold open what a subPath names, whatever kind it is."""
        attempt = f"open the volume {volume} for subPath {sub_path}"
        try:
            top = self._opener.open(volume, _DIRECTORY)
        except OSError as error:
            hint = "only a directory has parts" if error.errno == errno.ENOTDIR else remedy(error)
            raise syscalls.failed(attempt, error, hint) from error
        try:
            inner = _Walk(volume, top, sub_path, create=create).open(parts)
        finally:
            os.close(top)
        try:
            yield inner
        finally:
            os.close(inner)

    def _is_bound(self, inner: int, target: Path) -> bool:
        """Say whether the very file is bound already; another, or a dead one, is taken away."""
        try:
            there = syscalls.statx(str(target))
        except OSError as error:
            if error.errno in GONE:
                return False
            if error.errno not in CORRUPTED:
                raise syscalls.failed(f"look at {target}", error) from error
        else:
            if not there.mount_root:
                return False
            if (there.device, there.inode) == _identity(inner):
                return True
        self._mounts.unmount(target, lazy=True)
        return False

    def _make_target(self, inner: int, target: Path) -> None:
        directory = stat.S_ISDIR(os.fstat(inner).st_mode)
        there = self._files.info(target)
        if there is not None and (there.kind == "directory") != directory:
            self._remove_target(target, there.kind, there.size)
        if directory:
            self._files.ensure_directory(target, DIRECTORY_MODE)
        else:
            self._files.ensure_file(target, FILE_MODE)

    def _remove_target(self, target: Path, kind: str, size: int) -> None:
        if kind == "file" and not size:
            self._files.remove_file(target)
        elif kind != "directory" or not self._files.remove_directory(target):
            raise OperationError(f"cannot bind on {target}: a {kind} with content is in the way; move it away")

    def _bind(self, inner: int, target: Path, sub_path: str) -> bool:
        """Bind by descriptor, and look at what was bound; False when it was deleted meanwhile."""
        attempt = f"bind subPath {sub_path} on {target}"
        try:
            place = self._opener.open(target, os.O_PATH | os.O_NOFOLLOW)
        except OSError as error:
            raise syscalls.failed(attempt, error, remedy(error)) from error
        try:
            syscalls.mount(f"/proc/self/fd/{inner}", f"/proc/self/fd/{place}", "", MS_BIND)
        except OSError as error:
            if error.errno == errno.ENOENT:
                return False
            raise syscalls.failed(attempt, error) from error
        finally:
            os.close(place)
        with suppress(OSError):
            bound = syscalls.statx(str(target))
            if bound.mount_root and (bound.device, bound.inode) == _identity(inner):
                return True
        self._mounts.unmount(target, lazy=True)
        raise OperationError(f"cannot {attempt}: something else is there now: who else mounts there?")


class _Walk:
    """Opens one subPath from the descriptor of its volume's root."""

    def __init__(self, volume: Path, top: int, sub_path: str, *, create: bool) -> None:
        self._volume = volume
        self._top = top
        self._sub_path = sub_path
        self._create = create
        self._link = ""
        self._followed = 0
        """How many parts were read from links: what they name is never made."""

    def open(self, parts: list[str]) -> int:
        """Open what the parts name. The kernel follows links; absolute ones, which it refuses, are read here."""
        for _ in range(_LINKS):
            try:
                return self._open(parts)
            except OSError as error:
                if error.errno != errno.EXDEV:
                    raise self._failed(error) from error
            parts = self._past_first_link(parts)
        raise self._failed(OSError(errno.ELOOP, os.strerror(errno.ELOOP)))

    def _failed(self, error: OSError) -> OperationError:
        hints = {
            errno.ENOTCONN: "its file system is dead",
            errno.ESTALE: "its file system is dead",
            errno.ENOENT: "it does not exist, and a volume that is only read is given no new directories:"
            " correct subPath, or make it where the volume comes from",
            errno.EROFS: "it does not exist, and the volume is read-only: make it where the volume comes from",
            errno.ELOOP: "links lead round and round, or to where none may lead",
            errno.EEXIST: f"its link {self._link} leads to what does not exist",
            errno.EAGAIN: "it is renamed all the time",
            errno.ENOTDIR: "a part of it is no directory",
        }
        hint = hints.get(error.errno or 0, remedy(error))
        return syscalls.failed(f"open subPath {self._sub_path} of {self._volume}", error, hint)

    def _refused(self) -> OperationError:
        by = f"its link {self._link}" if self._link else "it"
        return OperationError(f"refused subPath {self._sub_path} of {self._volume}: {by} leads out of the volume")

    def _open(self, parts: list[str]) -> int:
        for attempt in range(_ATTEMPTS):
            try:
                return syscalls.open_inside("/".join(parts) or ".", os.O_PATH, descriptor=self._top)
            except FileNotFoundError:
                if not self._create or attempt + 1 == _ATTEMPTS:
                    raise
            with suppress(FileNotFoundError):  # somebody else makes or deletes it at the same time
                self._make(parts)
        raise AssertionError  # the last attempt has raised

    def _make(self, parts: list[str]) -> None:
        """Make the missing directories, each in the one above, which is held open; raises OSError."""
        mode = stat.S_IMODE(os.fstat(self._top).st_mode)
        for index, name in enumerate(parts):
            if self._is_there(parts[: index + 1]):
                continue
            if index < self._followed:
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
            with self._inside(parts[:index]) as above:
                try:
                    _make_directory(name, above, mode)
                except OSError as error:
                    if error.errno not in _TAKEN:
                        raise
                    self._refuse_dangling(name, above)

    def _is_there(self, parts: list[str]) -> bool:
        try:
            os.close(syscalls.open_inside("/".join(parts), os.O_PATH, descriptor=self._top))
        except FileNotFoundError:
            return False
        return True

    def _refuse_dangling(self, name: str, above: int) -> None:
        """Refuse a link to nothing: what it names is not made through it."""
        target = _link_at(name, above)
        if target:
            self._link = f"{name} -> {target}"
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))

    @contextmanager
    def _inside(self, parts: list[str]) -> Generator[int]:
        descriptor = syscalls.open_inside("/".join(parts) or ".", _DIRECTORY, descriptor=self._top)
        try:
            yield descriptor
        finally:
            os.close(descriptor)

    def _past_first_link(self, parts: list[str]) -> list[str]:
        """Put what the first link says in its place; raises the refusal of one that names a place outside."""
        try:
            for index, name in enumerate(parts):
                with self._inside(parts[:index]) as above:
                    target = _link_at(name, above)
                if target:
                    self._link = f"{name} -> {target}"
                    inner = self._below_root(target) if target.startswith("/") else [*parts[:index], *_split(target)]
                    self._followed = len(inner)
                    return [*inner, *parts[index + 1 :]]
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise self._failed(error) from error
        raise self._refused()

    def _below_root(self, target: str) -> list[str]:
        """Give what an absolute link names as a path from the volume's root, by whichever of its names."""
        given = _split(target)
        for root in (str(self._volume), os.readlink(f"/proc/self/fd/{self._top}")):
            names = _split(root)
            if given[: len(names)] == names:
                return given[len(names) :]
        raise self._refused()


def _make_directory(name: str, above: int, mode: int) -> None:
    """Make a directory that has its mode, whatever the umask is, from the moment it is there; raises OSError.

    One that a crash left unfinished is replaced: nobody but us makes names such as its own.
    """
    draft = os.fsdecode(os.fsencode(f".volmgr-new-{name}")[:_NAME])
    with suppress(OSError):
        os.rmdir(draft, dir_fd=above)
    os.mkdir(draft, _NEW, dir_fd=above)
    try:
        _give_mode(draft, above, mode)
        syscalls.rename_new(draft, name, above)
        _give_mode(name, above, mode)  # another's draft, which came in the place of ours before it had its mode
    except OSError as error:
        with suppress(OSError):
            os.rmdir(draft, dir_fd=above)
        if error.errno != errno.EINVAL:
            raise
    else:
        return
    os.mkdir(name, _NEW, dir_fd=above)  # NFS renames over what is there, so that no draft can be used
    _give_mode(name, above, mode)


def _give_mode(name: str, above: int, mode: int) -> None:
    made = syscalls.open_beneath(name, os.O_RDONLY | os.O_DIRECTORY, descriptor=above)
    try:
        if _is_new(made):
            os.fchmod(made, mode)
    finally:
        os.close(made)


def _is_new(made: int) -> bool:
    """Say whether an open directory is the one that was just made, rather than somebody else's in its place."""
    found = os.fstat(made)
    if stat.S_IMODE(found.st_mode) & 0o777 != _NEW:
        return False
    if found.st_uid == os.geteuid():
        return True
    # A server that squashes root says that a new directory is somebody else's.
    return type_name(syscalls.statfs(f"/proc/self/fd/{made}").type) == "nfs" and not os.listdir(made)


def parts_of(sub_path: str) -> list[str]:
    """Give the parts of a subPath; raises SpecError for one that no volume may be asked for. `.` is all of it."""
    problem = ""
    if not sub_path:
        problem = "is empty"
    elif sub_path.startswith("/"):
        problem = "is absolute"
    elif ".." in sub_path.split("/"):
        problem = "has '..' in it"
    elif "\0" in sub_path:
        problem = "has a NUL in it"
    if problem:
        raise SpecError(f"subPath {sub_path!r} {problem}; write a path inside the volume")
    return _split(sub_path)


def _split(path: str) -> list[str]:
    return [part for part in path.split("/") if part not in {"", "."}]


def _identity(descriptor: int) -> tuple[int, int]:
    found = os.fstat(descriptor)
    return found.st_dev, found.st_ino


def _link_at(name: str, above: int) -> str:
    """Read a link; empty for what is none."""
    try:
        return os.readlink(name, dir_fd=above)
    except OSError as error:
        if error.errno in {errno.EINVAL, *GONE}:
            return ""
        raise
