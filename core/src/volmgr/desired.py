"""DesiredStateOfWorld: which volumes the accepted Pods need. Entries are frozen; only the reconciler changes it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from volmgr.errors import TransientError
from volmgr.model.meta import ObjectRef
from volmgr.model.names import kubelet_plugin
from volmgr.model.pod import Pod, PodStatus
from volmgr.model.selinux import NO_WISH, LabelWish
from volmgr.model.volume import RWOP, Facets, Reference, VolumeSpec

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_NO_MOUNTS: Mapping[str, DesiredMount] = MappingProxyType({})
_NO_SOURCE: Mapping[str, object] = MappingProxyType({})


READING = "it is being read from the API server"
"""Why an object is awaited that nobody referred to before."""
ABSENT = "the API server has none"
"""Why an object is missing that an API server would have."""


@dataclass(frozen=True, slots=True)
class Missing:
    """An object that a wish cannot do without, and why it is not there; without that, no manifest has it."""

    ref: ObjectRef
    why: str = ""

    @property
    def is_absent(self) -> bool:
        """Whether there is none, rather than that nobody knows, or that it is not as it is to be."""
        return self.why in {"", ABSENT}

    def __str__(self) -> str:
        return f"{self.ref}: {self.why}" if self.why else str(self.ref)


@dataclass(frozen=True, slots=True, kw_only=True)
class DesiredMount:
    """One Pod's wish for a volume.

    `outer_names` are the Pod's own names for it (two for a claim that is listed twice). `revision` changes with
    every object that it refers to; `source_key` with its source. `missing` are objects it cannot do without, optional
    ones among them as long as nobody knows whether they are there.
    Sizes are bytes; 0 is none.
    """

    pod: Pod
    spec: VolumeSpec[Any]
    outer_names: tuple[str, ...]
    references: tuple[Reference, ...] = ()
    missing: tuple[Missing, ...] = ()
    revision: str = ""
    source: Mapping[str, object] = field(default_factory=lambda: _NO_SOURCE, repr=False)
    """The source as it stands in the manifest; records keep it."""
    source_key: str = ""
    size_limit: int = 0
    memory_limit: int = 0
    keep_only: bool = False
    """The Pod is terminating: what is mounted stays, nothing is mounted for it any more."""
    labelling: LabelWish = NO_WISH
    """The SELinux label that the Pod asks for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DesiredVolume:
    """One volume that at least one Pod wants."""

    name: str
    plugin: str
    spec: VolumeSpec[Any]
    facets: Facets
    mounts: Mapping[str, DesiredMount] = field(default_factory=lambda: _NO_MOUNTS)
    reported_in_use: bool = False
    size: int = 0
    """Bytes that it is to have; 0 is not known."""
    known_size: int = 0
    """Bytes that it is known to have before it is mounted (its claim's status); 0 is not known."""
    grows: bool = True
    """Whether growing it is this node's turn, as its claim's status says."""
    selinux_label: str = ""
    """What it is mounted with; the same for all of its Pods."""
    endpoint: str = ""
    exclusive: tuple[str, ...] = ()

    @property
    def kubelet_plugin(self) -> str:
        """The name that kubelet has for its plugin: that of its directories."""
        return kubelet_plugin(self.plugin, self.spec.type, self.spec.driver)


def _is_same(before: DesiredMount, now: DesiredMount) -> bool:
    """Say whether a wish is the same, whatever the Pod's status says: that changes while what failed is waited for."""
    if before.pod is now.pod:
        return before == now
    return replace(before, pod=now.pod) == now and _lasting(before.pod) == _lasting(now.pod)


def _lasting(pod: Pod) -> Pod:
    return replace(pod, metadata=replace(pod.metadata, resource_version=""), status=PodStatus())


