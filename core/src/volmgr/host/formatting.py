"""Making a file system on a device that is proved empty, and going on with one that a crash cut off.

Ahead of mkfs a note below `ROOT/volmgr/formatting/` says which device we are about to format: its number, its kernel
sequence number (no other disk of this boot has it), its size. What a killed mkfs leaves is no longer empty, and looks
like damaged data. It is formatted again only if the note speaks of this very device in this very boot, nothing but the
file system that we were making is on it, and it cannot be mounted. After a reboot nothing proves that it is the same
device: it is refused, and named.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, cast
from urllib.parse import quote

from volmgr.errors import OperationError, SpecError
from volmgr.host.device_content import DeviceContent, content_of, size_of

if TYPE_CHECKING:
    from volmgr.host.interface import Host

_SHOWN = 120  # characters of a device in the name of its note, which a digest makes unique

EXT = frozenset({"ext2", "ext3", "ext4"})
FORMATTED = frozenset({*EXT, "xfs", "btrfs"})
"""The types that can be made; any other is mounted, but must be there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FormatNote:
    """That a device is being formatted: written before mkfs, removed when it is done."""

    device: str
    identity: str
    size: int
    boot_id: str
    fstype: str
    owner: str


class Formatting:
    """Formats devices of a host."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def begun(self, device: Path) -> FormatNote | None:
        """Give the note of a formatting that has not ended, if it is about this very device."""
        data = self._host.files.read(self._note(device))
        note = None if data is None else _read(data)
        return note if note is not None and note == self._note_of(device, note.fstype, note.owner) else None

    def prove_empty(self, device: Path, fstype: str, owner: str) -> str:
        """Give the identity of a device that is proved empty.

        Raises OperationError, naming what was found and how its owner can empty the device, for any other.
        """
        identity = self._host.block.identity(device)  # of the disk that is looked at from here on
        content = probed(self._host, device, owner)
        if not self._host.block.is_free(device):
            raise OperationError(f"{_refusal(device, fstype, owner)}: the device is in use")
        if not content.is_empty:
            interrupted = self._host.files.read(self._note(device)) is not None
            since = (
                "; volmgr was interrupted when it formatted a device of this name, and cannot prove that it is this one"
            )
            raise OperationError(
                f"{_refusal(device, fstype, owner)}: it is not empty: it has {', '.join(content.findings)}"
                f"{since if interrupted else ''}; if nothing on it is needed, erase all of it:"
                f" {erasing(device)}"
            )
        return identity

    def format(
        self, device: Path, identity: str, fstype: str, owner: str, *, deadline: float, again: bool = False
    ) -> None:
        """Make a file system on the device of this identity; `again` overwrites what our own last try left there."""
        if fstype not in FORMATTED:
            raise SpecError(
                f"cannot format {device} for {owner}: no file system of type {fstype} is made here;"
                f" ask for one of {', '.join(sorted(FORMATTED))}, or make it by hand"
            )
        note = self._note(device)
        self._host.files.ensure_directory(note.parent, 0o700)
        made = self._note_of(device, fstype, owner)
        if made.identity != identity:  # a link that leads elsewhere by now, or a disk in another's place
            raise OperationError(
                f"{_refusal(device, fstype, owner)}: another device took its place while it was looked at"
            )
        self._write(note, made)
        self._host.commands.run(mkfs(device, fstype, again=again), deadline=deadline)
        self.ended(device)

    def ended(self, device: Path) -> None:
        """Forget that a device was being formatted."""
        self._host.files.remove_file(self._note(device), durable=True)

    def _note(self, device: Path) -> Path:
        name = os.fsencode(device)
        return (
            self._host.paths.state / "formatting" / f"{quote(name, safe='')[-_SHOWN:]}.{sha256(name).hexdigest()[:16]}"
        )

    def _note_of(self, device: Path, fstype: str, owner: str) -> FormatNote:
        host = self._host
        return FormatNote(
            device=str(device),
            identity=host.block.identity(device),
            size=size_of(host, device),
            boot_id=host.kernel.boot_id,
            fstype=fstype,
            owner=owner,
        )

    def _write(self, path: Path, note: FormatNote) -> None:
        self._host.files.write(path, json.dumps(asdict(note)).encode(), durable=True)


def mkfs(device: Path, fstype: str, *, again: bool = False) -> tuple[str, ...]:
    """Give the command that makes a file system.

    xfs and btrfs look by themselves for something that they would overwrite, and refuse: they are told not to
    (`-f`) only where it is what our own last try left. ext needs `-F` for a whole disk.
    """
    if fstype in EXT:
        return (f"mkfs.{fstype}", "-q", "-F", "-m0", str(device))
    return (f"mkfs.{fstype}", "-q", *(["-f"] if again else []), str(device))


def erasing(device: Path) -> str:
    """Give the command by which the owner of a device can empty it."""
    return f"blkdiscard --force --zeroout {device}"


def probed(host: Host, device: Path, owner: str) -> DeviceContent:
    """Say what is on a device of `owner`, or raise OperationError that says what cannot be proved."""
    try:
        return content_of(host, device)
    except OperationError as error:
        raise OperationError(f"cannot tell what is on {device} of {owner}, so it is not touched: {error}") from error


def _refusal(device: Path, fstype: str, owner: str) -> str:
    return f"cannot make a file system of type {fstype} on {device} for {owner}"


def _read(data: bytes) -> FormatNote | None:
    """Read a note; None for a damaged one, which then proves nothing."""
    try:
        read = cast("Callable[[bytes], dict[str, object]]", json.loads)(data)
        return FormatNote(**read)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    except (ValueError, TypeError, RecursionError):
        return None
