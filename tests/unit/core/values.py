"""Desired and actual volumes by hand, for the pure modules."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from volmgr.actual import ActualVolume, Cause, Facts, PodMount
from volmgr.desired import DesiredMount, DesiredVolume
from volmgr.model.meta import ObjectMeta
from volmgr.model.pod import Pod, PodSpec, PodVolume
from volmgr.model.volume import Attachable, Facets, PersistentVolume, Presence, VolumeSpec
from volmgr.next_step import Readiness
from volmgr.operations import Operation, Verb

NAME = "example.com/disk/d1"
PLUGIN = "example.com/disk"
SHARED = Facets(attach=True, device=True, expand=True)
LOCAL = Facets()
READY = Readiness(unmount=True)
PV = PersistentVolume(metadata=ObjectMeta(name="pv1"))


def make_pod(uid: str = "u1", *volumes: PodVolume) -> Pod:
    """Give a Pod of this UID."""
    claim = PodVolume(name="data", type="persistentVolumeClaim", source={"claimName": "c1"})
    return Pod(metadata=ObjectMeta(name=f"pod-{uid}", uid=uid), spec=PodSpec(volumes=volumes or (claim,)))


def make_spec(
    *, modes: tuple[str, ...] = ("ReadWriteOnce",), read_only: bool = False, inline: bool = False
) -> VolumeSpec[object]:
    """Give the spec of a volume behind a claim (or inline)."""
    pv = None if inline else PV
    return VolumeSpec(name="pv1", type="diskProbe", source=None, pv=pv, access_modes=modes, read_only=read_only)


def wish(uid: str = "u1", *, spec: VolumeSpec[object] | None = None, revision: str = "") -> DesiredMount:
    """Give one Pod's wish."""
    return DesiredMount(pod=make_pod(uid), spec=spec or make_spec(), outer_names=("data",), revision=revision)


def want(*wishes: DesiredMount, facets: Facets = SHARED, size: int = 0, in_use: bool = False) -> DesiredVolume:
    """Give a volume that some Pods want."""
    mounts = {each.pod.uid: each for each in wishes or (wish(),)}
    spec = next(iter(mounts.values())).spec
    return DesiredVolume(
        name=NAME, plugin=PLUGIN, spec=spec, facets=facets, mounts=mounts, size=size, reported_in_use=in_use
    )


def has(
    *mounts: PodMount,
    attached: Presence = Presence.YES,
    device: Presence = Presence.YES,
    facets: Facets = SHARED,
) -> ActualVolume:
    """Give what the host has of the volume."""
    volume = ActualVolume(
        name=NAME,
        plugin=PLUGIN,
        facets=facets,
        attachable=Attachable.YES if facets.attach else Attachable.NO,
        attached=attached,
        device=device,
        device_ready=True,
        device_target=Path("/global"),
    )
    for mount in mounts:
        volume = volume.with_mount(mount)
    return volume


def mounted(
    uid: str = "u1", state: Presence = Presence.YES, cause: Cause = Cause.MAKING, *, inline: bool = False
) -> PodMount:
    """Give one Pod's mount."""
    return PodMount(pod_uid=uid, spec_name="pv1", state=state, cause=cause, inline=inline)


def facts(desired: DesiredVolume, operation: Operation) -> Facts:
    """Give what an operation that succeeds learns, as the executor does."""
    made = desired.mounts.get(operation.pod_uid)
    known = Facts(
        plugin=PLUGIN,
        spec=desired.spec,
        facets=desired.facets,
        spec_name=made.spec.name if made else "",
        revision=made.revision if made else "",
        size=desired.size,
        path=Path("/pods/volume"),
    )
    match operation.verb:
        case Verb.MOUNT_DEVICE:
            return replace(known, device_target=Path("/global"))
        case Verb.UNMOUNT | Verb.UNMOUNT_DEVICE | Verb.DETACH:
            return Facts(plugin=PLUGIN)
        case _:
            return known
