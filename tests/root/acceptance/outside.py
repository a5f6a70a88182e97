"""A node as people outside see it: the two commands, HTTP over the socket, files on disk and the mount table."""

from __future__ import annotations

import http.client
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self

from tests.eventually import PATIENCE, eventually

BIN = Path(sys.executable).parent
EMPTY_DIR = "kubernetes.io~empty-dir"


def pod(name: str, *volumes: Mapping[str, Any], uid: str = "", **spec: Any) -> dict[str, Any]:  # noqa: ANN401 - YAML
    """Give a Pod whose one container mounts every volume."""
    mounts = [{"name": each["name"], "mountPath": f"/{number}"} for number, each in enumerate(volumes)]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "uid": uid or f"uid-{name}"},
        "spec": {"containers": [{"name": "main", "volumeMounts": mounts}], "volumes": list(volumes), **spec},
    }


def memory(name: str = "v", **more: str) -> dict[str, Any]:
    """Give an emptyDir in memory: a mount that anybody can see."""
    return {"name": name, "emptyDir": {"medium": "Memory", **more}}


def disk(name: str = "v") -> dict[str, Any]:
    """Give an emptyDir on disk."""
    return {"name": name, "emptyDir": {}}


def host_path(path: Path | str, kind: str = "", name: str = "v") -> dict[str, Any]:
    """Give a hostPath volume."""
    return {"name": name, "hostPath": {"path": str(path), **({"type": kind} if kind else {})}}


def mounts_below(path: Path) -> dict[str, str]:
    """Give each mount below a directory, with its line of the mount table."""
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    return {line.split(" ")[4]: line for line in lines if line.split(" ")[4].startswith(f"{path}/")}


class Process(Protocol):
    """What is asked of a running daemon, and answered by `subprocess.Popen`."""

    @property
    def pid(self) -> int:
        """Its PID."""
        ...

    def poll(self) -> int | None:
        """Give its exit code; None while it runs."""
        ...

    def wait(self, timeout: float = ...) -> int:
        """Return when it has ended."""
        ...

    def send_signal(self, number: int, /) -> None:
        """Send a signal."""
        ...

    def terminate(self) -> None:
        """Send SIGTERM."""
        ...

    def kill(self) -> None:
        """Send SIGKILL."""
        ...


