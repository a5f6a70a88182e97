"""Reading /proc/self/mountinfo. Pure: bytes in, entries out.

Source: proc_pid_mountinfo(5) and `fs/proc_namespace.c`: space, tab, newline and backslash (and `#` in sources) are
written as three octal digits. A row that was torn by a concurrent change is left out, never guessed at.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from volmgr.host.interface import MountEntry

_ESCAPE = re.compile(rb"\\([0-3][0-7]{2})")
DELETED = b"//deleted"
_HEAD = 6  # id, parent, major:minor, root, target, options
_TAIL = 2  # type and source; the super options may be absent


def parse(data: bytes) -> tuple[MountEntry, ...]:
    """Decode a whole table, in its order: oldest mount first."""
    return tuple(entry for line in data.split(b"\n") if (entry := parse_line(line)) is not None)


def at(data: bytes, path: Path) -> MountEntry | None:
    """Decode only the newest mount at exactly `path`."""
    wanted = os.fsencode(path)
    found = None
    for line, target in _targets(data):
        if target == wanted:
            found = parse_line(line) or found
    return found


def below(data: bytes, path: Path) -> tuple[MountEntry, ...]:
    """Decode only the mounts at or below `path`: deepest first, and the newest first of those on one path."""
    top = os.fsencode(path)
    prefix = top.rstrip(b"/") + b"/"
    rows = [
        (-target.rstrip(b"/").count(b"/"), -number, line)
        for number, (line, target) in enumerate(_targets(data))
        if target == top or target.startswith(prefix)
    ]
    return tuple(entry for _, _, line in sorted(rows) if (entry := parse_line(line)) is not None)


def containing(table: Sequence[MountEntry], path: Path) -> MountEntry | None:
    """Find the mount that `path` lies on: the newest of those with the longest path."""
    found = None
    for entry in table:
        if path.is_relative_to(entry.target) and (found is None or len(entry.target.parts) >= len(found.target.parts)):
            found = entry
    return found


def parse_line(line: bytes) -> MountEntry | None:
    """Decode one row; None when it is torn."""
    head, separator, tail = line.partition(b" - ")
    fields, rest = head.split(b" "), tail.split(b" ")
    if not separator or len(fields) < _HEAD or len(rest) < _TAIL:
        return None
    if not (fields[0].isdigit() and fields[1].isdigit() and fields[4].startswith(b"/")):
        return None
    root = unescape(fields[3])
    deleted = root.endswith(DELETED)
    return MountEntry(
        mount_id=int(fields[0]),
        parent_id=int(fields[1]),
        device=fields[2].decode("ascii", "replace"),
        root=os.fsdecode(root[: -len(DELETED)] if deleted else root),
        target=Path(os.fsdecode(unescape(fields[4]))),
        options=_options(fields[5]),
        fstype=os.fsdecode(unescape(rest[0])),
        source=os.fsdecode(unescape(rest[1])),
        super_options=_options(rest[2]) if len(rest) > _TAIL else (),
        propagation=tuple(os.fsdecode(field) for field in fields[6:]),
        deleted=deleted,
    )


def unescape(field: bytes) -> bytes:
    r"""Undo the octal escapes of one field: `\040` is a space."""
    if b"\\" not in field:
        return field
    return _ESCAPE.sub(lambda match: bytes((int(match[1], 8),)), field)


def escape(field: bytes) -> bytes:
    r"""Escape one field as the kernel does."""
    return re.sub(rb"[ \t\n\\#]", lambda match: b"\\%03o" % match[0][0], field)


def _targets(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    for line in data.split(b"\n"):
        fields = line.split(b" ", _HEAD - 1)
        if len(fields) == _HEAD:
            yield line, unescape(fields[4])


def _options(field: bytes) -> tuple[str, ...]:
    # Split first: a comma is never escaped, and an escaped one would be part of a value.
    return tuple(os.fsdecode(unescape(option)) for option in field.split(b",") if option)
