"""A sysfs in a directory, as the kernel lays it out, with the tools that change it."""

from __future__ import annotations

from pathlib import Path

from volmgr.host.interface import CommandResult, ScsiAddress
from volmgr.host.scsi import LocalScsi
from volmgr.host.sysfs import Sysfs
from volmgr.testing import FakeHost

SECTOR = 512
MIB = 1 << 20


class SysfsTree:
    """`disk`, `map` and `stack` are what the kernel made; `scsi` reads it, and its tools change it."""

    def __init__(self, top: Path) -> None:
        self.top = top
        self.numbers: dict[Path, str] = {}
        """The block devices of `/dev`."""
        self.sysfs = Sysfs(top, number=lambda path: self.numbers.get(path, ""))
        self.host = FakeHost()
        self.ran: list[tuple[str, ...]] = []
        """Each command that was run."""
        self.host.programs["tee"] = self._tee
        self.scsi = LocalScsi(self.host.commands, self.host.block, self.host.mounts, self.sysfs)

    def disk(self, name: str, address: tuple[int, int, int, int], number: str, *, size: int = 16 * MIB) -> ScsiAddress:
        """Let there be a disk, with its block device."""
        at = ScsiAddress(*address)
        device = self.top / f"devices/host{at.host}/target/{at}"
        self.block(name, number, place=device / "block" / name, size=size)
        self.text(device / "state", "running")
        (self.top / f"devices/host{at.host}/scsi_device").mkdir(parents=True, exist_ok=True)
        self.link(self.top / "class/scsi_device" / str(at) / "device", device)
        self.link(device / "block" / name / "device", device)
        self.text(self.top / f"class/scsi_host/host{at.host}/state", "running")
        for file in ("scan",):
            self.text(self.top / f"class/scsi_host/host{at.host}/{file}", "")
        for file in ("delete", "rescan"):
            self.text(device / file, "")
        self.host.device(f"/dev/{name}", bytes(MIB))
        return at

    def block(self, name: str, number: str, *, place: Path | None = None, size: int = 16 * MIB) -> Path:
        """Let there be a block device of some kind."""
        place = place or self.top / "devices/virtual/block" / name
        self.text(place / "dev", number)
        self.text(place / "size", str(size // SECTOR))
        (place / "holders").mkdir()
        (place / "slaves").mkdir()
        self.link(self.top / "block" / name, place)
        self.link(self.top / "dev/block" / number, place)
        self.numbers[Path("/dev") / name] = number
        return place

    def stack(self, name: str, number: str, uuid: str, *below: str, dm_name: str = "", size: int = 16 * MIB) -> None:
        """Let device mapper have made a device of others."""
        place = self.block(name, number, size=size)
        self.text(place / "dm/uuid", uuid)
        self.text(place / "dm/name", dm_name or name)
        for each in below:
            (self.top / "block" / each / "holders" / name).touch()
            (place / "slaves" / each).touch()
        self.host.device(f"/dev/{name}", bytes(MIB))

    def forget(self, address: ScsiAddress) -> None:
        """Let the kernel have no disk at an address any more."""
        (self.top / "class/scsi_device" / str(address) / "device").unlink()

    def text(self, path: Path, text: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n")

    def link(self, path: Path, target: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(target)

    def program(self, name: str, *answers: CommandResult) -> None:
        """Let a command be there, that answers so, one after the other, and the last one from then on."""
        left = list(answers)

        def run(argv: tuple[str, ...], _stdin: bytes) -> CommandResult:
            self.ran.append(argv)
            return left.pop(0) if len(left) > 1 else left[0]

        self.host.programs[name] = run

    def _tee(self, argv: tuple[str, ...], stdin: bytes) -> CommandResult:
        """Write into sysfs, and have the kernel do it."""
        path = Path(argv[1])
        self.ran.append((*argv, stdin.decode()))
        if not path.exists():
            return CommandResult(1, "", f"tee: {path}: No such file or directory")
        if path.name == "delete":
            self.forget(ScsiAddress(*map(int, path.parent.parent.name.split(":"))))
        return CommandResult(0, stdin.decode(), "")
