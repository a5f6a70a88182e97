"""A daemon in a virtual environment whose packages come and go."""

from __future__ import annotations

import json
import os
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.side_venv import SideVenv, write_package
from volmgr.testing.node import pod

PATIENCE = 30.0
NOTE = '''
from dataclasses import dataclass

from volmgr.plugin import Handles, Mounted, Unmounted, VolumePlugin


@dataclass(frozen=True)
class NoteSource:
    text: str = ""


class Note(VolumePlugin[NoteSource]):
    """A directory in memory with a file in it."""

    name = "example.com/note"
    handles = (Handles("note", source=NoteSource),)

    def mount(self, request, host):
        host.files.ensure_directory(request.target, 0o750)
        host.mounts.ensure_mounted(request.target, "tmpfs", source="tmpfs", options=("size=64k",))
        host.files.write(request.target / "note", request.spec.source.text.encode(), 0o644)
        return Mounted()

    def unmount(self, request, host):
        host.mounts.unmount_below(request.target)
        host.files.remove_directory(request.target)
        return Unmounted()
'''


class Node:
    """A real daemon, and commands that talk to it."""

    def __init__(self, venv: SideVenv, top: Path) -> None:
        self.venv = venv
        self.top = top
        self.root = top / "root"
        self.manifests = top / "manifests"
        self.manifests.mkdir()
        self.socket = top / "volmgr.sock"
        self.daemon = self._start()

    def _start(self) -> subprocess.Popen[str]:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel, (self.top / "log").open("w") as log:
            channel.bind(str(self.top / "notify"))
            channel.settimeout(PATIENCE)
            daemon = subprocess.Popen(
                self.command("--manifests", str(self.manifests)),
                env={**os.environ, "NOTIFY_SOCKET": str(self.top / "notify")},
                stderr=log,
                text=True,
            )
            assert channel.recv(4096).startswith(b"READY=1")
        return daemon

    def command(self, *options: str) -> list[str]:
        """Give the daemon's command line."""
        places = ("--root-dir", str(self.root), "--socket", str(self.socket))
        return [str(self.venv.python), "-m", "volmgr.daemon", *places, *options]

    def stop(self) -> None:
        """End the daemon; what is mounted goes with the test's namespace, or by drain."""
        self.run("drain")
        self.daemon.terminate()
        assert self.daemon.wait(PATIENCE) == 0, (self.top / "log").read_text()

    def argv(self, *arguments: str) -> list[str]:
        """Give a command line of `volmgr`."""
        return [str(self.venv.python), "-m", "volmgr.cli", "--socket", str(self.socket), *arguments]

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a command of `volmgr`."""
        return subprocess.run(self.argv(*arguments), capture_output=True, text=True, timeout=PATIENCE, check=False)

    def tell(self, *arguments: str) -> str:
        """Run a command that must succeed, and give what it prints."""
        done = self.run(*arguments)
        assert done.returncode == 0, done.stdout + done.stderr + (self.top / "log").read_text()
        return done.stdout

    def put(self, name: str, volume: dict[str, object]) -> None:
        """Let a Pod with one volume `v` be in a manifest."""
        document = json.dumps(pod(name, {"name": "v", **volume}, uid=f"uid-{name}"))
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

    def publish(self, name: str, code: str, entry_point: str) -> None:
        """Install a package that somebody wrote."""
        self.venv.install(write_package(self.top / name, name, code, entry_point))

    def publish_note(self) -> None:
        """Install the package of the type `note`."""
        self.publish("volmgr-note", NOTE, 'note = "volmgr_note:Note"')


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    node = Node(SideVenv.make(tmp_path / "venv"), tmp_path)
    try:
        yield node
    finally:
        if node.daemon.poll() is None:
            node.stop()
