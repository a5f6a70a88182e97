"""next_step(): desired and actual state of one volume in, the operations that are due out. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING

from volmgr.actual import Cause
from volmgr.claims import CLAIM_FIELDS
from volmgr.in_tree import MIGRATED
from volmgr.model.names import CSI, source_key
from volmgr.model.pod import Pod, PodVolume
from volmgr.model.volume import RWOP, Attachable, Presence
from volmgr.operations import Operation, Verb

if TYPE_CHECKING:
    from volmgr.actual import ActualVolume, PodMount
    from volmgr.desired import DesiredMount, DesiredVolume, Missing


_DUE = "it is due again"


@dataclass(frozen=True, slots=True, kw_only=True)
class Readiness:
    """What must be known before anything is taken away or attached.

    `unmount`: every source was read whole once (and, with a node status, that too). `living`: the accepted Pods
    that have not left, by UID; nothing of theirs is taken away, nor of the `sealed`, whose record cannot be read.
    `controller_attach`: somebody else attaches, and the node status says what is (`attached`: unique name to device
    path), once it was read (`status_read`); `attach_note` says what keeps that one from attaching, if anything does.
    """

    unmount: bool = False
    living: Mapping[str, Pod] = field(default_factory=lambda: MappingProxyType({}))
    sealed: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    held: AbstractSet[str] = frozenset()
    """UIDs of which containers still run: not even what they no longer declare is taken away."""
    controller_attach: bool = False
    attached: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    status_read: bool = True
    attach_note: str = ""
    exclusive: Mapping[str, AbstractSet[str]] = field(default_factory=lambda: MappingProxyType({}))
    """By PersistentVolume that one Pod has for itself: the UIDs of those that have a mount of it."""
    read_only: bool = False
    """The root directory is not adopted: nothing may be changed."""
    look: bool = False
    """Volumes that were found mounted at the start are looked into."""
    draining: bool = False
    """Everything is to go: also before every source was read, what the `accepted` have."""
    serving: AbstractSet[str] = frozenset()
    """UIDs of Pods that serve drivers which are still needed: only what they have of drivers is taken away."""
    accepted: AbstractSet[str] = frozenset()
    """UIDs of all Pods that are known; in an unread source there may be others."""

    def may_unmount(self, uid: str) -> bool:
        """Say whether what a Pod has may be taken away, if nobody wants it."""
        return self.unmount or (self.draining and uid in self.accepted)

    @property
    def may_clean_up(self) -> bool:
        """Say whether what no Pod has a mount of may be taken away, if nobody wants it."""
        return self.unmount or self.draining


@dataclass(frozen=True, slots=True)
class Waiting:
    """Why a desired mount has no operation now."""

    pod_uid: str
    what: str


def next_step(
    desired: DesiredVolume | None, actual: ActualVolume | None, readiness: Readiness
) -> tuple[Operation, ...]:
    """Give every operation of one volume that is due, in order: unmounts, then mounts, then device clean-up."""
    if readiness.read_only:
        return ()
    unmounts = tuple(_unmounts(desired, actual, readiness))
    makings = tuple(_makings(desired, actual, readiness)) if desired is not None else ()
    cleanup = tuple(_cleanup(desired, actual, readiness)) if readiness.may_clean_up and actual is not None else ()
    return (*unmounts, *makings, *cleanup)


def plan(
    desired: Iterable[DesiredVolume], actual: Iterable[ActualVolume], readiness: Readiness
) -> tuple[Operation, ...]:
    """Give next_step() of all volumes, unmounts first."""
    wanted = {volume.name: volume for volume in desired}
    there = {volume.name: volume for volume in actual}
    operations = [
        operation
        for name in sorted({*wanted, *there})
        for operation in next_step(wanted.get(name), there.get(name), readiness)
    ]
    return tuple(sorted(operations, key=lambda operation: operation.verb.is_making))


def blocked(desired: DesiredVolume, actual: ActualVolume | None, readiness: Readiness) -> tuple[Waiting, ...]:
    """Say what each Pod of a volume waits for when nothing can be done for it now."""
    found: list[Waiting] = []
    for uid, mount in sorted(desired.mounts.items()):
        state = actual.mounts[uid].state if actual and uid in actual.mounts else Presence.NO
        if mount.keep_only or (state is Presence.YES and not _mount_reason(desired, mount, actual, readiness)):
            continue
        reason = _hindrance(desired, mount, actual, readiness)
        if reason:
            found.append(Waiting(uid, reason))
    return tuple(found)


def lack(mount: DesiredMount) -> str:
    """Name the objects that a mount waits for and that there are not, and what to do; empty when there is none such.

    One that nobody can say of whether it is there counts for none, nor does an attachment that a controller is to make.
    """
    return _said([each for each in mount.missing if each.is_absent and each.ref.kind != "VolumeAttachment"])


def source_changed(desired: DesiredMount, mounted: PodMount) -> bool:
    """Say whether a Pod that returned declares another source than what is mounted (claims never count)."""
    known = bool(desired.source_key and mounted.source_key)
    return known and mounted.inline and desired.source_key != mounted.source_key


def _unmounts(desired: DesiredVolume | None, actual: ActualVolume | None, readiness: Readiness) -> Iterable[Operation]:
    if actual is None:
        return
    for uid, mount in sorted(actual.mounts.items()):
        if uid in readiness.held or not readiness.may_unmount(uid):
            continue
        if uid in readiness.serving and actual.kubelet_plugin != CSI:
            continue
        wanted = desired.mounts.get(uid) if desired else None
        if wanted is not None and not source_changed(wanted, mount):
            continue
        if wanted is None and (uid in readiness.sealed or _still_declared(readiness.living.get(uid), mount)):
            continue
        if wanted is not None:
            reason = "the Pod returned with another source for it"
        elif uid in readiness.living:
            reason = "the Pod no longer declares it"
        else:
            reason = "its Pod has left"
        yield Operation(Verb.UNMOUNT, actual.name, uid, reason)


def _still_declared(pod: Pod | None, mount: PodMount) -> bool:
    """Say whether a living Pod may still want a mount that could not be resolved this time."""
    if pod is None:
        return False
    by_name = any(may_be(volume, mount) for volume in pod.spec.volumes)
    by_claim = any(volume.type in CLAIM_FIELDS for volume in pod.spec.volumes)
    if not mount.source_key:  # found without a record: it may be either
        return by_name or by_claim
    return by_name if mount.inline else by_claim


def may_be(volume: PodVolume, mount: PodMount) -> bool:
    """Say whether a mount may be what a Pod declares there; one that was rebuilt without a record may be of any source.

    One that became a volume of csi has the name of its storage.
    """
    if volume.name != mount.spec_name and volume.type not in MIGRATED:
        return False
    return not mount.source_key or mount.source_key == source_key(volume.type, volume.source)


def _makings(desired: DesiredVolume, actual: ActualVolume | None, readiness: Readiness) -> Iterable[Operation]:
    waiting = [
        (uid, mount, reason)
        for uid, mount in sorted(desired.mounts.items())
        if (reason := _mount_reason(desired, mount, actual, readiness))
        and not _hindrance(desired, mount, actual, readiness)
    ]
    first = _volume_step(desired, actual, readiness, needed=bool(waiting) or _doubted(desired, actual, readiness))
    if first is not None:
        yield first
        return
    for uid, _mount, reason in waiting:
        yield Operation(Verb.MOUNT, desired.name, uid, reason)
    if actual is not None and _must_expand(desired, actual):
        yield Operation(Verb.EXPAND, desired.name, "", f"it has {actual.size} bytes of {desired.size}")


def _volume_step(
    desired: DesiredVolume, actual: ActualVolume | None, readiness: Readiness, *, needed: bool
) -> Operation | None:
    """Give what has to come before any Pod's mount."""
    facets = desired.facets
    attached = actual.attached if actual else Presence.NO
    device = actual.device if actual else Presence.NO
    if not needed:
        return None
    if facets.attach:
        if attached is not Presence.YES:
            verb = Verb.VERIFY_ATTACHED if readiness.controller_attach else Verb.ATTACH
            return Operation(verb, desired.name, "", _wanted(attached, "it is attached"))
        if actual is not None and not actual.device_ready:
            return Operation(Verb.WAIT_FOR_ATTACH, desired.name, "", "its device must be there")
    if facets.device and device is not Presence.YES:
        return Operation(Verb.MOUNT_DEVICE, desired.name, "", _wanted(device, "the node has it mounted"))
    return None


