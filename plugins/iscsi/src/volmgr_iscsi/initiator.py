"""The node as an initiator: logs in at the portals of one LUN's target, sees its paths, and logs out again.

Source: `AttachDisk` and `DetachDisk` of kubelet's `pkg/volume/iscsi/iscsi_util.go`; behaviours §4.4.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from volmgr.plugin import Host, OperationError, Sight, UnansweredError, UncertainError, VolmgrError, taken_back
from volmgr_iscsi.chap import Chap
from volmgr_iscsi.connection import Connection
from volmgr_iscsi.database import clear_rests, discovery_records, node_records, one_of, set_lines
from volmgr_iscsi.interfaces import ensure_interface, remove_interface
from volmgr_iscsi.iscsiadm import Iscsiadm, Offer
from volmgr_iscsi.portals import Portal
from volmgr_iscsi.sessions import Session, sessions
from volmgr_iscsi.settings import IscsiSettings
from volmgr_iscsi.source import DEFAULT_INTERFACE

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Generator

_ONCE = "1"
"""How often open-iscsi tries a first login by itself: who tries again is volmgr."""


def _untold(_portals: tuple[str, ...]) -> None:
    """Tell nobody."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Initiator:
    """One connection on one host; `left` says how many seconds there are for what is done."""

    connection: Connection
    host: Host
    left: Callable[[], float]
    asking: Callable[[tuple[str, ...]], None] = _untold
    """Told, before, of all portals that have a record just to be asked by it; and again when one has not any more."""
    chap: Chap = field(default_factory=Chap)

    # What there is

    def sessions(self) -> tuple[Session, ...]:
        """Give the sessions over which the LUN is, or could be, reached."""
        places = set(self.connection.places)
        found = sessions(self.connection.iqn, self.connection.interface, self.host)
        return tuple(each for each in found if each.portal in places)

    def look(self) -> Sight:
        """See the LUN over the sessions that work; the kernel finds it at their addresses when it is asked to."""
        return self._sight([each for each in self.sessions() if each.is_up])

    def look_at_all(self) -> Sight:
        """See every path that the kernel has, over broken sessions, too."""
        return self._sight(self.sessions())

    def _sight(self, over: Collection[Session]) -> Sight:
        addresses = [each.address(self.connection.lun) for each in over]
        found = (self.host.scsi.disk_at(address) for address in addresses)
        return Sight(addresses=tuple(addresses), disks=tuple(disk for disk in found if disk is not None))

    # Logging in

    def log_in(self) -> Mapping[str, VolmgrError]:
        """Log in wherever there is no session; gives what failed, by portal as the connection writes it.

        Portals that refuse are tried again while others work, as kubelet does; silent ones are not.
        """
        ensure = _Logins(self)
        limits = self._limits
        failures: dict[str, VolmgrError] = {}
        for attempt in range(1, limits.most_attempts + 1):
            failures = {
                text: failure
                for text, place in zip(self.connection.portals, self.connection.places, strict=True)
                if (failure := ensure.tried(place)) is not None
            }
            working = len(self.connection.portals) - len(failures)
            enough = working >= limits.enough_paths and attempt >= limits.least_attempts
            if not working or enough or set(self.connection.places) <= ensure.there | ensure.hopeless.keys():
                break
        return failures

    @property
    def _limits(self) -> IscsiSettings:
        return self.host.settings_of(IscsiSettings)

    @property
    def iscsiadm(self) -> Iscsiadm:
        """The command."""
        return Iscsiadm(host=self.host, left=self.left, patience=self._limits.login_timeout)

    # Logging out

    def log_out(self, *, foreign: Collection[str], used: Callable[[Session], bool]) -> None:
        """End the sessions that nobody else has or needs, and delete what they were made from."""
        kept = {Portal.parse(text) for text in foreign}
        for session in self.sessions():
            if session.portal not in kept:
                if used(session):
                    kept.add(session.portal)
                else:
                    self.iscsiadm.log_out(session.number)
        for place in self.connection.places:
            if place not in kept:
                self._delete_node(place)
        if not kept:
            remove_interface(self.connection, self.iscsiadm, self.host)

    def _delete_node(self, place: Portal) -> None:
        iqn, interface = self.connection.iqn, self.connection.interface
        records = node_records(iqn, place, interface, self.host)
        clear_rests(records, self.host)
        if records:
            self.iscsiadm.delete_node(iqn, place, interface)

    def forget_asked(self, portals: Collection[str]) -> None:
        """Delete the records that portals were asked by, which have secrets; gone is success."""
        for place in map(Portal.parse, portals):
            records = discovery_records(place, self.host)
            clear_rests(records, self.host)
            if records:
                self.iscsiadm.delete_discovery(place, self.connection.interface)


