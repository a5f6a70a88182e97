"""open-iscsi for tests: iscsiadm with its database, and sessions in sysfs that lead to the LUNs of targets.

It works on the files of any host, and tells a storage (FakeHost's, or whatever stands for one) what is behind which
address; `program` is what FakeHost runs as iscsiadm.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from volmgr.plugin import CommandResult, Host, ScsiAddress
from volmgr_iscsi import iscsiadm
from volmgr_iscsi.database import with_lines
from volmgr_iscsi.iscsiadm import Offer
from volmgr_iscsi.portals import Portal
from volmgr_iscsi.sessions import CONNECTIONS, LOGGED_IN, SESSIONS

DATABASE = Path("/etc/iscsi")
FIRST_HOST = 2
"""The SCSI host of the first session: the machine has some of its own."""

_DEVICES = Path("/sys/devices/platform")
_HOSTS = Path("/sys/class/scsi_host")
_RECORD = "# BEGIN RECORD 2.1.8\n# END RECORD\n"
_FATAL_LOGIN = 24
_TIMED_OUT = 8
_MODE = 0o755


class Storage(Protocol):
    """What is behind SCSI addresses."""

    def attach(self, address: ScsiAddress, wwid: str) -> object:
        """Let a disk be there."""
        ...

    def release(self, address: ScsiAddress) -> object:
        """Let nothing be there, and the kernel know that."""
        ...


@dataclass(kw_only=True)
class FakeTarget:
    """A target: its portals, its LUNs by their WWIDs, and the lines that a record must have where CHAP is wanted."""

    iqn: str
    portals: list[Portal]
    luns: dict[int, str] = field(default_factory=dict[int, str])
    session_chap: Mapping[str, str] = field(default_factory=dict[str, str])
    discovery_chap: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, kw_only=True)
class FakeSession:
    """One session of the node."""

    target: FakeTarget
    portal: Portal
    interface: str
    number: int

    @property
    def host(self) -> int:
        """Its SCSI host."""
        return FIRST_HOST + self.number - 1


class FakeInitiator:
    """The node's open-iscsi. `silent` are addresses that swallow packets; `commands` is what was asked for."""

    def __init__(self, host: Host, storage: Storage, silent: set[str]) -> None:
        self._files = host.files
        self._storage = storage
        self.silent = silent
        self.targets: dict[str, FakeTarget] = {}
        self.sessions: dict[int, FakeSession] = {}
        self.commands: list[str] = []
        self.answers: Callable[[str], int] = _as_it_is
        """What a command exits with although it could be done; 0: as it is. Given the command without `iscsiadm`."""
        for each in (SESSIONS, CONNECTIONS, _HOSTS, _DEVICES, *(DATABASE / name for name in _TABLES)):
            self._files.ensure_directory(each, _MODE, parents_mode=_MODE)

    def target(self, iqn: str, *portals: str) -> FakeTarget:
        """Let there be a target."""
        self.targets[iqn] = FakeTarget(iqn=iqn, portals=[Portal.parse(each) for each in portals])
        return self.targets[iqn]

    def map(self, target: FakeTarget, lun: int, wwid: str) -> None:
        """Let a LUN be a disk; sessions that there are lead to it."""
        target.luns[lun] = wwid
        for session in self._with(target):
            self._storage.attach(ScsiAddress(session.host, 0, 0, lun), wwid)

    def program(self, argv: tuple[str, ...], _stdin: bytes) -> CommandResult:
        """Do what iscsiadm does."""
        self.commands.append(" ".join(argv[1:]))
        exit_code = self.answers(self.commands[-1])
        if exit_code:
            return _failure(exit_code)
        given = _Given(argv[1:])
        modes: dict[str, Callable[[_Given], CommandResult]] = {
            "discovery": self._discovery,
            "discoverydb": self._discovery_record,
            "node": self._node,
            "session": self._session,
            "iface": self._interface,
        }
        return modes[given["-m"]](given)

    # Discovery

    def _discovery(self, given: _Given) -> CommandResult:
        return self._asked(Portal.parse(given["-p"]), {})

    def _discovery_record(self, given: _Given) -> CommandResult:
        portal = Portal.parse(given["-p"])
        record = DATABASE / "send_targets" / portal.file_name / "st_config"
        if "--discover" in given:
            lines = self._lines(record)
            return _failure(iscsiadm.NO_OBJECTS) if lines is None else self._asked(portal, lines)
        if given["-o"] == "new":
            return self._write(record, _RECORD)
        return self._delete(record, iscsiadm.NOT_IN_DATABASE)

    def _asked(self, portal: Portal, lines: Mapping[str, str]) -> CommandResult:
        if portal.address in self.silent:
            return _failure(_TIMED_OUT)
        found = [each for each in self.targets.values() if portal in each.portals]
        if not found:
            return _failure(4)
        if any(not each.discovery_chap.items() <= lines.items() for each in found):
            return _failure(_FATAL_LOGIN)
        offers = (Offer(place, 1, each.iqn) for each in found for place in each.portals)
        return CommandResult(0, "".join(f"{each.portal},{each.group} {each.iqn}\n" for each in offers), "")

    # Nodes and sessions

    def _node(self, given: _Given) -> CommandResult:
        place, _, group = given["-p"].partition(",")
        portal = Portal.parse(place)
        top = DATABASE / "nodes" / given["-T"]
        if given.makes:
            return self._write(top / f"{portal.file_name},{group}" / given["-I"], _RECORD)
        names = [name for name in self._files.names(top) if name.startswith(f"{portal.file_name},")]
        records = [top / name / given["-I"] for name in names if self._lines(top / name / given["-I"]) is not None]
        if not records:
            return _failure(iscsiadm.NO_OBJECTS)
        if "--login" in given:
            return self._log_in(given["-T"], portal, given["-I"], self._lines(records[0]) or {})
        return self._delete(records[0], iscsiadm.NO_OBJECTS)

    def _log_in(self, iqn: str, portal: Portal, interface: str, lines: Mapping[str, str]) -> CommandResult:
        target = self.targets.get(iqn)
        if any(
            (each.portal, each.interface, each.target) == (portal, interface, target) for each in self.sessions.values()
        ):
            return _failure(iscsiadm.EXISTS)
        if portal.address in self.silent or target is None or portal not in target.portals:
            return _failure(_TIMED_OUT)
        if not target.session_chap.items() <= lines.items():
            return _failure(_FATAL_LOGIN)
        number = next(number for number in range(1, len(self.sessions) + 2) if number not in self.sessions)
        self.start(FakeSession(target=target, portal=portal, interface=interface, number=number))
        return CommandResult(0, "", "")

    def start(self, session: FakeSession) -> None:
        """Let a session be there."""
        self.sessions[session.number] = session
        for path, text in _sysfs(session):
            self._files.ensure_directory(path.parent, _MODE, parents_mode=_MODE)
            self._files.write(path, f"{text}\n".encode(), 0o444)
        for link, leads_to in _links(session):
            self._files.ensure_symlink(link, leads_to)
        self._files.ensure_directory(_HOSTS / f"host{session.host}", _MODE)
        for lun, wwid in session.target.luns.items():
            self._storage.attach(ScsiAddress(session.host, 0, 0, lun), wwid)

    def end(self, number: int) -> None:
        """Let a session be no more."""
        session = self.sessions.pop(number)
        for lun in session.target.luns:
            self._storage.release(ScsiAddress(session.host, 0, 0, lun))
        for link, _ in reversed(list(_links(session))):
            self._files.remove_file(link)
        for path, _ in _sysfs(session):
            self._remove(path, _DEVICES)
        self._files.remove_directory(_HOSTS / f"host{session.host}")

    def set_state(self, number: int, state: str) -> None:
        """Let a session's connection be lost (`FAILED`) or be back (`LOGGED_IN`)."""
        self._files.write(SESSIONS / f"session{number}" / "state", f"{state}\n".encode(), 0o444)

    def _session(self, given: _Given) -> CommandResult:
        number = int(given["-r"])
        if number not in self.sessions:
            return _failure(iscsiadm.GONE)
        self.end(number)
        return CommandResult(0, "", "")

    def _with(self, target: FakeTarget) -> list[FakeSession]:
        return [each for each in self.sessions.values() if each.target is target]

    # Interfaces

    def _interface(self, given: _Given) -> CommandResult:
        record = DATABASE / "ifaces" / given["-I"]
        match given["-o"]:
            case "show":
                return CommandResult(0, _SHOWN if self._lines(record) is None else self._text(record), "")
            case "new":
                return self._write(record, _RECORD)
            case "update":
                return self._write(record, with_lines(self._text(record), {given["-n"]: given["-v"]}))
            case _:
                return self._delete(record, iscsiadm.INVALID)

    # Records

    def _text(self, record: Path) -> str:
        return (self._files.read(record) or b"").decode()

    def _lines(self, record: Path) -> Mapping[str, str] | None:
        if self._files.info(record) is None:
            return None
        pairs = (line.partition(" = ") for line in self._text(record).splitlines() if " = " in line)
        return {name: value for name, _, value in pairs}

    def _write(self, record: Path, text: str) -> CommandResult:
        self._files.ensure_directory(record.parent, _MODE, parents_mode=_MODE)
        self._files.write(record, text.encode(), 0o600)
        return CommandResult(0, "", "")

    def _delete(self, record: Path, missing: int) -> CommandResult:
        if self._files.info(record) is None:
            return _failure(missing)
        self._remove(record, DATABASE / record.relative_to(DATABASE).parts[0])
        return CommandResult(0, "", "")

    def _remove(self, path: Path, top: Path) -> None:
        """Remove a file and the directories that it leaves empty."""
        self._files.remove_file(path)
        for parent in path.parents:
            if parent == top or not self._files.remove_directory(parent):
                return


