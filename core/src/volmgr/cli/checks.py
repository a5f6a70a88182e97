"""What can be seen of a node without asking the daemon: directories, mount propagation, limits, tools."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

from volmgr.kubelet import kubelet_of
from volmgr.report.doctor import Finding

WATCHES = 8192
"""inotify watches that a node should allow: one for each directory that is watched, with room for other programs."""
INSTANCES = 128
"""inotify instances per user; the kernel's default."""
TOOLS = {"mount": "util-linux", "umount": "util-linux"}
"""Programs that network and FUSE file systems are mounted with, and the package that brings each."""


def node(root: Path, socket: Path, pid: int) -> list[Finding]:
    """Look at everything; `pid` is the daemon's, or 0."""
    return [*directory(root, pid), *kubelet(root), *inotify(), *tools(), *socket_file(socket)]


def directory(root: Path, pid: int) -> Iterator[Finding]:
    """Look at the root directory and at the mount that it lies on, as the daemon sees it."""
    check = "root directory"
    if not root.is_dir():
        yield Finding(check, ok=False, detail=f"{root} is no directory", remedy=f"mkdir -p {root}, or start volmgrd")
        return
    writable = os.access(root, os.W_OK)
    remedy = "" if writable else "mount its file system read-write, or run as root"
    yield Finding(check, ok=writable, detail=f"{root} is {'' if writable else 'not '}writable", remedy=remedy)
    yield from _propagation(root, pid)
    yield from _namespace(pid)


def _propagation(root: Path, pid: int) -> Iterator[Finding]:
    from volmgr.host.mount_table import containing, parse

    try:
        table = parse(Path(f"/proc/{pid or 'self'}/mountinfo").read_bytes())
    except OSError as error:
        detail = f"the mount table of PID {pid} cannot be read: {error.strerror}"
        yield Finding("mount propagation", ok=False, detail=detail, remedy="run as root")
        return
    entry = containing(table, root.resolve())
    shared = entry is not None and any(word.startswith("shared:") for word in entry.propagation)
    where = entry.target if entry else root
    matters = not shared and any(is_contained(process, pid or os.getpid()) for process in _processes())
    detail = "private: containers do not see what is mounted later" + ("" if matters else ", and none runs here")
    yield Finding(
        "mount propagation",
        ok=shared or not matters,
        detail=f"{where} is {'shared' if shared else detail}",
        remedy="" if shared else f"mount --make-shared {where}",
    )


def is_contained(process: int, pid: int) -> bool:
    """Say whether a process has another root directory than the daemon `pid`: containers have, as far as one may look.

    One with a mount namespace alone, as services of systemd have, sees the root directory where it is. A thread of the
    kernel (kdevtmpfs) may have another root directory, and no executable.
    """
    try:
        os.readlink(f"/proc/{process}/exe")
        mine, other = (os.stat(f"/proc/{number}/root") for number in (pid, process))
    except OSError:
        return False  # it has ended, or is not ours to look at
    return (mine.st_dev, mine.st_ino) != (other.st_dev, other.st_ino)


def _processes() -> Iterator[int]:
    return (int(name) for name in os.listdir("/proc") if name.isdecimal())


def _namespace(pid: int) -> Iterator[Finding]:
    if not pid:
        return
    try:
        same = os.readlink(f"/proc/{pid}/ns/mnt") == os.readlink("/proc/1/ns/mnt")
    except OSError:
        return  # not even root may look at /proc/1 in some containers
    yield Finding(
        "mount namespace",
        ok=same,
        detail=f"the daemon runs in {'the host' if same else 'a private'} mount namespace",
        remedy="" if same else "start it without PrivateMounts, PrivateTmp and the like: contrib/volmgrd.service",
    )


def kubelet(root: Path) -> Iterator[Finding]:
    """Look for a kubelet of this machine that has the same root directory."""
    found = kubelet_of(root)
    if found is None:
        yield Finding("kubelet", ok=True, detail=f"none has {root}")
        return
    detail = f"PID {found.pid} ({found.command}) has {root}, too: each unmounts what is the other's"
    yield Finding("kubelet", ok=False, detail=detail, remedy=f"{found.stop}, or name another with --root-dir")


def inotify() -> Iterator[Finding]:
    """Look at the limits of inotify."""
    for name, least in (("max_user_watches", WATCHES), ("max_user_instances", INSTANCES)):
        path = Path("/proc/sys/fs/inotify") / name
        try:
            value = int(path.read_text(encoding="ascii"))
        except (OSError, ValueError):
            yield Finding(f"inotify {name}", ok=False, detail=f"{path} cannot be read", remedy="mount /proc")
            continue
        good = value >= least
        remedy = "" if good else f"sysctl fs.inotify.{name}={least}"
        yield Finding(f"inotify {name}", ok=good, detail=f"{value} (at least {least} are advised)", remedy=remedy)


def tools() -> Iterator[Finding]:
    """Look for the programs that are executed."""
    for name, package in TOOLS.items():
        path = shutil.which(name)
        remedy = "" if path else f"install {package}"
        yield Finding(f"tool {name}", ok=path is not None, detail=path or "is not on PATH", remedy=remedy)


def socket_file(path: Path) -> Iterator[Finding]:
    """Look at the mode of the socket."""
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
    except OSError:
        return  # that no daemon answers is said already
    private = not mode & 0o077
    remedy = "" if private else f"chmod 600 {path}"
    yield Finding("socket", ok=private, detail=f"{path} has mode {mode:04o}", remedy=remedy)
