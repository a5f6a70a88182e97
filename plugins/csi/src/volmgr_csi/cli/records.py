"""What `volmgr csi publish` did, volume by volume: written ahead of each call, so that it can be undone. No secrets."""

from __future__ import annotations

import fcntl
import hashlib
import os
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path

import msgspec

from volmgr.plugin import Host, OperationError

STATE = "/var/lib/volmgr-csi"
"""Where the records are, unless the environment variable VOLMGR_CSI_STATE names another directory."""

STAGING = "staging"
"""The directory, beside a record, where its volume is staged unless told otherwise."""

_FILE = "volume.json"
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class Presence(StrEnum):
    """What is known of the effect of a call."""

    NO = "no"
    BEGUN = "begun"
    """It was called, and whether it did anything is not known."""
    YES = "yes"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What a volume is to be, for all of its targets; secrets are given anew with each command."""

    size: int = 0
    """Bytes to create; 0: it exists."""
    parameters: Mapping[str, str] = field(default_factory=dict[str, str])
    attributes: Mapping[str, str] = field(default_factory=dict[str, str])
    publish_context: Mapping[str, str] = field(default_factory=dict[str, str])
    access_mode: str = "SINGLE_NODE_WRITER"
    block: bool = False
    fs_type: str = ""
    mount_flags: tuple[str, ...] = ()
    mount_group: str = ""
    ephemeral: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """One place where a volume is published, or was to be."""

    path: str
    read_only: bool = False
    published: Presence = Presence.NO
    was_there: bool = False
    """The path was there before, so it stays."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One volume of one driver."""

    driver: str
    volume: str
    """As it was named: a volume's id, or with a size the name that the driver made an id for."""
    socket: str
    controller: str
    wish: Wish
    boot_id: str
    volume_id: str = ""
    created: Presence = Presence.NO
    attached: Presence = Presence.NO
    staged: Presence = Presence.NO
    node_id: str = ""
    staging: str = ""
    volume_context: Mapping[str, str] = field(default_factory=dict[str, str])
    publish_context: Mapping[str, str] = field(default_factory=dict[str, str])
    targets: tuple[Target, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Say whether there is nothing to undo."""
        return not self.targets and {self.created, self.attached, self.staged} == {Presence.NO}

    def target(self, path: str) -> Target | None:
        """Give a target that is known."""
        return next((each for each in self.targets if each.path == path), None)

    def with_target(self, target: Target) -> Record:
        """Give it with a target, in place of the one at that path."""
        others = (each for each in self.targets if each.path != target.path)
        return replace(self, targets=(*others, target))

    def without_target(self, path: str) -> Record:
        """Give it without a target."""
        return replace(self, targets=tuple(each for each in self.targets if each.path != path))

    def after_boot(self, boot_id: str) -> Record:
        """Give it as far as it still holds: a mount does not outlive the kernel that has it."""
        if boot_id == self.boot_id:
            return self
        targets = tuple(replace(each, published=_doubted(each.published)) for each in self.targets)
        return replace(self, boot_id=boot_id, staged=_doubted(self.staged), targets=targets)


def _doubted(presence: Presence) -> Presence:
    return Presence.NO if presence is Presence.NO else Presence.BEGUN


@dataclass(frozen=True, slots=True)
class Damaged:
    """A record that cannot be read."""

    path: Path
    problem: str


class Records:
    """The records of one state directory."""

    def __init__(self, host: Host) -> None:
        """Keep them in the root directory of a host."""
        self._files = host.files
        self._root = host.paths.root
        self.boot_id = _BOOT_ID.read_text().strip()

    def directory(self, driver: str, volume: str) -> Path:
        """Give the directory of a volume: its record, and where it is staged unless told otherwise."""
        return self._root / hashlib.sha256(f"{driver}\0{volume}".encode()).hexdigest()[:32]

    def path(self, driver: str, volume: str) -> Path:
        """Give the file of a record."""
        return self.directory(driver, volume) / _FILE

    @contextmanager
    def held(self, driver: str, volume: str) -> Generator[Path]:
        """Have a volume's directory alone: whoever else wants it waits. Without a record it goes at the end."""
        path = self.directory(driver, volume)
        while True:
            self._files.ensure_directory(path, 0o700, parents_mode=0o700)
            descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            if os.fstat(descriptor).st_nlink:  # not removed by who had it before
                break
            os.close(descriptor)
        try:
            yield path
        finally:
            if self._files.info(path / _FILE) is None:
                self._files.remove_directory(path / STAGING)
                self._files.remove_directory(path)
            os.close(descriptor)

    def read(self, directory: Path) -> Record | None:
        """Read a record; None where there is none. Raises OperationError for a damaged one."""
        path = directory / _FILE
        data = self._files.read(path)
        if data is None:
            return None
        try:
            return msgspec.json.decode(data, type=Record).after_boot(self.boot_id)
        except msgspec.MsgspecError as error:
            message = f"cannot read {path}: {error}; look at what is mounted, undo it by hand, and remove the file"
            raise OperationError(message) from None

    def write(self, directory: Path, record: Record) -> None:
        """Keep a record, on disk before this returns; one with nothing to undo goes."""
        if record.is_empty:
            self._files.remove_file(directory / _FILE, durable=True)
        else:
            self._files.write(directory / _FILE, msgspec.json.encode(record), durable=True)

    def all(self) -> tuple[Record | Damaged, ...]:
        """Give every record, by driver and volume; damaged ones last."""
        good: list[Record] = []
        damaged: list[Damaged] = []
        for name in self._files.names(self._root):
            directory = self._root / name
            try:
                record = self.read(directory)
            except OperationError as error:
                damaged.append(Damaged(directory / _FILE, str(error)))
            else:
                good += [record] if record is not None else []
        good.sort(key=lambda each: (each.driver, each.volume))
        return (*good, *damaged)
