"""What a node sees of a Fibre Channel fabric: its own ports, and those of storages; by sysfs.

Source: `drivers/scsi/scsi_transport_fc.c` of Linux, which names these directories and files.
"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from volmgr.plugin import OperationError, ScsiAddress

if TYPE_CHECKING:
    from collections.abc import Iterable

    from volmgr.plugin import Host

HOSTS = Path("/sys/class/fc_host")
REMOTE_PORTS = Path("/sys/class/fc_remote_ports")
ONLINE = "Online"

_HOST = re.compile(r"host(\d+)")
_REMOTE_PORT = re.compile(r"rport-(\d+):(\d+)-\d+")


@dataclass(frozen=True, slots=True, kw_only=True)
class FcHost:
    """A Fibre Channel port of the node: SCSI host `number`; `state` is `Online`, `Linkdown` and the like."""

    number: int
    wwn: str
    state: str

    def __str__(self) -> str:
        return f"host{self.number} ({self.wwn}) is {self.state.lower()}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RemotePort:
    """A port of a storage as one port of the node sees it; `state` is `Online`, `Blocked` and the like."""

    host: int
    channel: int
    target: int | None
    """Its number for SCSI; None: it has none, since it serves no disks."""
    wwn: str
    state: str

    def address(self, lun: int) -> ScsiAddress | None:
        """Give where a LUN of it is."""
        return None if self.target is None else ScsiAddress(self.host, self.channel, self.target, lun)

    def __str__(self) -> str:
        return f"port {self.wwn} is {self.state.lower()} on host{self.host}"


def fc_hosts(host: Host) -> tuple[FcHost, ...]:
    """Give the ports of the node."""
    return tuple(_fc_hosts(host))


def _fc_hosts(host: Host) -> Iterable[FcHost]:
    for name in host.files.names(HOSTS):
        parts = _HOST.fullmatch(name)
        if parts:
            place = HOSTS / name
            yield FcHost(
                number=int(parts[1]),
                wwn=_wwn(_read(place / "port_name", host)),
                state=_read(place / "port_state", host) or "Unknown",
            )


def remote_ports(host: Host, wwns: frozenset[str] | None = None) -> tuple[RemotePort, ...]:
    """Give what the node's ports see of these ports of a storage, or of all."""
    return tuple(_remote_ports(host, wwns))


def _remote_ports(host: Host, wwns: frozenset[str] | None) -> Iterable[RemotePort]:
    for name in host.files.names(REMOTE_PORTS):
        parts = _REMOTE_PORT.fullmatch(name)
        place = REMOTE_PORTS / name
        wwn = _wwn(_read(place / "port_name", host)) if parts else ""
        if parts and (wwns is None or wwn in wwns):  # a fabric may show hundreds: of the others no more is read
            target = _read(place / "scsi_target_id", host)
            yield RemotePort(
                host=int(parts[1]),
                channel=int(parts[2]),
                target=int(target) if target.isdecimal() else None,  # -1: not a target
                wwn=wwn,
                state=_read(place / "port_state", host) or "Unknown",
            )


def _wwn(text: str) -> str:
    return text.lower().removeprefix("0x")


def _read(path: Path, host: Host) -> str:
    """Read a file of sysfs; empty when it went with its port."""
    with suppress(OperationError):
        return (host.files.read(path) or b"").decode("ascii", "replace").strip()
    return ""
