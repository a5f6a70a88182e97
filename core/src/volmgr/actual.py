"""ActualStateOfWorld: what the host has; and settle(), the table of states and outcomes. Pure but for the container."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from volmgr.model.names import kubelet_plugin
from volmgr.model.volume import RWOP, Attachable, Facets, Presence, VolumeMode, VolumeSpec
from volmgr.operations import Ending, Operation, Verb
from volmgr.requests import Notice

if TYPE_CHECKING:
    from collections.abc import Iterator

_NO_MOUNTS: Mapping[str, PodMount] = MappingProxyType({})
_NO_SUBPATHS: Mapping[str, str] = MappingProxyType({})


class Cause(StrEnum):
    """Why something is uncertain: only an uncertain making may be cleared by a clean failure."""

    MAKING = "making"
    UNMAKING = "unmaking"
    RECONSTRUCTION = "reconstruction"
    VANISHED = "vanished"


@dataclass(frozen=True, slots=True, kw_only=True)
class PodMount:
    """One Pod's mount of a volume, present or uncertain. `mounted_at` is Unix time in seconds."""

    pod_uid: str
    spec_name: str
    state: Presence
    cause: Cause = Cause.MAKING
    revision: str = ""
    source_key: str = ""
    path: Path | None = None
    device_path: str = ""
    mounted_at: float = 0.0
    due_at: float | None = None
    """When it is to be mounted again, if its plugin said so: Unix time in seconds."""
    due: bool = False
    """That time has come: it is mounted again although nothing that it refers to has changed."""
    mount_point: Path | None = None
    """Where something is mounted for it, which must show in the mount table; None where nothing is."""
    read_only: bool | None = None
    """It was read-only when it was made, asked for (which another Pod's may not be) or not; None: not known."""
    label: str = ""
    """The SELinux label that it was mounted with."""
    inline: bool = True
    """The volume is declared in the Pod itself, not by a claim."""
    problem: str = ""
    """What is wrong with it although it is there (vanished, read-only)."""
    subpaths: Mapping[str, str] = field(default_factory=lambda: _NO_SUBPATHS)
    """The subPaths that were bound, by `container/volumeMount index`, and the revision that each one shows."""
    unseen: bool = False
    """It is there, but nobody has looked at what is in it since the start; only where a mount may mend that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ActualVolume:
    """What the host has of one volume. `plugin` is the type's name, installed or not; `size` is bytes, 0 unknown."""

    name: str
    plugin: str
    spec: VolumeSpec[Any] | None = None
    facets: Facets | None = None
    attachable: Attachable = Attachable.NO
    attached: Presence = Presence.NO
    attach_cause: Cause = Cause.MAKING
    device: Presence = Presence.NO
    device_cause: Cause = Cause.MAKING
    device_path: str = ""
    device_ready: bool = False
    """wait_for_attach was done in the life of this process."""
    device_target: Path | None = None
    device_is_mount: bool = False
    """Something is mounted at `device_target`, which must show in the mount table."""
    device_read_only: bool | None = None
    """As `PodMount.read_only`."""
    device_label: str = ""
    mode: VolumeMode = VolumeMode.FILESYSTEM
    size: int = 0
    mounts: Mapping[str, PodMount] = field(default_factory=lambda: _NO_MOUNTS)
    reconstructed: bool = False
    """Rebuilt from disk and not confirmed since."""
    found_in: str = ""
    """kubelet's name for its plugin, by the directory or record that it was found by."""

    @property
    def kubelet_plugin(self) -> str:
        """The name that kubelet has for its plugin: that of its directories."""
        if self.found_in or self.spec is None:
            return self.found_in or self.plugin
        return kubelet_plugin(self.plugin, self.spec.type, self.spec.driver)

    @property
    def is_gone(self) -> bool:
        """Say whether nothing is left to remember."""
        return not self.mounts and self.device is Presence.NO and self.attached is Presence.NO

    def with_mount(self, mount: PodMount) -> ActualVolume:
        """Give the volume with one Pod's mount added or replaced."""
        return replace(self, mounts=MappingProxyType({**self.mounts, mount.pod_uid: mount}))

    def without_mount(self, uid: str) -> ActualVolume:
        """Give the volume without one Pod's mount."""
        kept = {key: value for key, value in self.mounts.items() if key != uid}
        return replace(self, mounts=MappingProxyType(kept), reconstructed=self.reconstructed and bool(kept))


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What an operation learned, for settle(): the volume as it was asked for, and the plugin's answer."""

    plugin: str = ""
    spec: VolumeSpec[Any] | None = None
    facets: Facets | None = None
    spec_name: str = ""
    revision: str = ""
    source_key: str = ""
    path: Path | None = None
    device_path: str | None = None
    device_target: Path | None = None
    label: str = ""
    mode: VolumeMode = VolumeMode.FILESYSTEM
    size: int = 0
    at: float = 0.0
    due_at: float | None = None
    mount_point: Path | None = None
    device_is_mount: bool = False
    read_only: bool | None = None
    """Of what was made: whether it is read-only by itself."""
    device_lost: bool = False
    """The node's mount, of which a Pod's was to be made, is not there although it counts as present."""
    notices: tuple[Notice, ...] = ()


