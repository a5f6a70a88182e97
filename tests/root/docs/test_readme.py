"""The example of README.md, typed by a test: same commands, same output."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.pages import ROOT, Block, blocks

EXAMPLE = [block for block in blocks(ROOT / "README.md") if block.language in {"yaml", "console"}][1:5]
ARCHIVE = """\
apiVersion: v1
kind: Pod
metadata: {name: archive, uid: archive-1}
spec:
  containers: [{name: tar, volumeMounts: [{name: tapes, mountPath: /tapes}]}]
  volumes: [{name: tapes, rbd: {monitors: [ceph.example.com], image: tapes}}]
"""


class Terminal:
    """A shell in a mount namespace of its own, with nothing in /run and /srv."""

    def __init__(self, top: Path) -> None:
        self.top = top
        script = "mount -t tmpfs tmpfs /run && mount -t tmpfs tmpfs /srv && echo ready && exec sleep 600"
        self.keeper = subprocess.Popen(
            ["unshare", "--mount", "--propagation", "private", "sh", "-c", script], stdout=subprocess.PIPE, text=True
        )
        assert self.keeper.stdout is not None
        assert self.keeper.stdout.readline() == "ready\n"
        self.environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
        self.daemon: subprocess.Popen[str] | None = None

    def close(self) -> None:
        """End everything that was started."""
        for process in (self.daemon, self.keeper):
            if process is not None:
                process.terminate()
                process.communicate(timeout=30)

    def start(self, line: str) -> str:
        """Start the daemon in the background, and give what it has logged when it is ready."""
        log = self.top / "log"
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel, log.open("w") as stderr:
            channel.bind(str(self.top / "notify"))
            channel.settimeout(60)
            environment = {**self.environment, "NOTIFY_SOCKET": str(self.top / "notify")}
            argv = self._inside(f"exec {line}")
            self.daemon = subprocess.Popen(argv, cwd=self.top, env=environment, stderr=stderr, text=True)
            assert channel.recv(4096).startswith(b"READY=1")
        return log.read_text()

    def type(self, line: str) -> str:
        """Run a line of shell and give all that it prints."""
        if line.startswith("export "):
            name, _, value = line.removeprefix("export ").partition("=")
            self.environment[name] = value
            return ""
        return subprocess.run(
            self._inside(line),
            cwd=self.top,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=60,
            check=False,
        ).stdout

    def _inside(self, line: str) -> list[str]:
        return ["nsenter", "--mount", f"--target={self.keeper.pid}", f"--wd={self.top}", "bash", "-c", line]


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    terminal = Terminal(tmp_path)
    try:
        yield terminal
    finally:
        terminal.close()


def test_the_example_does_what_it_shows(terminal: Terminal) -> None:
    pod, start, session, trouble = EXAMPLE
    (terminal.top / "manifests").mkdir()
    (terminal.top / "manifests/shop.yaml").write_text(pod.text)

    ((line, shown),) = commands(start)
    assert plain(terminal.start(line)).startswith(plain(shown))
    for line, shown in commands(session):
        assert plain(terminal.type(line)) == plain(shown), line
    (terminal.top / "manifests/archive.yaml").write_text(ARCHIVE)
    terminal.type("volmgr wait archive --timeout 2s")
    for line, shown in commands(trouble):
        assert plain(terminal.type(line)) == plain(shown), line


def commands(block: Block) -> list[tuple[str, str]]:
    """Give what is typed in a block, each with what is shown below it."""
    return [(line, shown) for line, _, shown in (part.partition("\n") for part in block.text.split("$ ")[1:])]


def plain(text: str) -> str:
    """Take out what differs from day to day: times, how far the daemon had got, where the test runs."""
    text = re.sub(r"\d{4}-\d\d-\d\dT[\d:.]+Z", "TIME", text)
    text = re.sub(r"\d+ volumes", "N volumes", text)
    text = re.sub(r"\S*manifests/", "manifests/", text)
    return "\n".join(" ".join(line.split()) for line in text.strip().splitlines())
