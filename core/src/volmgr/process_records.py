"""Records that count as long as a process lives: it is known by pid, start time and boot id."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

import msgspec

from volmgr import records
from volmgr.errors import OperationError
from volmgr.host.processes import start_time

if TYPE_CHECKING:
    from volmgr.host.interface import Host


class OfProcess(Protocol):
    """What such a record says at least; `start_time` is in clock ticks since boot."""

    @property
    def pid(self) -> int: ...
    @property
    def start_time(self) -> int: ...
    @property
    def boot_id(self) -> str: ...


R = TypeVar("R", bound=OfProcess)

log = logging.getLogger("volmgr.process_records")


class ProcessRecords(Generic[R]):
    """Those of one kind, in one directory below `ROOT/volmgr/`; used from any thread."""

    def __init__(
        self,
        host: Host,
        kind: str,
        of: type[R],
        directory: str,
        started: Callable[[int], int | None] = start_time,
    ) -> None:
        """Use the host's files; `started` gives the start time of a live process."""
        self._files = host.files
        self._kind = kind
        self._of = of
        self._directory = host.paths.state / directory
        self.boot_id = host.kernel.boot_id
        self.started = started

    def load(self) -> tuple[R, ...]:
        """Give those whose process still runs; the records of the others go."""
        found: list[R] = []
        for name in self._files.names(self._directory):
            try:
                record = self._read(self._directory / name)
            except OperationError as error:  # whose it is, nobody knows: it is left alone
                log.warning("a %s is not known: %s", self._kind, error)
                continue
            if record is not None and self.is_alive(record):
                found.append(record)
                continue
            with suppress(OperationError):  # a disk that is read-only must not stop the start; the next one tries again
                self._files.remove_file(self._directory / name)
        return tuple(found)

    def _read(self, path: Path) -> R | None:
        body = records.read(self._files, path, self._kind)
        try:
            return msgspec.convert(body, self._of) if body is not None else None
        except msgspec.ValidationError:
            return None

    def is_alive(self, record: R) -> bool:
        """Say whether the process is still the one that the record speaks of."""
        return record.boot_id == self.boot_id and self.started(record.pid) == record.start_time

    def write(self, name: str, record: R, *, durable: bool = False) -> None:
        """Write a record; it is on disk when this returns if it is `durable`."""
        body: dict[str, object] = msgspec.to_builtins(record)
        records.write(self._files, self._path(name), self._kind, body, durable=durable)

    def remove(self, name: str, *, durable: bool = False) -> None:
        """Remove a record."""
        self._files.remove_file(self._path(name), durable=durable)

    def _path(self, name: str) -> Path:
        return self._directory / f"{name}.json"
