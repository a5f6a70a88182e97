"""A host in memory: quick, exact, and open to tests.

Its services keep the promises of `volmgr.host.interface`; the contract suite holds it to what a real kernel does.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Self

from volmgr.host.interface import Certificates, Host, Kernel, MountEntry, Tokens
from volmgr.host.paths import Paths
from volmgr.testing.disk_tools import disk_tools
from volmgr.testing.disks import Place
from volmgr.testing.fake_archives import FakeArchives
from volmgr.testing.fake_files import FakeFiles
from volmgr.testing.fake_scsi import FakeScsi
from volmgr.testing.fake_services import FakeBlockDevices, FakeCommands, FakeMounts, FakeNetwork, FakeOwnership, Program
from volmgr.testing.fake_subpaths import FakeSubpaths
from volmgr.testing.machine import Machine

_GIB = 1 << 30
_LONG = 1 << 16
_SYSTEM = (("/dev", 0o755), ("/etc", 0o755), ("/run", 0o755), ("/srv", 0o755), ("/tmp", 0o1777))  # noqa: S108 - in memory


class FakeHost(Host):
    """A whole machine in memory, with an empty root directory of volmgr.

    `mkdir`, `put`, `link` and `special` place files; `machine` is what others do to it (mount, unmount, chmod …), and
    `storage` the network that its SCSI disks are in; `tree()` and `table` are for assertions; `now`, `busy`,
    `disk_full`, `read_only` and `reboot()` are the weather.
    """

    def __init__(
        self,
        root: Path = Path("/var/lib/volmgr"),
        *,
        memory: int = 8 * _GIB,
        tmpfs_noswap: bool = True,
        huge_page_sizes: tuple[int, ...] = (2 << 20, 1 << 30),
        user_namespace: bool = False,
        umask: int = 0o022,
        container_label: str = "",
        settings: Iterable[object] = (),
    ) -> None:
        self.machine = Machine(huge_page_sizes=huge_page_sizes, memory=memory, umask=umask)
        self.busy: dict[Path, tuple[str, ...]] = {}
        """Paths that processes hold open, with the names of these; unmounting above them raises BusyError."""
        self.unreadable: set[Path] = set()
        """Block devices that answer with an input/output error."""
        self.programs: dict[str, Program] = disk_tools(self.machine)
        """The installed commands, which at first know block devices alone: a function for each name."""
        self.now = 1_000.0
        """Seconds on the host's clock."""
        self.boots = 1
        paths = Paths(root)
        self._files = FakeFiles(self.machine, paths)
        mounts = FakeMounts(self.machine, self.busy)
        block = FakeBlockDevices(self.machine, self.busy, self.unreadable)
        self.storage = FakeScsi(self.machine, block, self.advance)
        """The network of SCSI disks, open to tests; `host.scsi` is the same."""
        super().__init__(
            paths=paths,
            mounts=mounts,
            files=self._files,
            commands=FakeCommands(self.programs),
            block=block,
            ownership=FakeOwnership(self.machine),
            archives=FakeArchives(self.machine, self._files),
            subpaths=FakeSubpaths(self.machine, self._files, mounts),
            scsi=self.storage,
            network=FakeNetwork(self.machine),
            kernel=Kernel(
                boot_id=_boot_id(1),
                memory=memory,
                tmpfs_noswap=tmpfs_noswap,
                huge_page_sizes=huge_page_sizes,
                user_namespace=user_namespace,
                container_label=container_label,
            ),
            clock=lambda: self.now,
            settings={type(one): one for one in settings},
        )
        for directory, mode in _SYSTEM:
            self.mkdir(directory, mode)
        self.mkdir(root, 0o750)

    def __setattr__(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)  # a real host is frozen; this one has weather

    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        return self is other

    def with_tokens(self, tokens: Tokens) -> Self:
        """Let somebody else issue tokens on this very host."""
        self.tokens: Tokens = tokens
        return self

    def with_certificates(self, certificates: Certificates) -> Self:
        """Let somebody else have certificates signed for this very host."""
        self.certificates: Certificates = certificates
        return self

    def with_settings(self, *settings: object) -> Self:
        """Change the settings of this very host, which is no copy: it has a machine."""
        self.settings: Mapping[type, object] = {type(one): one for one in settings}
        return self

    # The weather

    @property
    def disk_full(self) -> bool:
        """Whether the machine's disk has no room left (file systems in memory have their own)."""
        return self.machine.disk.full

    @disk_full.setter
    def disk_full(self, full: bool) -> None:
        self.machine.disk.full = full

    @property
    def read_only(self) -> bool:
        """Whether the machine's disk turned read-only."""
        return self.machine.disk.read_only

    @read_only.setter
    def read_only(self, read_only: bool) -> None:
        self.machine.disk.read_only = read_only

    @property
    def hold_trash(self) -> bool:
        """Whether discarded trees stay in the trash, as if the background deletion were slow."""
        return self._files.hold_trash

    @hold_trash.setter
    def hold_trash(self, hold: bool) -> None:
        self._files.hold_trash = hold

    def settle(self) -> None:
        """Let the background deletion finish, also of what is held in the trash."""
        self._files.settle()

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self.now += seconds

    def reboot(self) -> None:
        """Lose every mount, loop device, SCSI disk and process and all that was in memory; the disk stays."""
        with self.machine.lock:
            self.boots += 1
            self.busy.clear()
            self.machine.start()
            self.storage.start_anew()
            self.kernel: Kernel = replace(self.kernel, boot_id=_boot_id(self.boots))

    # What others put there

    def mkdir(self, path: Path | str, mode: int = 0o755) -> None:
        """Make a directory of exactly this mode, and its parents (0755); one that exists is only given the mode."""
        self.machine.make_directories(Path(path))
        self.machine.chmod(path, mode, follow=True)

    def put(self, path: Path | str, content: bytes = b"", mode: int = 0o644) -> None:
        """Make a regular file of exactly this content and mode, or change one."""
        if self.machine.look(path) is None:
            self.machine.make(path, "file", mode)
        self.machine.write(path, content)
        self.machine.chmod(path, mode, follow=True)

    def device(self, path: Path | str, content: bytes, rdev: int = os.makedev(240, 1)) -> None:
        """Make a block device with this on it; one with nothing has no medium."""
        self.machine.make(path, "block", 0o660, rdev=rdev)
        self.machine.find(path)[1].content = content

    def link(self, path: Path | str, target: Path | str) -> None:
        """Make a symbolic link."""
        self.machine.make(path, "symlink", 0o777, content=str(target).encode())

    def special(self, path: Path | str, kind: str, rdev: int = os.makedev(240, 1)) -> None:
        """Make a socket, fifo, char or block device."""
        self.machine.make(path, kind, 0o660, rdev=rdev if kind in {"char", "block"} else 0)

    # What an assertion reads

    def content(self, path: Path | str) -> bytes:
        """Read a file."""
        return self.machine.find(path)[1].content

    @property
    def table(self) -> dict[Path, str]:
        """The mounts (but the machine's own root), topmost for each path: `tmpfs size=64k`, `ext4 /srv/data ro`."""
        return {entry.target: " ".join(_words(entry)) for entry in self.machine.entries()[1:]}

    def tree(self, top: Path | str = "/") -> dict[Path, str]:
        """Everything at and below `top`, through mounts: kind, mode, owner and content, `file 644 0:0 b'x'`.

        Of content longer than 64 KiB it has the length and a hash.
        """
        found: dict[Path, str] = {}
        with self.machine.lock:
            place = self.machine.look(top, follow=False)
            if place is not None:
                self._gather(Path(top), place, found)
        return found

    def _gather(self, path: Path, place: Place, found: dict[Path, str]) -> None:
        _, node = place
        detail = (
            f" {_shown(node.content)}" if node.kind in {"file", "symlink"} else f" {node.rdev}" if node.rdev else ""
        )
        found[path] = f"{node.kind} {node.mode:o} {node.uid}:{node.gid}{detail}"
        for name in sorted(node.children):
            self._gather(path / name, self.machine.below(place, name), found)


def _shown(content: bytes) -> str:
    if len(content) <= _LONG:
        return repr(content)
    return f"{len(content)} bytes, sha256 {hashlib.sha256(content).hexdigest()}"


def _words(entry: MountEntry) -> list[str]:
    words = [entry.fstype]
    if entry.root != "/":
        words.append(entry.root)
    shown = [o for o in (*entry.options, *entry.super_options) if o not in {"rw", "relatime"}]
    return [*words, ",".join(dict.fromkeys(shown))] if shown else words


def _boot_id(number: int) -> str:
    return f"00000000-0000-4000-8000-{number:012x}"
