"""Everything that the reconciler owns, as queries see it: a query runs between two events, on its thread."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from volmgr.actual import ActualStateOfWorld
from volmgr.admission import Admission, Held
from volmgr.desired import ABSENT, DesiredStateOfWorld
from volmgr.errors import ManifestError
from volmgr.host.paths import Paths
from volmgr.model.driver_info import DriverInfo
from volmgr.model.driver_sources import CSI_FIELD
from volmgr.model.meta import ObjectRef
from volmgr.model.objects import Node, Object
from volmgr.model.pod import Pod
from volmgr.model.selinux import Labelling, LabelTrouble
from volmgr.next_step import Readiness
from volmgr.operations import Operation
from volmgr.plugins import Plugins
from volmgr.report.events import EventLog
from volmgr.report.silences import Silences
from volmgr.report.times import rfc3339

if TYPE_CHECKING:
    from volmgr.model.volume import VolumeSpec


_SILENCE = 600.0
"""Seconds; while anybody wants something of a silent endpoint, it is asked more often than that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """Somebody says that containers of a Pod still run: a process (pid, start time in clock ticks) or a hook."""

    id: str
    pod_uid: str
    pid: int = 0
    start_time: int = 0
    boot_id: str = ""
    who: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Survivor:
    """A helper that an earlier daemon let run for an operation, and that has not ended: it keeps what that one held.

    `start_time` is in clock ticks since boot, `since` in seconds of Unix time. `until`, if there is a deadline, is in
    seconds of the monotonic clock, which goes on from daemon to daemon.
    """

    helper: str
    pid: int
    start_time: int
    boot_id: str
    since: float
    until: float | None
    held: Held

    @property
    def id(self) -> str:
        """Tell it from every other process since the boot."""
        return f"{self.pid}-{self.start_time}"


@dataclass(slots=True, kw_only=True)
class PodEntry:
    """One accepted Pod. `leaving`: its source no longer has it; `errors` are the populator's, newest last."""

    pod: Pod
    source: str
    origin: str
    since: float
    leaving: bool = False
    errors: dict[str, str] = field(default_factory=dict[str, str])
    """What could not be resolved, by the Pod's own volume name."""
    awaited: dict[str, str] = field(default_factory=dict[str, str])
    """What cannot be resolved yet, by the Pod's own volume name, and the object that it waits for."""
    holds: dict[str, Hold] = field(default_factory=dict[str, Hold])
    tidying: bool = False
    """Its directory is being cleared away."""
    torn_down: bool = False
    """Its directory was cleared away (a finished Pod stays known after that)."""
    released: bool = False
    """The installed packages were asked, and nobody runs its containers any more."""
    processed: bool = False
    label_troubles: tuple[LabelTrouble, ...] = ()
    """What is wrong with the SELinux labels of its volumes, as it is counted."""

    @property
    def running(self) -> tuple[str, ...]:
        """The containers that run, as the API server says; of a Pod that it has no longer it said nothing lately."""
        return () if self.leaving else self.pod.status.running

    @property
    def is_held(self) -> bool:
        """Whether somebody says that its containers still run."""
        return bool(self.holds or self.running)


