"""The files in which open-iscsi keeps its records, written here where a command line would show secrets.

Source: `usr/idbm.c` of open-iscsi 2.1: a node has the file `nodes/IQN/ADDRESS,PORT,GROUP/INTERFACE`, or, made without
a group, `nodes/IQN/ADDRESS,PORT`; how a portal is asked for its targets is in `send_targets/ADDRESS,PORT/st_config`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from volmgr.plugin import Host, OperationError
from volmgr_iscsi.portals import Portal

PLACES = (Path("/etc/iscsi"), Path("/var/lib/iscsi"))
"""Where distributions have the database: Debian and SUSE, then Fedora and its kin."""

_MODE = 0o600
_END = "# END RECORD"


def node_records(iqn: str, portal: Portal, interface: str, host: Host) -> tuple[Path, ...]:
    """Give the files of one node's record; at most one, unless a database was moved."""
    return tuple(record for place in PLACES for record in _nodes(place / "nodes" / iqn, portal, interface, host))


def discovery_records(portal: Portal, host: Host) -> tuple[Path, ...]:
    """Give the files of what one portal is asked with."""
    named = (place / "send_targets" / portal.file_name / "st_config" for place in PLACES)
    return tuple(record for record in named if host.files.info(record) is not None)


def interface_records(interface: str, host: Host) -> tuple[Path, ...]:
    """Give the files of an interface that somebody has made."""
    named = (place / "ifaces" / interface for place in PLACES)
    return tuple(record for record in named if host.files.info(record) is not None)


def set_lines(record: Path, lines: Mapping[str, str], host: Host) -> None:
    """Let a record have these lines, at once, and be root's alone."""
    clear_rests((record,), host)
    text = (host.files.read(record) or b"").decode("utf-8", "surrogateescape")
    host.files.write(record, with_lines(text, lines).encode("utf-8", "surrogateescape"), _MODE)


def clear_rests(records: Iterable[Path], host: Host) -> None:
    """Remove what a daemon that was killed while it wrote a record has left beside it: secrets, that nobody reads."""
    for record in records:
        for name in host.files.names(record.parent):
            if name.startswith(f".{record.name}.") and name.endswith(".tmp"):
                host.files.remove_file(record.parent / name)


def with_lines(text: str, lines: Mapping[str, str]) -> str:
    """Give a record's text with these lines, in the place of those of the same names; pure."""
    kept = [line for line in text.splitlines() if line != _END and line.partition(" = ")[0].strip() not in lines]
    return "\n".join([*kept, *(f"{name} = {value}" for name, value in lines.items()), _END, ""])


def _nodes(top: Path, portal: Portal, interface: str, host: Host) -> Iterator[Path]:
    for name in host.files.names(top):
        if name != portal.file_name and not name.startswith(f"{portal.file_name},"):
            continue
        info = host.files.info(top / name)
        record = top / name / interface if info is not None and info.kind == "directory" else top / name
        if host.files.info(record) is not None:
            yield record


def one_of(records: tuple[Path, ...], what: str) -> Path:
    """Give the record that open-iscsi has just made; raises OperationError where it is not to be found."""
    if not records:
        places = " or ".join(map(str, PLACES))
        raise OperationError(f"open-iscsi has made a record of {what}, and it is not below {places}: report this")
    return records[0]