class Outside:
    """One root directory, manifests directory and socket, and the daemon on them."""

    def __init__(self, top: Path, *options: str, manifests: bool = True) -> None:
        self.top = top
        self.root = top / "root"
        self.manifests = top / "manifests"
        self.socket = top / "api.sock"
        self.log = top / "log"
        self.options = (*(("--manifests", str(self.manifests)) if manifests else ()), *options)
        self.daemon: Process | None = None
        if manifests:
            self.manifests.mkdir(exist_ok=True)

    def __enter__(self) -> Self:
        """Start it."""
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Take everything down and end it."""
        if self.daemon is not None and self.daemon.poll() is None:
            try:
                if kind is None:
                    self.volmgr("drain", "--timeout", "10", code=None)
                assert self.stop() == 0 or kind, self.log.read_text()
            finally:
                self.kill()  # also one that did not listen

    def argv(self, *options: str) -> list[str]:
        """Give the daemon's command line."""
        return [str(BIN / "volmgrd"), "--root-dir", str(self.root), "--socket", str(self.socket), *options]

    def start(self, *, ready: bool = True) -> None:
        """Start the daemon, until it tells systemd that it is ready."""
        address = f"\0acceptance-{os.getpid()}-{time.monotonic_ns()}"
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
            channel.bind(address)
            channel.settimeout(PATIENCE)
            environment = {**os.environ, "NOTIFY_SOCKET": f"@{address[1:]}"}
            self.daemon = self.launch(environment)
            try:
                if ready:
                    assert b"READY=1" in channel.recv(4096), self.log.read_text()
                else:
                    eventually(self.answers, "a daemon that listens")
            except BaseException as error:
                self.kill()
                error.add_note(self.log.read_text())
                raise

    def launch(self, environment: Mapping[str, str]) -> Process:
        """Let the daemon begin."""
        with self.log.open("ab") as log:
            return subprocess.Popen(self.argv(*self.options), env=environment, stderr=log, stdout=log)

    def answers(self) -> bool:
        """Tell whether the daemon is alive to its clients."""
        try:
            return self.http("GET", "/healthz")[0] == 200
        except OSError:
            return False

    @property
    def pid(self) -> int:
        """The daemon's process."""
        assert self.daemon is not None
        return self.daemon.pid

    def stop(self) -> int:
        """End the daemon by SIGTERM, and give its exit code."""
        assert self.daemon is not None
        self.daemon.terminate()
        return self.daemon.wait(PATIENCE)

    def kill(self) -> None:
        """End the daemon by SIGKILL."""
        assert self.daemon is not None
        self.daemon.kill()
        self.daemon.wait(PATIENCE)

    def volmgr(self, *arguments: str, code: int | None = 0, text: str = "") -> subprocess.CompletedProcess[str]:
        """Run a command of `volmgr`, which must end with this code."""
        done = self.run([str(BIN / "volmgr"), "--socket", str(self.socket), *arguments], text)
        assert code is None or done.returncode == code, f"{arguments}: {done.returncode}\n{done.stdout}{done.stderr}"
        return done

    def run(self, command: Sequence[str], text: str) -> subprocess.CompletedProcess[str]:
        """Run a command of `volmgr` with a text on its standard input."""
        return subprocess.run(command, capture_output=True, text=True, timeout=90, check=False, input=text)

    def json(self, *arguments: str, code: int | None = 0) -> Any:  # noqa: ANN401 - JSON
        """Run a command and read what it prints as JSON."""
        return json.loads(self.volmgr(*arguments, "-o", "json", code=code).stdout)

    def wait(self, name: str, state: str = "mounted") -> None:
        """Wait for a Pod, by the command."""
        self.volmgr("wait", name, "--for", state, "--timeout", "60s")

    def http(self, method: str, path: str, body: bytes | None = None) -> tuple[int, bytes]:
        """Ask the API; gives status and body."""
        connection = http.client.HTTPConnection("volmgr", timeout=PATIENCE)
        connection.sock = socket.socket(socket.AF_UNIX)
        try:
            connection.sock.connect(str(self.socket))
            connection.request(method, path, body)
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def put(self, file: str, *documents: Mapping[str, Any]) -> Path:
        """Rename a manifest into place."""
        return self.put_text(file, "\n---\n".join(json.dumps(each) for each in documents))

    def put_text(self, file: str, text: str) -> Path:
        """Rename a file into place."""
        draft = self.manifests / f".{file}"
        draft.write_text(text)
        return draft.rename(self.manifests / file)

    def settle(self) -> None:
        """Wait until a file deleted now counts as deleted: whatever would follow from an earlier deletion has."""
        file = self.put("settle.json", pod("settle", memory()))
        self.wait("settle")
        file.unlink()
        self.wait("settle", "unmounted")

    def why(self, name: str) -> str:
        """Give all that is said about a Pod."""
        done = self.volmgr("why", name, code=None)
        return done.stdout + done.stderr

    def until_why(self, name: str, part: str) -> None:
        """Wait until this is said about a Pod."""
        eventually(lambda: part in self.why(name), lambda: f"{part!r} in: {self.why(name)}")

    def log_text(self) -> str:
        """Give what the daemon has logged."""
        return self.log.read_text()

    def volume(self, name: str, volume: str = "v", plugin: str = EMPTY_DIR) -> Path:
        """Give the directory of a volume of a Pod that `pod()` made."""
        return self.root / "pods" / f"uid-{name}" / "volumes" / plugin / volume

    def mounts(self) -> dict[str, str]:
        """Give each mount below the root directory, with its line of the mount table."""
        return mounts_below(self.root.resolve())

    def uids(self) -> Iterable[str]:
        """Give the UIDs of the Pods that the daemon knows."""
        return [each["uid"] for each in self.json("status")["pods"]]