class _Given:
    """The arguments of a command: options with a value, and those without."""

    def __init__(self, arguments: Sequence[str]) -> None:
        self._arguments = list(arguments)

    def __contains__(self, option: str) -> bool:
        return option in self._arguments

    def __getitem__(self, option: str) -> str:
        return self._arguments[self._arguments.index(option) + 1]

    @property
    def makes(self) -> bool:
        """Whether something is to be made."""
        return "-o" in self and self["-o"] == "new"


def _as_it_is(_command: str) -> int:
    return 0


def _failure(exit_code: int) -> CommandResult:
    return CommandResult(exit_code, "", f"iscsiadm: initiator reported error ({exit_code})\n")


def _place(session: FakeSession) -> Path:
    return _DEVICES / f"host{session.host}" / f"session{session.number}"


def _sysfs(session: FakeSession) -> Iterator[tuple[Path, str]]:
    name = f"{session.number}"
    attributes = {
        "targetname": session.target.iqn,
        "ifacename": session.interface,
        "state": LOGGED_IN,
        "target_id": "0",
    }
    for attribute, value in attributes.items():
        yield _place(session) / f"iscsi_session/session{name}" / attribute, value
    connection = _place(session) / f"connection{name}:0/iscsi_connection/connection{name}:0"
    yield connection / "persistent_address", session.portal.address
    yield connection / "persistent_port", str(session.portal.port)


def _links(session: FakeSession) -> Iterator[tuple[Path, str]]:
    name, place = f"session{session.number}", Path("../..") / _place(session).relative_to("/sys")
    connection = f"connection{session.number}:0"
    yield _place(session) / "iscsi_session" / name / "device", f"../../../{name}"
    yield SESSIONS / name, str(place / "iscsi_session" / name)
    yield CONNECTIONS / connection, str(place / connection / "iscsi_connection" / connection)


_TABLES = ("nodes", "send_targets", "ifaces")
_SHOWN = """\
# BEGIN RECORD 2.1.8
iface.iscsi_ifacename = default
iface.net_ifacename = <empty>
iface.prefix_len = 0
iface.transport_name = tcp
iface.initiatorname = <empty>
# END RECORD
"""
