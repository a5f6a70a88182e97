"""What a drain could not take down, and what each of that waits for. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from volmgr.model.names import CSI
from volmgr.next_step import next_step
from volmgr.report.pods import hold_reports
from volmgr.report.volumes import Lens

if TYPE_CHECKING:
    from collections.abc import Iterator

    from volmgr.actual import ActualVolume
    from volmgr.report.world import World


@dataclass(frozen=True, slots=True)
class Drained:
    """What could not be taken down in time: unique names, and lines that say of each why."""

    left: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()


def drained(world: World) -> Drained:
    """Report what is left."""
    lens = Lens(world)
    volumes = sorted(world.actual, key=lambda volume: volume.name)
    reasons = (line for volume in volumes for line in _lines(lens, volume))
    return Drained(tuple(volume.name for volume in volumes), tuple(reasons))


def _lines(lens: Lens, volume: ActualVolume) -> tuple[str, ...]:
    return tuple(f"{volume.name}: {reason}" for reason in _reasons(lens, volume)) or (volume.name,)


def _reasons(lens: Lens, volume: ActualVolume) -> Iterator[str]:
    for uid in sorted(volume.mounts):
        entry = lens.world.pods.get(uid)
        unread = "" if lens.world.sources_ready else " so far"
        whose = f"Pod {entry.pod.key}" if entry else f"Pod {uid}, which no source has{unread}"
        if entry is not None and entry.is_held:
            yield from (f"{whose} is held by {hold.text}" for hold in hold_reports(entry))
            if entry.running:
                yield f"containers of {whose} still run: {', '.join(entry.running)}"
            continue
        if uid in lens.world.serving and volume.kubelet_plugin != CSI:
            drivers = ", ".join(sorted(lens.world.serving[uid]))
            yield f"{whose} serves {drivers}, of which volumes are left: those go first"
            continue
        yield from (f"{whose}: {each.message}" for each in lens.volumes(uid) if each.unique_name == volume.name)
    if not volume.mounts:
        yield from _device_reasons(lens.world, volume)


def _device_reasons(world: World, volume: ActualVolume) -> Iterator[str]:
    if world.readiness.read_only:
        yield "the root directory is not adopted: run volmgr adopt"
    for operation in next_step(None, volume, replace(world.readiness, read_only=False)):
        backoff = world.admission.backoff(operation)
        if backoff is not None:
            yield f"{operation.verb.value} failed: {backoff.error}"
        elif operation in world.running:
            yield f"{operation.verb.value} runs"
