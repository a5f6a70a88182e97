"""Watches the mount table: notices a desired mount that vanished or turned read-only."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from volmgr.actual import Cause
from volmgr.fuse_servers import FuseServers, Served
from volmgr.messages import MountsRead, ServersAsked
from volmgr.model.volume import Presence, VolumeMode
from volmgr.report.events import Severity

if TYPE_CHECKING:
    from volmgr.actual import ActualVolume
    from volmgr.desk import Desk
    from volmgr.host.interface import Host
    from volmgr.timers import Timer

TABLE_SHARE = 20
"""Reading the mount table takes at most one part in so many of the time."""


class Lookout:
    """Knows what is to be seen in the mount table, and compares."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._world = desk.world
        self._expected: dict[tuple[str, str], tuple[Path, bool]] = {}
        self._keys: dict[str, tuple[tuple[str, str], ...]] = {}
        self._table_timer: Timer | None = None
        self._table_seconds = 0.0
        self._health_timer: Timer | None = None
        self._servers = FuseServers(desk)

    def expect(self, name: str, volume: ActualVolume | None) -> None:
        """Take note of what a volume is now."""
        before = self._keys.pop(name, ())
        for key in before:
            del self._expected[key]
        if volume is None:
            return
        facets = volume.facets
        block = volume.mode is VolumeMode.BLOCK  # the device is what is written to, and not where it is bound
        asked = volume.spec is None or volume.spec.read_only or "ro" in volume.spec.mount_options
        always = block or (facets is not None and facets.read_only)
        for uid, mount in volume.mounts.items():
            if mount.state is Presence.YES and mount.mount_point is not None:
                mine = asked if mount.read_only is None else mount.read_only
                self._expected[(name, uid)] = (mount.mount_point, always or mine)
        if volume.device is Presence.YES and volume.device_is_mount and volume.device_target is not None:
            allowed = always or asked or volume.device_read_only is True
            self._expected[(name, "")] = (volume.device_target, allowed)
            if self._health_timer is None:
                self._watch_health()
        self._keys[name] = tuple(key for key in ((name, uid) for uid in ("", *volume.mounts)) if key in self._expected)
        if any(key not in before for key in self._keys[name]):
            # The table changed while nobody expected the mount yet; whether it has a server is still to be seen.
            self.mounts_changed()

    def mounts_changed(self) -> None:
        """Compare the mount table soon, once for many changes: it changed, by us or by others."""
        if self._table_timer is None and self._expected:
            # A long table is read less often: our own mounts change it, too, and must not be paid for twice.
            pause = max(self._desk.config.mount_table_debounce, self._table_seconds * TABLE_SHARE)
            when = self._desk.outside.monotonic() + pause
            self._table_timer = self._desk.timers.at(when, self._read_table)

    def _watch_health(self) -> None:
        """Look now and then while a block device, or a FUSE file system, is mounted.

        That a file system turns itself read-only after an I/O error, and that a server has gone, the kernel does not
        tell.
        """
        when = self._desk.outside.monotonic() + self._desk.config.health_interval
        self._health_timer = self._desk.timers.at(when, self._check_health)

    def _check_health(self) -> None:
        self._health_timer = None
        on_device = any(uid == "" for _, uid in self._expected)
        served = self._servers.keep(self._expected)
        if on_device:
            self._read_table()
        if served:
            self._servers.ask()
        if on_device or served:
            self._watch_health()

    def _read_table(self, delay: float = 0.0) -> None:
        self._table_timer = None
        expected = dict(self._expected)
        if not expected:  # what was mounted when it was to be read has gone again
            return
        at = self._desk.outside.wall()
        self._desk.run(
            "reading the mount table", lambda: compare(self._desk.host, expected, at), self._read_table, delay
        )

    def settle(self, message: MountsRead) -> None:
        self._table_seconds = message.seconds
        paths = {key: self._expected[key][0] for key in message.fuse if key in self._expected}
        self._servers.note({key: Served(message.fuse[key], path) for key, path in paths.items()})
        if paths and self._health_timer is None:
            self._watch_health()
        for name, uid in message.vanished:
            self._doubt(name, uid, message.at, "its mount has vanished: somebody unmounted it")
        for name, uid in message.read_only:
            self._doubt(name, uid, message.at, "its mount has turned read-only")

    def hear_servers(self, message: ServersAsked) -> None:
        self._servers.hear(message)

    def _doubt(self, name: str, uid: str, at: float, problem: str) -> None:
        """Take a mount for uncertain, so that it is made again."""
        volume = self._world.actual.get(name)
        if volume is None or (name, uid) not in self._expected or self._world.admission.is_held(name):
            return
        if not uid:
            self._desk.put(name, replace(volume, device=Presence.UNCERTAIN, device_cause=Cause.VANISHED))
        else:
            mount = volume.mounts[uid]
            if mount.mounted_at > at:
                return
            doubted = replace(mount, state=Presence.UNCERTAIN, cause=Cause.VANISHED, problem=problem)
            self._desk.put(name, volume.with_mount(doubted))
        self._desk.event(Severity.WARNING, "VolumeVanished", problem, uid=uid, volume=name)
        self._desk.dirty[name] = None


def compare(host: Host, expected: Mapping[tuple[str, str], tuple[Path, bool]], at: float) -> MountsRead:
    """Find what is expected and not in the mount table, or read-only against the wish; on a worker."""
    started = time.monotonic()
    table = host.mounts.seen_below(host.paths.root)
    vanished: list[tuple[str, str]] = []
    turned: list[tuple[str, str]] = []
    fuse: dict[tuple[str, str], str] = {}
    for key, (path, allowed) in expected.items():
        seen = table.get(str(path))
        if seen is None:
            vanished.append(key)
        elif seen.read_only and not allowed:
            turned.append(key)
        if seen is not None and seen.fuse:
            fuse[key] = seen.fuse
    return MountsRead(at, tuple(vanished), tuple(turned), time.monotonic() - started, fuse)
