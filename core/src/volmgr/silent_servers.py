"""Tells Pods that have a volume of a server mounted when the kernel says that it does not answer, and when it does."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from volmgr.errors import VolmgrError
from volmgr.messages import ServerHeard
from volmgr.model.volume import Presence
from volmgr.report.events import Severity

if TYPE_CHECKING:
    from volmgr.actual import ActualVolume
    from volmgr.desk import Desk

_ENDPOINT = "server {}"
"""What a type calls an endpoint that the kernel knows by its server's name alone (`VolumePlugin.endpoint`)."""


class SilentServers:
    """Belongs to the reconciler's thread."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    def hear(self, message: ServerHeard) -> None:
        """Take note, for each volume of that server that is mounted here."""
        name = message.server
        wanted = {_ENDPOINT.format(name), _ENDPOINT.format(f"[{name}]")}
        texts: dict[str, tuple[str, str]] = {}
        for volume in tuple(self._desk.world.actual):
            endpoint = self._endpoint(volume)
            if endpoint in wanted:
                key = f"{volume.plugin} {endpoint}"
                if key not in texts:
                    texts[key] = self._noted(key, message)
                self._tell(volume, *texts[key])

    def _endpoint(self, volume: ActualVolume) -> str:
        volume_type = self._desk.world.plugins.types.get(volume.plugin)
        if volume_type is None or volume.spec is None:
            return ""
        try:
            endpoint: str = volume_type.ask("endpoint", volume.spec)
        except VolmgrError:
            return ""
        return endpoint

    def _noted(self, endpoint: str, message: ServerHeard) -> tuple[str, str]:
        """Note what is so of an endpoint now; gives what was said of its silence before, and what is now."""
        silences = self._desk.world.silences
        before = silences.text(endpoint)
        if message.silent:
            silences.note(endpoint, message.at, message.at)
        else:
            silences.end(endpoint)
        return before, silences.text(endpoint)

    def _tell(self, volume: ActualVolume, before: str, now: str) -> None:
        """Tell the Pods that have it, unless something else is wrong with their mounts."""
        for uid, mount in volume.mounts.items():
            if mount.state is Presence.YES and mount.problem in {"", before} and mount.problem != now:
                volume = volume.with_mount(replace(mount, problem=now))
                self._desk.put(volume.name, volume)
                self._desk.touched[uid] = None
                if now:
                    self._desk.event(Severity.WARNING, "VolumeHangs", now, uid=uid, volume=volume.name)
