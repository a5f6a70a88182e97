"""Where the disk of a volume is: at ports of its storage, behind udev's links, or known by its identity."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from volmgr.plugin import DEGRADED, Notice, OperationError, Sight, UnansweredError
from volmgr_fc.fabric import ONLINE, fc_hosts, remote_ports
from volmgr_fc.names import full_wwid, id_links, path_links

if TYPE_CHECKING:
    from collections.abc import Iterator

    from volmgr.plugin import Host, ScsiDisk
    from volmgr_fc.names import FibreChannelSource

BY_PATH = Path("/dev/disk/by-path")
BY_ID = Path("/dev/disk/by-id")
NO_HOST = "load the driver of its adapter: lspci -k | grep -A3 Fibre"


def look(source: FibreChannelSource, host: Host) -> Sight:
    """Give what is seen of a volume's disk."""
    if source.lun is None or not source.ports:
        return Sight(disks=tuple(_of_wwids(source, host)))
    ports = [(port, port.address(source.lun)) for port in remote_ports(host, source.ports)]
    found = [host.scsi.disk_at(address) for _, address in ports if address is not None]
    for name in path_links(source, host.files.names(BY_PATH)):
        linked = host.scsi.disk_of(BY_PATH / name)
        if linked is not None and linked not in found and _may_be(linked, source, host):
            found.append(linked)
    return Sight(
        disks=tuple(disk for disk in found if disk is not None),
        addresses=tuple(address for port, address in ports if address is not None and port.state == ONLINE),
    )


def _may_be(linked: ScsiDisk, source: FibreChannelSource, host: Host) -> bool:
    """Say whether a link is not older than the disk to which it leads.

    udev removes a link some time after its disk, when another one may have that one's name already.
    """
    at = linked.address
    ports = (port for port in remote_ports(host) if port.address(at.lun) == at)
    return (
        at.lun == source.lun
        and at.host in {own.number for own in fc_hosts(host)}
        and all(port.wwn in source.ports for port in ports)
    )


def _of_wwids(source: FibreChannelSource, host: Host) -> Iterator[ScsiDisk]:
    wanted = {*source.identities, *(full for wwid in source.identities if (full := full_wwid(wwid)))}
    yield from host.scsi.disks(identities=wanted)
    exact = all(map(full_wwid, source.identities))
    for name in id_links(source, host.files.names(BY_ID)):
        over, one = host.scsi.map_of(BY_ID / name), host.scsi.disk_of(BY_ID / name)
        for disk in over.disks if over is not None else filter(None, (one,)):
            # as above: the link may be older than the disk
            if not exact or host.scsi.remembered_identity(disk) in {"", *wanted}:
                yield disk


def search(source: FibreChannelSource, host: Host) -> None:
    """Let each Fibre Channel host look for a LUN at all of its ports: nobody knows at which one it is.

    Where the kernel knows all ports of a volume, and none is online, nothing is there, and a scan may wait for them.
    """
    if source.ports and {port.wwn for port in remote_ports(host, source.ports)} == source.ports:
        return
    for own in fc_hosts(host):
        host.scsi.scan(own.number, lun=source.lun if source.ports else None)


def not_found(source: FibreChannelSource, volume: str, host: Host) -> OperationError:
    """Say that there is no disk, what is seen of its storage, and what to do."""
    hosts = fc_hosts(host)
    said = [text for wwn in sorted(source.ports) for text in _seen_of(wwn, source, host)]
    said += [str(own) for own in hosts if own.state != ONLINE]
    remedy = "let the storage show the disk to this node, and look at zoning and cables"
    if not hosts:
        said, remedy = ["this node has no Fibre Channel host"], NO_HOST
    wanted = f"LUN {source.lun} of {', '.join(source.target_wwns)}" if source.ports else ", ".join(source.wwids)
    seen = f" ({'; '.join(said)})" if said else ""
    online = any(port.state == ONLINE for port in remote_ports(host, source.ports))
    kind = UnansweredError if hosts and source.ports and not online else OperationError
    return kind(f"no fc disk found for {volume}: {wanted}{seen}; {remedy}")


def missing_ports(source: FibreChannelSource, volume: str, host: Host) -> tuple[Notice, ...]:
    """Tell of ports of the volume by which its disk is not reached, as far as the kernel says."""
    seen = remote_ports(host, source.ports)
    if not seen or source.lun is None:
        return ()
    reached = {port.wwn for port in seen if (at := port.address(source.lun)) and host.scsi.disk_at(at) is not None}
    said = [text for wwn in sorted(source.ports - reached) for text in _seen_of(wwn, source, host)]
    return (Notice(DEGRADED, f"not every path to the disk of {volume} is there: {'; '.join(said)}"),) if said else ()


def _seen_of(wwn: str, source: FibreChannelSource, host: Host) -> list[str]:
    seen = remote_ports(host, frozenset({wwn}))
    return [
        f"port {wwn} is online on host{port.host}, and shows no LUN {source.lun}" if port.state == ONLINE else str(port)
        for port in seen
    ] or [f"port {wwn} is not seen"]
