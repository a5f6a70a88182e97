"""Asks the servers of FUSE file systems whether they live: one that died leaves its mounts, and says nothing.

Nobody here touches a path that may hang: a helper with a deadline does. Those of network file systems are not asked:
they come back, and their clients wait for that.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from volmgr.errors import OperationError, UncertainError
from volmgr.host.commands import UnkillableError
from volmgr.host.noted import StuckHelper
from volmgr.messages import Ask, ServersAsked
from volmgr.model.volume import Presence
from volmgr.report.events import Severity

if TYPE_CHECKING:
    from volmgr.desk import Desk
    from volmgr.host.interface import Host

PATIENCE = 2.0
"""Seconds that a server may take to say how full its file system is."""
DEAD = "the volume is dead: the FUSE server behind it has gone; a new Pod has it mounted anew"
SILENT = f"the volume may be dead: the FUSE server behind it has not answered within {PATIENCE:g} s; look at its driver"
_ABORT = """
abort=/sys/fs/fuse/connections/$0/abort
[ -e $abort ] || exec unshare --mount sh -c "mount -t fusectl fusectl /sys/fs/fuse/connections && echo 1 > $abort"
echo 1 > $abort
"""
"""Cuts the connection of a device's minor number; see `Documentation/filesystems/fuse` of Linux."""
_PROCESSES = Path("/proc")
_ENDED = frozenset({errno.ESRCH, errno.EINVAL})  # EINVAL: nobody has waited for it yet, and it has no mounts any more
_LONGEST_TABLE = 1 << 28  # bytes; the kernel has no more than 100,000 mounts in a namespace, by default
_GONE = frozenset({errno.ENOTCONN, errno.ECONNABORTED, errno.ESTALE})
"""What is said of what no server will ever answer for again."""

Key = tuple[str, str]
"""A volume and the Pod that has a mount of it; for the node's own mount no Pod."""


@dataclass(frozen=True, slots=True)
class Served:
    """Where a FUSE file system is mounted, and its device, by which all of its mounts are known."""

    device: str
    path: Path