class _Logins:
    """What is found out about portals while they are logged in at: each is asked for its targets once at most."""

    def __init__(self, initiator: Initiator) -> None:
        self._initiator = initiator
        self._connection = initiator.connection
        self._host = initiator.host
        self._iscsiadm = initiator.iscsiadm
        self._patience = initiator.host.settings_of(IscsiSettings).login_timeout
        self._offers: tuple[Offer, ...] = ()
        self._has_interface = False
        self._asking: set[str] = set()
        self.there: set[Portal] = set()
        self.hopeless: dict[Portal, VolmgrError] = {}
        """What must not be tried again in this operation: it costs its whole patience, or may still be at work."""

    def tried(self, place: Portal) -> VolmgrError | None:
        """Have a session with a portal, or say why there is none."""
        if place in self.hopeless:
            return self.hopeless[place]
        session = next((each for each in self._initiator.sessions() if each.portal == place), None)
        if session is not None and not session.is_up:
            problem = f"session {session.number} with portal {place} is {session.state}: open-iscsi tries to restore it"
            self.hopeless[place] = UnansweredError(problem)
            return self.hopeless[place]
        try:
            if session is None:
                self._log_in(place)
        except (UnansweredError, UncertainError) as failure:
            self.hopeless[place] = failure
            return failure
        except VolmgrError as failure:
            return failure
        self.there.add(place)
        return None

    def _log_in(self, place: Portal) -> None:
        iqn, interface = self._connection.iqn, self._connection.interface
        if self._connection.base_interface == DEFAULT_INTERFACE:  # others may have a network of their own
            self._host.network.reach(place.address, place.port, within=self._patience)
        if not self._has_interface:
            ensure_interface(self._connection, self._iscsiadm)
            self._has_interface = True
        group = self._group(place)
        if not node_records(iqn, place, interface, self._host):
            self._iscsiadm.make_node(iqn, place, group, interface)
        with taken_back(lambda: self._iscsiadm.delete_node(iqn, place, interface), f"logging in at portal {place}"):
            record = one_of(node_records(iqn, place, interface, self._host), f"{iqn} at {place}")
            set_lines(record, self._lines(), self._host)
            self._iscsiadm.log_in(iqn, place, interface)

    def _lines(self) -> Mapping[str, str]:
        """Say how to log in: within bounds, and so that the kernel looks for no LUN of its own accord."""
        return {
            "node.startup": "manual",
            "node.session.scan": "manual",
            "node.session.initial_login_retry_max": _ONCE,
            "node.conn[0].timeo.login_timeout": str(self._patience),
            **self._initiator.chap.session,
        }

    def _group(self, place: Portal) -> int:
        """Say which portal group a portal is in; raises OperationError where the target is not offered at all."""
        iqn = self._connection.iqn
        if not any(each.portal == place and each.iqn == iqn for each in self._offers):
            self._offers = (*self._offers, *self._asked(place))
        ours = [each for each in self._offers if each.iqn == iqn]
        if not ours:
            offered = ", ".join(sorted({each.iqn for each in self._offers})) or "none"
            raise OperationError(
                f"portal {place} does not offer the target {iqn}; it offers {offered}: correct iqn or targetPortal of"
                " the volume, or let the node's initiator name see the target"
            )
        return next((each.group for each in ours if each.portal == place), ours[0].group)

    def _asked(self, place: Portal) -> tuple[Offer, ...]:
        interface, lines = self._connection.interface, self._initiator.chap.discovery
        if not lines:
            return self._iscsiadm.discover(place, interface)
        with self._discovery_record(place, lines):
            return self._iscsiadm.discover_by_record(place, interface)

    @contextmanager
    def _discovery_record(self, place: Portal, lines: Mapping[str, str]) -> Generator[None]:
        """Let a portal's record have the secrets as long as it is asked, and be afterwards what it was."""
        interface, text = self._connection.interface, str(place)
        there = () if text in self._asking else discovery_records(place, self._host)
        before = {record: self._host.files.read(record) or b"" for record in there}

        def undo() -> None:
            if not there:
                self._initiator.forget_asked((text,))
                self._asking.discard(text)
                self._initiator.asking(tuple(self._asking))
            for record, content in before.items():
                self._host.files.write(record, content, 0o600)

        with taken_back(undo, f"asking portal {place}"):
            if not there:
                self._asking.add(text)
                self._initiator.asking(tuple(self._asking))
                self._iscsiadm.make_discovery(place, interface)
            record = one_of(discovery_records(place, self._host), f"portal {place}")
            set_lines(record, self._bounded(lines), self._host)
            yield
        undo()

    def _bounded(self, lines: Mapping[str, str]) -> Mapping[str, str]:
        return {
            "discovery.sendtargets.timeo.login_timeout": str(self._patience),
            "discovery.sendtargets.reopen_max": "0",
            **lines,
        }