class PodTable(dict[str, PodEntry]):
    """Pods by UID, with an index by `namespace/name`."""

    def __init__(self) -> None:
        super().__init__()
        self._by_key: dict[str, set[str]] = {}

    def __setitem__(self, uid: str, entry: PodEntry) -> None:
        super().__setitem__(uid, entry)
        self._by_key.setdefault(entry.pod.key, set()).add(uid)

    def __delitem__(self, uid: str) -> None:
        key = self[uid].pod.key
        super().__delitem__(uid)
        self._by_key[key].discard(uid)
        if not self._by_key[key]:
            del self._by_key[key]

    def named(self, key: str) -> tuple[PodEntry, ...]:
        """Give the Pods with this `namespace/name`, those not leaving first, the newest first."""
        found = (self[uid] for uid in self._by_key.get(key, ()))
        return tuple(sorted(found, key=lambda entry: (entry.leaving, -entry.since)))


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectEntry:
    """One other object; `revision` differs whenever its content may."""

    item: Object
    revision: str
    origin: str = ""
    """The file that it comes from."""
    read_at: float = 0.0
    """When an API server said so: Unix time in seconds; 0 for what comes from files."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """An operation at work; `since` is Unix time in seconds, `quarantined` once its deadline has passed."""

    operation: Operation
    since: float
    endpoint: str = ""
    progress: str = ""
    quarantined: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Orphan:
    """Something on disk without a Pod, and why it was kept; `plugin`: the type whose directory it lies in, if any."""

    pod_uid: str
    path: str
    reason: str
    plugin: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerReading:
    """How what Pods refer to is read from an API server: so many watches, and so many objects that are asked for."""

    server: str
    watches: int = 0
    asked: int = 0
    unregistered: str = ""
    """Why the node is not known as one that takes volumes; empty when it is."""
    driver_problems: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """By name: why the cluster is not told of a driver of `csi`."""


@dataclass(slots=True)
class World:
    """The state of the node as the daemon knows it."""

    paths: Paths
    plugins: Plugins
    events: EventLog
    admission: Admission
    desired: DesiredStateOfWorld = field(default_factory=DesiredStateOfWorld)
    actual: ActualStateOfWorld = field(default_factory=ActualStateOfWorld)
    pods: PodTable = field(default_factory=PodTable)
    objects: dict[ObjectRef, ObjectEntry] = field(default_factory=dict[ObjectRef, ObjectEntry])
    sources: dict[str, str] = field(default_factory=dict[str, str])
    """By source: empty when it was read whole, else why it is not ready."""
    out_of_contact: dict[str, str] = field(default_factory=dict[str, str])
    """By source that was read whole once: why it is not current now."""
    source_contact: dict[str, float] = field(default_factory=dict[str, float])
    """By source: when it last heard of an API server, Unix time in seconds."""
    reading: ServerReading | None = None
    """Where there is an API server."""
    fetched_kinds: frozenset[str] = frozenset()
    """Kinds of objects that are fetched from an API server while a Pod refers to them; none without one."""
    awaited_objects: dict[ObjectRef, str] = field(default_factory=dict[ObjectRef, str])
    """Objects that a Pod refers to and of which it is not known whether they are there, and why."""
    complaints: dict[str, tuple[ManifestError, ...]] = field(default_factory=dict[str, tuple[ManifestError, ...]])
    running: dict[Operation, Running] = field(default_factory=dict[Operation, Running])
    preparing: dict[tuple[str, str], float] = field(default_factory=dict[tuple[str, str], float])
    """Volumes of which subPaths are being bound, by unique name and Pod, and since when: Unix time in seconds."""
    silences: Silences = field(default_factory=lambda: Silences(_SILENCE))
    survivors: dict[str, Survivor] = field(default_factory=dict[str, Survivor])
    """Helpers of an earlier daemon that still run, by id."""
    drivers: dict[str, DriverInfo] = field(default_factory=dict[str, DriverInfo])
    """Drivers of `csi` that types with sockets serve, by name."""
    drivers_gone: dict[str, float] = field(default_factory=dict[str, float])
    """Drivers of `csi` that were registered and are not any more, and since when: Unix time in seconds."""
    serving: dict[str, set[str]] = field(default_factory=dict[str, set[str]])
    """While the node is drained: Pods, by UID, that serve drivers of which something is left; these, by name."""
    required_drivers: tuple[str, ...] = ()
    """Drivers of `csi` without which the node takes no Pods."""
    orphans: dict[str, Orphan] = field(default_factory=dict[str, Orphan])
    unfinished: dict[str, str] = field(default_factory=dict[str, str])
    """PersistentVolumes for whose claims, which are gone, something is still to be done, by name: what and why."""
    node: Node | None = None
    readiness: Readiness = field(default_factory=Readiness)
    labelling: Labelling = field(default_factory=Labelling)
    """What the node says of SELinux labels."""
    reconstructed: bool = False
    awaits_node_status: bool = False
    """A controller attaches, and what it has attached was not read yet."""
    attach_note: str = ""
    """What keeps a controller from attaching to this node; empty when nothing does."""
    draining: bool = False
    keeps_finished: bool = False
    """Pods that have finished keep their volumes."""
    clock: float = 0.0
    """Unix time in seconds at which the reconciler last woke up."""
    monotonic: float = 0.0
    """The same moment on the clock that back-offs are measured with, which never goes back."""

    def awaited(self, ref: ObjectRef) -> str:
        """Say why it is not known whether there is an object that a Pod refers to; empty when it is."""
        return self.awaited_objects.get(ref, "")

    def absence(self, ref: ObjectRef) -> str:
        """Say who would have an object that is missing; empty: the manifests would."""
        return ABSENT if ref.kind in self.fetched_kinds else ""

    @property
    def placed_node(self) -> Node | None:
        """The node with what its drivers say of where it is; a cluster's Node has those labels itself."""
        if self.node is None or self.fetched_kinds:
            return self.node
        said = {key: value for info in self.drivers.values() for key, value in info.topology.items()}
        if not said:
            return self.node
        meta = self.node.metadata
        return replace(self.node, metadata=replace(meta, labels={**said, **meta.labels}))

    @property
    def sources_ready(self) -> bool:
        """Say whether every source was read whole."""
        return bool(self.sources) and not any(self.sources.values())

    @property
    def not_ready_because(self) -> tuple[str, ...]:
        """Say what must be known before anything is taken away; empty when it is."""
        reasons = [f"source {name}: {problem}" for name, problem in sorted(self.sources.items()) if problem]
        if not self.sources:
            reasons.append("no source has reported yet")
        if not self.reconstructed:
            reasons.append("reconstruction is not done")
        if self.awaits_node_status:
            reasons.append("the node status was not read yet" + (f": {self.attach_note}" if self.attach_note else ""))
        return tuple(reasons)

    @property
    def unready(self) -> tuple[str, ...]:
        """Say why the node takes no Pods yet (`/readyz`).

        Beyond what keeps volumes mounted: that it is registered, and that the drivers are there which it must have.
        """
        unregistered = self.reading.unregistered if self.reading is not None else ""
        missing = (f"{text}, which required_drivers names" for text in self.missing_drivers.values())
        return (*self.not_ready_because, *([unregistered] if unregistered else ()), *missing)

    @property
    def missing_drivers(self) -> Mapping[str, str]:
        """Say by name which drivers of `csi` the node must have and has not, and since when."""
        there = {*self.drivers, *self.plugins.drivers_of(CSI_FIELD)} if self.required_drivers else set[str]()
        return {name: self.missing_driver(name) for name in self.required_drivers if name not in there}

    def missing_driver(self, name: str) -> str:
        """Say of a driver of `csi` that is not there since when."""
        since = rfc3339(self.drivers_gone.get(name, 0.0))
        seen = f"not registered since {since}" if since else "never seen on this node since volmgrd started"
        return f"waiting for driver {name} ({seen})"

    def is_looking_for_drivers(self, field: str) -> bool:
        """Say whether it is not known yet which drivers of a field there are, since the daemon has only started."""
        searched = self.plugins.searched.get(field)
        return searched is not None and searched.looking

    def awaits_driver(self, spec: VolumeSpec[Any] | None) -> bool:
        """Say whether a volume's driver may yet be found: its operations wait until that is known."""
        if spec is None or spec.driver is None or not self.is_looking_for_drivers(spec.type):
            return False
        return spec.driver not in self.drivers and spec.driver not in self.plugins.drivers_of(spec.type)

    def driver_problem(self, name: str) -> str:
        """Say why the cluster is not told of a driver of `csi`; empty when it is, and where there is no cluster."""
        return self.reading.driver_problems.get(name, "") if self.reading is not None else ""

    @property
    def complaint_texts(self) -> tuple[str, ...]:
        """Say what is wrong with files of manifests, by file."""
        return tuple(str(error) for _, errors in sorted(self.complaints.items()) for error in errors)

    @property
    def volumes_in_use(self) -> tuple[str, ...]:
        """Give what belongs into the node status' volumesInUse: attachable and wanted, or still attached; sorted."""
        return tuple(sorted(self.desired.attachable | self.actual.attached))

    def find_pods(self, selector: str) -> tuple[PodEntry, ...]:
        """Find Pods by UID, `namespace/name`, or name (namespace `default`), those not leaving first."""
        if selector in self.pods:
            return (self.pods[selector],)
        return self.pods.named(selector if "/" in selector else f"default/{selector}")
