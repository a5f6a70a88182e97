"""An admitted operation with everything it needs, and how it ended. Values only."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypedDict

from volmgr.actual import ActualVolume, Facts
from volmgr.admission import Held
from volmgr.desired import DesiredMount, DesiredVolume
from volmgr.errors import OperationError
from volmgr.host.mount_options import read_only_options, split_options
from volmgr.host.unasked import silent
from volmgr.manifest.volumes import DRIVER_FIELDS
from volmgr.model.meta import ObjectRef
from volmgr.model.objects import Node, Object
from volmgr.model.volume import VolumeSpec
from volmgr.operations import Ending, Operation
from volmgr.volume_type import VolumeType

if TYPE_CHECKING:
    from volmgr.host.interface import Host


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """An admitted operation with everything it needs; `allowed` is its time in seconds."""

    operation: Operation
    type: VolumeType
    held: Held
    allowed: float
    desired: DesiredVolume | None = None
    actual: ActualVolume | None = None
    objects: Mapping[ObjectRef, Object] = field(default_factory=lambda: MappingProxyType({}), repr=False)
    node: Node | None = None
    node_name: str = ""
    attached_path: str = ""
    """What the node status says of an attached volume."""
    others_detach: bool = False
    """A controller takes the attachment back, so nothing is left to remember when the device is unmounted."""
    cancel: threading.Event = field(default_factory=threading.Event, repr=False)
    progress: Callable[[str], None] = field(default=silent, repr=False)

    @property
    def mount(self) -> DesiredMount:
        """The wish of the Pod that a mount is for."""
        assert self.desired is not None  # noqa: S101 - a mount is only admitted for a desired volume
        return self.desired.mounts[self.operation.pod_uid]


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """How a job ended. `final`: trying again is of no use until its manifest changes, or what it waits for appears.

    `silent`: somebody who was asked did not answer in time.
    """

    job: Job
    ending: Ending
    facts: Facts
    error: str = ""
    waits_for: str = ""
    final: bool = False
    silent: bool = False
    seconds: float = 0.0


def next_mount(volume: str) -> str:
    """Name what appears when a volume is mounted where it was not."""
    return f"the next mount of {volume}"


def facts_of(job: Job) -> Facts:
    """Say what the volume was asked for; the outcome adds to it."""
    uid = job.operation.pod_uid
    desired = job.desired
    mount = desired.mounts.get(uid) if desired else None
    if desired is None or not job.operation.verb.is_making:
        return Facts(plugin=job.type.name)
    return Facts(
        plugin=desired.plugin,
        spec=desired.spec,
        facets=desired.facets,
        spec_name=mount.spec.name if mount else "",
        revision=mount.revision if mount else "",
        source_key=mount.source_key if mount else "",
        label=desired.selinux_label,
        mode=desired.spec.mode,
        size=desired.known_size or desired.size,
    )


class Terms(TypedDict):
    """What every request says of the time that it has, how it is ended, and whom it tells how far it is."""

    deadline: float
    cancelled: Callable[[], bool]
    progress: Callable[[str], None]


def terms(job: Job, host: Host) -> Terms:
    """Give the terms of a job's request, from now on; only making is ever cancelled."""
    return Terms(deadline=host.clock() + job.allowed, cancelled=job.cancel.is_set, progress=job.progress)


def spec_of(job: Job) -> Any:  # noqa: ANN401 - the plugin's own VolumeSpec type
    """Give the spec of a job's volume; raises OperationError when nothing says which it is."""
    if job.desired is not None:
        return job.desired.spec
    if job.actual is not None and job.actual.spec is not None:
        return job.actual.spec
    raise OperationError(f"{job.operation.verb} of {job.operation.volume}: nothing says which volume it is")


def device_target(job: Job, host: Host) -> Path:
    """Give the directory of the node's mount of a job's volume."""
    if job.actual is not None and job.actual.device_target is not None:
        return job.actual.device_target
    target: Path = job.type.ask("device_target", spec_of(job), host)
    return target


def mount_options(options: tuple[str, ...], *, read_only: bool) -> tuple[str, ...]:
    """Give the options of a mount, in kubelet's order, each by itself."""
    return tuple(sorted(read_only_options(options)) if read_only else split_options(options))


def kept_writable(
    host: Host,
    path: Path,
    spec: VolumeSpec[Any],
    *,
    known: bool | None,
    was_there: bool,
    file_system: bool = True,
) -> bool | None:
    """Repair what is mounted at a path if it turned read-only; say whether it was so when it was made (`known`).

    What a driver mounts may be read-only by itself, whatever it was asked for (an image, a snapshot); our own types do
    as they are asked. Raises OperationError.
    """
    if spec.type not in DRIVER_FIELDS:
        if was_there:
            make_writable(host, path, file_system=file_system)
        return False
    if known is None:
        return _is_read_only(host, path)
    if not known:
        make_writable(host, path, file_system=file_system)
    return known


def _is_read_only(host: Host, path: Path) -> bool:
    entry = host.mounts.entry(path) if host.mounts.is_mount_point(path) else None
    return entry is not None and entry.read_only


def make_writable(host: Host, path: Path, *, file_system: bool = True) -> None:
    """Repair a mount that somebody, or its own file system, made read-only; raises OperationError if it cannot be.

    Without `file_system`, which then is not ours, the mount alone is repaired.
    """
    if not host.mounts.is_mount_point(path):
        return
    entry = host.mounts.entry(path)
    if entry is None or not entry.read_only:
        return
    if file_system:
        host.mounts.remount(path, ("rw",))
    elif "ro" in entry.options:
        host.mounts.remount(path, ("bind", "rw"))
