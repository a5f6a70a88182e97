"""Fibre Channel of the guest: FCoE between three network cards on one hub, LIO's tcm_fc as the storage.

It is a whole stack: `fc_host`, remote ports, and `/dev/disk/by-path/pci-…-fc-0x…-lun-…` links. The initiator has one
port, and the storage two, so that each LUN has two paths.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.eventually import eventually
from tests.vm.servers.backstores import TARGET, Backstore, load_target_core
from tests.vm.servers.guest import load, put, settled, tell

INITIATOR = "eth0"
STORAGE = ("eth1", "eth2")
_FC = TARGET / "fc"


def wwpn(card: str) -> str:
    """Give the port name of a network card, as Pods write it: `2000525400000011`."""
    return "2000" + Path(f"/sys/class/net/{card}/address").read_text().strip().replace(":", "")


def _table(card: str) -> str:
    return f"volmgr_cut_off_{card}"


def _with_colons(name: str) -> str:
    return ":".join(name[place : place + 2] for place in range(0, len(name), 2))


class FibreChannel:
    """The fabric, with the node's port and the storage's two; leaving the block removes LUNs, disks and ports."""

    def __init__(self) -> None:
        self._backstores: list[Backstore] = []

    def __enter__(self) -> Self:
        """Start it."""
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop it."""
        self.stop()

    @property
    def wwns(self) -> tuple[str, ...]:
        """The storage's port names, as `targetWWNs` of a volume."""
        return tuple(wwpn(card) for card in STORAGE)

    def start(self) -> None:
        """Make the ports and wait until they see each other; again, it changes nothing."""
        load_target_core()
        load("virtio_net", "fcoe", "tcm_fc", "sd_mod", "sg")
        _FC.mkdir(exist_ok=True)
        for card in STORAGE:
            (self._group(card) / "acls" / _with_colons(wwpn(INITIATOR))).mkdir(parents=True, exist_ok=True)
        if not self.hosts():
            # With the links up, a frame that comes while a port is being made is an oops in Linux 6.1.
            for card in (*STORAGE, INITIATOR):
                put(Path("/sys/module/libfcoe/parameters/create_vn2vn"), card)
            for card in (*STORAGE, INITIATOR):
                tell("ip", "link", "set", card, "up")
        self.until_remote_ports(2)

    def stop(self) -> None:
        """Remove LUNs and disks, and destroy the ports; again, it changes nothing."""
        if not _FC.exists():
            return
        for lun in self.luns():
            self.unmap(lun)
        if self.hosts():
            for card in (INITIATOR, *STORAGE):
                put(Path("/sys/module/libfcoe/parameters/destroy"), card)
            eventually(lambda: not self.hosts(), "the end of every FC port")
            for card in (INITIATOR, *STORAGE):
                tell("ip", "link", "set", card, "down")
        for card in STORAGE:
            group = self._group(card)
            if group.exists():
                (group / "acls" / _with_colons(wwpn(INITIATOR))).rmdir()
                group.rmdir()
                group.parent.rmdir()
        _FC.rmdir()
        for backstore in self._backstores:
            backstore.close()
        self._backstores.clear()

    def hosts(self) -> tuple[str, ...]:
        """Give the FC hosts that there are, the storage's too: they are of one machine."""
        place = Path("/sys/class/fc_host")
        return tuple(sorted(os.listdir(place))) if place.exists() else ()

    def host(self) -> int:
        """Give the SCSI host number of the node's port."""
        for host in self.hosts():
            name = Path(f"/sys/class/fc_host/{host}/port_name").read_text().strip()
            if name == f"0x{wwpn(INITIATOR)}":
                return int(host.removeprefix("host"))
        raise AssertionError(f"no FC host has the port {wwpn(INITIATOR)}")

    def until_remote_ports(self, count: int) -> None:
        """Return when the node's port sees so many ports of the storage online."""
        eventually(lambda: len(self.remote_ports()) == count, lambda: f"{count} ports, not {self.remote_ports()}")

    def remote_ports(self) -> tuple[str, ...]:
        """Give the names of the storage's ports that the node's port sees online."""
        found: list[str] = []
        for port in Path("/sys/class/fc_remote_ports").glob(f"rport-{self.host()}:*"):
            name = (port / "port_name").read_text().strip().removeprefix("0x")
            if name in self.wwns and (port / "port_state").read_text().strip() == "Online":
                found.append(name)
        return tuple(sorted(found))

    def backstore(self, name: str, size: int = 64 << 20) -> Backstore:
        """Make a disk of so many bytes, which no LUN leads to yet."""
        backstore = Backstore(name, size)
        self._backstores.append(backstore)
        return backstore

    def map(self, lun: int, backstore: Backstore, cards: Iterable[str] = STORAGE) -> None:
        """Let a LUN number of the storage's ports lead to a disk; the node sees it when it scans."""
        for card in cards:
            place = self._group(card) / f"lun/lun_{lun}"
            place.mkdir()
            (place / "disk").symlink_to(backstore.directory)
            own = self._group(card) / "acls" / _with_colons(wwpn(INITIATOR)) / f"lun_{lun}"
            own.mkdir()
            (own / "lun").symlink_to(place)

    def unmap(self, lun: int) -> None:
        """Let the LUN number lead nowhere, at the storage only: the node still has its devices."""
        for card in STORAGE:
            group = self._group(card)
            for place in (group / "acls" / _with_colons(wwpn(INITIATOR)) / f"lun_{lun}", group / f"lun/lun_{lun}"):
                if place.exists():
                    for link in place.iterdir():
                        if link.is_symlink():
                            link.unlink()
                    place.rmdir()

    def luns(self) -> tuple[int, ...]:
        """Give the LUN numbers that lead to a disk."""
        groups = (self._group(card) / "lun" for card in STORAGE if self._group(card).exists())
        return tuple(sorted({int(each.name.removeprefix("lun_")) for group in groups for each in group.iterdir()}))

    def cut_off(self, card: str) -> None:
        """Lose all frames from and to a card, as a switch that fails does; the paths over it fail after their time.

        Others miss its port after 20 seconds, more on a slow machine. What is asked of it meanwhile waits for that: a
        command that times out before lets the kernel handle errors of the node's port, which all paths share, for
        minutes. Nothing may be under way just now: the storage, whose ports are of the same kernel, would wait for the
        rest of it, and until then tell nobody that a port has gone.
        """
        for name in self.disks():
            put(Path(f"/sys/block/{name}/device/timeout"), "180")
        eventually(lambda: all(self._is_idle(name) for name in self.disks()), "disks of which nothing is asked")
        tell(
            "nft",
            "-f",
            "-",
            text=f"table netdev {_table(card)} {{\n"
            f"  chain in {{ type filter hook ingress device {card} priority 0; policy drop; }}\n"
            f"  chain out {{ type filter hook egress device {card} priority 0; policy drop; }}\n"
            "}\n",
        )

    def reconnect(self, card: str) -> None:
        """Let its frames pass again; they may."""
        if f"netdev {_table(card)}\n" in tell("nft", "list", "tables"):
            tell("nft", "delete", "table", "netdev", _table(card))

    def let_ports_be_away(self, seconds: int) -> None:
        """Let the kernel keep a port, and what waits for it, so long after its loss; then all of it fails."""
        for port in Path("/sys/class/fc_remote_ports").glob(f"rport-{self.host()}:*"):
            put(port / "dev_loss_tmo", str(seconds))

    def links(self, lun: int) -> tuple[Path, ...]:
        """Give udev's by-path links of a LUN, by now."""
        settled()
        place = Path("/dev/disk/by-path")
        return tuple(sorted(place.glob(f"pci-*-fc-0x*-lun-{lun}"))) if place.exists() else ()

    def disks(self) -> tuple[str, ...]:
        """Give the names of the disks (`sda`) that the node has over FC."""
        return tuple(
            sorted(
                each.name for each in Path("/sys/block").glob("sd*") if f"/host{self.host()}/" in str(each.resolve())
            )
        )

    def forget_disks(self) -> None:
        """Let the node's kernel forget each disk, which nobody uses; what a test that failed has left."""
        for name in self.disks():
            put(Path(f"/sys/block/{name}/device/delete"), "1")

    def _is_idle(self, name: str) -> bool:
        return Path(f"/sys/block/{name}/inflight").read_text().split() == ["0", "0"]

    def _group(self, card: str) -> Path:
        return _FC / _with_colons(wwpn(card)) / "tpgt_1"
