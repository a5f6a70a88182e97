"""The paths at which a volume's files may lie: relative, inside of it, and not what the volume uses itself. Pure.

Source: `validatePath` of `pkg/volume/util/atomic_writer.go` of kubelet 1.37; the depth is ours.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable
from pathlib import PurePosixPath

from volmgr.errors import SpecError

_MOST_PATH = 4096
_MOST_ELEMENT = 255
_DEEPEST = 100
"""Elements of a path; each level takes a descriptor while a tree is written, and 4096 bytes have room for 2048."""


def clean_paths(paths: Iterable[str]) -> dict[str, str]:
    """Give each path without detours; raises SpecError for one that may not be, or that is in the way of another."""
    clean: dict[str, str] = {}
    taken: set[str] = set()
    for path in paths:
        name = clean[path] = clean_path(path)
        if name in taken:
            raise SpecError(f"two files of one volume have the path {name!r}; give each a path of its own")
        taken.add(name)
    for name in (each for each in clean.values() if "/" in each):
        for above in PurePosixPath(name).parents:
            if str(above) in taken:
                raise SpecError(f"{str(above)!r} is a file, and {name!r} lies below it; rename one of them")
    return clean


def clean_path(path: str) -> str:
    """Give a path without detours; raises SpecError for one that leaves the volume or is none."""
    problem = ""
    if not path:
        problem = "it is empty"
    elif path.startswith("/"):
        problem = "it must be relative"
    elif len(path.encode()) > _MOST_PATH:
        problem = f"it is longer than {_MOST_PATH} bytes"
    elif "\0" in path:
        problem = "it has a NUL in it"
    elif ".." in path.split("/"):
        problem = "it must not have .. in it"
    clean = posixpath.normpath(path) if not problem else path
    if not problem and clean == ".":
        problem = "it names the volume itself"
    elif not problem and any(len(part.encode()) > _MOST_ELEMENT for part in clean.split("/")):
        problem = f"an element of it is longer than {_MOST_ELEMENT} bytes"
    elif not problem and clean.count("/") >= _DEEPEST:
        problem = f"it is deeper than {_DEEPEST} levels"
    elif not problem and clean.startswith(".."):
        problem = "it must not begin with .., which the volume uses itself"
    if problem:
        raise SpecError(f"invalid path {path[:80]!r}: {problem}")
    return clean
