"""NFS servers of the guest: the kernel's, and nfs-ganesha, which can be paused."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.eventually import PATIENCE, eventually
from tests.vm.servers.guest import load, tell, until_listening

GRACE = 10
"""Seconds after a start in which the kernel's server gives no locks back; fewer are refused."""


class KernelNfs:
    """The kernel's server: versions 3, 4.0, 4.1 and 4.2 on port 2049, over IPv4 and IPv6.

    An export has the same path for all versions: `server.export("a")` is mounted as `127.0.0.1:/srv/nfs/a` or
    `[::1]:/srv/nfs/a`.
    """

    port = 2049

    def __init__(self, top: Path = Path("/srv/nfs")) -> None:
        self.top = top
        self._exports: dict[str, str] = {}

    def __enter__(self) -> Self:
        """Start it."""
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop it, and remove what it exported."""
        self.stop()
        shutil.rmtree(self.top, ignore_errors=True)

    def start(self) -> None:
        """Serve; what is exported stays so over a stop."""
        load("nfsd")
        Path("/run/rpcbind").mkdir(exist_ok=True)
        if not os.path.ismount("/proc/fs/nfsd"):
            tell("mount", "-t", "nfsd", "nfsd", "/proc/fs/nfsd")
        if subprocess.run(["rpcinfo", "-p"], capture_output=True, check=False).returncode:
            tell("rpcbind", "-w")
        self._tell_exports()
        self.resume()
        if not _pids("rpc.mountd"):
            tell("rpc.mountd")

    def stop(self) -> None:
        """Serve nothing any more: connections are refused."""
        self.pause()
        for pid in _pids("rpc.mountd"):
            os.kill(pid, signal.SIGTERM)
        tell("exportfs", "-ua")

    def pause(self) -> None:
        """Serve nothing, as a server that is down; who uses it waits in the kernel. `resume` ends it."""
        tell("rpc.nfsd", "0")

    def resume(self) -> None:
        """Serve again."""
        tell("rpc.nfsd", "--grace-time", str(GRACE), "--lease-time", str(GRACE), "4")
        until_listening(self.port)

    def export(self, name: str, *, read_only: bool = False, root_squash: bool = False) -> Path:
        """Export a directory and give it; again, it changes how."""
        directory = self.top / name
        directory.mkdir(parents=True, exist_ok=True)
        how = ("ro" if read_only else "rw", "root_squash" if root_squash else "no_root_squash")
        self._exports[name] = f"{directory} *({','.join((*how, 'no_subtree_check', 'insecure'))})\n"
        self._tell_exports()
        return directory

    def withdraw(self, name: str) -> None:
        """Export a directory no more; its handles become stale."""
        self._exports.pop(name, None)
        self._tell_exports()

    def replace(self, name: str) -> Path:
        """Let an export be another directory of the same name, so that each handle that a client has is stale."""
        directory = self.top / name
        old = self.top / f"{name}.old"
        self.pause()
        directory.rename(old)
        directory.mkdir()  # before the old one goes, whose inode number it would get, and with that its handle
        shutil.rmtree(old)
        tell("exportfs", "-f")
        self.resume()
        return directory

    def _tell_exports(self) -> None:
        Path("/etc/exports").write_text("".join(self._exports.values()))
        tell("exportfs", "-ra")


class Ganesha:
    """nfs-ganesha: version 4 on a port and an address of its own, so another server than the kernel's.

    An export is mounted as `127.0.0.2:/srv/ganesha/a` with `server.options`, which name the port; it listens on all
    addresses. A paused server takes connections, and answers nothing. It has version 4 alone: rpcbind knows but one
    server of version 3, and would send clients of the kernel's to this one.
    """

    port = 2050
    address = "127.0.0.2"

    def __init__(self, top: Path = Path("/srv/ganesha"), *exports: str) -> None:
        """`exports` are the names of the directories that it exports: `a` unless told otherwise."""
        self.top = top
        self.exports = exports or ("a",)
        self.options = (f"port={self.port}",)
        """Mount options."""
        self._run: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        """Start it."""
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop it, and remove what it exported."""
        self.stop()
        shutil.rmtree(self.top, ignore_errors=True)

    def directory(self, name: str) -> Path:
        """Give the directory of an export."""
        return self.top / name

    def start(self) -> None:
        """Serve; again, it changes nothing."""
        if self._run is not None:
            return
        for place in (
            Path("/run/ganesha"),
            Path("/var/lib/nfs/ganesha"),
            Path("/run/rpcbind"),
            *map(self.directory, self.exports),
        ):
            place.mkdir(parents=True, exist_ok=True)
        if subprocess.run(["rpcinfo", "-p"], capture_output=True, check=False).returncode:
            tell("rpcbind", "-w")
        configuration = Path("/run/ganesha/ganesha.conf")
        configuration.write_text(self._configuration())
        argv = ["ganesha.nfsd", "-F", "-f", str(configuration), "-L", "/run/ganesha/log", "-p", "/run/ganesha/pid"]
        self._run = subprocess.Popen(argv, stdin=subprocess.DEVNULL)
        until_listening(self.port)

    def stop(self) -> None:
        """End it as kill -9 does; connections are refused from now on."""
        if self._run is not None:
            self._run.kill()
            self._run.wait(PATIENCE)
            self._run = None

    def pause(self) -> None:
        """Let it answer nothing until `resume`."""
        self._signal(signal.SIGSTOP)
        eventually(lambda: self._state() == "T", "a stopped ganesha")

    def resume(self) -> None:
        """Let it answer again, also what it was asked meanwhile."""
        self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        assert self._run is not None, "ganesha does not run"
        self._run.send_signal(number)

    def _state(self) -> str:
        assert self._run is not None
        return Path(f"/proc/{self._run.pid}/stat").read_text().rpartition(")")[2].split()[0]

    def _configuration(self) -> str:
        exports = "".join(
            f"EXPORT {{ Export_Id = {number}; Path = {self.top / name}; Pseudo = {self.top / name};"
            " Access_Type = RW; Squash = No_Root_Squash; SecType = sys; FSAL { Name = VFS; } }\n"
            for number, name in enumerate(self.exports, 1)
        )
        return (
            f"NFS_CORE_PARAM {{ Protocols = 4; NFS_Port = {self.port}; Enable_NLM = false; Enable_RQUOTA = false; }}\n"
            "NFSV4 { Grace_Period = 5; Lease_Lifetime = 5; RecoveryBackend = fs; }\n" + exports
        )


def _pids(name: str) -> list[int]:
    found = subprocess.run(["pidof", name], capture_output=True, text=True, check=False)
    return [int(each) for each in found.stdout.split()]
