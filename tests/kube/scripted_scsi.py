"""A machine with an open-iscsi and a SCSI of a script: loop devices stand for LUNs, overlays for sysfs and /etc.

Only in a mount namespace of its own. Each step on the host is a line of `steps`, in the order in which they were taken.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import threading
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from volmgr.host import syscalls
from volmgr.host.interface import ScsiAddress
from volmgr.host.local import local_host
from volmgr.host.mount_options import MS_BIND
from volmgr_iscsi.fake_initiator import FakeInitiator

_OVERLAID = (Path("/sys"), Path("/etc"), Path("/usr/lib/udev"))
_SIZE = 32 << 20
_CLIENT = """\
import json, socket, sys
with socket.socket(socket.AF_UNIX) as peer:
    peer.connect({socket!r})
    peer.sendall(json.dumps(["iscsiadm", *sys.argv[1:]]).encode())
    peer.shutdown(socket.SHUT_WR)
    code, out, err = json.load(peer.makefile())
sys.stdout.write(out)
sys.stderr.write(err)
sys.exit(code)
"""
_LOGGED = '#!/bin/sh\n[ $1 = -d ] && echo flush >> {log}\nexec {real} "$@"\n'
_WHO = "#!/bin/sh\nfor last; do :; done\ncat {wwids}/${{last##*/}}\n"


class ScriptedScsi:
    """What is behind the SCSI addresses of the node: files, of which the kernel's loop driver makes block devices."""

    def __init__(self, top: Path, log: Path, sysfs: Path) -> None:
        """The kernel's own `sysfs` is what tells others of a device."""
        self._top = top
        self._sysfs = sysfs
        self._log = log
        self._loops: dict[ScsiAddress, str] = {}
        self.before_delete: Callable[[], None] = lambda: None
        """Called before a disk goes; may wait."""
        (top / "wwids").mkdir()

    def step(self, name: str) -> None:
        """Write a step down."""
        with self._log.open("a") as log:
            log.write(f"{name}\n")

    def attach(self, address: ScsiAddress, wwid: str) -> None:
        """Let a LUN be a loop device; the file of an identity outlives that."""
        file = self._top / f"{wwid}.img"
        file.touch()
        os.truncate(file, _SIZE)
        loop = _tell("losetup", "--find", "--show", str(file)).strip().removeprefix("/dev/")
        self._loops[address] = loop
        (self._top / "wwids" / loop).write_text(f"{wwid}\n")
        block = _device(address) / "block" / loop
        block.mkdir(parents=True)
        for name in ("dev", "size"):
            (block / name).write_text(Path("/sys/block", loop, name).read_text())
        for place in (_device(address), _host(address)):
            place.mkdir(parents=True, exist_ok=True)
            (place / "state").write_text("running\n")
        os.mkfifo(_device(address) / "delete")
        links = _links(address, loop)
        for link in links:
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(_device(address))
        (self._sysfs / "block" / loop / "uevent").write_text("change")  # for who waits for the disk
        threading.Thread(target=self._await_delete, args=(address,), daemon=True).start()

    def release(self, address: ScsiAddress) -> None:
        """Let the kernel forget a LUN; it may be gone already."""
        loop = self._loops.pop(address, None)
        if loop is None:
            return
        for link in _links(address, loop):
            link.unlink()
        shutil.rmtree(_device(address))
        (_host(address) / "state").unlink()
        _tell("losetup", "--detach", f"/dev/{loop}")  # the kernel tells of it, and wakes who waits

    def close(self) -> None:
        """Give back what is left."""
        for address in list(self._loops):
            self.release(address)

    def _await_delete(self, address: ScsiAddress) -> None:
        """Do what the kernel does when `1` is written to `delete`."""
        with suppress(OSError):
            if (_device(address) / "delete").read_text().strip() == "1" and address in self._loops:
                self.before_delete()
                self.step("delete")
                self.release(address)


