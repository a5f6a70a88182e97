"""What would be done now, in order, with reasons. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from volmgr.next_step import blocked, plan
from volmgr.report.volumes import missing_type, never_before, survivor_before, wall

if TYPE_CHECKING:
    from volmgr.operations import Operation
    from volmgr.report.world import World


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedOperation:
    """One operation that is due; `delayed` says what keeps it from being started at once, if anything does."""

    verb: str
    volume: str
    pod: str
    pod_uid: str
    reason: str
    delayed: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingVolume:
    """A wish for which nothing can be done yet, and what it waits for."""

    volume: str
    pod: str
    pod_uid: str
    waits_for: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanReport:
    """The operations that are due, in order; wishes that wait; and why nothing may be taken away yet, if so."""

    operations: tuple[PlannedOperation, ...]
    waiting: tuple[WaitingVolume, ...]
    notes: tuple[str, ...]


def plan_report(world: World) -> PlanReport:
    """Report all operations that are due, and all wishes that wait.

    Of a root that is not adopted: what would be due if it were, since that is what its owner must know before.
    """
    operations = plan(world.desired, world.actual, replace(world.readiness, read_only=False))
    return PlanReport(
        operations=tuple(_planned(world, operation) for operation in operations),
        waiting=(*_blocked(world), *_unresolved(world)),
        notes=_notes(world),
    )


def _planned(world: World, operation: Operation) -> PlannedOperation:
    entry = world.pods.get(operation.pod_uid)
    return PlannedOperation(
        verb=operation.verb.value,
        volume=operation.volume,
        pod=entry.pod.key if entry else "",
        pod_uid=operation.pod_uid,
        reason=operation.reason,
        delayed=_delay(world, operation),
    )


def _delay(world: World, operation: Operation) -> str:
    actual = world.actual.get(operation.volume)
    if actual is not None and actual.plugin not in world.plugins.types:
        return f"waits for {missing_type(actual.plugin)}"
    if world.readiness.read_only:
        return "the root directory is not adopted: run volmgr adopt"
    backoff = world.admission.backoff(operation)
    if any(running.key == operation.key for running in world.running):
        return "it runs"
    if backoff is not None and backoff.until > world.monotonic:
        again = wall(world, backoff.until)
        then = f"next try at {again}" if again else never_before(backoff.after)
        return f"failed {backoff.attempts} times, {then}: {backoff.error}"
    if world.admission.is_held(operation.volume):
        survivor = survivor_before(world, operation)
        return f"waits for {survivor}" if survivor else "another operation of this volume runs"
    return ""


def _blocked(world: World) -> tuple[WaitingVolume, ...]:
    return tuple(
        WaitingVolume(
            volume=volume.name,
            pod=volume.mounts[item.pod_uid].pod.key,
            pod_uid=item.pod_uid,
            waits_for=item.what.removeprefix("waits for "),
        )
        for volume in sorted(world.desired, key=lambda volume: volume.name)
        for item in blocked(volume, world.actual.get(volume.name), world.readiness)
    )


def _unresolved(world: World) -> tuple[WaitingVolume, ...]:
    return tuple(
        WaitingVolume(volume=name, pod=entry.pod.key, pod_uid=entry.pod.uid, waits_for=what)
        for entry in sorted(world.pods.values(), key=lambda entry: entry.pod.key)
        for name, what in sorted((*entry.errors.items(), *entry.awaited.items()))
    )


def _notes(world: World) -> tuple[str, ...]:
    notes = list(world.not_ready_because)
    if world.readiness.read_only:
        notes.append("the root directory is not adopted, so nothing is changed: run volmgr adopt")
    elif not world.readiness.unmount:
        notes.append("nothing is taken away before every source was read whole")
    if world.draining:
        notes.append("the node is being drained")
    return tuple(notes)
