"""A package that declares and withdraws drivers of `csi` as a pipe beside the root directory says, a line each."""

from __future__ import annotations

import json
from collections.abc import Iterable
from threading import Thread

from volmgr.plugin import DriverInfo, Drivers, Host, Service, hookimpl


class Announcer:
    """Reads the pipe on a thread of its own."""

    name = "announcer"

    def __init__(self, drivers: Drivers, host: Host) -> None:
        self._drivers = drivers
        self._pipe = host.paths.root.parent / "drivers"

    def start(self) -> None:
        Thread(target=self._read, daemon=True).start()

    def stop(self) -> None:
        with self._pipe.open("w") as last:
            last.write("null\n")

    def _read(self) -> None:
        while True:
            with self._pipe.open() as lines:
                for line in lines:
                    said = json.loads(line)
                    if said is None:
                        return
                    if isinstance(said, str):
                        self._drivers.withdraw(said)
                    else:
                        self._drivers.declare(DriverInfo(**said))


@hookimpl
def volmgr_driver_watchers(drivers: Drivers, host: Host) -> Iterable[Service]:
    return (Announcer(drivers, host),)