class ScriptedHost:
    """The node's open-iscsi; `before` is called with each command before it is done, and may wait."""

    def __init__(self, top: Path, sysfs: Path) -> None:
        self.top = top
        self.log = top / "steps"
        self.log.touch()
        self.before: Callable[[str], None] = lambda _command: None
        self.bin = top / "bin"
        self.bin.mkdir()
        self.storage = ScriptedScsi(top, self.log, sysfs)
        self.initiator = FakeInitiator(local_host(top / "nobody"), self.storage, set())
        self._portal = socket.create_server(("127.0.0.1", 0))  # connections are taken, and that is all
        self.portal = f"127.0.0.1:{self._portal.getsockname()[1]}"
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(top / "adm"))
        self._listener.listen()
        self._install()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    @property
    def steps(self) -> list[str]:
        """What was done so far, in that order."""
        return self.log.read_text().splitlines()

    def close(self) -> None:
        """Answer no more."""
        self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._listener.close()
        self._portal.close()
        self.storage.close()

    def _install(self) -> None:
        real = shutil.which("sync")
        _write(self.bin / "sync", _LOGGED.format(log=self.log, real=real))
        _write(self.top / "client.py", _CLIENT.format(socket=str(self.top / "adm")))
        _write(self.bin / "iscsiadm", f'#!/bin/sh\nexec python3 -S -I {self.top}/client.py "$@"\n')
        _write(Path("/usr/lib/udev/scsi_id"), _WHO.format(wwids=self.top / "wwids"))
        Path("/etc/iscsi").mkdir(exist_ok=True)
        Path("/etc/iscsi/initiatorname.iscsi").write_text("InitiatorName=iqn.2026-01.io.test:node\n")

    def _serve(self) -> None:
        while True:
            try:
                peer, _ = self._listener.accept()
            except OSError:
                return
            with peer, peer.makefile() as asked:
                argv: list[str] = json.load(asked)
                command = " ".join(argv[1:])
                self.before(command)
                done = self.initiator.program(tuple(argv), b"")
                step = "login" if "--login" in argv else "logout" if "-u" in argv or "--logout" in argv else ""
                if step and not done.exit_code:
                    self.storage.step(step)
                peer.sendall(json.dumps([done.exit_code, done.stdout, done.stderr]).encode())


class ScriptedFabric:
    """A port of the node, which sees one of a storage; a LUN is there once the node's port has scanned for it."""

    def __init__(self, storage: ScriptedScsi, wwn: str, luns: dict[int, str]) -> None:
        self._storage = storage
        self._luns = luns
        own, host = Path("/sys/class/fc_host/host7"), Path("/sys/class/scsi_host/host7")
        port = Path("/sys/class/fc_remote_ports/rport-7:0-0")
        for place, files in (
            (own, {"port_name": "0x2100000000000001", "port_state": "Online"}),
            (port, {"port_name": f"0x{wwn}", "port_state": "Online", "scsi_target_id": "0"}),
            (host, {"state": "running"}),
        ):
            place.mkdir(parents=True)
            for name, text in files.items():
                (place / name).write_text(f"{text}\n")
        self.before_scan: Callable[[], None] = lambda: None
        """Called before the port looks for a LUN."""
        self._scan = host / "scan"
        os.mkfifo(self._scan)
        threading.Thread(target=self._await_scan, daemon=True).start()

    def _await_scan(self) -> None:
        with suppress(OSError):
            channel, target, lun = map(int, self._scan.read_text().split())
            self.before_scan()
            self._storage.step("scan")
            self._storage.attach(ScsiAddress(7, channel, target, lun), self._luns[lun])


@contextmanager
def scripted_host(top: Path) -> Generator[ScriptedHost]:
    """Overlay what is scripted, and take that away again."""
    with ExitStack() as stack:
        layers = top / "layers"
        layers.mkdir()
        syscalls.mount("tmpfs", str(layers), "tmpfs")
        stack.callback(syscalls.umount, str(layers), syscalls.UMOUNT_DETACH)
        sysfs = layers / "sysfs"
        sysfs.mkdir()
        syscalls.mount("/sys", str(sysfs), "", MS_BIND)
        for number, place in enumerate(_OVERLAID):
            upper, work = layers / f"upper-{number}", layers / f"work-{number}"
            upper.mkdir()
            work.mkdir()
            syscalls.mount("overlay", str(place), "overlay", 0, f"lowerdir={place},upperdir={upper},workdir={work}")
            stack.callback(syscalls.umount, str(place), syscalls.UMOUNT_DETACH)
        host = ScriptedHost(top, sysfs)
        stack.callback(host.close)
        yield host


def _device(address: ScsiAddress) -> Path:
    return Path("/sys/devices/platform") / f"host{address.host}" / "disks" / str(address)


def _host(address: ScsiAddress) -> Path:
    return Path("/sys/class/scsi_host") / f"host{address.host}"


def _links(address: ScsiAddress, loop: str) -> tuple[Path, Path]:
    return Path("/sys/class/scsi_device", str(address), "device"), Path("/sys/devices/virtual/block", loop, "device")


def _tell(*argv: str) -> str:
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout


def _write(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o755)
