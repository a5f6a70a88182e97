"""The node's iSCSI sessions, as sysfs has them: no guess by names of links, and nothing is executed.

Source: `Documentation/ABI` has none of it; `drivers/scsi/scsi_transport_iscsi.c` of Linux.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from volmgr.plugin import Host, OperationError, ScsiAddress
from volmgr_iscsi.portals import Portal

SESSIONS = Path("/sys/class/iscsi_session")
CONNECTIONS = Path("/sys/class/iscsi_connection")

LOGGED_IN = "LOGGED_IN"
"""The state of a session that works; FAILED is one whose connection open-iscsi tries to restore."""

_PLACE = re.compile(r"/host(\d+)/session\d+/")


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """One session: with whom, where, and which SCSI host and target its LUNs have."""

    number: int
    iqn: str
    interface: str
    portal: Portal
    state: str
    host: int
    target: int = 0

    @property
    def is_up(self) -> bool:
        return self.state == LOGGED_IN

    def address(self, lun: int) -> ScsiAddress:
        """Give where one of its LUNs is."""
        return ScsiAddress(self.host, 0, self.target, lun)

    def has(self, address: ScsiAddress) -> bool:
        """Say whether a LUN is one of its."""
        return (address.host, address.channel, address.target) == (self.host, 0, self.target)


def sessions(iqn: str, interface: str, host: Host) -> tuple[Session, ...]:
    """Give the sessions with a target over an interface, exactly these; the oldest first."""
    found = (_session(name, iqn, interface, host) for name in host.files.names(SESSIONS))
    return tuple(sorted((each for each in found if each is not None), key=lambda each: each.number))


def _session(name: str, iqn: str, interface: str, host: Host) -> Session | None:
    """Read a session; None for another's, and for one that ends, or that has no connection yet."""
    top = SESSIONS / name
    if _text(top / "targetname", host) != iqn or _text(top / "ifacename", host) != interface:
        return None  # of hundreds, most are: no more is read of them
    place = _PLACE.search(host.files.read_link(top) or "")
    portal = next(_portals(name, host), None)
    if place is None or portal is None:
        return None
    return Session(
        number=int(name.removeprefix("session")),
        iqn=iqn,
        interface=interface,
        portal=portal,
        state=_text(top / "state", host),
        host=int(place[1]),
        target=int(target) if (target := _text(top / "target_id", host)).isdecimal() else 0,
    )


def _portals(name: str, host: Host) -> Iterator[Portal]:
    """Give where its connections lead: not where the target has led them on to, but what was asked for."""
    for each in host.files.names(SESSIONS / name / "device"):
        if each.startswith("connection"):
            address = _text(CONNECTIONS / each / "persistent_address", host)
            port = _text(CONNECTIONS / each / "persistent_port", host)
            if address and port.isdigit():
                yield Portal.of(address, int(port))


def _text(path: Path, host: Host) -> str:
    """Read a file of sysfs; empty when it went with its session."""
    try:
        return (host.files.read(path) or b"").decode("utf-8", "replace").strip()
    except OperationError as error:
        if isinstance(error.__cause__, OSError) and error.__cause__.errno == errno.ENODEV:  # it is just going
            return ""
        raise
