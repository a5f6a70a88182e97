"""What the core asks of a volume type, and what it answers: one frozen value per call."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Generic, Self, TypeVar

from volmgr.host.empty_dirs import Usage
from volmgr.host.unasked import never, silent
from volmgr.model.meta import ObjectRef
from volmgr.model.objects import Node, Object
from volmgr.model.pod import Pod
from volmgr.model.volume import VolumeMode, VolumeSpec

S = TypeVar("S")

Objects = Mapping[ObjectRef, Object]
"""The objects a volume refers to, as far as they exist."""

_NO_OBJECTS: Objects = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class _Request:
    """What every request carries: `deadline` (seconds on the host's clock), `cancelled()` and `progress(text)`."""

    deadline: float = float("inf")
    cancelled: Callable[[], bool] = field(default=never, repr=False, compare=False)
    progress: Callable[[str], None] = field(default=silent, repr=False, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Attach(_Request, Generic[S]):
    """Make a volume's storage reachable from this node."""

    spec: VolumeSpec[S]
    volume: str
    node_name: str = ""
    objects: Objects = field(default_factory=lambda: _NO_OBJECTS, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitForAttach(_Request, Generic[S]):
    """Wait until the device of an attached volume is there; `device_path` is what attaching said."""

    spec: VolumeSpec[S]
    volume: str
    device_path: str = ""
    node_name: str = ""
    objects: Objects = field(default_factory=lambda: _NO_OBJECTS, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Detach(_Request):
    """Give a volume's storage back; only names are known, since the daemon may have restarted.

    `objects` are Secrets that the volume's source names, as far as it is known, and they are still there.
    """

    volume: str
    device_path: str = ""
    node_name: str = ""
    objects: Objects = field(default_factory=lambda: _NO_OBJECTS, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class MountDevice(_Request, Generic[S]):
    """Mount a volume once per node (`mode` FILESYSTEM) or set its device up (BLOCK)."""

    spec: VolumeSpec[S]
    volume: str
    device_path: str
    target: Path
    """Where to mount: the global mount directory (`device_target` of the class), or the block map directory."""
    mode: VolumeMode = VolumeMode.FILESYSTEM
    options: tuple[str, ...] = ()
    fs_group: int | None = None
    selinux_label: str = ""
    node_name: str = ""
    objects: Objects = field(default_factory=lambda: _NO_OBJECTS, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class UnmountDevice(_Request):
    """Undo MountDevice; only names and paths are known."""

    volume: str
    device_path: str
    target: Path
    mode: VolumeMode = VolumeMode.FILESYSTEM


@dataclass(frozen=True, slots=True, kw_only=True)
class Mount(_Request, Generic[S]):
    """Make a volume ready for one Pod at `target` (for BLOCK: say which device it is)."""

    spec: VolumeSpec[S]
    volume: str
    pod: Pod
    target: Path
    mode: VolumeMode = VolumeMode.FILESYSTEM
    device_path: str = ""
    device_target: Path | None = None
    options: tuple[str, ...] = ()
    read_only: bool = False
    fs_user: int | None = None
    fs_group: int | None = None
    fs_group_policy: str = "Always"
    selinux_label: str = ""
    size_limit: int = 0
    """Bytes; 0 is no limit. The smallest limit that the Pod and the volume set on local storage."""
    memory_limit: int = 0
    """Bytes; 0 is no limit. The smallest of the Pod's memory limit and the node's allocatable memory."""
    remount: bool = False
    reconstructed: bool = False
    node_name: str = ""
    node: Node | None = None
    objects: Objects = field(default_factory=lambda: _NO_OBJECTS, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Unmount(_Request):
    """Undo Mount for one Pod; only names and paths are known."""

    volume: str
    pod_uid: str
    spec_name: str
    target: Path
    mode: VolumeMode = VolumeMode.FILESYSTEM
    device_path: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Expand(_Request, Generic[S]):
    """Let a mounted volume use a larger size; sizes in bytes.

    BusyError: it cannot grow while it is in use, and is asked again after its next mount. SpecError: it never can.
    """

    spec: VolumeSpec[S]
    volume: str
    device_path: str
    device_target: Path | None
    target: Path | None
    mode: VolumeMode
    old_size: int
    new_size: int
    known_size: int = 0
    """What its claim's status says that it has, wherever it was grown; 0 is not known."""
    objects: Objects = field(default_factory=lambda: _NO_OBJECTS, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Found(_Request):
    """A volume's directory (or block link) found on disk at start, of which no record of ours says anything."""

    pod_uid: str
    plugin: str
    spec_name: str
    path: Path
    mode: VolumeMode = VolumeMode.FILESYSTEM


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure(_Request):
    """Say how much one Pod's volume uses."""

    volume: str
    pod_uid: str
    path: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Attached:
    """The storage is reachable, by `device_path` if it has one."""

    device_path: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Detached:
    """The storage is given back."""


@dataclass(frozen=True, slots=True)
class Notice:
    """A warning that its Pod's owner should see although all went well: it becomes an event of this reason.

    One of a device mount is an event of the volume: each Pod that wants it has it.
    """

    reason: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceMounted:
    """The volume is mounted (or its device set up) on the node."""

    device_path: str = ""
    notices: tuple[Notice, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceUnmounted:
    """The node's mount of the volume is gone.

    `device_is_gone`: the node has its device no more, so that another one may have its name by now. Else the core looks
    whether somebody still uses it.
    """

    device_is_gone: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Mounted:
    """The volume is ready for the Pod; `path` is where, if not at the request's target; `device_path` for BLOCK.

    A path below the target is where the core looks whether the volume is still there, and what belongs to its group.
    `due_at` is when it is to be mounted again (seconds of Unix time: a token in it ends); None: as the class's
    `refresh_at` says.
    """

    path: Path | None = None
    device_path: str = ""
    due_at: float | None = None
    notices: tuple[Notice, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Unmounted:
    """The Pod's volume is gone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Expanded:
    """The volume has `size` bytes now."""

    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Reconstructed(Generic[S]):
    """What a directory on disk says of its volume; `spec.reconstructed` is set by the core."""

    spec: VolumeSpec[S]
    device_path: str = ""
    selinux_label: str = ""
    """What its device is mounted with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundDevice(Generic[S]):
    """A node's mount of a volume (or its device, BLOCK) that was found on disk, whether any Pod has the volume or not.

    `spec` says at least which volume it is. Where that is None nobody can say: `problem` says why, and it is kept and
    listed as an orphan. `pod_uids` are Pods to which the volume is still given, as is found there.
    """

    target: Path
    """Where the class's `device_target` has this volume."""
    spec: VolumeSpec[S] | None = None
    device_path: str = ""
    selinux_label: str = ""
    """What it is mounted with."""
    pod_uids: tuple[str, ...] = ()
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirement:
    """Something that a node must have for volumes of a type, and whether it has it, for `volmgr doctor`.

    `remedy` says what to do when it is not `met`; one that not every volume needs is `optional`, and only noted.
    """

    check: str
    """What was looked at, in a word or two: `mount.nfs`, `initiator name`."""
    met: bool
    detail: str
    remedy: str = ""
    optional: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """Bytes and inodes of a volume."""

    capacity: int
    available: int
    used: int
    inodes: int = 0
    inodes_free: int = 0
    inodes_used: int = 0

    @classmethod
    def of(cls, usage: Usage) -> Self:
        """Give what the host says that a directory uses."""
        return cls(
            capacity=usage.capacity,
            available=usage.available,
            used=usage.used,
            inodes=usage.inodes,
            inodes_free=usage.inodes_free,
            inodes_used=usage.inodes_used,
        )
