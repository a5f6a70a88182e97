"""What the parts of the reconciler share: the world, what is to be looked at, and the way to the rest."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from signal import Signals
from typing import TYPE_CHECKING

from volmgr import plain_json
from volmgr.appearances import Appearances
from volmgr.config import Config
from volmgr.errors import VolmgrError
from volmgr.jobs import Job
from volmgr.messages import Ask, Message
from volmgr.model.driver_info import DriverInfo
from volmgr.model.growth import Growth
from volmgr.model.meta import ObjectRef
from volmgr.model.pod import Pod
from volmgr.model.selinux import Labelling
from volmgr.model.volume import RWOP
from volmgr.operations import Operation
from volmgr.report.events import Severity
from volmgr.report.world import Hold, Survivor, World
from volmgr.timers import Timers

if TYPE_CHECKING:
    from volmgr.actual import ActualVolume
    from volmgr.host.interface import Host
    from volmgr.sources.provisions import Provisions

log = logging.getLogger("volmgr.reconciler")

NODE = ""
"""Stands for the node among those that something touched: a volume of it is gone. Who waits for that selects it."""

Submit = Callable[[Callable[[], Message]], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outside:
    """What the reconciler needs of the rest: time, workers, and who remembers Pods."""

    monotonic: Callable[[], float]
    wall: Callable[[], float]
    submit: Submit
    forget: Callable[[str], bool]
    """Forget a Pod that has left and whose last mount is gone; False when it has returned meanwhile."""
    retain: Callable[[frozenset[ObjectRef], frozenset[str]], None] = field(default=lambda _refs, _uids: None)
    """Keep exactly these objects on disk, and what is kept for the Pods with these UIDs."""
    keep: Callable[[frozenset[ObjectRef]], None] = field(default=lambda _refs: None)
    """Keep these objects on disk, too; called on a worker before what needs them is mounted."""
    grown: Callable[[str, int], None] = field(default=lambda _volume, _size: None)
    """Told on a worker that a PersistentVolume has this many bytes now."""
    growing: Callable[[Growth], None] = field(default=lambda _growth: None)
    """Told what has become of growing a claim's volume, for the claim's status. It must only enqueue."""
    provisions: Provisions | None = None
    """Where it is recorded which volumes are made here for claims; None where others make them."""
    referred: Callable[[frozenset[ObjectRef], frozenset[ObjectRef]], None] = field(
        default=lambda _added, _removed: None
    )
    """Told which objects of the kinds that are fetched Pods refer to now, and which no longer. A name that is empty
    stands for all of its kind. It must only enqueue."""
    in_use: Callable[[tuple[str, ...]], None] = field(default=lambda _volumes: None)
    """Told what belongs into the node status' volumesInUse, whenever that has changed. It must only enqueue."""
    pod_changed: Callable[[str], None] = field(default=lambda _uid: None)
    """Told of a Pod, by UID, of which something changed, after that has been seen to; `NODE`: of none."""
    declared: Callable[[DriverInfo], None] = field(default=lambda _info: None)
    """Told of a driver of `csi` that is there, new or changed. It must only enqueue."""
    withdrawn: Callable[[str], None] = field(default=lambda _name: None)
    """Told of such a driver, by name, that it is gone. It must only enqueue."""
    wake: Callable[[], None] = field(default=lambda: None)
    slow: Callable[[], None] = field(default=lambda: None)
    """Told when an operation takes long: its worker may be lost for a while."""
    over: Callable[[], None] = field(default=lambda: None)
    """Told when a slow operation has ended."""
    held: Callable[[Hold], None] = field(default=lambda _hold: None)
    """Told of a hold whose process is to be watched."""
    released: Callable[[str], None] = field(default=lambda _hold_id: None)
    """Told that a hold is over, so that its process need not be watched any more."""
    survives: Callable[[Survivor], None] = field(default=lambda _survivor: None)
    """Told of a helper of an earlier daemon whose end is to be watched."""
    end: Callable[[Survivor, Signals], None] = field(default=lambda _survivor, _signal: None)
    """Sends a signal to the process group of such a helper, if it still runs."""


def _ignore(_name: str, _volume: ActualVolume | None) -> None:
    return None


def _pass_by(_what: str) -> None:
    return None


