"""What is done to multipath maps by multipath-tools and dmsetup, which can be killed."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import TYPE_CHECKING

from volmgr.errors import BusyError, OperationError
from volmgr.host.interface import MultipathMap
from volmgr.host.sysfs import Sysfs

if TYPE_CHECKING:
    from volmgr.host.interface import Commands

_PID_FILES = ("multipathd.pid", "multipathd/multipathd.pid")
_PATH_STATE = re.compile(r"\b\d+:\d+ ([AF])\b")  # of `dmsetup status`: active or failed
_BUSY = re.compile(r"in use|busy", re.IGNORECASE)
_ATTEMPTS = 3
_SETTLING = 5  # seconds that udev may take for what it has heard of
_ALL = range(256)


def daemon_runs(run: Path = Path("/run"), proc: Path = Path("/proc")) -> bool:
    """Say whether multipathd runs; asking itself would start it where systemd holds its socket."""
    for name in _PID_FILES:
        try:
            pid = (run / name).read_text(encoding="ascii", errors="replace").strip()
            comm = (proc / pid / "comm").read_text(encoding="utf-8", errors="replace") if pid.isdecimal() else ""
            if comm.strip() == "multipathd":
                return True
        except OSError:
            continue
    return False


class MultipathTools:
    """The commands for maps."""

    def __init__(self, commands: Commands, sysfs: Sysfs) -> None:
        self._commands = commands
        self._sysfs = sysfs

    def fail_if_no_path_works(self, found: MultipathMap, *, deadline: float) -> bool:
        """Let a map none of whose paths works fail what is written, instead of waiting for a path for ever.

        Says whether it was so. What needs no path goes on as it was; multipathd has it wait again when one returns.
        """
        if self._commands.find("dmsetup") is None:
            return False
        argv = ("dmsetup", "status", "--noflush", found.name)
        states = _PATH_STATE.findall(self._commands.run(argv, deadline=deadline, changes=False).stdout)
        if "A" in states:
            return False
        self._commands.run(("dmsetup", "message", found.name, "0", "fail_if_no_path"), deadline=deadline)
        return True

    def remove(self, found: MultipathMap, *, deadline: float) -> None:
        """Take a flushed map away; raises BusyError when it stays, as `multipath -f` may leave it to its last user.

        udev opens a map for a moment after each change of it, which keeps it busy, too: that is waited for.
        """
        until = time.monotonic() + deadline
        said = ""
        for attempt in range(_ATTEMPTS):
            if attempt:
                self._settle(until)
            ended = self._commands.run(("multipath", "-f", found.name), deadline=until - time.monotonic(), accept=_ALL)
            if not self._is_there(found):
                return
            said = " ".join(f"{ended.stdout} {ended.stderr}".split()) or "it is still there"
            if ended.exit_code and not _BUSY.search(said):
                raise OperationError(f"cannot remove the multipath map {found.name} ({found.device}): {said}")
        raise BusyError(
            f"cannot remove the multipath map {found.name} ({found.device}), as if it were in use: {said};"
            f" see who has it open: lsof {found.device}"
        )

    def _settle(self, until: float) -> None:
        if self._commands.find("udevadm") is not None:
            argv = ("udevadm", "settle", f"--timeout={_SETTLING}")
            self._commands.run(argv, deadline=until - time.monotonic(), accept=_ALL, changes=False)

    def grow(self, found: MultipathMap, *, deadline: float) -> None:
        """Let multipathd give a map the size that all of its paths have."""
        wanted = self._wanted(found)
        said = ""
        for argv in (("multipathd", "resize", "map", found.name), ("multipathd", f"-kresize map {found.name}")):
            if self._size(found) >= wanted:
                return
            ended = self._commands.run(argv, deadline=deadline, accept=_ALL)  # its exit code says nothing
            said = " ".join(f"{ended.stdout} {ended.stderr}".split())
        if self._size(found) < wanted:
            raise OperationError(
                f"cannot grow the multipath map {found.name} to the {wanted} bytes of its disks: multipathd said"
                f" {said or 'nothing'}; see that it runs: systemctl status multipathd"
            )

    def _is_there(self, found: MultipathMap) -> bool:
        now = self._sysfs.map_named(found.kernel_name)
        return now is not None and now.wwid == found.wwid

    def _wanted(self, found: MultipathMap) -> int:
        now = self._sysfs.map_named(found.kernel_name)
        if now is None:
            raise OperationError(f"cannot grow the multipath map {found.name} ({found.device}): it is not there")
        return min((disk.size for disk in now.disks), default=0)

    def _size(self, found: MultipathMap) -> int:
        now = self._sysfs.map_named(found.kernel_name)
        return 0 if now is None else now.size
