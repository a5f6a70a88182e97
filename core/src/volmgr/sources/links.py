"""Where a path leads through symbolic links, and which names it depends on. Reads links, nothing else."""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass

MOST_LINKS = 40
"""As many as the kernel follows."""


@dataclass(frozen=True, slots=True)
class Trace:
    """`resolved` is None when a part is missing or the links loop.

    `hops` are the (directory, name) pairs whose change may lead the path elsewhere: each link, the last component,
    and the first that is missing.
    """

    resolved: str | None
    hops: tuple[tuple[str, str], ...]


def trace(path: str) -> Trace:
    """Follow an absolute path."""
    hops: list[tuple[str, str]] = []
    current, left, links = "/", path.split("/")[::-1], 0
    while left:
        part = left.pop()
        if part in {"", "."}:
            continue
        if part == "..":
            current = os.path.dirname(current)
            continue
        here = os.path.join(current, part)
        try:
            target = os.readlink(here)
        except OSError as error:
            if error.errno != errno.EINVAL:  # EINVAL: it is there, and no link
                return Trace(None, (*hops, (current, part)))
            current = here
            continue
        hops.append((current, part))
        links += 1
        if links > MOST_LINKS:
            return Trace(None, tuple(hops))
        if target.startswith("/"):
            current = "/"
        left += target.split("/")[::-1]
    return Trace(current, (*hops, os.path.split(current)))
