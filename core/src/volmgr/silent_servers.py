"""Tells Pods that have a volume of a server mounted when the kernel says that it does not answer, and when it does.

That a server is back the kernel says only to calls that have waited all the time. Those of soft mounts and of leases
give up, and who waits may be killed: so a server that is silent is asked, too, ever less often.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from volmgr.errors import OperationError, UncertainError, VolmgrError
from volmgr.messages import Ask, Message, ServerHeard
from volmgr.model.volume import Presence
from volmgr.report.events import Severity
from volmgr.report.silences import WORDS

if TYPE_CHECKING:
    from volmgr.actual import ActualVolume
    from volmgr.desk import Desk
    from volmgr.host.interface import Host

_ENDPOINT = "server {}"
"""What a type calls an endpoint that the kernel knows by its server's name alone (`VolumePlugin.endpoint`)."""


class SilentServers:
    """Belongs to the reconciler's thread."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._silent: dict[str, None] = {}
        """Names of servers that are to be asked whether they are back."""
        self._pause = 0.0
        self._is_due = False
        """That they will be asked, or are being asked now: by one worker at a time, however many there are."""

    def hear(self, message: ServerHeard) -> None:
        """Take note, for each volume of that server that is mounted here."""
        if not message.silent:
            self._silent.pop(message.server, None)
        if self._note(message) and message.silent:
            self._silent[message.server] = None
            self._ask_later(self._desk.config.health_interval)

    def _note(self, message: ServerHeard) -> bool:
        """Note what is so now, and tell it; False where nothing of that server is mounted."""
        keys: dict[str, None] = {}
        for volume, endpoint in self._volumes_of(message.server):
            key = f"{volume.plugin} {endpoint}"
            if key not in keys:
                keys[key] = None
                self._note_endpoint(key, message)
            self._tell(volume, f"{endpoint} {WORDS} ", self._desk.world.silences.text(key, message.at))
        return bool(keys)

    def _volumes_of(self, server: str) -> Iterator[tuple[ActualVolume, str]]:
        wanted = {_ENDPOINT.format(server), _ENDPOINT.format(f"[{server}]")}
        for volume in tuple(self._desk.world.actual):
            endpoint = self._endpoint(volume)
            if endpoint in wanted:
                yield volume, endpoint

    def _endpoint(self, volume: ActualVolume) -> str:
        volume_type = self._desk.world.plugins.types.get(volume.plugin)
        if volume_type is None or volume.spec is None:
            return ""
        try:
            endpoint: str = volume_type.ask("endpoint", volume.spec)
        except VolmgrError:
            return ""
        return endpoint

    def _note_endpoint(self, key: str, message: ServerHeard) -> None:
        if message.silent:
            self._desk.world.silences.note(key, message.at, message.at)
        else:
            self._desk.world.silences.end(key)

    def _tell(self, volume: ActualVolume, beginning: str, now: str) -> None:
        """Tell the Pods that have it, unless something else is wrong with their mounts."""
        for uid, mount in volume.mounts.items():
            is_ours = not mount.problem or mount.problem.startswith(beginning)
            if mount.state is Presence.YES and is_ours and mount.problem != now:
                volume = volume.with_mount(replace(mount, problem=now))
                self._desk.put(volume.name, volume)
                self._desk.touched[uid] = None
                if now:
                    self._desk.event(Severity.WARNING, "VolumeHangs", now, uid=uid, volume=volume.name)

    def _ask_later(self, pause: float) -> None:
        if self._is_due:
            return
        self._is_due, self._pause = True, pause
        self._desk.timers.at(self._desk.outside.monotonic() + pause, self._ask)

    def _ask(self) -> None:
        places = {server: paths for server in self._silent if (paths := self._places(server))}
        self._silent = dict.fromkeys(places)
        if not places:
            self._is_due = False
            return
        host = self._desk.host

        def ask() -> Message:
            answers = {server: is_silent(host, paths) for server, paths in places.items()}
            return Ask(lambda: self._hear_answers(answers))

        self._desk.outside.submit(ask)

    def _places(self, server: str) -> list[Path]:
        """Give the mounts by which a server can be asked."""
        mounts = (mount for volume, _ in self._volumes_of(server) for mount in volume.mounts.values())
        return [mount.path for mount in mounts if mount.state is Presence.YES and mount.path is not None]

    def _hear_answers(self, answers: Mapping[str, bool]) -> None:
        self._is_due = False
        for server, silent in answers.items():
            if server in self._silent:  # else the kernel was first
                if not silent:
                    del self._silent[server]
                self._note(ServerHeard(self._desk.outside.wall(), server, silent))
        if self._silent:
            self._ask_later(self._desk.later(self._pause))


def is_silent(host: Host, paths: Sequence[Path]) -> bool:
    """Ask for each mount of a server, until one gets no answer; on a worker."""
    for path in paths:
        try:
            host.mounts.file_system(path)
        except UncertainError:
            return True
        except OperationError:  # an answer, though no good one
            continue
    return False
