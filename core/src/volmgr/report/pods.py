"""What the Pods of the node are doing. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from volmgr.operations import Verb
from volmgr.report.contact import contact_lines, unserved, unserved_line
from volmgr.report.times import rfc3339
from volmgr.report.volumes import Lens, VolumeReport
from volmgr.report.waiting import is_mounted, leaves

if TYPE_CHECKING:
    from volmgr.report.world import Hold, PodEntry, ServerReading, World

MOUNTED = "mounted"


class PodState(StrEnum):
    """Where a Pod's volumes stand, in one word."""

    MOUNTED = "mounted"
    PENDING = "pending"
    LEAVING = "leaving"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldReport:
    """Who keeps a Pod's volumes; `text` is for people."""

    id: str
    pid: int
    who: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PodSummary:
    """One Pod in the list; `reason` is the first thing that is wrong."""

    namespace: str
    name: str
    uid: str
    state: str
    source: str
    origin: str
    since: str | None
    wanted: int
    mounted: int
    holds: int
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodStatus:
    """One Pod with all its volumes."""

    namespace: str
    name: str
    uid: str
    state: str
    source: str
    origin: str
    since: str | None
    volumes: tuple[VolumeReport, ...]
    holds: tuple[HoldReport, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusReport:
    """All Pods, by namespace and name, whether the daemon is ready, and what is wrong with files of manifests.

    `contact` has the sources that were read whole once and do not hear of their API server now, and those that have
    Pods and that nobody reads; `reading` says how objects are read from an API server; `drained`, that nothing is
    mounted until the daemon is started again.
    """

    ready: bool
    reasons: tuple[str, ...]
    pods: tuple[PodSummary, ...]
    complaints: tuple[str, ...] = ()
    contact: tuple[str, ...] = ()
    reading: ServerReading | None = None
    drained: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadyReport:
    """Whether every source was read and reconstruction is done, else why not."""

    ready: bool
    reasons: tuple[str, ...]


def ready(world: World) -> ReadyReport:
    """Say whether the daemon is ready."""
    reasons = world.unready
    return ReadyReport(ready=not reasons, reasons=reasons)


def status(world: World) -> StatusReport:
    """Report every Pod, each in one line."""
    lens = Lens(world)
    entries = sorted(world.pods.values(), key=lambda entry: (entry.pod.key, entry.leaving))
    reasons = world.unready
    return StatusReport(
        ready=not reasons,
        reasons=reasons,
        pods=tuple(_summary(lens, entry) for entry in entries),
        complaints=world.complaint_texts,
        contact=(*contact_lines(world), *(unserved_line(*each) for each in unserved(world).items())),
        reading=world.reading,
        drained=world.draining,
    )


def pod_status(world: World, uid: str) -> PodStatus:
    """Report one Pod with its volumes; raises KeyError for an unknown UID."""
    entry = world.pods[uid]
    volumes = Lens(world).volumes(uid)
    meta = entry.pod.metadata
    return PodStatus(
        namespace=meta.namespace,
        name=meta.name,
        uid=uid,
        state=pod_state(world, entry, volumes),
        source=entry.source,
        origin=entry.origin,
        since=rfc3339(entry.since),
        volumes=volumes,
        holds=hold_reports(entry),
    )


def pod_state(world: World, entry: PodEntry, volumes: tuple[VolumeReport, ...]) -> PodState:
    """Say in one word where a Pod stands."""
    if leaves(world, entry):
        return PodState.LEAVING
    good = is_mounted(world, entry.pod.uid) and all(volume.healthy or _only_grows(volume) for volume in volumes)
    return PodState.MOUNTED if good else PodState.PENDING


def _only_grows(volume: VolumeReport) -> bool:
    """Say whether a volume is as its Pod needs it, and is to have another size."""
    return volume.state == MOUNTED and volume.step == Verb.EXPAND.value and not volume.problem


def hold_reports(entry: PodEntry) -> tuple[HoldReport, ...]:
    """Report who holds a Pod."""
    return tuple(
        HoldReport(id=hold.id, pid=hold.pid, who=hold.who, text=_hold_text(hold))
        for _, hold in sorted(entry.holds.items())
    )


def _hold_text(hold: Hold) -> str:
    if not hold.pid:
        return hold.who or hold.id
    return f"PID {hold.pid}" + (f" ({hold.who})" if hold.who and str(hold.pid) not in hold.who else "")


def _summary(lens: Lens, entry: PodEntry) -> PodSummary:
    meta = entry.pod.metadata
    volumes = lens.volumes(meta.uid)
    wanted = [volume for volume in volumes if volume.wanted]
    return PodSummary(
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        state=pod_state(lens.world, entry, volumes),
        source=entry.source,
        origin=entry.origin,
        since=rfc3339(entry.since),
        wanted=len(wanted),
        mounted=sum(volume.state == MOUNTED for volume in wanted),
        holds=len(entry.holds),
        reason=next((volume.message for volume in volumes if volume.message), ""),
    )
