"""Records of the helpers that run for operations: written before a helper is let run, gone when it has ended.

So a daemon that is killed leaves behind who may still be at work on which volume.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from volmgr.errors import OperationError
from volmgr.host.processes import start_time
from volmgr.process_records import ProcessRecords
from volmgr.report.world import Survivor

if TYPE_CHECKING:
    from volmgr.admission import Held
    from volmgr.host.interface import Host
    from volmgr.host.noted import StartedHelper

log = logging.getLogger("volmgr.helper_records")


class HelperRecords:
    """They lie in `ROOT/volmgr/helpers/`; used from any thread."""

    def __init__(
        self,
        host: Host,
        wall: Callable[[], float] = time.time,
        started: Callable[[int], int | None] = start_time,
    ) -> None:
        """Use the host's files; `wall` gives Unix time in seconds, `started` the start time of a live process."""
        self._records = ProcessRecords(host, "helper", Survivor, "helpers", started)
        self._wall = wall

    def note(self, held: Held, helper: StartedHelper, *, needed: bool) -> Callable[[], None]:
        """Note that a helper works on what an operation holds; gives what is called when it has ended.

        Raises OperationError when it cannot be written, unless it is not `needed`: what only takes away must also get
        on where no room is left.
        """
        record = Survivor(
            helper=helper.name,
            pid=helper.pid,
            start_time=self._records.started(helper.pid) or 0,
            boot_id=self._records.boot_id,
            since=self._wall(),
            until=None if math.isinf(helper.until) else helper.until,
            held=held,
        )
        try:
            self._records.write(record.id, record)
        except OperationError as error:
            if needed:
                raise
            log.warning("%s runs without a record: %s", helper.name, error)
        return partial(self.remove, record)

    def load(self) -> tuple[Survivor, ...]:
        """Give the helpers that outlived their daemon; the records of the others go."""
        return self._records.load()

    def is_alive(self, helper: Survivor) -> bool:
        """Say whether it still runs."""
        return self._records.is_alive(helper)

    def remove(self, helper: Survivor) -> None:
        """Remove the record of a helper that has ended; one that cannot be removed does no harm."""
        with suppress(OperationError):
            self._records.remove(helper.id)
