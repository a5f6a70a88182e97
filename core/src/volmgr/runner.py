"""Runs operations: what next_step() says for a dirty volume is admitted, started, watched and settled."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from volmgr import growths
from volmgr.actual import ActualVolume, Facts, settle
from volmgr.admission import Held, holds_of
from volmgr.errors import OperationError, VolmgrError
from volmgr.executor import Executor
from volmgr.giving_way import GivingWay
from volmgr.host.interface import OwnershipProgress
from volmgr.jobs import Job, Result, next_mount
from volmgr.messages import ProgressMade
from volmgr.model.driver_sources import secrets_of
from volmgr.model.meta import ObjectRef
from volmgr.model.volume import Attachable, Presence
from volmgr.next_step import next_step
from volmgr.operations import Ending, Operation, Verb
from volmgr.report.events import Severity
from volmgr.report.world import Running

if TYPE_CHECKING:
    from volmgr.desired import DesiredVolume
    from volmgr.desk import Desk
    from volmgr.timers import Timer
    from volmgr.volume_type import VolumeType

CLOCK_CHECK = 60.0
"""Seconds after which a time of day is looked at again: the clock may be set, and the machine may have slept."""

_FAILURE_REASONS = {
    Verb.ATTACH: "FailedAttachVolume",
    Verb.DETACH: "FailedDetachVolume",
    Verb.EXPAND: "VolumeResizeFailed",
}
_SUCCESS_REASONS = {
    Verb.ATTACH: "SuccessfulAttachVolume",
    Verb.MOUNT: "SuccessfulMountVolume",
    Verb.UNMOUNT: "SuccessfulUnmountVolume",
    Verb.EXPAND: "FileSystemResizeSuccessful",
}


class Runner:
    """Starts and settles the operations of volumes."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._world = desk.world
        self._executor = Executor(desk.host, desk.outside.wall, desk.config.mount_options)
        self._giving_way: dict[Operation, GivingWay] = {}
        self._deadlines: dict[Operation, Timer] = {}
        """Of slow operations: when they are overdue."""
        self._walks: dict[Operation, float] = {}
        """Operations that give files to a group, and when the next event is to say so."""
        self._refreshes: dict[tuple[str, str], Timer] = {}
        """What looks whether a mount is due again, by volume and Pod."""
        self._stopped: Callable[[], None] | None = None

    def stop(self, then: Callable[[], None]) -> None:
        """Start nothing any more, and call `then` when every running operation has ended or is overdue."""
        self._stopped = then
        if not self._world.running:
            self._desk.timers.at(self._desk.outside.monotonic() + self._desk.config.reload_delay, then)

    def look_at(self, name: str) -> None:
        """Start every operation of a volume that is due and may run now."""
        if self._stopped is not None or not self._world.reconstructed:
            return
        desired, actual = self._world.desired.get(name), self._world.actual.get(name)
        if desired is None and actual is not None and self._is_left_to_others(actual):
            self._desk.put(name, None)
            return
        if desired is not None and actual is not None:
            growths.look_at(self._desk, desired, actual)
        for operation in next_step(desired, actual, self._world.readiness):
            self._try(operation, desired, actual)

    def _is_left_to_others(self, actual: ActualVolume) -> bool:
        """Say whether only an attachment is left that the node itself does not take back."""
        others = self._desk.config.controller_attaches or actual.attachable is Attachable.NO
        return (
            others
            and self._world.readiness.may_clean_up
            and not actual.mounts
            and actual.device is Presence.NO
            and not self._world.admission.is_held(actual.name)
        )

    def _try(self, operation: Operation, desired: DesiredVolume | None, actual: ActualVolume | None) -> None:
        world = self._world
        world.admission.turn(operation)
        backoff = world.admission.backoff(operation)
        if backoff is not None and self._desk.outside.monotonic() < backoff.until:
            return
        plugin = desired.plugin if desired and operation.verb.is_making else actual.plugin if actual else ""
        volume_type = world.plugins.types.get(plugin)
        if volume_type is None or self._must_wait(operation):
            return
        if volume_type.retired and operation.verb.is_making:
            return
        wanted = desired or actual
        if wanted is not None and world.awaits_driver(wanted.spec):
            return
        facets = desired.facets if desired else actual.facets if actual else None
        exclusive, endpoint = (desired.exclusive, desired.endpoint) if desired else self._kept_from_others(actual)
        held = holds_of(operation, facets, exclusive, f"{plugin} {endpoint}" if endpoint else "")
        if not world.admission.try_hold(held):
            return
        self._start(operation, volume_type, held, desired, actual)

    def _kept_from_others(self, actual: ActualVolume | None) -> tuple[tuple[str, ...], str]:
        """Give the exclusive keys and the endpoint of a volume that nobody wants any more."""
        volume_type = self._world.plugins.types.get(actual.plugin) if actual else None
        if actual is None or actual.spec is None or volume_type is None:
            return (), ""
        try:
            return volume_type.ask("exclusive", actual.spec), volume_type.ask("endpoint", actual.spec)
        except VolmgrError:
            return (), ""

    def _must_wait(self, operation: Operation) -> bool:
        """Say whether a Pod's leftovers are being cleared away, or an older volume of that name is still there."""
        uid = operation.pod_uid
        entry = self._world.pods.get(uid)
        if entry is None or operation.verb is not Verb.MOUNT:
            return entry is not None and entry.tidying
        desired = self._world.desired.get(operation.volume)
        if desired is None or entry.tidying:
            return entry.tidying
        for older in self._world.actual.of_pod(uid):
            if older.name == desired.name or older.mounts[uid].spec_name != desired.mounts[uid].spec.name:
                continue
            if older.mounts[uid].source_key or older.kubelet_plugin != desired.kubelet_plugin:
                return True
            # Found without a record, and its type could not say its name: it is the very directory of this one.
            self._desk.drop_mount(older, uid)
            self._desk.dirty[older.name] = None
        return False

    def _start(
        self,
        operation: Operation,
        volume_type: VolumeType,
        held: Held,
        desired: DesiredVolume | None,
        actual: ActualVolume | None,
    ) -> None:
        mount = desired.mounts.get(operation.pod_uid) if desired else None
        wishes = (mount,) if mount else tuple(desired.mounts.values()) if desired else ()
        references = {reference.ref for wish in wishes for reference in wish.references}
        if operation.verb is Verb.DETACH and actual is not None and actual.spec is not None:
            references |= secrets_of(actual.spec.source)
        allowed = self._desk.config.operation_deadline
        if operation.verb is Verb.MOUNT:
            allowed = max(allowed, volume_type.plugin.mount_deadline)
        job = Job(
            operation=operation,
            type=volume_type,
            held=held,
            desired=desired,
            actual=actual,
            objects={ref: entry.item for ref in references if (entry := self._world.objects.get(ref)) is not None},
            node=self._world.node,
            node_name=self._desk.config.node_name,
            attached_path=self._desk.attached.get(operation.volume, ""),
            others_detach=actual is not None and self._desk.config.controller_attaches,
            allowed=allowed,
            progress=lambda text: self._desk.post(ProgressMade(operation, text)),
        )
        self._desk.jobs[operation] = job
        self._desk.appearances.begin(operation)
        self._world.running[operation] = Running(operation=operation, since=self._world.clock, endpoint=held.endpoint)
        patience = allowed + self._desk.config.quarantine_grace
        overdue = self._desk.outside.monotonic() + patience
        way = GivingWay(self._desk, lambda: self._await_until(operation, overdue), at_most=patience)
        self._giving_way[operation] = way
        self._touch(operation)
        growths.begun(self._desk, job)
        uids = (operation.pod_uid,) if operation.pod_uid else tuple(desired.mounts if desired else ())
        needed = frozenset(ref for uid in uids for ref in self._desk.references.get(uid, ()))
        self._desk.outside.submit(way.noting(lambda: self._perform(job, needed)))

    def _perform(self, job: Job, needed: frozenset[ObjectRef]) -> Result:
        """Run on a worker."""
        try:
            if needed and job.operation.verb.is_making:
                self._desk.outside.keep(needed)
        except OperationError as error:
            return Result(job=job, ending=Ending.UNCHANGED, facts=Facts(plugin=job.type.name), error=str(error))
        result = self._executor.perform(job)
        operation = job.operation
        growths.remember(self._desk, result)
        self._world.plugins.finished(
            operation.volume, operation.verb.value, operation.pod_uid, result.ending.value, result.seconds
        )
        return result

    def _await_until(self, operation: Operation, overdue: float) -> None:
        """Await the end of a slow operation until it is overdue, which means that it hangs."""
        self._deadlines[operation] = self._desk.timers.at(overdue, lambda: self._quarantine(operation))

    def _quarantine(self, operation: Operation) -> None:
        """Let an overdue operation leave the caps and name it; it keeps its keys until it has really ended."""
        running = self._world.running.get(operation)
        job = self._desk.jobs.get(operation)
        if running is None or job is None:
            return
        self._world.running[operation] = replace(running, quarantined=True)
        for name in self._world.admission.quarantine(job.held):
            self._desk.dirty[name] = None
        now = self._desk.outside.wall()
        if running.endpoint:
            self._world.silences.note(running.endpoint, running.since, now)
        silence = self._world.silences.text(running.endpoint, now)
        message = f"{operation.verb} does not return; it is left alone until it does" + (silence and f": {silence}")
        self._desk.event(Severity.WARNING, "OperationStuck", message, uid=operation.pod_uid, volume=operation.volume)
        self._touch(operation)

    def settle(self, result: Result) -> None:
        operation = result.job.operation
        name = operation.volume
        running = self._world.running.pop(operation, None)
        self._desk.jobs.pop(operation, None)
        has_appeared = self._desk.appearances.end(operation, result.waits_for)
        self._walks.pop(operation, None)
        timer = self._deadlines.pop(operation, None)
        if timer is not None:
            timer.cancel()
        way = self._giving_way.pop(operation, None)
        if way is not None:
            way.over()
        if running is not None and running.quarantined:
            result = replace(result, ending=Ending.UNCERTAIN, error=result.error or "it ended past its deadline")
        result = self._heard_of_endpoint(result, running)
        for again in self._world.admission.release(result.job.held):
            self._desk.dirty[again] = None
        before = self._world.actual.get(name)
        self._desk.put(name, settle(before, operation, result.ending, result.facts))
        growths.ended(self._desk, result)
        if result.ending is Ending.DONE:
            self._world.admission.forget(name, operation.pod_uid, operation.verb)
            self.refresh_later(name, operation.pod_uid)
            if _is_new(operation, before):
                growths.refuse(self._desk, operation, result.job.desired)
                self._desk.appeared(next_mount(name))
            if operation.verb is Verb.UNMOUNT:  # another volume of that Pod may have waited for its name
                for volume in self._world.desired.of_pod(operation.pod_uid):
                    self._desk.dirty[volume.name] = None
            for notice in result.facts.notices:
                self._desk.event(
                    Severity.WARNING, notice.reason, notice.message, uid=operation.pod_uid, volume=operation.volume
                )
            reason = _SUCCESS_REASONS.get(operation.verb)
            if reason:
                self._desk.event(Severity.NORMAL, reason, f"{operation.verb}: done", uid=operation.pod_uid, volume=name)
        elif not has_appeared:
            self._back_off(result)
        self._touch(operation)
        if self._stopped is not None and all(other.quarantined for other in self._world.running.values()):
            self._desk.timers.at(self._desk.outside.monotonic() + self._desk.config.reload_delay, self._stopped)

    def _heard_of_endpoint(self, result: Result, running: Running | None) -> Result:
        """Note whether the server behind a volume answers; an error that comes from its silence says since when."""
        endpoint, silences = result.job.held.endpoint, self._world.silences
        if not endpoint or running is None:
            return result
        if result.ending is Ending.DONE and result.job.operation.verb.is_making:
            silences.end(endpoint)
        if not result.silent:
            return result
        now = self._desk.outside.wall()
        silences.note(endpoint, running.since, now)
        return replace(result, error=f"{silences.text(endpoint, now)}: {result.error}")

    def refresh_later(self, name: str, uid: str) -> None:
        """Let a mount be made again when its plugin says that it is due (an expiring token)."""
        earlier = self._refreshes.pop((name, uid), None)
        if earlier is not None:
            earlier.cancel()
        due = self._due_at(name, uid)
        if due is not None:
            delay = min(max(0.0, due - self._desk.outside.wall()), CLOCK_CHECK)
            when = self._desk.outside.monotonic() + delay
            self._refreshes[name, uid] = self._desk.timers.at(when, lambda: self._refresh(name, uid))

    def _due_at(self, name: str, uid: str) -> float | None:
        """Say when a mount is due again, which is never at once after it was made."""
        volume = self._world.actual.get(name)
        mount = volume.mounts.get(uid) if volume else None
        volume_type = self._world.plugins.types.get(volume.plugin) if volume else None
        if volume is None or volume.spec is None or mount is None or volume_type is None:
            return None
        due = mount.due_at
        try:
            due = volume_type.ask("refresh_at", volume.spec, mount.mounted_at) if due is None else due
        except VolmgrError:
            return None
        return None if due is None else max(due, mount.mounted_at + self._desk.config.backoff_initial)

    def _refresh(self, name: str, uid: str) -> None:
        volume, due, now = self._world.actual.get(name), self._due_at(name, uid), self._desk.outside.wall()
        if volume is None or due is None or (due > now and volume.mounts[uid].mounted_at <= now):
            self.refresh_later(name, uid)
            return
        # Also when the clock was set back to before it was made: what is good from then on only is refused until then.
        del self._refreshes[name, uid]
        self._desk.put(name, volume.with_mount(replace(volume.mounts[uid], due=True)))
        self._world.admission.forget(name, uid)  # what failed for another reason is tried at once now
        self._desk.dirty[name] = None

    def _is_due(self, operation: Operation) -> bool:
        volume = self._world.actual.get(operation.volume)
        mount = volume.mounts.get(operation.pod_uid) if volume else None
        return operation.verb is Verb.MOUNT and mount is not None and mount.due

    def _back_off(self, result: Result) -> None:
        operation = result.job.operation
        if result.waits_for:
            waiting = self._desk.awaited.setdefault(result.waits_for, set())
            waiting.add((operation.volume, operation.pod_uid))
        now = self._desk.outside.monotonic()
        longest = self._desk.config.refresh_backoff_max if self._is_due(operation) else None
        after = result.waits_for if result.final else ""
        before = self._world.admission.backoff(operation)
        waits_on = bool(result.waits_for) and before is not None and before.error == result.error
        backoff = self._world.admission.failed(
            operation, result.error, now, final=result.final, after=after, longest=longest
        )
        if not result.final:
            self._desk.timers.at(backoff.until, lambda: self._desk.dirty.__setitem__(operation.volume, None))
        if result.job.cancel.is_set():
            return
        block = result.facts.spec is not None and result.facts.mode.value == "Block"
        reason = _FAILURE_REASONS.get(operation.verb, "FailedMapVolume" if block else "FailedMount")
        if not operation.verb.is_making:
            reason = _FAILURE_REASONS.get(operation.verb, "FailedUnmount")
        message, uid = f"{operation.verb}: {result.error}", operation.pod_uid
        self._desk.event(Severity.WARNING, reason, message, uid=uid, volume=operation.volume, is_logged=not waits_on)

    def note_progress(self, message: ProgressMade) -> None:
        running = self._world.running.get(message.operation)
        if running is not None:
            self._world.running[message.operation] = replace(running, progress=message.text)
            if isinstance(message.text, OwnershipProgress) and not running.quarantined:
                self._walks_on(message.operation, message.text)

    def _walks_on(self, operation: Operation, text: str) -> None:
        """Let a walk over many files take its time, as long as it gets on, and say now and then that it does."""
        now = self._desk.outside.monotonic()
        config = self._desk.config
        if operation in self._deadlines:
            self._deadlines[operation].cancel()
            self._await_until(operation, now + self._desk.jobs[operation].allowed + config.quarantine_grace)
        if now >= self._walks.setdefault(operation, now + config.ownership_event_delay):
            self._walks[operation] = now + config.ownership_event_interval
            reason = "VolumePermissionChangeInProgress"
            self._desk.event(Severity.WARNING, reason, text, uid=operation.pod_uid, volume=operation.volume)

    def _touch(self, operation: Operation) -> None:
        """Remember whose state may have changed."""
        if operation.pod_uid:
            self._desk.touched[operation.pod_uid] = None
            return
        desired, actual = self._world.desired.get(operation.volume), self._world.actual.get(operation.volume)
        for uid in (*(desired.mounts if desired else ()), *(actual.mounts if actual else ())):
            self._desk.touched[uid] = None


def _is_new(operation: Operation, before: ActualVolume | None) -> bool:
    """Say whether a mount that is done was none that was there, and is only made again."""
    mount = before.mounts.get(operation.pod_uid) if before else None
    return operation.verb is Verb.MOUNT and (mount is None or mount.state is not Presence.YES)
