"""fc: a LUN of a Fibre Channel storage.

Behaviour: `pkg/volume/fc` of kubelet 1.37; what it leaves out (who the disk is, failed flushes) is in `docs/fc.md`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path

from volmgr.plugin import (
    ConnectedDisk,
    DeviceUnmounted,
    DiskVolume,
    Expand,
    Handles,
    Host,
    MountDevice,
    NotReconstructible,
    OperationError,
    Pod,
    Requirement,
    Sight,
    UnmountDevice,
    VolumeSpec,
    disk_requirements,
)
from volmgr_fc import names, records
from volmgr_fc.fabric import ONLINE, fc_hosts
from volmgr_fc.finding import NO_HOST, look, missing_ports, not_found, search
from volmgr_fc.names import FibreChannelSource
from volmgr_fc.settings import FibreChannelSettings


class FibreChannel(DiskVolume[FibreChannelSource]):
    """Give a Pod a LUN of a Fibre Channel storage."""

    name = "kubernetes.io/fc"
    api_version = 1
    handles = (Handles("fc", source=FibreChannelSource),)
    settings = FibreChannelSettings

    def volume_name(self, spec: VolumeSpec[FibreChannelSource]) -> str:
        return names.volume_name(spec.source)

    def check(self, spec: VolumeSpec[FibreChannelSource], pod: Pod | None) -> None:
        del pod
        names.check(spec.source)

    def endpoint(self, spec: VolumeSpec[FibreChannelSource]) -> str:
        """Name the storage by its ports; by the disk alone nobody knows it."""
        ports = sorted(spec.source.ports)
        return f"target {', '.join(ports)}" if ports else ""

    def exclusive(self, spec: VolumeSpec[FibreChannelSource]) -> tuple[str, ...]:
        """Keep volumes apart that other lists of ports name, and that are the same disk all the same."""
        source = spec.source
        ports = tuple(f"fc {wwn}:{source.lun}" for wwn in sorted(source.ports))
        return ports or tuple(f"fc {names.full_wwid(wwid) or wwid}" for wwid in sorted(source.identities))

    def requirements(self, host: Host) -> tuple[Requirement, ...]:
        hosts = fc_hosts(host)
        online = [own for own in hosts if own.state == ONLINE]
        port = Requirement(
            check="fc_host",
            met=bool(online),
            detail=", ".join(map(str, hosts)) or "this node has no Fibre Channel host",
            remedy="look at cable and switch: /sys/class/fc_host/*/port_state" if hosts else NO_HOST,
        )
        return (port, *disk_requirements(host))

    def unmount_device(self, request: UnmountDevice, host: Host) -> DeviceUnmounted:
        answer = super().unmount_device(request, host)
        records.remove(host, request.target)
        return answer

    def _directory(self, spec: VolumeSpec[FibreChannelSource]) -> str:
        return names.directory(spec.source)

    def _fs_type(self, source: FibreChannelSource) -> str:
        return source.fs_type

    def _connect(self, request: MountDevice[FibreChannelSource], host: Host) -> ConnectedDisk:
        source, target = request.spec.source, request.target
        names.check(source)
        in_use = self._is_used(request, host)
        if in_use:
            _refuse_other(source, target, host)
        else:
            records.note(host, target, source)
        settings = host.settings_of(FibreChannelSettings)
        disk = self._disk(request, host).connect(
            partial(look, source, host),
            several=len(source.ports) > 1,
            in_use=in_use,
            disk_wait=settings.disk_wait,
            map_wait=settings.map_wait,
            search=partial(search, source, host),
        )
        if disk is None:
            raise not_found(source, f"volume {request.volume}", host)
        if in_use:  # a kubelet's perhaps; now it is proved to be this volume's, and not another's that is called so
            records.note(host, target, source)
        return replace(disk, notices=(*disk.notices, *missing_ports(source, f"volume {request.volume}", host)))

    def _disconnect(self, request: UnmountDevice, host: Host) -> None:
        try:
            source = records.read(host, request.target)
        except NotReconstructible:  # no volume of ours: what is known of its disk is in the record, if anywhere
            self._disk(request, host).take_away(Sight, device=request.device_path)
        else:
            self._disk(request, host).take_away(partial(look, source, host), device=request.device_path)

    def _grow(self, request: Expand[FibreChannelSource], host: Host) -> Path:
        return self._disk(request, host).grow(partial(look, request.spec.source, host))

    def _places(self, top: Path, host: Host) -> Iterable[Path]:
        places = (top / name for name in host.files.names(top) if name != names.BLOCK_MAPS)
        return [place for place in places if (info := host.files.info(place)) and info.kind == "directory"]

    def _rebuilt(self, place: Path, host: Host) -> FibreChannelSource:
        return records.read(host, place)


def _refuse_other(source: FibreChannelSource, target: Path, host: Host) -> None:
    """Refuse a volume whose directory another one uses: `A-B` is of the WWIDs A and B, and of the WWID A-B."""
    other = records.noted(host, target)
    if other is not None and other != names.names_of(source):
        raise OperationError(
            f"cannot connect the disk of {names.volume_name(source)}: its directory {target} is in use by"
            f" {names.volume_name(other)}; let that volume's pods end first"
        )
