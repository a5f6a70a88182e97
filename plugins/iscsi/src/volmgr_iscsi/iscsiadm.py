"""iscsiadm, as far as volumes need it: each method is one command, and no command has a secret in its arguments.

Source: iscsiadm(8); exit codes are those of `include/iscsi_err.h` of open-iscsi.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from volmgr.plugin import CommandResult, Host, OperationError, UnansweredError
from volmgr_iscsi.portals import Portal

OK = 0
NO_SESSION = 2
NOT_IN_DATABASE = 6
INVALID = 7
EXISTS = 15
NO_OBJECTS = 21
GONE = 22
"""Exit codes: what was asked for is not there, or is there already."""

_SILENT = {4: "cannot be reached", 8: "did not answer in time", 11: "did not answer in time"}
_NO_DAEMON = frozenset({18, 20})
_REFUSED = frozenset({19, 24})
_CODES = range(1, 256)

INSTALL = "install open-iscsi (Debian, SUSE) or iscsi-initiator-utils (Fedora)"

MARGIN = 15.0
"""Seconds that a command may take beyond what its portal may, before it is killed."""

_OFFER = re.compile(r"(?P<portal>\S+),(?P<group>-?\d+) (?P<iqn>\S+)")


@dataclass(frozen=True, slots=True)
class Offer:
    """One line of what a portal answers when it is asked for targets."""

    portal: Portal
    group: int
    iqn: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Iscsiadm:
    """The command on one host; `left` says how many seconds there are, `patience` how many a portal has."""

    host: Host
    left: Callable[[], float]
    patience: float

    def discover(self, portal: Portal, interface: str) -> tuple[Offer, ...]:
        """Ask a portal for its targets, and keep nothing of the answer."""
        asked = ("-m", "discovery", "-t", "sendtargets", "-p", str(portal), "-I", interface, "-o", "nonpersistent")
        return offers(self._asking(asked, portal, changes=False))

    def discover_by_record(self, portal: Portal, interface: str) -> tuple[Offer, ...]:
        """Ask a portal in the way that its record says, which may have secrets."""
        asked = (*_discovery(portal, interface), "--discover", "-o", "nonpersistent")
        return offers(self._asking(asked, portal, changes=False))

    def make_discovery(self, portal: Portal, interface: str) -> None:
        """Make the record of how a portal is asked, as the node's configuration has it."""
        self._run((*_discovery(portal, interface), "-o", "new"), f"preparing to ask portal {portal}")

    def delete_discovery(self, portal: Portal, interface: str) -> None:
        """Delete that; gone is success."""
        gone = (OK, NOT_IN_DATABASE, NO_OBJECTS)
        self._run((*_discovery(portal, interface), "-o", "delete"), f"forgetting portal {portal}", gone)

    def make_node(self, iqn: str, portal: Portal, group: int, interface: str) -> None:
        """Make the record of a target at a portal, as the node's configuration has it."""
        place = f"{portal},{group}"
        self._run(("-m", "node", "-T", iqn, "-p", place, "-I", interface, "-o", "new"), f"recording {iqn} at {portal}")

    def delete_node(self, iqn: str, portal: Portal, interface: str) -> None:
        """Delete that; gone is success."""
        gone = (OK, NO_SESSION, NO_OBJECTS)
        self._run((*_node(iqn, portal, interface), "-o", "delete"), f"forgetting {iqn} at {portal}", gone)

    def log_in(self, iqn: str, portal: Portal, interface: str) -> None:
        """Log in as the record says; a session that is there is success."""
        self._asking((*_node(iqn, portal, interface), "--login"), portal, iqn=iqn, accept=(OK, EXISTS))

    def log_out(self, session: int) -> None:
        """End one session; gone is success."""
        gone = (OK, NO_SESSION, NO_OBJECTS, GONE)
        self._run(("-m", "session", "-r", str(session), "--logout"), f"logging out of session {session}", gone)

    def show_interface(self, interface: str) -> str:
        """Give what an interface is."""
        return self._run(("-m", "iface", "-I", interface, "-o", "show"), f"reading interface {interface}").stdout

    def make_interface(self, interface: str) -> None:
        """Make an interface; there already is success."""
        made = (OK, EXISTS)
        self._run(("-m", "iface", "-I", interface, "-o", "new"), f"making interface {interface}", made)

    def set_interface(self, interface: str, name: str, value: str) -> None:
        """Change one setting of an interface."""
        change = ("-o", "update", "-n", name, "-v", value)
        self._run(("-m", "iface", "-I", interface, *change), f"setting {name} of interface {interface}")

    def delete_interface(self, interface: str) -> None:
        """Delete an interface; gone is success."""
        gone = (OK, NOT_IN_DATABASE, INVALID, NO_OBJECTS)
        self._run(("-m", "iface", "-I", interface, "-o", "delete"), f"deleting interface {interface}", gone)

    def _run(self, arguments: Sequence[str], what: str, accept: Sequence[int] = (OK,)) -> CommandResult:
        result = self._result(arguments)
        if result.exit_code not in accept:
            raise _failed(what, result)
        return result

    def _asking(
        self,
        arguments: Sequence[str],
        portal: Portal,
        *,
        iqn: str = "",
        accept: Sequence[int] = (OK,),
        changes: bool = True,
    ) -> str:
        """Run what waits for a portal, which may never answer."""
        what = f"logging in to {iqn} at portal {portal}" if iqn else f"asking portal {portal} for its targets"
        result = self._result(arguments, within=self.patience + MARGIN, changes=changes)
        if result.exit_code in accept:
            return result.stdout
        if result.exit_code in _SILENT:
            raise UnansweredError(f"{what} failed: it {_SILENT[result.exit_code]} ({_words(result)})")
        if result.exit_code in _REFUSED:
            raise OperationError(
                f"{what} failed: the target does not let this node in ({_words(result)}); correct the names and"
                " passwords of the Secret, or let the node's initiator name in"
            )
        raise _failed(what, result)

    def _result(self, arguments: Sequence[str], *, within: float = MARGIN, changes: bool = True) -> CommandResult:
        deadline = max(0.0, min(within, self.left()))
        accept = (OK, *_CODES)
        try:
            return self.host.commands.run(("iscsiadm", *arguments), deadline=deadline, accept=accept, changes=changes)
        except OperationError as error:
            if self.host.commands.find("iscsiadm") is not None:
                raise
            raise OperationError(f"iscsiadm is not installed: {INSTALL}") from error


