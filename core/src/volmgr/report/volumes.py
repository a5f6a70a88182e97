"""What one Pod's volumes do: state, step, errors, and what each waits for. Pure."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from volmgr.admission import conflict, holds_of
from volmgr.model.driver_sources import CSI_FIELD
from volmgr.model.names import CSI
from volmgr.model.volume import Presence
from volmgr.next_step import blocked, may_be, next_step
from volmgr.operations import Operation, Verb
from volmgr.plugins import PACKAGES
from volmgr.report.times import rfc3339
from volmgr.report.waiting import mount_is_good

if TYPE_CHECKING:
    from volmgr.actual import ActualVolume
    from volmgr.admission import Backoff
    from volmgr.desired import DesiredVolume
    from volmgr.plugin import Searched
    from volmgr.report.world import PodEntry, Running, World

STATES = {Presence.YES: "mounted", Presence.UNCERTAIN: "uncertain", Presence.NO: "not mounted"}
RESOLVE = "resolve"
"""The step before any operation: finding out what a volume is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumeReport:
    """One volume of one Pod. `names` are the Pod's own; `message` says in one line all that is wrong, or nothing.

    `silence` says of a running operation whose server does not answer since when that is so.
    """

    names: tuple[str, ...]
    type: str
    plugin: str
    unique_name: str
    state: str
    wanted: bool
    healthy: bool
    path: str = ""
    step: str = ""
    running: bool = False
    since: str | None = None
    attempts: int = 0
    last_error: str = ""
    next_retry: str | None = None
    retried_after: str = ""
    waits_for: str = ""
    progress: str = ""
    quarantined: bool = False
    silence: str = ""
    problem: str = ""
    message: str = ""


