"""Reading /proc/self/mountinfo. Pure: bytes in, entries out.

Source: proc_pid_mountinfo(5) and `fs/proc_namespace.c`: space, tab, newline and backslash (and `#` in sources) are
written as three octal digits. A row that was torn by a concurrent change is left out, never guessed at.
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from volmgr.host.file_system_types import is_fuse
from volmgr.host.interface import MountEntry, SeenMount

_ESCAPE = re.compile(rb"\\([0-3][0-7]{2})")
DELETED = "//deleted"
_HEAD = 6  # id, parent, major:minor, root, target, options


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


def seen_below(data: bytes, path: Path) -> dict[str, SeenMount]:
    """Give the targets at or below `path` and a little of the newest mount on each, decoding nothing else."""
    top = os.fsencode(path)
    prefix = top.rstrip(b"/") + b"/"
    return {
        os.fsdecode(target): SeenMount(_is_read_only(line), _fuse_device(line))
        for line, target in _targets(data)
        if target.startswith(prefix) or target == top
    }


def _is_read_only(line: bytes) -> bool:
    """Say whether a row has `ro` among the options of its mount or of its file system."""
    options = line.split(b" ", _HEAD)[_HEAD - 1]
    return b"ro" in options.split(b",") or b"ro" in line.rpartition(b" ")[2].split(b",")


def _fuse_device(line: bytes) -> str:
    """Give the device of a row whose file system a process serves; empty for others."""
    if b" - fuse" not in line:  # most are none
        return ""
    fstype = line.partition(b" - ")[2].partition(b" ")[0]
    return os.fsdecode(line.split(b" ", 3)[2]) if is_fuse(os.fsdecode(fstype)) else ""


def containing(table: Sequence[MountEntry], path: Path) -> MountEntry | None:
    """Find the mount that `path` lies on: the newest of those with the longest path."""
    found = None
    for entry in table:
        if path.is_relative_to(entry.target) and (found is None or len(entry.target.parts) >= len(found.target.parts)):
            found = entry
    return found


def parse_line(line: bytes) -> MountEntry | None:
    """Decode one row; None when it is torn."""
    fields = os.fsdecode(line).split(" ")
    try:
        end = fields.index("-", _HEAD)
        identity, parent, device, root, target, options, *propagation = fields[:end]
        fstype, source, *rest = fields[end + 1 :]
        identities = int(identity), int(parent)
    except ValueError:
        return None
    if not target.startswith("/"):
        return None
    root = _decode(root)
    return MountEntry(
        *identities,
        device,
        root.removesuffix(DELETED),
        Path(_decode(target)),
        _options(options),
        _decode(fstype),
        _decode(source),
        _options(rest[0]) if rest else (),
        tuple(propagation),
        root.endswith(DELETED),
    )


def _decode(field: str) -> str:
    return os.fsdecode(unescape(os.fsencode(field))) if "\\" in field else field


@functools.lru_cache(maxsize=1024)
def _options(field: str) -> tuple[str, ...]:
    """Split and decode: a comma is never escaped, and an escaped one is part of a value. Most rows repeat another's."""
    return tuple(_decode(option) for option in field.split(",") if option)


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
