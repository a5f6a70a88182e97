"""Whether a Pod has reached what somebody waits for. Pure, and O(volumes of that Pod)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from volmgr.model.volume import Presence
from volmgr.next_step import source_changed
from volmgr.operations import Verb

if TYPE_CHECKING:
    from volmgr.actual import ActualVolume
    from volmgr.desired import DesiredVolume
    from volmgr.model.pod import Pod
    from volmgr.report.world import PodEntry, World


def is_mounted(world: World, selector: str) -> bool:
    """Say whether every used volume of a Pod is mounted as it is wanted now; an unknown Pod is waited for.

    A Pod that leaves never is: it wants nothing any more, and a caller would start containers without volumes.
    """
    entry = next(iter(world.find_pods(selector)), None)
    if entry is None or leaves(world, entry) or not entry.processed or entry.errors or entry.awaited:
        return False
    uid = entry.pod.uid
    return all(mount_is_good(volume, world.actual.get(volume.name), uid) for volume in world.desired.of_pod(uid))


def leaves(world: World, entry: PodEntry) -> bool:
    """Say whether a Pod is on its way out, or done, or its node is drained."""
    done = entry.pod.is_finished and not world.keeps_finished
    return world.draining or entry.leaving or bool(entry.pod.metadata.deletion_timestamp) or done


def is_unmounted(world: World, selector: str) -> bool:
    """Say whether nothing of a Pod is mounted, perhaps mounted, or being mounted; true of an unknown Pod.

    A Pod that leaves is unmounted when its directory is cleared away, too.
    """
    entries = world.find_pods(selector)
    uids = {selector, *(entry.pod.uid for entry in entries)}
    if any(entry.leaving or entry.tidying for entry in entries) or any(world.actual.of_pod(uid) for uid in uids):
        return False
    return not any(op.verb is Verb.MOUNT and op.pod_uid in uids for op in world.running)


def mount_is_good(desired: DesiredVolume, actual: ActualVolume | None, uid: str) -> bool:
    """Say whether one Pod's mount is there, alive, of the wanted revision, and not about to be unmounted."""
    mounted = actual.mounts.get(uid) if actual else None
    if mounted is None or mounted.state is not Presence.YES or mounted.problem:
        return False
    wanted = desired.mounts[uid]
    if desired.facets.remount and mounted.revision != wanted.revision:
        return False
    return not source_changed(wanted, mounted)


def used_names(pod: Pod) -> tuple[str, ...]:
    """Give the Pod's own names of the volumes that some container uses, sorted."""
    used: set[str] = set()
    for container in pod.all_containers():
        used.update(mount.name for mount in container.volume_mounts)
        used.update(device.name for device in container.volume_devices)
    return tuple(sorted(volume.name for volume in pod.spec.volumes if volume.name in used))


def unmounted_names(world: World, entry: PodEntry) -> tuple[str, ...]:
    """Give the Pod's own names of the used volumes that are not mounted, sorted."""
    uid = entry.pod.uid
    good = {
        name
        for volume in world.desired.of_pod(uid)
        if mount_is_good(volume, world.actual.get(volume.name), uid)
        for name in volume.mounts[uid].outer_names
    }
    return tuple(name for name in used_names(entry.pod) if name not in good)


def timed_out_text(world: World, entry: PodEntry) -> str:
    """Say which of a Pod's volumes are not there when the time is over, in kubelet's words (behaviours §2.14)."""
    lists = (
        f"unmounted volumes=[{' '.join(unmounted_names(world, entry))}]",
        f"unattached volumes=[{' '.join(unattached_names(world, entry))}]",
        f"failed to process volumes=[{' '.join(unprocessed_names(world, entry))}]",
    )
    return f"{', '.join(lists)}: timed out waiting for the condition"


def unattached_names(world: World, entry: PodEntry) -> tuple[str, ...]:
    """Give those of `unmounted_names` whose volume must be attached first and is not, sorted."""
    uid = entry.pod.uid
    absent = set(unmounted_names(world, entry))
    names: set[str] = set()
    for volume in world.desired.of_pod(uid):
        actual = world.actual.get(volume.name)
        if volume.facets.attach and (actual is None or actual.attached is not Presence.YES):
            names.update(volume.mounts[uid].outer_names)
    return tuple(sorted(names & absent))


def unprocessed_names(world: World, entry: PodEntry) -> tuple[str, ...]:
    """Give the Pod's own names of the used volumes that could not be resolved, or have not been yet, sorted."""
    uid = entry.pod.uid
    resolved = {name for volume in world.desired.of_pod(uid) for name in volume.mounts[uid].outer_names}
    return tuple(name for name in used_names(entry.pod) if name not in resolved)
