"""multipathd of the guest, and the maps that there are."""

from __future__ import annotations

import os
import subprocess
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.eventually import eventually
from tests.vm.servers.guest import load, settled, tell

CONFIGURATION = """\
defaults {
    user_friendly_names yes
    find_multipaths no
    polling_interval 1
    max_polling_interval 2
}
blacklist {
    devnode "^(vd|loop|sr|ram)"
}
"""


class Multipathd:
    """The daemon; leaving the block removes its maps and ends it, since it would disturb whoever comes next."""

    def __enter__(self) -> Self:
        """Start it."""
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop it."""
        self.stop()

    def start(self, configuration: str = CONFIGURATION) -> None:
        """Run it, with the content of a multipath.conf; again, it changes nothing."""
        Path("/etc/multipath.conf").write_text(configuration)
        load("dm-multipath")
        if not self.runs():
            tell("multipathd")
            eventually(self._answers, "multipathd")

    def runs(self) -> bool:
        """Tell whether it runs."""
        return subprocess.run(["pidof", "multipathd"], capture_output=True, check=False).returncode == 0

    def _answers(self) -> bool:
        return subprocess.run(["multipathd", "show", "daemon"], capture_output=True, check=False).returncode == 0

    def stop(self) -> None:
        """Remove maps that nobody uses, and end it; again, it changes nothing."""
        if self.runs():
            settled()
            for name in self.maps():
                subprocess.run(["multipath", "-f", name], capture_output=True, check=False, timeout=60)
            subprocess.run(
                ["multipathd", "shutdown"], capture_output=True, check=False, timeout=60
            )  # it may say no more
            eventually(lambda: not self.runs(), "the end of multipathd")

    def maps(self) -> dict[str, str]:
        """Give the WWID of each map by its name (`mpatha`), from sysfs."""
        found: dict[str, str] = {}
        for device in Path("/sys/block").glob("dm-*/dm"):
            with suppress(OSError):  # it goes just now
                uuid = (device / "uuid").read_text().strip()
                if uuid.startswith("mpath-"):
                    found[(device / "name").read_text().strip()] = uuid.removeprefix("mpath-")
        return found

    def paths(self, name: str) -> dict[str, str]:
        """Give the state of each path of a map, as multipathd checked it: `{"sda": "active"}`."""
        rows = tell("multipathd", "show", "paths", "raw", "format", "%d %t %m").splitlines()
        return {device: state for device, state, map_name in (row.split() for row in rows) if map_name == name}

    def until_paths(self, name: str, states: list[str]) -> None:
        """Return when the paths of a map have these states, in any order, such as `["active", "failed"]`."""
        eventually(
            lambda: sorted(self.paths(name).values()) == sorted(states), lambda: f"{states}, not {self.paths(name)}"
        )


def slaves(device: Path) -> tuple[str, ...]:
    """Give the names of the devices below a map."""
    return tuple(sorted(os.listdir(f"/sys/block/{device.resolve().name}/slaves")))
