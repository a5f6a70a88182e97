"""The machine below a node, on the kernel: a root on a small tmpfs of its own, which stands for the disk."""

import os
import stat
import subprocess
from collections import Counter
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from volmgr.host import syscalls
from volmgr.host.files import LocalFiles
from volmgr.host.interface import Host
from volmgr.host.local import local_host

DISK_SIZE = "size=16m"


class RealSite:
    """A directory of this machine, in a mount namespace that only the tests see."""

    def __init__(self, base: Path) -> None:
        self.disk = base
        self.disk.mkdir(parents=True, exist_ok=True)
        syscalls.mount("tmpfs", str(self.disk), "tmpfs", 0, DISK_SIZE)
        self.root = self.disk / "root"
        self.top = self.disk / "top"
        self.root.mkdir()
        self.top.mkdir()
        self._boots = 1
        self._hosts: list[Host] = []
        self._open: list[int] = []

    def close(self) -> None:
        """Leave nothing mounted, and no loop device."""
        self.let_go()
        self.set_read_only(read_only=False)
        self.settle()
        self.unmount(self.root)
        for image in self.top.rglob("*.img"):
            for loop in self.loops(image):
                self._host.block.detach_loop(loop)
        self.unmount(self.disk)

    def host(self) -> Host:
        host = local_host(self.root)
        boot_id = f"00000000-0000-4000-8000-{self._boots:012x}"
        host = replace(host, kernel=replace(host.kernel, boot_id=boot_id))
        self._hosts.append(host)
        return host

    def put(self, path: Path, content: bytes) -> bool:
        try:
            path.write_bytes(content)
        except OSError:
            with suppress(OSError):
                path.unlink()  # made, but without room for its content
            return False
        return True

    def content(self, path: Path) -> bytes | None:
        return path.read_bytes() if path.exists() else None

    def mkdir(self, path: Path) -> bool:
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError:
            return False
        return True

    def bind(self, source: Path, target: Path) -> None:
        self._host.mounts.ensure_bound(source, target)

    def unmount(self, path: Path) -> None:
        for entry in self._host.mounts.below(path):
            self._host.mounts.unmount(entry.target, lazy=True)

    @property
    def _host(self) -> Host:
        return self._hosts[-1] if self._hosts else self.host()

    def remount(self, path: Path, *, read_only: bool) -> None:
        self._host.mounts.remount(path, ("ro" if read_only else "rw",))

    def hold_open(self, path: Path) -> None:
        self._open.append(os.open(path, os.O_RDONLY | os.O_DIRECTORY))

    def let_go(self) -> None:
        while self._open:
            os.close(self._open.pop())

    def fill_disk(self, *, full: bool) -> None:
        filler = self.disk / "filler"
        if not full:
            if filler.exists():
                self.set_read_only(read_only=False)
                filler.unlink()
            return
        try:
            with filler.open("ab", buffering=0) as file:
                while file.write(bytes(1 << 20)):
                    pass
        except OSError:
            return  # no room left, or read-only

    def set_read_only(self, *, read_only: bool) -> None:
        self._host.mounts.remount(self.disk, ("ro" if read_only else "rw",))

    def reboot(self) -> None:
        self.let_go()
        for entry in self._host.mounts.below(self.disk):
            if entry.target != self.disk:
                self._host.mounts.unmount(entry.target, lazy=True)
        self._boots += 1

    def mounts(self) -> list[tuple[Path, str, bool]]:
        found = [(entry.target, entry.fstype, entry.read_only) for entry in self._host.mounts.below(self.root)]
        assert max(Counter(target for target, _, _ in found).values(), default=0) < 2, "nothing is stacked"
        return sorted(found)

    def names(self, path: Path) -> list[str]:
        return sorted(os.listdir(path)) if path.is_dir() else []

    def tree(self, path: Path) -> dict[Path, str]:
        return {each: _described(each) for each in (path, *path.rglob("*"))}

    def disk_image(self, path: Path) -> None:
        with path.open("wb") as file:
            file.truncate(2 << 20)
        subprocess.run(["mkfs.ext4", "-q", "-F", "-m0", str(path)], check=True, capture_output=True)

    def loops(self, path: Path) -> tuple[Path, ...]:
        return self._host.block.find_loops(path)

    def settle(self) -> None:
        for host in self._hosts:
            if isinstance(host.files, LocalFiles):
                host.files.settle()
        del self._hosts[:-1]


def _described(path: Path) -> str:
    mode = path.lstat().st_mode
    content = f" {path.read_bytes()!r}" if stat.S_ISREG(mode) and path.suffix != ".img" else ""
    return f"{stat.filemode(mode)}{content}"