def _wanted(state: Presence, what: str) -> str:
    return f"whether {what} is uncertain" if state is Presence.UNCERTAIN else "a Pod wants it"


def _doubted(desired: DesiredVolume, actual: ActualVolume | None, readiness: Readiness) -> bool:
    """Say whether a device mount that some Pod uses may have vanished: the Pod's own mount does not show that."""
    if actual is None or actual.device is not Presence.UNCERTAIN or _unattached(desired, actual, readiness):
        return False
    return any(uid in actual.mounts and not mount.keep_only for uid, mount in desired.mounts.items())


def _mount_reason(
    desired: DesiredVolume, mount: DesiredMount, actual: ActualVolume | None, readiness: Readiness
) -> str:
    """Say why a mount is due; empty when it is not."""
    mounted = actual.mounts.get(mount.pod.uid) if actual else None
    if mount.keep_only:  # nothing new, but its containers may still run, and use a token that ends
        due = mounted is not None and mounted.due and mounted.state is Presence.YES
        return _DUE if due and desired.facets.remount else ""
    if mounted is None:
        return "the Pod wants it"
    if source_changed(mount, mounted):
        return ""
    if mounted.state is not Presence.YES:
        return f"its mount is uncertain ({mounted.cause.value})"
    if desired.facets.remount and mounted.revision != mount.revision:
        return "what it refers to has changed"
    if desired.facets.remount and mounted.due:
        return _DUE
    if desired.facets.remount and mounted.unseen and readiness.look:
        return "its files have not been looked at since the start"
    return ""