class DesiredStateOfWorld:
    """All desired volumes, by unique name, with an index by Pod."""

    def __init__(self) -> None:
        """Start empty."""
        self._volumes: dict[str, DesiredVolume] = {}
        self._by_pod: dict[str, set[str]] = {}
        self._exclusive: dict[str, set[str]] = {}
        self._reported: frozenset[str] = frozenset()
        """What the node status reports in use, of volumes that are not wanted, too."""
        self.attachable: set[str] = set()
        """Volumes that are attached for whoever wants them."""
        self.attachable_changes = 0
        """How often that has changed."""

    def __len__(self) -> int:
        """Count the volumes."""
        return len(self._volumes)

    def __iter__(self) -> Iterator[DesiredVolume]:
        """Give every volume."""
        return iter(self._volumes.values())

    def get(self, name: str) -> DesiredVolume | None:
        """Give one volume by its unique name."""
        return self._volumes.get(name)

    def of_pod(self, uid: str) -> tuple[DesiredVolume, ...]:
        """Give the volumes that a Pod wants."""
        return tuple(self._volumes[name] for name in sorted(self._by_pod.get(uid, ())))

    def add(self, volume: DesiredVolume, mount: DesiredMount) -> bool:
        """Add or replace one Pod's wish for a volume; True when that changed anything.

        The size and the handshake of a volume that exists are kept where the new ones say nothing. Raises
        TransientError when the volume is to be mounted with another SELinux label than its other Pods want.
        """
        uid = mount.pod.uid
        old = self._volumes.get(volume.name)
        if problem := self.label_conflict(volume.name, mount):
            raise TransientError(problem, waits_for=volume.name)
        if old is not None:
            same_size = (not volume.size or volume.size == old.size) and volume.grows == old.grows
            before = old.mounts.get(uid)
            if before is not None and same_size and _is_same(before, mount):
                if before.pod is not mount.pod or old.known_size != volume.known_size:
                    now = MappingProxyType({**old.mounts, uid: mount})
                    self._volumes[volume.name] = replace(old, mounts=now, known_size=volume.known_size)
                return False
            volume = replace(volume, size=volume.size or old.size)
        mounts = {**(old.mounts if old else {}), uid: mount}
        reported = volume.name in self._reported
        self._volumes[volume.name] = replace(volume, mounts=MappingProxyType(mounts), reported_in_use=reported)
        self._note_attachable(volume.name, attach=volume.facets.attach)
        if volume.spec.access_modes == RWOP:
            self._exclusive.setdefault(volume.spec.name, set()).add(volume.name)
        self._by_pod.setdefault(uid, set()).add(volume.name)
        return True

    def label_conflict(self, name: str, mount: DesiredMount) -> str:
        """Say why a Pod cannot have a volume beside its other Pods: another SELinux label; empty when it can."""
        volume = self._volumes.get(name)
        others = volume.mounts.values() if volume else ()
        other = next((each for each in others if each.pod.uid != mount.pod.uid), None)
        if volume is None or other is None or mount.labelling.mount_label == volume.selinux_label:
            return ""
        return (
            f"volume {volume.name} has the SELinux label {volume.selinux_label or 'none'} for Pod {other.pod.key},"
            f" and this Pod wants {mount.labelling.mount_label or 'none'}; it waits until the other one has left"
        )

    def remove(self, name: str, uid: str) -> None:
        """Take one Pod's wish away; the last one takes the volume with it."""
        volume = self._volumes.get(name)
        if volume is None or uid not in volume.mounts:
            return
        mounts = {key: value for key, value in volume.mounts.items() if key != uid}
        if mounts:
            self._volumes[name] = replace(volume, mounts=MappingProxyType(mounts))
        else:
            del self._volumes[name]
            self._note_attachable(name, attach=False)
            self._exclusive.get(volume.spec.name, set()).discard(name)
            if not self._exclusive.get(volume.spec.name, True):
                del self._exclusive[volume.spec.name]
        names = self._by_pod[uid]
        names.discard(name)
        if not names:
            del self._by_pod[uid]

    def of_exclusive(self, volume: str) -> tuple[str, ...]:
        """Give the unique names of what Pods want of a PersistentVolume that one Pod has for itself."""
        return tuple(sorted(self._exclusive.get(volume, ())))

    def remove_pod(self, uid: str) -> tuple[str, ...]:
        """Take all wishes of a Pod away; gives the names of the volumes it touched."""
        names = tuple(sorted(self._by_pod.get(uid, ())))
        for name in names:
            self.remove(name, uid)
        return names

    def _note_attachable(self, name: str, *, attach: bool) -> None:
        if attach != (name in self.attachable):
            (self.attachable.add if attach else self.attachable.discard)(name)
            self.attachable_changes += 1

    def report_in_use(self, names: Iterable[str], *, current: bool = True) -> tuple[str, ...]:
        """Take the node status' volumesInUse as the truth: others are reset; gives the names that changed.

        Of a list that is not `current`, since another one is on its way to the server, only what it lacks counts.
        """
        reported = frozenset(names) if current else self._reported.intersection(names)
        changed = tuple(name for name in sorted(reported ^ self._reported) if name in self._volumes)
        self._reported = reported
        for name in changed:
            self._volumes[name] = replace(self._volumes[name], reported_in_use=name in reported)
        return changed
