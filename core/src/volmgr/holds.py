"""Holds: who says that containers of a Pod still run."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING

from volmgr.errors import OperationError
from volmgr.host.processes import start_time
from volmgr.process_records import ProcessRecords
from volmgr.report.world import Hold

if TYPE_CHECKING:
    from volmgr.host.interface import Host


class Holds:
    """The records of holds below `ROOT/volmgr/holds/`; used from any thread."""

    def __init__(self, host: Host, started: Callable[[int], int | None] = start_time) -> None:
        """Use the host's files; `started` gives the start time of a live process."""
        self._records = ProcessRecords(host, "hold", Hold, "holds", started)

    def load(self) -> tuple[Hold, ...]:
        """Give the holds whose process still runs; the records of the others go."""
        return self._records.load()

    def is_alive(self, hold: Hold) -> bool:
        """Say whether the process of a hold is still the one that took it."""
        return self._records.is_alive(hold)

    def add(self, pod_uid: str, pid: int, who: str) -> Hold:
        """Take a hold; it is on disk when this returns. Raises OperationError when no such process runs."""
        started = self._records.started(pid)
        if started is None:
            raise OperationError(f"holding pod {pod_uid}: no process {pid} runs; give the PID of a live one")
        hold = Hold(
            id=uuid.uuid4().hex,
            pod_uid=pod_uid,
            pid=pid,
            start_time=started,
            boot_id=self._records.boot_id,
            who=who or f"process {pid}",
        )
        self._records.write(hold.id, hold, durable=True)
        return hold

    def remove(self, hold_id: str) -> None:
        """Give a hold back."""
        self._records.remove(hold_id, durable=True)