def _hindrance(desired: DesiredVolume, mount: DesiredMount, actual: ActualVolume | None, readiness: Readiness) -> str:
    """Say what a mount waits for; empty when nothing stands in its way."""
    if mount.missing:  # a VolumeAttachment is, until a controller has attached: so what keeps that one comes first
        keeps = _unattached(desired, actual, readiness)
        return f"{keeps}; waits for {_said(mount.missing)}" if keeps else f"waits for {_said(mount.missing)}"
    users = {*(actual.mounts if actual else ()), *readiness.exclusive.get(mount.spec.name, ())}
    if mount.spec.access_modes == RWOP and users - {mount.pod.uid}:
        return "volume uses the ReadWriteOncePod access mode and is already in use by another pod"
    if actual is not None and _label_conflicts(desired, actual):
        mounted, wanted = (label or "none" for label in (actual.device_label, desired.selinux_label))
        return f"its device to be unmounted, whose SELinux label is {mounted} where {wanted} is wanted"
    there = actual.mounts.get(mount.pod.uid) if actual else None
    if there is not None and there.state is Presence.YES:
        return ""  # nothing is mounted anew
    return _unattached(desired, actual, readiness)


def _unattached(desired: DesiredVolume, actual: ActualVolume | None, readiness: Readiness) -> str:
    """Say what a volume waits for that a controller attaches (behaviours §2.6): the node status has the last word."""
    if not desired.facets.attach or not readiness.controller_attach:
        return ""
    listed = desired.name in readiness.attached
    what = ""
    if actual is not None and actual.attached is Presence.YES:
        if readiness.status_read and not listed:
            what = f"volume {desired.name} is no longer in node's status"
    elif not desired.reported_in_use:
        what = "waits until the node status reports the volume in use"
    elif not listed:
        what = f"volume {desired.name} is not yet in node's status"
    return f"{what}: {readiness.attach_note}" if what and readiness.attach_note else what


def _said(missing: Sequence[Missing]) -> str:
    """Name what is missing, and why or what to do."""
    texts = [str(each) for each in missing if each.why]
    undeclared = [str(each) for each in missing if not each.why]
    if undeclared:
        texts.append(f"{', '.join(undeclared)}: add {'it' if len(undeclared) == 1 else 'them'} to the manifests")
    return "; ".join(texts)


def _must_expand(desired: DesiredVolume, actual: ActualVolume) -> bool:
    grows = desired.facets.expand and desired.grows and 0 < actual.size < desired.size
    writable = any(not mount.spec.read_only for mount in desired.mounts.values())
    mounted = any(mount.state is Presence.YES for mount in actual.mounts.values())
    return grows and writable and mounted


def _cleanup(desired: DesiredVolume | None, actual: ActualVolume, readiness: Readiness) -> Iterable[Operation]:
    if actual.mounts or (desired is not None and not _label_conflicts(desired, actual)):
        return
    if actual.device is not Presence.NO:
        yield Operation(Verb.UNMOUNT_DEVICE, actual.name, "", "no Pod uses it any more")
        return
    attached = actual.attached is not Presence.NO and actual.attachable is Attachable.YES
    if desired is None and attached and not readiness.controller_attach:
        yield Operation(Verb.DETACH, actual.name, "", "no Pod uses it any more")


def _label_conflicts(desired: DesiredVolume, actual: ActualVolume) -> bool:
    """Say whether a device is mounted with another label; one that was found without a record may have any."""
    unknown = actual.device_cause is Cause.RECONSTRUCTION and not actual.device_label
    known = actual.device is Presence.YES or (actual.device is Presence.UNCERTAIN and not unknown)
    return known and desired.selinux_label != actual.device_label