class Lens:
    """A world with its running operations by volume, so that many Pods can be looked at in one go."""

    def __init__(self, world: World) -> None:
        """Index what runs."""
        self.world = world
        self._running: dict[str, list[Running]] = defaultdict(list)
        for running in world.running.values():
            self._running[running.operation.volume].append(running)

    def volumes(self, uid: str) -> tuple[VolumeReport, ...]:
        """Report each volume that a Pod wants or has: what could not be resolved, then in the order of its manifest."""
        world = self.world
        entry = world.pods.get(uid)
        names = {volume.name for volume in world.desired.of_pod(uid)}
        names |= {volume.name for volume in world.actual.of_pod(uid)}
        unresolved = (
            [self._unresolved(entry, name) for name in sorted({*entry.errors, *entry.awaited})] if entry else []
        )
        reports = [self._volume(name, uid, entry) for name in sorted(names)]
        places = {volume.name: place for place, volume in enumerate(entry.pod.spec.volumes)} if entry else {}
        reports.sort(key=lambda each: min((places.get(name, len(places)) for name in each.names), default=len(places)))
        return (*unresolved, *reports)

    def _unresolved(self, entry: PodEntry, name: str) -> VolumeReport:
        uid = entry.pod.uid
        declared = next((volume for volume in entry.pod.spec.volumes if volume.name == name), None)
        report = VolumeReport(
            names=(name,),
            type=declared.type if declared else "",
            plugin="",
            unique_name="",
            state=STATES[Presence.NO],
            wanted=True,
            healthy=False,
            step=RESOLVE,
            since=rfc3339(entry.since),
            last_error=entry.errors.get(name, ""),
            waits_for=entry.awaited.get(name, ""),
        )
        wanted = [each.name for each in self.world.desired.of_pod(uid) if name in each.mounts[uid].outer_names]
        for volume in self.world.actual.of_pod(uid):
            mount = volume.mounts[uid]
            if volume.name in wanted or (mount.inline and declared and may_be(declared, mount)):
                path = str(mount.path or "")
                report = replace(report, plugin=volume.plugin, state=STATES[mount.state], path=path)
        return replace(report, message=describe(report))

    def _volume(self, name: str, uid: str, entry: PodEntry | None) -> VolumeReport:
        desired, actual = self.world.desired.get(name), self.world.actual.get(name)
        wanted = desired.mounts.get(uid) if desired else None
        mount = actual.mounts.get(uid) if actual else None
        spec = wanted.spec if wanted else actual.spec if actual else None
        report = VolumeReport(
            names=wanted.outer_names if wanted else (mount.spec_name,) if mount else (),
            type=spec.type if spec else "",
            plugin=desired.plugin if desired else actual.plugin if actual else "",
            unique_name=name,
            state=STATES[mount.state if mount else Presence.NO],
            wanted=wanted is not None,
            healthy=desired is not None and wanted is not None and mount_is_good(desired, actual, uid),
            path=str(mount.path or "") if mount else "",
            problem=mount.problem if mount else "",
        )
        report = self._with_step(report, uid, desired, actual)
        if not report.waits_for:
            report = replace(report, waits_for=self._waits_for(report, uid, entry, desired, actual))
        kept = wanted is None and entry is not None and not entry.leaving
        kept |= wanted is not None and wanted.keep_only and mount is None
        busy = bool(report.step or report.problem or report.waits_for)
        report = replace(report, healthy=(report.healthy or kept) and not busy)
        return report if report.healthy else replace(report, message=describe(report))

    def _with_step(
        self, report: VolumeReport, uid: str, desired: DesiredVolume | None, actual: ActualVolume | None
    ) -> VolumeReport:
        world = self.world
        mine = {uid, ""}
        running = [item for item in self._running.get(report.unique_name, ()) if item.operation.pod_uid in mine]
        due = [op for op in next_step(desired, actual, world.readiness) if op.pod_uid in mine]
        if running:
            now = running[0]
            report = replace(
                report,
                step=now.operation.verb.value,
                running=True,
                since=rfc3339(now.since),
                progress=now.progress,
                quarantined=now.quarantined,
                silence=world.silences.text(now.endpoint, now.since),
            )
            return self._with_backoff(report, world.admission.backoff(now.operation))
        if not due:
            return report
        report = replace(report, step=due[0].verb.value)
        backoff = world.admission.backoff(due[0])
        if backoff is not None:
            return self._with_backoff(report, backoff)
        wanted = desired or actual
        if wanted is not None and wanted.spec is not None and world.awaits_driver(wanted.spec):
            waits_for = f"drivers of {wanted.spec.type} to be looked for: volmgrd has only started"
            return replace(report, waits_for=waits_for)
        return replace(report, waits_for=self._holder_of(report.unique_name, due[0]))

    def _with_backoff(self, report: VolumeReport, backoff: Backoff | None) -> VolumeReport:
        if backoff is None:
            return report
        report = replace(report, attempts=backoff.attempts, last_error=backoff.error)
        if report.running:
            return report
        return replace(
            report,
            since=wall(self.world, backoff.since),
            next_retry=wall(self.world, backoff.until),
            retried_after=backoff.after,
        )

    def _holder_of(self, volume: str, due: Operation) -> str:
        """Say which operation keeps a due one from being started."""
        for running in self._running.get(volume, ()):
            other = running.operation
            owner = self.world.pods.get(other.pod_uid)
            whose = f" of Pod {owner.pod.key}" if owner else ""
            past = ", which is past its deadline" if running.quarantined else ""
            return f"{other.verb.value}{whose} on the same volume to end{past}"
        if survivor := survivor_before(self.world, due):
            return survivor
        for (name, uid), since in self.world.preparing.items():
            if name == volume and due.pod_uid in {"", uid}:
                return f"subPaths of it to be bound, which began at {rfc3339(since)}"
        return "" if due.verb is not Verb.UNMOUNT else self._teardown_waits(due.pod_uid)

    def _teardown_waits(self, uid: str) -> str:
        world = self.world
        if world.readiness.read_only:
            return "the root directory to be adopted: run volmgr adopt"
        if not world.readiness.may_unmount(uid):
            reasons = "; ".join(world.not_ready_because)
            return f"every source to be read whole ({reasons})" if reasons else "every source to be read whole"
        return ""

    def _waits_for(
        self,
        report: VolumeReport,
        uid: str,
        entry: PodEntry | None,
        desired: DesiredVolume | None,
        actual: ActualVolume | None,
    ) -> str:
        if report.plugin not in self.world.plugins.types:
            return missing_type(report.plugin, report.type, tuple(self.world.plugins.searched.values()))
        if desired is not None and uid in desired.mounts:
            found = [item.what for item in blocked(desired, actual, self.world.readiness) if item.pod_uid == uid]
            if not report.healthy and self.world.readiness.read_only:
                found.append(self._teardown_waits(uid))
            return "; ".join(text.removeprefix("waits for ") for text in found)
        serves = self.world.serving.get(uid, ())
        if serves and actual is not None and actual.kubelet_plugin != CSI:
            return f"volumes of {', '.join(sorted(serves))}, which its Pod serves, to go first"
        gone = entry is None or entry.leaving
        return self._teardown_waits(uid) if gone and not report.step else ""


