"""The machine below a node: what others do to it, and what can be seen of it. One in memory here, a real one elsewhere.

All paths are absolute. `FakeSite` is FakeHost with these verbs; `tests/root/machine` has the same ones on the kernel.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from volmgr.host.interface import Host
from volmgr.testing import FakeHost


class Site(Protocol):
    """A machine that others change behind volmgr's back."""

    top: Path
    """A directory outside of volmgr's root, on the same machine."""

    def host(self) -> Host:
        """Give the host as a daemon that starts now sees it."""
        ...

    def put(self, path: Path, content: bytes) -> bool:
        """Write a file as a user does; False when there is no room or the disk is read-only."""
        ...

    def content(self, path: Path) -> bytes | None:
        """Read a file; None when it is missing."""
        ...

    def mkdir(self, path: Path) -> bool:
        """Make a directory and its parents; False when that fails."""
        ...

    def bind(self, source: Path, target: Path) -> None:
        """Bind a directory somewhere."""
        ...

    def unmount(self, path: Path) -> None:
        """Unmount what is at and below a path, lazily."""
        ...

    def remount(self, path: Path, *, read_only: bool) -> None:
        """Change what is allowed through one mount."""
        ...

    def hold_open(self, path: Path) -> None:
        """Let a process have something open there, until `let_go`."""
        ...

    def let_go(self) -> None:
        """Let every such process close what it has open."""
        ...

    def fill_disk(self, *, full: bool) -> None:
        """Leave no room on the disk that the root is on, or make room again."""
        ...

    def set_read_only(self, *, read_only: bool) -> None:
        """Let the disk that the root is on turn read-only, or writable again."""
        ...

    def reboot(self) -> None:
        """Lose all mounts but that of the root, and all processes."""
        ...

    def mounts(self) -> list[tuple[Path, str, bool]]:
        """Give every mount below the root: where, its type, and whether it is read-only; sorted."""
        ...

    def names(self, path: Path) -> list[str]:
        """List a directory; a missing one is empty."""
        ...

    def tree(self, path: Path) -> dict[Path, str]:
        """Give everything at and below a path: kind, mode, and the content of files."""
        ...

    def disk_image(self, path: Path) -> None:
        """Make an image with an ext4 file system."""
        ...

    def loops(self, path: Path) -> tuple[Path, ...]:
        """Give the loop devices of an image."""
        ...

    def settle(self) -> None:
        """Wait for what is deleted in the background."""
        ...


@dataclass
class FakeSite:
    """A machine in memory."""

    top: Path = Path("/srv")
    fake: FakeHost = field(default_factory=FakeHost)

    def host(self) -> Host:
        return self.fake

    def put(self, path: Path, content: bytes) -> bool:
        try:
            self.fake.put(path, content)
        except OSError:
            return False
        return True

    def content(self, path: Path) -> bytes | None:
        return None if self.fake.machine.look(path) is None else self.fake.content(path)

    def mkdir(self, path: Path) -> bool:
        try:
            self.fake.mkdir(path)
        except OSError:
            return False
        return True

    def bind(self, source: Path, target: Path) -> None:
        self.fake.machine.bind(source, target)

    def unmount(self, path: Path) -> None:
        for entry in self.fake.mounts.below(path):
            self.fake.mounts.unmount(entry.target, lazy=True)

    def remount(self, path: Path, *, read_only: bool) -> None:
        mount = self.fake.machine.mount_at(path)
        assert mount is not None, f"{path} is mounted"
        self.fake.machine.set_flags(mount, ["ro" if read_only else "rw"])

    def hold_open(self, path: Path) -> None:
        self.fake.busy[path] = ("process 4711 (sleep)",)

    def let_go(self) -> None:
        self.fake.busy.clear()

    def fill_disk(self, *, full: bool) -> None:
        self.fake.disk_full = full

    def set_read_only(self, *, read_only: bool) -> None:
        self.fake.read_only = read_only

    def reboot(self) -> None:
        self.fake.reboot()

    def mounts(self) -> list[tuple[Path, str, bool]]:
        return sorted(
            (entry.target, entry.fstype, entry.read_only) for entry in self.fake.mounts.below(self.fake.paths.root)
        )

    def names(self, path: Path) -> list[str]:
        place = self.fake.machine.look(path)
        return [] if place is None else sorted(place[1].children)

    def tree(self, path: Path) -> dict[Path, str]:
        return self.fake.tree(path)

    def disk_image(self, path: Path) -> None:
        self.fake.put(path, bytes(1 << 20))
        device = self.fake.block.attach_loop(path)
        self.fake.machine.format(device, "ext4")
        self.fake.block.detach_loop(device)

    def loops(self, path: Path) -> tuple[Path, ...]:
        return self.fake.block.find_loops(path)

    def settle(self) -> None:
        self.fake.settle()
