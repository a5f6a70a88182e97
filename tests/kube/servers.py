"""Processes, ports and a directory that are gone when the test process is, also when that was killed."""

from __future__ import annotations

import socket
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

from tests.eventually import PATIENCE, eventually


class Port:
    """A port of loopback that stays ours while its server is down: SO_REUSEPORT, which the server has to set, too."""

    def __init__(self) -> None:
        self._held = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self._held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        self._held.bind(("127.0.0.1", 0))
        self.number = int(self._held.getsockname()[1])

    def close(self) -> None:
        """Give it away."""
        self._held.close()


class Server:
    """One that can be stopped and started again; its log is kept over that."""

    def __init__(self, log: Path, argv: list[str]) -> None:
        self.name = log.stem
        self.log = log
        self._argv = argv
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """The process, which must run."""
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """Start it from the main thread: the kernel ends it when the thread that started it ends."""
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", *self._argv], stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    def stop(self) -> None:
        """Kill it; one that does not run is left alone."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(PATIENCE)
            self._process = None

    def until(self, what: str, is_so: Callable[[], bool]) -> None:
        """Wait for something that this server does; should it end instead, fail with its last words."""

        def is_so_or_over() -> bool:
            assert self._process is not None
            assert self._process.poll() is None, f"{self.name} ended: {self.last_words()}"
            return is_so()

        eventually(is_so_or_over, f"{self.name} {what}: {self.log}")

    def last_words(self) -> str:
        """Give the end of its log."""
        return self.log.read_text(errors="replace")[-4000:]


class StateDirectory:
    """A temporary directory, removed by a process of its own when the pipe to that closes, whoever closes it."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="volmgr-kube-"))
        # Again while servers that are being killed still write there.
        remove = 'cat >/dev/null; until rm -rf -- "$1" 2>/dev/null; do sleep 0.1; done'
        argv = ["sh", "-c", remove, "sh", str(self.path)]
        self._keeper = subprocess.Popen(argv, stdin=subprocess.PIPE, start_new_session=True)

    def remove(self) -> None:
        """Remove it now; returns when that is done."""
        assert self._keeper.stdin is not None
        self._keeper.stdin.close()
        assert self._keeper.wait(PATIENCE) == 0
