"""The reconciler: owns both worlds, hears messages, and lets its parts do what follows.

One thread only. Nothing here blocks: operations and chores run on workers and come back as messages.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from volmgr.departures import Departures
from volmgr.desk import Desk, Outside
from volmgr.driver_pods import DriverPods
from volmgr.jobs import Result
from volmgr.lookout import Lookout
from volmgr.messages import (
    Appeared,
    Ask,
    DriverAppeared,
    DriverDeclared,
    DriversSearched,
    DriverVanished,
    DriverWithdrawn,
    HoldersAsked,
    HoldGone,
    HoldTaken,
    Message,
    MountsRead,
    NodeMissing,
    NodeStatusRead,
    OrphansFound,
    ProgressMade,
    ReadingChanged,
    Reconstructed,
    ServerHeard,
    ServersAsked,
    SurvivorEnded,
)
from volmgr.next_step import Readiness
from volmgr.node_status import NodeStatus
from volmgr.preparations import Preparations
from volmgr.provisioning import Provisioning
from volmgr.registered_drivers import RegisteredDrivers
from volmgr.report.events import Severity
from volmgr.runner import Runner
from volmgr.silent_servers import SilentServers
from volmgr.sources.changes import (
    Complaints,
    ObjectAbsent,
    ObjectAwaited,
    ObjectChanged,
    ObjectLeft,
    PodAccepted,
    PodLeft,
    RecordDamaged,
    SourceState,
    VolumeUnfinished,
)
from volmgr.survivors import Survivors
from volmgr.tenancy import Tenancy
from volmgr.tidy import Tidied
from volmgr.wait_events import WaitEvents
from volmgr.waiters import Waiters

if TYPE_CHECKING:
    from volmgr.actual import ActualVolume
    from volmgr.config import Config
    from volmgr.host.interface import Host
    from volmgr.report.world import World
    from volmgr.timers import Timers

_LOOKS_AT_ONCE = 20
_LOOK_EACH = 0.01
"""Seconds between two such handfuls: a thousand volumes take half a second, and new Pods come in between."""


class Reconciler:
    """Drives the actual state of the world towards the desired one."""

    def __init__(self, world: World, host: Host, config: Config, outside: Outside) -> None:
        self.world = world
        self._inbox: deque[Message] = deque()
        self._desk = Desk(world, host, config, outside, self.post)
        self._tenancy = Tenancy(self._desk)
        self._runner = Runner(self._desk)
        self._survivors = Survivors(self._desk)
        self._lookout = Lookout(self._desk)
        self._silent_servers = SilentServers(self._desk)
        self._node_status = NodeStatus(self._desk, self._tenancy)
        self._driver_pods = DriverPods(self._desk)
        self._desk.on_put = self._note_volume
        self.waiters = Waiters(world)
        self.preparations = Preparations(self._desk)
        self._wait_events = WaitEvents(self._desk)
        self.provisioning = Provisioning(self._desk)
        self._desk.on_appeared = self.provisioning.appeared
        self._departures = Departures(self._desk, self._tenancy, self.waiters)
        self._drivers = RegisteredDrivers(self._desk, self._tenancy, self._readiness_changed)
        self._hear = self._handlers()
        self._looks = False
        world.awaits_node_status = config.controller_attaches
        world.readiness = self._readiness()

    @property
    def timers(self) -> Timers:
        """What is due later."""
        return self._desk.timers

    def post(self, message: Message) -> None:
        """Hand a message over, from any thread."""
        self._inbox.append(message)
        self._desk.outside.wake()

    def step(self) -> None:
        """Handle every message and everything due, then start what can be started."""
        desk = self._desk
        self.world.clock = desk.outside.wall()
        self.world.monotonic = desk.outside.monotonic()
        desk.timers.run_due(self.world.monotonic)
        while self._inbox or desk.dirty:
            while self._inbox:
                message = self._inbox.popleft()
                self._hear[type(message)](message)
            while desk.dirty:
                name = next(iter(desk.dirty))
                del desk.dirty[name]
                self._runner.look_at(name)
            self.preparations.retry()
        self._tenancy.references.tell()
        self._node_status.tell_in_use()
        touched, desk.touched = desk.touched, {}
        for uid in touched:
            self._departures.check(uid)
            self._wait_events.look(uid)
            desk.outside.pod_changed(uid)
            self.waiters.notify(uid)
            entry = self.world.pods.get(uid)
            if entry is not None:
                self.waiters.notify(entry.pod.key)
        if touched:
            self.provisioning.look_again()
        self.provisioning.step()

    def _handlers(self) -> dict[type[Any], Callable[[Any], None]]:
        """Say who hears which message; a test holds this against the union Message."""
        return {
            PodAccepted: self._tenancy.accept,
            PodLeft: self._tenancy.leave,
            RecordDamaged: self._tenancy.seal,
            ObjectChanged: self._set_object,
            ObjectLeft: self._drop_object,
            VolumeUnfinished: self.provisioning.finish,
            ObjectAwaited: self._tenancy.await_object,
            ObjectAbsent: self._tenancy.lack_object,
            SourceState: self._set_source,
            Complaints: self._complain,
            Result: self._runner.settle,
            Ask: self._answer,
            Reconstructed: self._take_over,
            SurvivorEnded: self._survivors.drop,
            ProgressMade: self._runner.note_progress,
            MountsRead: self._lookout.settle,
            ServersAsked: self._lookout.hear_servers,
            ServerHeard: self._silent_servers.hear,
            OrphansFound: self._departures.tidy_orphans,
            HoldTaken: self._tenancy.take_hold,
            HoldGone: self._tenancy.drop_hold,
            HoldersAsked: self._tenancy.hear_holders,
            NodeStatusRead: self._read_node_status,
            NodeMissing: self._miss_node,
            Appeared: self._note_appearance,
            DriverAppeared: self._drivers.register,
            DriverVanished: self._drivers.retire,
            DriverDeclared: self._drivers.declare,
            DriverWithdrawn: self._drivers.withdraw,
            ReadingChanged: self._note_reading,
            DriversSearched: self._note_search,
            Tidied: self._departures.settle,
        }

    def _note_volume(self, name: str, volume: ActualVolume | None) -> None:
        self._lookout.expect(name, volume)
        if volume is not None and volume.device_target is not None:
            self.world.orphans.pop(str(volume.device_target), None)  # it is somebody's now
        self._driver_pods.note(name, volume)

    def _answer(self, message: Ask) -> None:
        message.action()

    def _set_object(self, message: ObjectChanged) -> None:
        self._tenancy.set_object(message)
        self.provisioning.hear(message)

    def _drop_object(self, message: ObjectLeft) -> None:
        self._tenancy.drop_object(message)
        self.provisioning.lose(message)

    # --- what is ready ---

    def _set_source(self, state: SourceState) -> None:
        was_ready = self.world.sources_ready
        name, world = state.source, self.world
        old = world.sources.get(name) or world.out_of_contact.pop(name, "")
        world.sources[name] = "" if state.ready else state.problem or "not read yet"
        if state.contact:
            world.source_contact[name] = state.contact
        if state.ready and state.problem:
            world.out_of_contact[name] = state.problem
        if state.problem and old != state.problem:
            reason = "SourceOutOfContact" if state.ready else "SourceNotReady"
            self._desk.event(Severity.WARNING, reason, f"source {name}: {state.problem}")
        if self.world.sources_ready != was_ready:
            self._readiness_changed(self._tenancy.reconsider)

    def _note_appearance(self, message: Appeared) -> None:
        self._desk.appeared(message.what)

    def _note_search(self, message: DriversSearched) -> None:
        self._drivers.note_search(message)
        self.provisioning.look_again()

    def _note_reading(self, message: ReadingChanged) -> None:
        self.world.reading = message.reading

    def _complain(self, complaints: Complaints) -> None:
        old = self.world.complaints.get(complaints.origin, ())
        if complaints.errors:
            self.world.complaints[complaints.origin] = complaints.errors
        else:
            self.world.complaints.pop(complaints.origin, None)
        known = set(map(str, old))
        for error in complaints.errors:
            if str(error) not in known:
                self._desk.event(Severity.WARNING, "InvalidManifest", str(error))

    def _readiness(self) -> Readiness:
        return Readiness(
            unmount=not self.world.not_ready_because,
            living=self._desk.living,
            sealed=self._desk.sealed,
            held=self._desk.held,
            controller_attach=self._desk.config.controller_attaches,
            attached=self._desk.attached,
            status_read=not self.world.awaits_node_status,
            attach_note=self.world.attach_note,
            exclusive=self.world.actual.exclusive,
            read_only=self.world.readiness.read_only,
            look=self._looks,
            draining=self.world.draining,
            serving=self.world.serving.keys(),
            accepted=self.world.pods.keys(),
        )

    def _readiness_changed(self, look: Callable[[str], None] | None = None) -> None:
        """Look at everything: what was held back may be due now."""
        before = self.world.readiness
        self.world.readiness = self._readiness()
        for uid in tuple(self.world.pods):
            (look or self._tenancy.populate)(uid)
        for volume in (*self.world.actual, *self.world.desired):
            self._desk.dirty[volume.name] = None
        if self.world.readiness.unmount and not before.unmount:
            self._departures.look_for_orphans()
            self._tenancy.references.retain_soon()  # what an earlier daemon kept may be in nobody's use any more
            if not self._looks:
                self._look_later(tuple(volume.name for volume in self.world.actual if _is_unseen(volume)))
        self.waiters.notify_all()

    def _look_into(self, names: tuple[str, ...]) -> None:
        """Let what was found mounted be looked into, a few at a time: neither the start nor anybody waits for that."""
        self._looks = True
        self.world.readiness = replace(self.world.readiness, look=True)
        for name in names[:_LOOKS_AT_ONCE]:
            self._desk.dirty[name] = None
        if rest := names[_LOOKS_AT_ONCE:]:
            self._look_later(rest)

    def _look_later(self, names: tuple[str, ...]) -> None:
        self._desk.timers.at(self._desk.outside.monotonic() + _LOOK_EACH, lambda: self._look_into(names))

    def _take_over(self, message: Reconstructed) -> None:
        for survivor in message.survivors:
            self._survivors.take(survivor)
        for volume in message.volumes:
            self._desk.put(volume.name, self._node_status.resolved(volume))
            for uid in volume.mounts:
                self._runner.refresh_later(volume.name, uid)
        self._lookout.mounts_changed()  # nothing has, but it is not known yet what kind of mounts these are
        self.world.reconstructed = True
        self._readiness_changed(self._tenancy.reconsider)

    def _read_node_status(self, message: NodeStatusRead) -> None:
        if self._node_status.read(message):
            self._readiness_changed()
        else:
            self.world.readiness = self._readiness()

    def _miss_node(self, message: NodeMissing) -> None:
        self._node_status.miss(message)
        self.world.readiness = self._readiness()

    # --- what the daemon and its service ask ---

    def set_read_only(self, *, read_only: bool) -> None:
        """Stop or start changing anything (a foreign root that is not adopted yet)."""
        self.world.readiness = replace(self.world.readiness, read_only=read_only)
        self._readiness_changed()
        if not read_only:
            self._departures.look_for_orphans()
            self.provisioning.retry_all()

    def drain(self) -> None:
        """Want nothing any more; holds are respected."""
        self.world.draining = True
        self._driver_pods.keep()
        self._readiness_changed()

    def stop_admitting(self, then: Callable[[], None]) -> None:
        """Start nothing any more, and call `then` when every running operation has ended or is overdue."""
        self.preparations.stop()
        self.provisioning.stop()
        self._runner.stop(then)

    def run(self, what: str, chore: Callable[[], Message]) -> None:
        """Run a chore on a worker, again and again until the host lets it."""
        self._desk.run_until_done(what, chore)

    def mounts_changed(self) -> None:
        """Take note that the mount table changed, by us or by others."""
        self._lookout.mounts_changed()


def _is_unseen(volume: ActualVolume) -> bool:
    return any(mount.unseen for mount in volume.mounts.values())