class Desk:
    """Belongs to the reconciler's thread; only `post` may be called on others."""

    def __init__(
        self, world: World, host: Host, config: Config, outside: Outside, post: Callable[[Message], None]
    ) -> None:
        self.world = world
        world.keeps_finished = config.keep_terminated_pod_volumes
        world.required_drivers = config.required_drivers
        world.labelling = Labelling.of(host.kernel.container_label, any_access_mode=config.selinux_mount)
        self.host = host
        self.config = config
        self.outside = outside
        self.post = post
        self.timers = Timers()
        self.dirty: dict[str, None] = {}
        """Volumes to look at."""
        self.touched: dict[str, None] = {}
        """Pods of which something changed, by UID; NODE when a volume is gone."""
        self.on_put: Callable[[str, ActualVolume | None], None] = _ignore
        """Told of each volume whose actual state is replaced."""
        self.on_appeared: Callable[[str], None] = _pass_by
        """Told of what appeared that somebody may wait for."""
        self.jobs: dict[Operation, Job] = {}
        self.living: dict[str, Pod] = {}
        """Pods that want their volumes, by UID; nothing of theirs is taken away."""
        self.held: set[str] = set()
        """Pods of which somebody says that containers still run, by UID."""
        self.sealed: dict[str, str] = {}
        """UIDs whose Pod is not known because its record cannot be read, and why; nothing of theirs is taken away."""
        self.awaited: dict[str, set[tuple[str, str]]] = {}
        """Volume and Pod of the operations that wait for something to appear, by its name."""
        self.appearances = Appearances()
        self.references: dict[str, set[ObjectRef]] = {}
        """The objects that each Pod needs, by its UID."""
        self.attached: dict[str, str] = {}
        """What the node status says is attached: unique volume name to device path."""

    def put(self, name: str, volume: ActualVolume | None) -> None:
        """Replace what is known of a volume; None forgets it."""
        old = self.world.actual.get(name)
        self.world.actual.put(name, volume)
        self.on_put(name, volume)
        for uid in (*(old.mounts if old else ()), *(volume.mounts if volume else ())):
            self.touched[uid] = None
        if old is not None and old.spec is not None and old.spec.access_modes == RWOP:
            for waiting in self.world.desired.of_exclusive(old.spec.name):
                self.dirty[waiting] = None
        if volume is None:
            self.touched[NODE] = None

    def drop_mount(self, volume: ActualVolume, uid: str) -> None:
        """Forget one Pod's mount of a volume, and the volume when nothing else of it is left."""
        left = volume.without_mount(uid)
        self.put(volume.name, None if left.is_gone else left)

    def run(self, what: str, chore: Callable[[], Message], again: Callable[[float], None], delay: float = 0.0) -> None:
        """Run a chore on a worker. When the host fails it, that is said, and `again` is called after a back-off."""

        def attempt() -> Message:
            try:
                return chore()
            except VolmgrError as error:
                problem = str(error)
                return Ask(lambda: failed(problem))

        def failed(problem: str) -> None:
            later = self.later(delay)
            self.event(Severity.WARNING, "HostFailed", f"{what}: {problem}; tried again in {later:g} s")
            self.timers.at(self.outside.monotonic() + later, lambda: again(later))

        self.outside.submit(attempt)

    def run_until_done(self, what: str, chore: Callable[[], Message], delay: float = 0.0) -> None:
        """Run a chore on a worker, again and again until the host lets it."""
        self.run(what, chore, lambda later: self.run_until_done(what, chore, later), delay)

    def later(self, delay: float) -> float:
        """Give the back-off after one of `delay` seconds; the first is after 0."""
        return min(max(delay * 2, self.config.backoff_initial), self.config.backoff_max)

    def appeared(self, what: str) -> None:
        """Let those who wait for this (an object, a driver) try again now."""
        self.on_appeared(what)
        self.appearances.note(what)
        for name, uid in self.awaited.pop(what, ()):
            self.world.admission.forget(name, uid)
            self.dirty[name] = None

    def event(
        self,
        severity: Severity,
        reason: str,
        message: str,
        *,
        uid: str = "",
        volume: str = "",
        pod: str = "",
        is_logged: bool = True,
    ) -> None:
        """Record and log what happened; what is not to be logged again is counted all the same."""
        message, volume = plain_json.text(message), plain_json.text(volume)
        entry = self.world.pods.get(uid)
        key = entry.pod.key if entry else pod
        self.world.events.record(severity, reason, message, pod=key, pod_uid=uid, volume=volume)
        level = logging.WARNING if severity is Severity.WARNING and is_logged else logging.DEBUG
        log.log(level, "%s: %s", reason, message, extra={"pod": key, "pod_uid": uid, "volume": volume})