def settle(volume: ActualVolume | None, operation: Operation, ending: Ending, facts: Facts) -> ActualVolume | None:
    """Give the state of a volume after an operation ended; None when nothing of it is left."""
    now = _asked_for(volume, operation, facts)
    if facts.facets is not None and now.attachable is not Attachable.YES and facts.facets.attach:
        now = replace(now, attachable=Attachable.YES)
    match operation.verb:
        case Verb.ATTACH | Verb.VERIFY_ATTACHED:
            now = _attached(now, ending, facts)
        case Verb.WAIT_FOR_ATTACH:
            if ending is Ending.DONE:
                now = replace(now, device_ready=True, device_path=_or(facts.device_path, now.device_path))
        case Verb.MOUNT_DEVICE:
            now = _device_made(now, ending, facts)
        case Verb.MOUNT:
            now = _mounted(now, operation.pod_uid, ending, facts)
        case Verb.EXPAND:
            if ending is Ending.DONE:
                now = replace(now, size=facts.size)
        case Verb.UNMOUNT:
            now = _unmounted(now, operation.pod_uid, ending)
        case Verb.UNMOUNT_DEVICE:
            now = _device_unmade(now, ending)
        case Verb.DETACH:
            now = _detached(now, ending)
    if facts.device_lost and now.device is Presence.YES:
        now = replace(now, device=Presence.UNCERTAIN, device_cause=Cause.VANISHED)
    return None if now.is_gone else now


def _asked_for(volume: ActualVolume | None, operation: Operation, facts: Facts) -> ActualVolume:
    """Give the volume as it was, but as what it was asked for now."""
    if volume is None:
        return ActualVolume(
            name=operation.volume, plugin=facts.plugin, spec=facts.spec, facets=facts.facets, mode=facts.mode
        )
    if facts.facets is None:
        return volume
    return replace(volume, plugin=facts.plugin, spec=facts.spec, facets=facts.facets, mode=facts.mode)


def _or(new: str | None, old: str) -> str:
    return old if new is None else new


def _made(state: Presence, cause: Cause, ending: Ending) -> tuple[Presence, Cause]:
    """Settle something that was to be made (design: table of outcomes)."""
    match ending:
        case Ending.DONE:
            return Presence.YES, Cause.MAKING
        case Ending.UNCHANGED:
            return state, cause
        case Ending.FAILED:
            cleared = state is Presence.UNCERTAIN and cause is Cause.MAKING
            return (Presence.NO if cleared else state), cause
        case Ending.UNCERTAIN:
            return (Presence.UNCERTAIN if state is Presence.NO else state), cause


def _unmade(state: Presence, cause: Cause, ending: Ending) -> tuple[Presence, Cause]:
    """Settle something that was to be taken away."""
    match ending:
        case Ending.DONE:
            return Presence.NO, Cause.MAKING
        case Ending.UNCHANGED:
            return state, cause
        case Ending.FAILED | Ending.UNCERTAIN:
            return Presence.UNCERTAIN, Cause.UNMAKING


def _attached(now: ActualVolume, ending: Ending, facts: Facts) -> ActualVolume:
    state, cause = _made(now.attached, now.attach_cause, ending)
    now = replace(now, attached=state, attach_cause=cause)
    if ending is Ending.DONE:
        # Attaching again overwrites the path, even with an empty one.
        now = replace(now, device_path=_or(facts.device_path, ""), device_ready=False)
    return now


def _device_made(now: ActualVolume, ending: Ending, facts: Facts) -> ActualVolume:
    was_there = now.device is not Presence.NO
    state, cause = _made(now.device, now.device_cause, ending)
    now = replace(now, device=state, device_cause=cause)
    if state is not Presence.NO:
        # Empty answers keep the paths that are known.
        now = replace(
            now,
            device_path=facts.device_path or now.device_path,
            device_target=facts.device_target or now.device_target,
            device_label=facts.label if ending is Ending.DONE or not was_there else now.device_label,
        )
    if ending is Ending.DONE:
        size = now.size or facts.size
        now = replace(now, size=size, device_is_mount=facts.device_is_mount, device_read_only=facts.read_only)
    return now


