"""iscsi: a LUN of an iSCSI target.

Behaviour: `pkg/volume/iscsi` of kubelet 1.37; how it is better is in `docs/iscsi.md`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

from volmgr.plugin import (
    ConnectedDisk,
    DeviceUnmounted,
    DiskVolume,
    Expand,
    Facets,
    Handles,
    Host,
    Mount,
    MountDevice,
    Mounted,
    Notice,
    Objects,
    OperationError,
    Pod,
    Reference,
    Requirement,
    UnansweredError,
    UncertainError,
    UnmountDevice,
    VolmgrError,
    VolumeMode,
    VolumeSpec,
)
from volmgr_iscsi.chap import Chap, secret_ref
from volmgr_iscsi.connection import Connection, is_interface_directory
from volmgr_iscsi.initiator import Initiator
from volmgr_iscsi.portals import Portal
from volmgr_iscsi.records import Records, Remembered
from volmgr_iscsi.requirements import requirements
from volmgr_iscsi.settings import IscsiSettings
from volmgr_iscsi.sharing import Sharing
from volmgr_iscsi.source import IscsiSource, check_source

_MODE = 0o750


class Iscsi(DiskVolume[IscsiSource]):
    """Give a Pod a LUN of an iSCSI target."""

    name = "kubernetes.io/iscsi"
    api_version = 1
    handles = (Handles("iscsi", source=IscsiSource),)
    settings = IscsiSettings

    # What one volume needs

    def volume_name(self, spec: VolumeSpec[IscsiSource]) -> str:
        source = spec.source
        return f"{source.target_portal}:{source.iqn}:{source.lun}"

    def check(self, spec: VolumeSpec[IscsiSource], pod: Pod | None) -> None:
        del pod
        check_source(spec)

    def facets(self, spec: VolumeSpec[IscsiSource], objects: Objects) -> Facets:
        """As for all disks; one of several paths is mounted again when missing ones are to be tried again."""
        return replace(super().facets(spec, objects), remount=bool(spec.source.portals))

    def references(self, spec: VolumeSpec[IscsiSource], pod: Pod) -> tuple[Reference, ...]:
        ref = secret_ref(spec, pod)
        return () if ref is None else (Reference(ref),)

    def endpoint(self, spec: VolumeSpec[IscsiSource]) -> str:
        return f"portal {_portal(spec.source.target_portal)}"

    def exclusive(self, spec: VolumeSpec[IscsiSource]) -> tuple[str, ...]:
        """One at a time of what shares sessions, and of what writes how a portal is asked."""
        source = spec.source
        asked = (source.target_portal, *source.portals) if source.chap_auth_discovery else ()
        return (f"iscsi target {source.iqn.lower()}", *(f"iscsi portal {_portal(each)}" for each in asked))

    def requirements(self, host: Host) -> tuple[Requirement, ...]:
        return requirements(host)

    # How it is connected

    def mount(self, request: Mount[IscsiSource], host: Host) -> Mounted:
        directory, records = self._target(request, host), Records(host)
        kept = records.read(directory)
        if kept is None or not kept.missing or host.scsi.map_of(Path(request.device_path)) is None:
            return super().mount(request, host)  # a path that comes later is of use to a map alone
        notices: tuple[Notice, ...] = ()
        if request.remount:
            kept, notices = self._repaired(request, kept, directory, host)
            records.write(directory, kept)
        pause = host.settings_of(IscsiSettings).pause(kept.tries)
        due_at = time.time() + pause if kept.missing else None
        return replace(super().mount(request, host), due_at=due_at, notices=notices)

    def unmount_device(self, request: UnmountDevice, host: Host) -> DeviceUnmounted:
        answer = super().unmount_device(request, host)
        Records(host).forget(request.target)
        host.files.remove_directory(request.target.parent)
        return answer

    def _directory(self, spec: VolumeSpec[IscsiSource]) -> str:
        return Connection.of(spec).directory

    def _fs_type(self, source: IscsiSource) -> str:
        return source.fs_type

    def _connect(self, request: MountDevice[IscsiSource], host: Host) -> ConnectedDisk:
        check_source(request.spec)
        kept = self._remembered(request, host)
        initiator = _initiator(request, kept, host)
        if kept.asking:
            initiator.forget_asked(kept.asking)
            initiator.asking(())
        failures = initiator.log_in()
        if not initiator.look().addresses:
            raise _worst(failures, initiator.connection)
        disk = self._reached(request, initiator, host, in_use=self._is_used(request, host))
        kept = replace(kept, asking=())
        if kept.missing != tuple(failures):
            Records(host).write(request.target, replace(kept, missing=tuple(failures), tries=0))
        return replace(disk, notices=(*disk.notices, *_notices(request.spec, failures)))

    def _remembered(self, request: MountDevice[IscsiSource], host: Host) -> Remembered:
        """Write ahead how the volume is connected, as kubelet does and as we do.

        One that is connected stays as it is: another Pod may have the same LUN by another name, and other portals.
        """
        records, directory, boot_id = Records(host), request.target, host.kernel.boot_id
        kept, used = records.read(directory), self._is_used(request, host)
        if kept is None or kept.boot_id != boot_id:
            connection = Connection.of(request.spec)
            was_connected = used or (kept is None and records.is_beside(directory))  # by a kubelet
            kept = Remembered(
                connection=connection,
                target_portal=request.spec.source.target_portal,
                asking=() if kept is None else kept.asking,
                foreign=() if was_connected else self._sharing(connection, directory, host).foreign(),
                boot_id=boot_id,
            )
            records.write(directory, kept)
        if not used:
            host.files.ensure_directory(directory, _MODE)
            records.write_beside(directory, kept.connection)
        return kept

    def _sharing(self, connection: Connection, directory: Path, host: Host) -> Sharing:
        """Look at the volumes of the same target and interface, and at no others."""
        top = Path(connection.directory).parent
        places = (
            place for mode in VolumeMode for place in _below(self._top(mode, host) / top, host, connection.in_names)
        )
        return Sharing.of(connection, directory, places, host)

    def _reached(
        self, request: MountDevice[IscsiSource], initiator: Initiator, host: Host, *, in_use: bool
    ) -> ConnectedDisk:
        settings, connection = host.settings_of(IscsiSettings), initiator.connection
        disk = self._disk(request, host).connect(
            initiator.look,
            several=len(connection.portals) > 1,
            in_use=in_use,
            disk_wait=settings.device_timeout,
            map_wait=settings.multipath_timeout,
        )
        if disk is None:
            raise OperationError(
                f"the target {connection.iqn} shows this node no LUN {connection.lun}: correct lun of volume"
                f" {request.spec.name}, or map the LUN to the initiator name of the node"
            )
        return disk

    def _repaired(
        self, request: Mount[IscsiSource], kept: Remembered, directory: Path, host: Host
    ) -> tuple[Remembered, tuple[Notice, ...]]:
        """Try the portals again that were missing, and let the map have the paths that they bring."""
        again = MountDevice(
            spec=request.spec,
            volume=request.volume,
            device_path=request.device_path,
            target=directory,
            mode=request.mode,
            objects=request.objects,
            deadline=request.deadline,
            cancelled=request.cancelled,
        )
        initiator = _initiator(again, kept, host)
        failures = initiator.log_in()
        disk = self._reached(again, initiator, host, in_use=True)
        now = replace(kept, asking=(), missing=tuple(failures), tries=kept.tries + 1)
        return now, (*disk.notices, *_notices(request.spec, failures))

    def _disconnect(self, request: UnmountDevice, host: Host) -> None:
        records, directory = Records(host), request.target
        if host.files.info(directory) is None and not records.is_remembered(directory):
            return
        kept = records.known(directory)
        left = partial(_left, request.deadline, host)
        initiator = Initiator(connection=kept.connection, host=host, left=left)
        initiator.forget_asked(kept.asking)
        self._disk(request, host).take_away(initiator.look_at_all, device=request.device_path)
        sharing = self._sharing(kept.connection, directory, host)
        foreign = kept.foreign
        if kept.boot_id != host.kernel.boot_id:  # ours have ended with their boot; of a kubelet's nobody says when
            foreign = sharing.foreign() if kept.boot_id else ()
        initiator.log_out(foreign=foreign, used=sharing.needs)
        records.remove_beside(directory)

    def _grow(self, request: Expand[IscsiSource], host: Host) -> Path:
        kept = Records(host).read(self._target(request, host))
        connection = Connection.of(request.spec) if kept is None else kept.connection
        initiator = Initiator(connection=connection, host=host, left=partial(_left, request.deadline, host))
        return self._disk(request, host).grow(initiator.look)

    # What is found on disk

    def _places(self, top: Path, host: Host) -> Iterator[Path]:
        for interface in filter(is_interface_directory, host.files.names(top)):
            yield from _below(top / interface, host)

    def _spec_name(self, place: Path, host: Host) -> str:
        return Records(host).known(place).connection.name

    def _rebuilt(self, place: Path, host: Host) -> IscsiSource:
        return Records(host).known(place).source


def _below(top: Path, host: Host, part: str = "") -> Iterator[Path]:
    """Give the directories of an interface's volumes, with `part` in their names."""
    records = Records(host)
    for place in (top / name for name in host.files.names(top) if part in name):
        if host.mounts.is_mount_point(place) or records.is_beside(place) or records.is_remembered(place):
            yield place


