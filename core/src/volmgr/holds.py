"""Holds: who says that containers of a Pod still run. A process is known by pid, start time and boot id."""

from __future__ import annotations

import logging
import threading
import uuid
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from volmgr import records
from volmgr.errors import OperationError
from volmgr.report.world import Hold

if TYPE_CHECKING:
    from volmgr.host.interface import Host

KIND = "hold"

log = logging.getLogger("volmgr.holds")


def start_time(pid: int) -> int | None:
    """Give a process' start time in clock ticks since boot (proc(5), field 22), or None when it has ended."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()
    return None if fields[0] in {"Z", "X"} else int(fields[19])


class Holds:
    """The records of holds below `ROOT/volmgr/holds/`; used from any thread."""

    def __init__(self, host: Host, started: Callable[[int], int | None] = start_time) -> None:
        """Use the host's files; `started` gives the start time of a live process."""
        self._files = host.files
        self._directory = host.paths.state / "holds"
        self._boot_id = host.kernel.boot_id
        self._started = started
        self._lock = threading.Lock()

    def load(self) -> tuple[Hold, ...]:
        """Give the holds whose process still runs; the records of the others go."""
        found: list[Hold] = []
        for name in self._files.names(self._directory):
            try:
                hold = self._read(self._directory / name)
            except OperationError as error:  # whose it is, nobody knows: it is left alone
                log.warning("a hold is not known: %s", error)
                continue
            if hold is not None and self.is_alive(hold):
                found.append(hold)
                continue
            with suppress(OperationError):  # a disk that is read-only must not stop the start; the next one tries again
                self._files.remove_file(self._directory / name)
        return tuple(found)

    def _read(self, path: Path) -> Hold | None:
        body = records.read(self._files, path, KIND)
        try:
            return msgspec.convert(body, Hold) if body is not None else None
        except msgspec.ValidationError:
            return None

    def is_alive(self, hold: Hold) -> bool:
        """Say whether the process of a hold is still the one that took it."""
        return hold.boot_id == self._boot_id and self._started(hold.pid) == hold.start_time

    def add(self, pod_uid: str, pid: int, who: str) -> Hold:
        """Take a hold; it is on disk when this returns. Raises OperationError when no such process runs."""
        started = self._started(pid)
        if started is None:
            raise OperationError(f"holding pod {pod_uid}: no process {pid} runs; give the PID of a live one")
        hold = Hold(
            id=uuid.uuid4().hex,
            pod_uid=pod_uid,
            pid=pid,
            start_time=started,
            boot_id=self._boot_id,
            who=who or f"process {pid}",
        )
        body: dict[str, object] = msgspec.to_builtins(hold)
        records.write(self._files, self._directory / f"{hold.id}.json", KIND, body, durable=True)
        return hold

    def remove(self, hold_id: str) -> None:
        """Give a hold back."""
        self._files.remove_file(self._directory / f"{hold_id}.json", durable=True)