def _mounted(now: ActualVolume, uid: str, ending: Ending, facts: Facts) -> ActualVolume:
    old = now.mounts.get(uid)
    state, cause = _made(
        old.state if old else Presence.NO,
        old.cause if old else Cause.MAKING,
        ending,
    )
    if state is Presence.NO:
        return now.without_mount(uid)
    if old is not None and ending is not Ending.DONE:
        return now.with_mount(replace(old, state=state, cause=cause))
    mount = PodMount(
        pod_uid=uid,
        spec_name=facts.spec_name or (old.spec_name if old else ""),
        state=state,
        cause=cause,
        revision=facts.revision if ending is Ending.DONE else "",
        source_key=facts.source_key,
        path=facts.path,
        device_path=facts.device_path or (old.device_path if old else ""),
        mounted_at=facts.at,
        due_at=facts.due_at,
        mount_point=facts.mount_point,
        read_only=facts.read_only,
        label=facts.label,
        inline=facts.spec is None or facts.spec.inline,
        subpaths=subpaths_after(old),
    )
    now = now.with_mount(mount)
    if ending is Ending.DONE and (now.reconstructed or now.size != (now.size or facts.size)):
        now = replace(now, reconstructed=False, size=now.size or facts.size)
    return now


def subpaths_after(old: PodMount | None) -> Mapping[str, str]:
    """Give the subPaths after a mount was done: of a volume that was there, or had vanished, they show the old one."""
    if old is None:
        return _NO_SUBPATHS
    replaced = old.state is Presence.YES or old.cause is Cause.VANISHED
    if old.unseen or not replaced:  # it was taken over: what they show is compared by revision
        return old.subpaths
    return MappingProxyType(dict.fromkeys(old.subpaths, ""))


def _unmounted(now: ActualVolume, uid: str, ending: Ending) -> ActualVolume:
    old = now.mounts.get(uid)
    if old is None:
        return now
    state, cause = _unmade(old.state, old.cause, ending)
    if state is Presence.NO:
        return now.without_mount(uid)
    return now.with_mount(replace(old, state=state, cause=cause))


def _device_unmade(now: ActualVolume, ending: Ending) -> ActualVolume:
    state, cause = _unmade(now.device, now.device_cause, ending)
    now = replace(now, device=state, device_cause=cause)
    if state is Presence.NO:
        # The label stays: kubelet keeps the SELinux context of an unmounted device, too.
        now = replace(now, device_target=None, device_ready=False, device_read_only=None, size=0)
    return now


def _detached(now: ActualVolume, ending: Ending) -> ActualVolume:
    if now.mounts:
        return now
    state, cause = _unmade(now.attached, now.attach_cause, ending)
    return replace(now, attached=state, attach_cause=cause, device_ready=state is not Presence.NO and now.device_ready)


class ActualStateOfWorld:
    """What the host has, by unique volume name, with an index by Pod."""

    def __init__(self) -> None:
        """Start empty."""
        self._volumes: dict[str, ActualVolume] = {}
        self._by_pod: dict[str, set[str]] = {}
        self.exclusive: dict[str, set[str]] = {}
        """By PersistentVolume that one Pod has for itself: the UIDs of those that have a mount of it."""
        self.attached: set[str] = set()
        """Volumes that are attached and surely attachable."""
        self.attached_changes = 0
        """How often that has changed."""

    def __len__(self) -> int:
        """Count the volumes."""
        return len(self._volumes)

    def __iter__(self) -> Iterator[ActualVolume]:
        """Give every volume."""
        return iter(self._volumes.values())

    def get(self, name: str) -> ActualVolume | None:
        """Give one volume by its unique name."""
        return self._volumes.get(name)

    def put(self, name: str, volume: ActualVolume | None) -> None:
        """Replace what is known of a volume; None forgets it."""
        old = self._volumes.get(name)
        before = set(old.mounts) if old else set[str]()
        after = set(volume.mounts) if volume else set[str]()
        if volume is None:
            self._volumes.pop(name, None)
        else:
            self._volumes[name] = volume
        self._put_exclusive(old, volume)
        self._note_attached(name, volume)
        for uid in before - after:
            names = self._by_pod[uid]
            names.discard(name)
            if not names:
                del self._by_pod[uid]
        for uid in after - before:
            self._by_pod.setdefault(uid, set()).add(name)

    def _note_attached(self, name: str, volume: ActualVolume | None) -> None:
        there = volume is not None and volume.attached is not Presence.NO and volume.attachable is Attachable.YES
        if there != (name in self.attached):
            (self.attached.add if there else self.attached.discard)(name)
            self.attached_changes += 1

    def _put_exclusive(self, old: ActualVolume | None, new: ActualVolume | None) -> None:
        if old is not None and old.spec is not None and old.spec.access_modes == RWOP:
            left = self.exclusive.pop(old.spec.name, set()) - old.mounts.keys()
            if left:
                self.exclusive[old.spec.name] = left
        if new is not None and new.spec is not None and new.spec.access_modes == RWOP and new.mounts:
            self.exclusive.setdefault(new.spec.name, set()).update(new.mounts)

    def of_pod(self, uid: str) -> tuple[ActualVolume, ...]:
        """Give the volumes of which a Pod has a mount, present or uncertain."""
        return tuple(self._volumes[name] for name in sorted(self._by_pod.get(uid, ())))
