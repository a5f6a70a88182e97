"""The directory of drivers: what lies in it, and which of it is a driver. Looks, and changes nothing."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass

from volmgr.plugin import is_qualified

Stamp = tuple[int, int, int, int, int, int]
"""What changes whenever an executable may have: device, inode, mode, size, times of content and of inode."""


@dataclass(frozen=True, slots=True)
class Seen:
    """One name in the directory; without a stamp it is no driver, and `problem` says why, unless it is not there."""

    stamp: Stamp | None = None
    problem: str = ""


def driver_name(directory: str) -> str:
    """Give the name of the driver in `vendor~driver`: `vendor/driver`."""
    return directory.replace("~", "/")


def executable_name(directory: str) -> str:
    """Give the name of the executable in `vendor~driver`: `driver`."""
    return directory.rpartition("~")[2]


def is_hidden(name: str) -> bool:
    """Say whether a name is that of a dot-file, which is somebody's half of an installation."""
    return name.startswith(".")


def names(directory: str) -> list[str]:
    """List a directory, sorted and without dot-files; a missing one, or none, is empty."""
    try:
        return sorted(name for name in os.listdir(directory) if not is_hidden(name))
    except OSError:
        return []


def directories(top: str) -> Iterator[str]:
    """Give a directory and all below it, without dot-files and without following links below `top`."""
    pending = [top]
    while pending:
        directory = pending.pop()
        yield directory
        try:
            with os.scandir(directory) as entries:
                pending += [each.path for each in entries if not is_hidden(each.name) and _is_directory(each)]
        except OSError:
            continue  # it went away, and what it lies in says so


def _is_directory(entry: os.DirEntry[str]) -> bool:
    return entry.is_dir(follow_symlinks=False)


def look(top: str, name: str) -> Seen:
    """Look at one name in the directory `top`."""
    place = os.path.join(top, name)
    if not os.path.isdir(place):
        return _stray(top, name) if os.path.lexists(place) else Seen()
    executable = executable_name(name)
    if not is_qualified(driver_name(name)) or driver_name(name).count("/") > 1:
        return Seen(problem=f"{place} is no name of a driver; name it vendor~driver, with one ~")
    path = os.path.join(place, executable)
    try:
        found = os.stat(path)
    except OSError:
        return Seen(problem=_no_executable(place, executable))
    if not stat.S_ISREG(found.st_mode):
        return Seen(problem=f"{path} is no file; it must be the executable of the driver")
    if not os.access(path, os.X_OK):
        return Seen(problem=f"{path} is not executable; make it so: chmod +x {path}")
    return Seen((found.st_dev, found.st_ino, found.st_mode, found.st_size, found.st_mtime_ns, found.st_ctime_ns))


def _stray(top: str, name: str) -> Seen:
    wanted = os.path.join(top, name, executable_name(name))
    return Seen(problem=f"{os.path.join(top, name)} is no directory; a driver is installed as {wanted}")


def _no_executable(place: str, executable: str) -> str:
    there = names(place)
    what = f"there is {', '.join(there[:5])}" if there else "it is empty"
    return f"{place} has no executable {executable} ({what}); install it as {os.path.join(place, executable)}"