def survivor_before(world: World, due: Operation) -> str:
    """Name the helper of an earlier daemon that keeps a due operation from being started; nothing if none does."""
    if not world.survivors:
        return ""
    desired, actual = world.desired.get(due.volume), world.actual.get(due.volume)
    facets = desired.facets if desired else actual.facets if actual else None
    needed = holds_of(due, facets, desired.exclusive if desired else ())
    for each in world.survivors.values():
        if conflict(each.held, needed):
            still = f"`{each.helper}` (pid {each.pid}, since {rfc3339(each.since)})"
            return f"an earlier volmgrd's {still}, which still runs"
    return ""


def wall(world: World, moment: float) -> str | None:
    """Give a moment of the back-offs' clock as a time of day."""
    return rfc3339(world.clock + moment - world.monotonic)


def never_before(what: str) -> str:
    """Say after what is tried again that failed for good; nothing known: after its manifest has changed."""
    return f"not tried again until {what or 'a manifest changes'}"


def missing_type(plugin: str, field: str = "", searched: tuple[Searched, ...] = ()) -> str:
    """Say which package, or driver, would serve a volume whose type is not installed."""
    places = [place for each in searched if field in {"", each.field} for place in each.places]
    if places and not plugin.startswith("kubernetes.io/"):
        return f"the driver {plugin}, which is looked for in {', '.join(places)}: install it again"
    short = plugin.rpartition("/")[2].replace("-", "")
    of_field = "" if field == CSI_FIELD and plugin != CSI else PACKAGES.get(field)  # then a class was the driver
    package = of_field or next((p for f, p in PACKAGES.items() if f.lower() == short), "")
    install = f"install {package}" if package else "install the package that brings it"
    return f"a package that serves {plugin}: {install}, then run volmgr plugins reload"


def describe(report: VolumeReport) -> str:
    """Say in one line what a volume does and why it is not done: which, step, since when, error, next try."""
    what = " ".join(report.names) or report.unique_name
    kind = report.type or report.plugin
    parts = [f"{report.state}, {report.problem}" if report.problem else report.state]
    step = report.step
    if report.running:
        parts.append(f"{step} running since {report.since}" + (f" ({report.progress})" if report.progress else ""))
    elif report.attempts:
        times = "once" if report.attempts == 1 else f"{report.attempts} times"
        again = f"next try at {report.next_retry}" if report.next_retry else never_before(report.retried_after)
        parts.append(f"{step} failed {times} since {report.since}, {again}")
    elif step == RESOLVE and report.last_error:
        parts.append(f"cannot be resolved since {report.since}")
    elif step and step != RESOLVE:
        parts.append(f"{step} is due")
    if report.quarantined:
        parts.append("past its deadline: quarantined until it really ends")
    if report.silence and not report.last_error.startswith(report.silence):
        parts.append(report.silence)
    if report.waits_for:
        said = report.waits_for
        parts.append(said if said.startswith("waits ") else f"waits for {said}")
    if report.last_error:
        parts.append(f"last error: {report.last_error}" if report.running else report.last_error)
    return f"volume {what} ({kind}): {'; '.join(parts)}"
