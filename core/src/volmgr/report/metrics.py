"""What can be counted in a world, as plain values; the server writes them in Prometheus' format. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING

from volmgr.model.volume import Presence
from volmgr.report.gauge import Gauge
from volmgr.report.mounts import count_behind
from volmgr.report.selinux import label_gauges
from volmgr.report.waiting import is_mounted

if TYPE_CHECKING:
    from volmgr.report.world import PodEntry, World


def metrics(world: World) -> tuple[Gauge, ...]:
    """Count what there is."""
    pods = Counter(_state(world, entry) for entry in world.pods.values())
    mounts = Counter((volume.plugin, mount.state.value) for volume in world.actual for mount in volume.mounts.values())
    running = Counter(operation.verb.value for operation in world.running)
    hanging = sum(item.quarantined for item in world.running.values())
    return (
        Gauge(
            "volmgr_ready",
            "1 when every source was read and reconstruction is done.",
            (),
            _one(not world.not_ready_because),
        ),
        Gauge("volmgr_pods", "Pods by state.", ("state",), {(state,): pods[state] for state in sorted(pods)}),
        Gauge(
            "volmgr_mounts",
            "Volumes of Pods, mounted or uncertain.",
            ("type", "state"),
            {key: mounts[key] for key in mounts},
        ),
        Gauge(
            "volmgr_refresh_overdue_seconds",
            "For how long a mount has been due again (an ending token), the longest of each type; 0 when none is.",
            ("type",),
            _overdue(world),
        ),
        Gauge("volmgr_volumes", "Distinct volumes that the host has.", (), _one(len(world.actual))),
        Gauge(
            "volmgr_attached_volumes",
            "Volumes attached to the node.",
            (),
            _one(sum(volume.attached is not Presence.NO for volume in world.actual)),
        ),
        Gauge(
            "volmgr_operations_running",
            "Operations at work.",
            ("operation",),
            {(verb,): running[verb] for verb in sorted(running)},
        ),
        Gauge("volmgr_operations_quarantined", "Operations past their deadline.", (), _one(hanging)),
        Gauge("volmgr_orphans", "Things kept on disk without a Pod.", (), _one(len(world.orphans))),
        Gauge("volmgr_subpaths_behind", "SubPaths that show an older version.", (), _one(count_behind(world))),
        Gauge("volmgr_manifests_refused", "Files with an error in them.", (), _one(len(world.complaints))),
        Gauge("volmgr_volume_types", "Installed volume types.", (), _one(len(world.plugins.types))),
        Gauge("volmgr_packages_broken", "Installed packages that cannot be used.", (), _one(len(world.plugins.broken))),
        Gauge("volmgr_events_recorded", "Events since the daemon started.", (), _one(world.events.last_number)),
        *label_gauges(world),
    )


def _overdue(world: World) -> Mapping[tuple[str, ...], float]:
    found: dict[tuple[str, ...], float] = {}
    for volume in world.actual:
        for mount in volume.mounts.values():
            if mount.due_at is not None:
                late = max(0.0, world.clock - mount.due_at)
                found[volume.plugin,] = max(late, found.get((volume.plugin,), 0.0))
    return found


def _one(value: float) -> Mapping[tuple[str, ...], float]:
    return {(): value}


def _state(world: World, entry: PodEntry) -> str:
    if entry.leaving:
        return "leaving"
    return "mounted" if is_mounted(world, entry.pod.uid) else "pending"
