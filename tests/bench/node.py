"""A daemon to measure: the installed volmgrd as its own process, and a client of its API."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Thread

from tests.bench.processes import cpu_seconds
from volmgr.cli.client import Client

_REFUSED = re.compile(rb"HTTP/1.1 [45]")

VOLMGRD = (str(Path(sys.executable).with_name("volmgrd")),)
"""The installed daemon."""
READY_WITHIN = 60.0
"""Seconds until a start counts as failed."""
REMOVAL_SETTLE = 0.1
"""Seconds; the default, 1 s, would only make the benchmark longer: it is taken off what was measured."""


@dataclass(frozen=True, slots=True)
class Started:
    """What a start cost until READY=1, in seconds."""

    wall: float
    cpu: float


class Node:
    """One root directory with its daemon, manifests directory and socket."""

    def __init__(
        self, top: Path, *, directory: bool = True, options: Sequence[str] = (), program: Sequence[str] = VOLMGRD
    ) -> None:
        """Lay everything out below `top`; nothing is started. `program` is the command of the daemon."""
        self.top = top
        self.root = top / "root"
        self.manifests = top / "manifests"
        self.staging = top / "staging"
        self.socket = str(top / "volmgr.sock")
        self._directory = directory
        self._options = options
        self._program = program
        self._process: subprocess.Popen[bytes] | None = None
        for path in (self.manifests, self.staging):
            path.mkdir(parents=True, exist_ok=True)
        (top / "config.yaml").write_text(f"removal_settle: {REMOVAL_SETTLE}\n")
        self.client = Client(self.socket)

    @property
    def pid(self) -> int:
        """The daemon's process."""
        assert self._process is not None, "start() comes first"
        return self._process.pid

    def start(self) -> Started:
        """Start the daemon and wait until it says that it is ready."""
        command = [*self._program, "--root-dir", str(self.root), "--socket", self.socket]
        command += ["--config", str(self.top / "config.yaml"), *self._options]
        if self._directory:
            command += ["--manifests", str(self.manifests)]
        notify = f"\0volmgr-bench-{os.getpid()}-{time.monotonic_ns()}"
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel, (self.top / "log").open("ab") as log:
            channel.bind(notify)
            channel.settimeout(0.5)
            begin = time.perf_counter()
            self._process = subprocess.Popen(command, stderr=log, env=environment(f"@{notify[1:]}"))
            while not self._is_ready(channel, begin):
                pass
            started = Started(time.perf_counter() - begin, cpu_seconds(self.pid))
        self.client.close()
        self.check_ready()
        return started

    def check_ready(self) -> None:
        """Ask whether it is ready; raises unless it is."""
        self.client.get("/readyz")

    def _is_ready(self, channel: socket.socket, begin: float) -> bool:
        """Wait for a word of the daemon; raises RuntimeError when none is to be expected."""
        try:
            return b"READY=1" in channel.recv(4096)
        except TimeoutError:
            ended = self._process is None or self._process.poll() is not None
            if ended or time.perf_counter() - begin > READY_WITHIN:
                log = (self.top / "log").read_text(errors="replace")
                raise RuntimeError(f"volmgrd did not become ready; its log ends with:\n{log[-4000:]}") from None
            return False

    def stop(self) -> None:
        """End the daemon; what is mounted stays."""
        if self._process is not None:
            self.client.close()
            self._process.send_signal(signal.SIGTERM)
            self._process.wait()
            self._process = None

    def drain(self) -> None:
        """Take every volume down, and end the daemon."""
        for path in self.manifests.iterdir():
            path.unlink()
        self.client.post("/v1/drain?timeout=60", timeout=90)
        self.stop()

    def post(self, body: bytes) -> None:
        """Send a Pod."""
        self.client.post("/v1/pods", body)

    def wait(self, pod: str, condition: str = "mounted") -> None:
        """Wait for a Pod on the same connection."""
        self.client.get(f"/v1/pods/{pod}/wait?for={condition}&timeout=30")

    def delete(self, pod: str) -> None:
        """Let a Pod leave."""
        self.client.request("DELETE", f"/v1/pods/{pod}")

    def wait_for_all(self, pods: Sequence[str], condition: str = "mounted") -> None:
        """Wait for many Pods, by one connection on which all questions are asked at once."""
        self._ask_at_once([_wait_request(pod, condition) for pod in pods])

    def post_all(self, bodies: Mapping[str, bytes]) -> None:
        """Send many Pods by a request each, all at once, and wait for all."""
        posts = [
            b"POST /v1/pods HTTP/1.1\r\nHost: volmgr\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)
            for body in bodies.values()
        ]
        self._ask_at_once([*posts, *(_wait_request(pod, "mounted") for pod in bodies)])

    def _ask_at_once(self, requests: Sequence[bytes]) -> None:
        """Send requests on one connection without waiting for the answers in between (HTTP pipelining)."""
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(self.socket)
            sender = Thread(target=connection.sendall, args=(b"".join(requests),), daemon=True)
            sender.start()
            left = len(requests)
            rest = b""
            while left:
                data = connection.recv(1 << 16)
                if not data:
                    raise RuntimeError("the daemon closed the connection")
                text = rest + data
                if refused := _REFUSED.search(text):
                    raise RuntimeError(f"a request was refused: {text[refused.start() :][:400].decode()}")
                left -= text.count(b"HTTP/1.1 200")
                rest = text[-11:]  # a status may be cut in two; this is one byte less than what is counted
            sender.join()


def _wait_request(pod: str, condition: str) -> bytes:
    return f"GET /v1/pods/{pod}/wait?for={condition}&timeout=60 HTTP/1.1\r\nHost: volmgr\r\n\r\n".encode()


def environment(notify: str) -> Mapping[str, str]:
    """Give the daemon's environment: as a service has it, so with byte code."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    return {**kept, "NOTIFY_SOCKET": notify}
