"""What is known of the mount that a path lies on, above all whether a server answers there, without asking that one.

Who asks may wait for ever. A path is walked by O_PATH, which crosses into a mount without a word to its server, and the
walk ends there.
"""

from __future__ import annotations

import errno
import os
import stat
from collections import deque
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from volmgr.host import mount_table, stat_mount, syscalls
from volmgr.host.file_system_types import LOCAL_TYPES
from volmgr.host.interface import MountEntry

_LINKS = 40  # as many as the kernel follows
_WALKED = frozenset({errno.EAGAIN, errno.EINVAL})  # not in the kernel's memory; a kernel that does not say


def is_served(path: str | Path, *, follow: bool = False) -> bool:
    """Say whether a server answers for a path, or for a directory on the way to it; a missing one has none.

    With `follow` of what a last symbolic link names.
    """
    try:
        descriptor = syscalls.open_cached(str(path), os.O_PATH | (0 if follow else os.O_NOFOLLOW))
    except OSError as error:
        return error.errno in _WALKED and _is_met(str(path), follow=follow)
    try:
        return is_served_at(descriptor)
    finally:
        os.close(descriptor)


def is_served_at(descriptor: int) -> bool:
    """Say whether a server answers for what is open as O_PATH."""
    return type_of(syscalls.statx(descriptor=descriptor)) not in LOCAL_TYPES


@contextmanager
def aside(target: Path) -> Generator[Path]:
    """Give a path, by a descriptor of this process, to a copy of the mount on `target`; or that, where there is none.

    Who waits there for ever keeps the copy, which is mounted nowhere, and not the mount. It is a symbolic link.
    """
    copy = _copy_of(str(target))
    if copy < 0:
        yield target
        return
    try:
        yield Path(f"/proc/{os.getpid()}/fd/{copy}")
    finally:
        os.close(copy)


def _copy_of(target: str) -> int:
    """Copy the mount on a path, as a descriptor; -1 where there is none, or a server would be asked on the way."""
    try:
        descriptor = syscalls.open_cached(target, os.O_PATH | os.O_NOFOLLOW)
    except OSError:  # missing, on a server, or a kernel that cannot tell
        return -1
    try:
        return syscalls.clone_mount(descriptor) if syscalls.statx(descriptor=descriptor).mount_root else -1
    except OSError:  # dead, unbindable, or without CAP_SYS_ADMIN
        return -1
    finally:
        os.close(descriptor)


def type_of(found: syscalls.Statx) -> str:
    """Name the type of the mount that was looked at; empty when it has gone meanwhile."""
    kind = stat_mount.type_of(found)
    if kind is not None:
        return kind
    entry = _in_table(found)
    return "" if entry is None else entry.fstype


def options_of(found: syscalls.Statx) -> tuple[str, ...]:
    """Give the options of the mount that was looked at, `ro` too when its file system is; none when it has gone."""
    options = stat_mount.options_of(found)
    if options is not None:
        return options
    entry = _in_table(found)
    return () if entry is None else (*entry.options, *(("ro",) if "ro" in entry.super_options else ()))


def _in_table(found: syscalls.Statx) -> MountEntry | None:
    """Find a mount by its id, as one has to before Linux 6.8: until then statx and the table have the same ids."""
    entries = mount_table.parse(Path("/proc/self/mountinfo").read_bytes())
    return next((entry for entry in entries if entry.mount_id == found.mount), None)


def _is_met(path: str, *, follow: bool) -> bool:
    """Go to a path step by step, each taken only where no server is asked for it."""
    names = deque(path.split("/"))
    here = os.open("/" if path.startswith("/") else ".", os.O_PATH | os.O_CLOEXEC)
    links = 0
    try:
        while names:
            if is_served_at(here):
                return True
            name = names.popleft()
            if name in {"", "."}:
                continue
            there = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=here)
            target = _link_of(there) if names or follow else ""
            if target and links < _LINKS:
                os.close(there)
                there = os.open("/" if target.startswith("/") else ".", os.O_PATH | os.O_CLOEXEC, dir_fd=here)
                names.extendleft(reversed(target.split("/")))
                links += 1
            os.close(here)
            here = there
        return is_served_at(here)
    except OSError:  # missing, or no directory: this machine has said so, and says it again
        return False
    finally:
        os.close(here)


def _link_of(descriptor: int) -> str:
    """Read an open link; empty for what is none."""
    if not stat.S_ISLNK(syscalls.statx(descriptor=descriptor).mode):
        return ""
    return os.readlink("", dir_fd=descriptor)
