"""A real daemon of some environment, with a root directory, manifests and a socket of its own."""

from __future__ import annotations

import json
import os
import select
import socket
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.eventually import eventually
from volmgr.testing.node import pod

PATIENCE = 60.0
"""Seconds after which what is waited for counts as failed."""


class LiveNode:
    """A real daemon, and commands that talk to it."""

    def __init__(self, python: Path, top: Path, *options: str) -> None:
        self.python = python
        self.options = options
        self.top = top
        self.root = top / "root"
        self.manifests = top / "manifests"
        self.manifests.mkdir()
        self.socket = top / "volmgr.sock"
        self.start()

    def __enter__(self) -> Self:
        """It runs already."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Take everything down and end the daemon."""
        if self.daemon.poll() is None:
            try:
                self.run("drain")
                self.daemon.terminate()
                assert self.daemon.wait(PATIENCE) == 0, (self.top / "log").read_text()
            finally:
                self.kill()  # also one that did not listen

    def start(self) -> None:
        """Start the daemon, and wait until it is ready."""
        (self.top / "notify").unlink(missing_ok=True)
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel, (self.top / "log").open("a") as log:
            channel.bind(str(self.top / "notify"))
            self.daemon = subprocess.Popen(
                self.command(*self.sources(), *self.options),
                env={**os.environ, "NOTIFY_SOCKET": str(self.top / "notify")},
                stderr=log,
                text=True,
            )
            self._await_ready(channel)

    def _await_ready(self, channel: socket.socket) -> None:
        """Return when the daemon says that it is ready; one that ends instead, or says nothing, is not left behind."""
        descriptor = os.pidfd_open(self.daemon.pid)
        try:
            said, _, _ = select.select([channel.fileno(), descriptor], [], [], PATIENCE)
        finally:
            os.close(descriptor)
        if channel.fileno() not in said:
            self.kill()
            raise AssertionError(f"the daemon did not become ready: {(self.top / 'log').read_text()}")
        assert channel.recv(4096).startswith(b"READY=1")

    def sources(self) -> tuple[str, ...]:
        """Give the options that say where its Pods come from."""
        return "--manifests", str(self.manifests)

    def kill(self) -> None:
        """End the daemon as kill -9 does."""
        self.daemon.kill()
        self.daemon.wait()

    def command(self, *options: str) -> list[str]:
        """Give the daemon's command line."""
        places = ("--root-dir", str(self.root), "--socket", str(self.socket))
        return [str(self.python), "-m", "volmgr.daemon", *places, *options]

    def argv(self, *arguments: str, by: Path | None = None) -> list[str]:
        """Give a command line of `volmgr`, which asks the daemon by its own socket or by one that leads there."""
        return [str(self.python), "-m", "volmgr.cli", "--socket", str(by or self.socket), *arguments]

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a command of `volmgr`."""
        return subprocess.run(self.argv(*arguments), capture_output=True, text=True, timeout=PATIENCE, check=False)

    def tell(self, *arguments: str) -> str:
        """Run a command that must succeed, and give what it prints."""
        done = self.run(*arguments)
        assert done.returncode == 0, done.stdout + done.stderr + (self.top / "log").read_text()
        return done.stdout

    def await_why(self, name: str, text: str) -> str:
        """Return what `why` says of a Pod once a text is in it: at first its manifest is unread, and nothing tried."""
        said: list[str] = []

        def holds() -> bool:
            said.append(self.run("why", name).stdout)
            return text in said[-1]

        eventually(holds, lambda: f"{text!r} in {said[-1]!r}")
        return said[-1]

    def put(self, name: str, volume: dict[str, object], namespace: str = "default") -> None:
        """Let a Pod with one volume `v` be in a manifest."""
        metadata = {"namespace": namespace}
        document = json.dumps(pod(name, {"name": "v", **volume}, uid=f"uid-{name}", metadata=metadata))
        draft = self.manifests / f".{name}"
        draft.write_text(document)
        draft.rename(self.manifests / f"{name}.json")

    def remove(self, name: str) -> None:
        """Delete a Pod's manifest."""
        (self.manifests / f"{name}.json").unlink()

    def volume(self, name: str, plugin: str) -> Path:
        """Give the directory of a Pod's volume."""
        return self.root / "pods" / f"uid-{name}" / "volumes" / plugin.replace("/", "~") / "v"

    def mount_ids(self) -> dict[str, str]:
        """Give the mount id of each mount below the root directory."""
        rows = [line.split(" ") for line in Path("/proc/self/mountinfo").read_text().splitlines()]
        return {row[4]: row[0] for row in rows if row[4].startswith(f"{self.root}/")}
