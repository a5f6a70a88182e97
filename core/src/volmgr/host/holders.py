"""Who keeps a mount busy: processes by what /proc says that they hold, here and in other mount namespaces.

Links are read, never followed: a process that holds a dead mount must not hang its finder.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from volmgr.host import mount_table
from volmgr.host.interface import MountEntry

_MOST = 20  # more names help nobody
_SINGLE = ("cwd", "root", "exe")
_MANY = ("fd", "map_files")


def holders(target: Path, entry: MountEntry | None) -> tuple[str, ...]:
    """Name what holds something on the mount at `target`: `PID (comm)`, or a loop device; at most twenty."""
    here = _namespace("self")
    paths: dict[str, tuple[str, ...]] = {here: (str(target),)}
    found = list(_loops(str(target)))
    for pid in sorted((name for name in os.listdir("/proc") if name.isdigit()), key=int):
        if len(found) >= _MOST:
            break
        with suppress(OSError):  # a process may end while it is looked at
            namespace = _namespace(pid)
            if namespace not in paths:
                paths[namespace] = _mounted_as(pid, entry)
            if paths[namespace] and _holds(pid, paths[namespace]):
                found.append(f"{pid} ({_comm(pid)})")
    return tuple(found)


def _namespace(pid: str) -> str:
    return os.readlink(f"/proc/{pid}/ns/mnt")


def _mounted_as(pid: str, entry: MountEntry | None) -> tuple[str, ...]:
    """Find where another mount namespace has the same mount, since a propagated copy keeps ours busy, too."""
    if entry is None:
        return ()
    data = Path(f"/proc/{pid}/mountinfo").read_bytes()
    return tuple(
        str(other.target)
        for other in mount_table.parse(data)
        if other.device == entry.device and other.root == entry.root
    )


def _holds(pid: str, paths: tuple[str, ...]) -> bool:
    return any(link == path or link.startswith(f"{path.rstrip('/')}/") for link in _links(pid) for path in paths)


def _links(pid: str) -> Iterator[str]:
    for name in _SINGLE:
        with suppress(OSError):
            yield os.readlink(f"/proc/{pid}/{name}")
    for name in _MANY:
        directory = f"/proc/{pid}/{name}"
        with suppress(OSError):
            for item in os.listdir(directory):
                with suppress(OSError):
                    yield os.readlink(f"{directory}/{item}")


def _comm(pid: str) -> str:
    return Path(f"/proc/{pid}/comm").read_text(encoding="utf-8", errors="replace").strip()


def _loops(target: str) -> Iterator[str]:
    for name in sorted(os.listdir("/sys/block")):
        if name.startswith("loop"):
            with suppress(OSError):
                backing = Path(f"/sys/block/{name}/loop/backing_file").read_text(encoding="utf-8").strip()
                if backing.startswith(f"{target.rstrip('/')}/"):
                    yield f"/dev/{name} (backed by {backing})"
