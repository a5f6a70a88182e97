"""LIO, the kernel's iSCSI target, by configfs: targets, portals, CHAP, LUNs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.vm.servers.backstores import TARGET, Backstore, load_target_core
from tests.vm.servers.guest import load, put, until_listening

PORT = 3260
_ISCSI = TARGET / "iscsi"
_GROUP = "tpgt_1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Chap:
    """Who may log in; with `user_in`, who the target must be, too."""

    user: str = "user1"
    password: str = "secret12345678"
    user_in: str = ""
    password_in: str = ""


class Lio:
    """Every target and disk of the guest; leaving the block removes them all.

    with Lio() as lio:
        target = lio.target("iqn.2026-01.io.test:t1", portals=("127.0.0.1", "127.0.0.2"))
        disk = lio.backstore("a")
        target.map(0, disk)
    """

    def __init__(self) -> None:
        self._targets: dict[str, Target] = {}
        self._backstores: list[Backstore] = []

    def __enter__(self) -> Self:
        """Start it."""
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Remove targets and disks."""
        self.stop()

    def start(self) -> None:
        """Let there be iSCSI targets."""
        load_target_core()
        load("iscsi_target_mod")
        _ISCSI.mkdir(exist_ok=True)

    def stop(self) -> None:
        """Remove everything; again, it changes nothing."""
        self.clear()

    def clear(self) -> None:
        """Remove targets, then disks; sessions that there are end as at a storage that is switched off."""
        for target in list(self._targets.values()):
            self.remove(target)
        for backstore in self._backstores:
            backstore.close()
        self._backstores.clear()
        self.discovery_needs(None)

    def backstore(self, name: str, size: int = 64 << 20) -> Backstore:
        """Make a disk of so many bytes, which no LUN leads to yet."""
        backstore = Backstore(name, size)
        self._backstores.append(backstore)
        return backstore

    def target(self, iqn: str, *, portals: Iterable[str] = ("127.0.0.1",), chap: Chap | None = None) -> Target:
        """Make a target with portals on port 3260; without `chap` any initiator may log in."""
        target = Target(iqn, portals, chap)
        self._targets[iqn] = target
        return target

    def remove(self, target: Target) -> None:
        """Remove a target with its LUNs and portals."""
        target.close()
        del self._targets[target.iqn]

    def discovery_needs(self, chap: Chap | None) -> None:
        """Let discovery need these credentials; None: anybody may discover."""
        place = _ISCSI / "discovery_auth"
        put(place / "enforce_discovery_auth", "1" if chap else "0")
        _put_chap(place, chap or Chap(user="NULL", password="NULL", user_in="NULL", password_in="NULL"))


class Target:
    """One target of LIO."""

    def __init__(self, iqn: str, portals: Iterable[str], chap: Chap | None) -> None:
        self.iqn = iqn
        self._directory = _ISCSI / iqn / _GROUP
        self._directory.mkdir(parents=True)
        for attribute, value in (
            ("generate_node_acls", "1"),
            ("cache_dynamic_acls", "1"),
            ("demo_mode_write_protect", "0"),
            ("authentication", "1" if chap else "0"),
        ):
            put(self._directory / "attrib" / attribute, value)
        if chap:
            _put_chap(self._directory / "auth", chap)
        for portal in portals:
            self.add_portal(portal)
        self.enable()

    def add_portal(self, address: str, port: int = PORT) -> None:
        """Listen on one more address."""
        (self._directory / "np" / f"{address}:{port}").mkdir()
        until_listening(port)

    def remove_portal(self, address: str, port: int = PORT) -> None:
        """Listen there no more: new connections are refused; those that there are stay."""
        (self._directory / "np" / f"{address}:{port}").rmdir()

    def map(self, lun: int, backstore: Backstore) -> None:
        """Let a LUN number lead to a disk. Sessions that there are see it when they scan."""
        place = self._directory / f"lun/lun_{lun}"
        place.mkdir()
        (place / "disk").symlink_to(backstore.directory)

    def unmap(self, lun: int) -> None:
        """Let the LUN number lead nowhere, at the target only: initiators still have their device."""
        place = self._directory / f"lun/lun_{lun}"
        for link in place.iterdir():
            if link.is_symlink():
                link.unlink()
        place.rmdir()

    def luns(self) -> tuple[int, ...]:
        """Give the LUN numbers that lead to a disk."""
        return tuple(sorted(int(each.name.removeprefix("lun_")) for each in (self._directory / "lun").iterdir()))

    def disable(self) -> None:
        """End all sessions and let nobody log in; their disks fail when iscsid's replacement time is over."""
        put(self._directory / "enable", "0")

    def enable(self) -> None:
        """Let initiators log in."""
        put(self._directory / "enable", "1")

    def sessions(self) -> tuple[str, ...]:
        """Give the names of the initiators that are logged in."""
        text = (self._directory / "dynamic_sessions").read_text()
        return tuple(each for each in text.replace("\0", "\n").split("\n") if each)

    def close(self) -> None:
        """Remove it; again, it changes nothing."""
        if not self._directory.exists():
            return
        self.disable()
        for lun in self.luns():
            self.unmap(lun)
        for portal in (self._directory / "np").iterdir():
            portal.rmdir()
        self._directory.rmdir()
        self._directory.parent.rmdir()


def _put_chap(place: Path, chap: Chap) -> None:
    for name, value in (
        ("userid", chap.user),
        ("password", chap.password),
        ("userid_mutual", chap.user_in),
        ("password_mutual", chap.password_in),
    ):
        if value:
            put(place / name, value)