def _initiator(request: MountDevice[IscsiSource], kept: Remembered, host: Host) -> Initiator:
    return Initiator(
        connection=kept.connection,
        host=host,
        left=partial(_left, request.deadline, host),
        asking=lambda portals: Records(host).write(request.target, replace(kept, asking=portals)),
        chap=Chap.of(request.spec, request.objects),
    )


def _left(deadline: float, host: Host) -> float:
    return deadline - host.clock()


def _portal(text: str) -> str:
    """Write a portal in one way, so that it is told from others; what is none stays as it is."""
    try:
        return str(Portal.parse(text))
    except ValueError:
        return text


def _worst(failures: Mapping[str, VolmgrError], connection: Connection) -> VolmgrError:
    """Give the failure that leaves the most behind: where one may be at work still, nothing is known to be clean."""
    found = list(failures.values())
    if not found:
        return UnansweredError(f"each session with {connection.iqn} was lost as soon as it was there")
    return next((each for each in found if isinstance(each, UncertainError)), found[0])


def _notices(spec: VolumeSpec[IscsiSource], failures: Mapping[str, VolmgrError]) -> tuple[Notice, ...]:
    return tuple(
        Notice("PortalMissing", f"volume {spec.name} is used without portal {portal}: {failure}")
        for portal, failure in failures.items()
    )
