"""open-iscsi's daemon, and what an initiator has: sessions, node records, interfaces."""

from __future__ import annotations

import subprocess
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.eventually import eventually
from tests.vm.servers.guest import load, tell

INITIATOR = "iqn.2026-01.io.test:initiator"
DATABASE = Path("/etc/iscsi")
_NO_OBJECTS = 21
"""iscsiadm's exit code when there is nothing of what it was asked for."""


class Iscsid:
    """The initiator of the guest; leaving the block logs out of everything and removes every record."""

    def __enter__(self) -> Self:
        """Start it."""
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop it."""
        self.stop()

    def start(self, initiator: str = INITIATOR) -> None:
        """Run iscsid with an initiator name; again, it changes nothing."""
        (DATABASE / "initiatorname.iscsi").write_text(f"InitiatorName={initiator}\n")
        Path("/run/lock/iscsi").mkdir(parents=True, exist_ok=True)
        load("iscsi_tcp", "sd_mod")
        if not self.runs():
            tell("iscsid")
            eventually(self.runs, "iscsid")

    def runs(self) -> bool:
        """Tell whether iscsid runs."""
        return subprocess.run(["pidof", "iscsid"], capture_output=True, check=False).returncode == 0

    def stop(self) -> None:
        """Log out of everything, remove every record, and end iscsid; again, it changes nothing."""
        if self.runs():
            self.clear()
            tell("iscsiadm", "-k", "0")
            eventually(lambda: not self.runs(), "the end of iscsid")

    def clear(self) -> None:
        """Log out of everything, and remove every record that there is."""
        if self.sessions():
            _ask("-m", "node", "--logoutall=all")
        if self.records():
            _ask("-m", "node", "-o", "delete")
        for record in self.discoveries():
            _ask("-m", "discoverydb", "-t", "sendtargets", "-p", record, "-o", "delete")
        for name in self.interfaces():
            _ask("-m", "iface", "-I", name, "-o", "delete")

    @contextmanager
    def configured(self, *lines: str) -> Generator[None]:
        """Let records that are made meanwhile have these lines: `node.session.timeo.replacement_timeout = 5`."""
        file = DATABASE / "iscsid.conf"
        before = file.read_text()
        file.write_text("\n".join((before, *lines, "")))
        try:
            yield
        finally:
            file.write_text(before)

    def sessions(self) -> tuple[str, ...]:
        """Give each session as `127.0.0.1:3260 iqn.2026-01.io.test:t1`, sorted, from sysfs."""
        found: list[str] = []
        for session in Path("/sys/class/iscsi_session").glob("session*"):
            with suppress(OSError):  # it ends just now
                target = (session / "targetname").read_text().strip()
                for connection in session.glob("device/connection*/iscsi_connection/connection*"):
                    address, port = (
                        (connection / name).read_text().strip() for name in ("persistent_address", "persistent_port")
                    )
                    found.append(f"{address}:{port} {target}")
        return tuple(sorted(found))

    def records(self) -> tuple[str, ...]:
        """Give each node record, as a path below the database's `nodes`."""
        top = DATABASE / "nodes"
        return tuple(sorted(str(each.relative_to(top)) for each in top.rglob("*") if each.is_file()))

    def discoveries(self) -> tuple[str, ...]:
        """Give the portals (`127.0.0.1:3260`) that have a record of a discovery."""
        found = (each.name.split(",") for each in (DATABASE / "send_targets").glob("*,*"))
        return tuple(sorted(f"{address}:{port}" for address, port, *_ in found))

    def interfaces(self) -> tuple[str, ...]:
        """Give the interfaces that somebody has made."""
        top = DATABASE / "ifaces"
        return (
            tuple(sorted(each.name for each in top.iterdir() if each.name != "iface.example")) if top.exists() else ()
        )


def _ask(*arguments: str) -> None:
    done = subprocess.run(["iscsiadm", *arguments], capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode in {0, _NO_OBJECTS}, f"iscsiadm {arguments}: {done.returncode} {done.stdout}{done.stderr}"