class FuseServers:
    """Knows which mounts have a server, and tells their Pods when it has gone."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._served: Mapping[Key, Served] = {}
        self._asks = False
        self._silent: dict[str, tuple[float, float]] = {}
        """By device, of those that did not answer: the pause, and when to ask again."""
        self._stuck: dict[str, StuckHelper] = {}
        """By device, who still waits for an answer and cannot be ended: no other one is asked beside it."""

    def note(self, served: Mapping[Key, Served]) -> None:
        """Take note of all mounts that have a server."""
        self._served = served

    def keep(self, expected: Collection[Key]) -> bool:
        """Forget what is not expected any more; say whether anything is left."""
        self._served = {key: each for key, each in self._served.items() if key in expected}
        served = {each.device for each in self._served.values()}
        self._stuck = {
            device: each for device, each in self._stuck.items() if device in served or not each.ended.is_set()
        }
        return bool(self._served or self._stuck)

    def ask(self) -> None:
        """Ask each server whose turn it is, once for all of its mounts, unless some are being asked."""
        now = self._desk.outside.monotonic()
        places = {each.device: each.path for each in self._served.values()}
        self._let_go(places)
        self._silent = {device: said for device, said in self._silent.items() if device in places}
        due = {device: path for device, path in places.items() if self._is_due(device, now)}
        if self._asks or not due:
            return
        self._asks = True
        host, at = self._desk.host, self._desk.outside.wall()
        self._desk.outside.submit(lambda: asked(host, due, at))

    def _let_go(self, places: Collection[str]) -> None:
        """End what a helper still has of file systems that nobody has mounted any more."""
        host, left = self._desk.host, self._stuck.keys() - places
        if left:
            self._desk.outside.submit(lambda: let_go(host, left))

    def _is_due(self, device: str, now: float) -> bool:
        helper = self._stuck.get(device)
        return helper.ended.is_set() if helper is not None else self._silent.get(device, (0.0, now))[1] <= now

    def hear(self, message: ServersAsked) -> None:
        """Take note of what was answered, and tell whom it concerns."""
        self._asks = False
        self._stuck = {device: each for device, each in self._stuck.items() if device not in message.answers}
        self._stuck.update(message.stuck)
        now = self._desk.outside.monotonic()
        for device, problem in message.answers.items():
            pause = max(self._desk.config.health_interval, 2 * self._silent.pop(device, (0.0, 0.0))[0])
            if problem == SILENT:
                self._silent[device] = (pause, now + pause)
        for (name, uid), each in self._served.items():
            if each.device in message.answers:
                self._tell(name, uid, message.answers[each.device], message.at)

    def _tell(self, name: str, uid: str, problem: str, at: float) -> None:
        volume = self._desk.world.actual.get(name)
        mount = volume.mounts.get(uid) if volume else None
        if volume is None or mount is None or mount.state is not Presence.YES or mount.mounted_at > at:
            return
        if mount.problem == problem or (mount.problem and mount.problem not in {DEAD, SILENT}):
            return
        self._desk.put(name, volume.with_mount(replace(mount, problem=problem)))
        if problem:
            self._desk.event(Severity.WARNING, "VolumeDead", problem, uid=uid, volume=name)


def asked(host: Host, places: Mapping[str, Path], at: float) -> ServersAsked:
    """Ask the server behind each path, by device; on a worker."""
    answers: dict[str, str] = {}
    stuck: dict[str, StuckHelper] = {}
    for device, path in places.items():
        try:
            answers[device] = trouble(host, path)
        except UnkillableError as error:
            answers[device], stuck[device] = SILENT, error.helper
    return ServersAsked(at, answers, stuck)


def let_go(host: Host, devices: Collection[str]) -> Ask:
    """Cut the connections of those that are mounted nowhere: it is what the last unmount would have done; on a worker.

    The helper that waits is all that keeps them, and with them their servers.
    """
    with suppress(OperationError):
        mounted = {entry.device for entry in host.mounts.table()}
        for device in devices:
            major, _, minor = device.partition(":")
            if device not in mounted and major == "0" and not _is_mounted_elsewhere(device, host):
                host.commands.run(("sh", "-c", _ABORT, minor), changes=False)
    return Ask(lambda: None)


def _is_mounted_elsewhere(device: str, host: Host) -> bool:
    """Say whether another mount namespace has a file system: a container's copy is not ours to end.

    Raises OperationError where what a process has mounted cannot be read.
    """
    seen: set[str] = set()
    for process in (_PROCESSES / name for name in host.files.names(_PROCESSES) if name.isdigit()):
        namespace = ""  # of others only who may trace them learns it; what they have mounted everybody may read
        with suppress(OperationError):
            namespace = host.files.read_link(process / "ns/mnt") or ""
        if namespace not in seen and device in _devices_of(process, host):
            return True
        seen |= {namespace} - {""}
    return False


def _devices_of(process: Path, host: Host) -> Iterator[str]:
    """Give the device of each mount that a process sees; none of one that has ended."""
    try:
        table = host.files.read(process / "mountinfo", _LONGEST_TABLE) or b""
    except OperationError as error:
        if isinstance(error.__cause__, OSError) and error.__cause__.errno in _ENDED:
            return
        raise
    for line in table.decode("utf-8", "replace").splitlines():
        yield line.split(" ", 3)[2]


def trouble(host: Host, path: Path) -> str:
    """Say what is wrong with the server behind a path; nothing where it cannot be asked. Raises UnkillableError."""
    try:
        with host.mounts.aside(path) as place:
            argv = ("stat", "-f", "--", str(place))
            said = host.commands.run(argv, accept=(0, 1), deadline=PATIENCE, environment={"LC_ALL": "C"}, changes=False)
    except UnkillableError:
        raise
    except UncertainError:
        return SILENT
    except OperationError:
        return ""
    return DEAD if said.exit_code and any(os.strerror(each) in said.stderr for each in _GONE) else ""