def offers(answer: str) -> tuple[Offer, ...]:
    """Read what a portal offers: lines such as `10.0.0.1:3260,1 iqn.2026-01.com.example:disks`; pure."""
    return tuple(_offers(answer))


def _offers(answer: str) -> Iterator[Offer]:
    for found in filter(None, map(_OFFER.fullmatch, map(str.strip, answer.splitlines()))):
        with suppress(ValueError):  # the storage says where it is: one address that is none is no reason to fail
            yield Offer(Portal.parse(found["portal"]), int(found["group"]), found["iqn"])


def interface_settings(shown: str) -> Mapping[str, str]:
    """Read what `-m iface -o show` says, without what is empty and the name; raises OperationError; pure.

    Source: `parseIscsiadmShow` of kubelet.
    """
    found: dict[str, str] = {}
    for line in shown.splitlines():
        if not line.startswith("iface.") or "<empty>" in line:
            continue
        words = line.split()
        if len(words) != 3 or words[1] != "=":  # noqa: PLR2004 - name, sign, value
            raise OperationError(f"cannot read the interface that iscsiadm shows: invalid iface setting {line!r}")
        if words[0] != "iface.iscsi_ifacename":
            found[words[0]] = words[2]
    return found


def _discovery(portal: Portal, interface: str) -> tuple[str, ...]:
    return ("-m", "discoverydb", "-t", "sendtargets", "-p", str(portal), "-I", interface)


def _node(iqn: str, portal: Portal, interface: str) -> tuple[str, ...]:
    return ("-m", "node", "-T", iqn, "-p", str(portal), "-I", interface)


def _failed(what: str, result: CommandResult) -> OperationError:
    if result.exit_code in _NO_DAEMON:
        return OperationError(
            f"{what} failed: iscsid does not run ({_words(result)}); start it: systemctl start iscsid"
        )
    return OperationError(f"{what} failed: iscsiadm exited with {result.exit_code}: {_words(result)}")


def _words(result: CommandResult) -> str:
    """Give what iscsiadm said at last, without the name that it puts before each line."""
    lines = [line.removeprefix("iscsiadm: ").strip() for line in result.stderr.splitlines() if line.strip()]
    return "; ".join(dict.fromkeys(lines)) or "no message on stderr"
