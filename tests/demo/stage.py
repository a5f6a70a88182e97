"""What the demo plays on: a temporary directory, a daemon, and a shell whose commands are shown and checked."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import textwrap
import threading
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

BIN = Path(sys.executable).parent
PATIENCE = 20.0
"""Seconds after which anything that is waited for counts as failed."""
WIDTH = 100

_COLOURS = {"scene": "1;36", "typed": "1", "said": "0", "shown": "2"}


class Failed(Exception):
    """Something did not hold."""


class Stage:
    """One run of the demo; when left, its processes are ended and its directory is unmounted."""

    def __init__(self, top: Path) -> None:
        self.top = top
        self._scenes = 0
        self._environment = {
            **os.environ,
            "PATH": f"{BIN}:{os.environ.get('PATH', os.defpath)}",
            "VOLMGR_SOCKET": "volmgr.sock",
        }
        self._children: list[subprocess.Popen[str]] = []
        self._daemon: subprocess.Popen[str] | None = None
        (top / "manifests").mkdir()

    def __enter__(self) -> Self:
        """Say where we are."""
        self._print("said", f"All of this happens below {self.top}, in a mount namespace of its own.")
        self._print("typed", f"$ cd {self.top}; export VOLMGR_SOCKET=volmgr.sock")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End what was started, whatever happened."""
        for child in self._children:
            if child.poll() is None:
                child.kill()
            child.communicate()
        for line in reversed(Path("/proc/self/mountinfo").read_text().splitlines()):
            target = line.split(" ")[4]
            if target.startswith(f"{self.top}/"):
                subprocess.run(["umount", "--lazy", target], check=False)

    # --- telling ---

    def scene(self, title: str) -> None:
        """Begin a chapter."""
        self._scenes += 1
        self._print("scene", f"\n=== {self._scenes}. {title} ".ljust(WIDTH, "="))

    def say(self, text: str) -> None:
        """Explain what is seen."""
        self._print("said", "\n" + textwrap.fill(text, WIDTH))

    def file(self, name: str, content: str) -> None:
        """Write a file, as an editor would (by rename), and show it."""
        self._print("typed", f"$ cat {name}")
        self._print("shown", textwrap.indent(content.rstrip(), "  "))
        path = self.top / name
        draft = path.with_name(f".{path.name}.swp")
        draft.write_text(content)
        draft.rename(path)

    def _print(self, kind: str, text: str) -> None:
        if sys.stdout.isatty():
            text = f"\033[{_COLOURS[kind]}m{text}\033[0m"
        print(text, flush=True)

    # --- doing ---

    def run(self, command: str, *, code: int = 0, has: Sequence[str] = (), lacks: Sequence[str] = ()) -> str:
        """Run a line of shell, show it with its output, and check what it gave."""
        self._print("typed", f"$ {command}")
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=self.top,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=PATIENCE * 2,
            check=False,
        )
        self._show(done.stdout)
        if done.returncode:
            self._print("shown", f"  [it ends with {done.returncode}]")
        self.check(done.returncode == code, f"`{command}` ends with {code}")
        for text in has:
            self.check(text in done.stdout, f"the output of `{command}` has {text!r}")
        for text in lacks:
            self.check(text not in done.stdout, f"the output of `{command}` has no {text!r}")
        return done.stdout

    def spawn(self, command: str) -> subprocess.Popen[str]:
        """Start a line of shell in the background."""
        self._print("typed", f"$ ({command.replace('exec ', '')}) &")
        return self._popen(["bash", "-c", command])

    def stop(self, child: subprocess.Popen[str]) -> None:
        """End a process that was spawned."""
        self._print("typed", f"$ kill {child.pid}")
        child.terminate()
        child.wait(PATIENCE)

    def check(self, holds: bool, claim: str) -> None:
        """Fail unless a claim holds."""
        if not holds:
            raise Failed(f"this does not hold: {claim}")

    def _popen(self, argv: Sequence[str | Path], **environment: str) -> subprocess.Popen[str]:
        with self._log_path.open("a") as log:
            child = subprocess.Popen(
                argv,
                cwd=self.top,
                env={**self._environment, **environment},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        self._children.append(child)
        return child

    def _show(self, text: str) -> None:
        if text.strip():
            self._print("shown", textwrap.indent(text.rstrip().replace(f"{self.top}/", ""), "  "))

    # --- the daemon ---

    @property
    def log(self) -> str:
        """What the daemon wrote."""
        return self._log_path.read_text() if self._log_path.exists() else ""

    @property
    def _log_path(self) -> Path:
        return self.top / "log"

    def start_daemon(self) -> None:
        """Start volmgrd, and return when it says (as to systemd) that it is ready."""
        command = "volmgrd --root-dir node --manifests manifests --socket volmgr.sock"
        self._print("typed", f"$ {command} &")
        notify = self.top / "notify"
        notify.unlink(missing_ok=True)
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
            channel.bind(str(notify))
            channel.settimeout(PATIENCE)
            self._daemon = self._popen([BIN / "volmgrd", *command.split()[1:]], NOTIFY_SOCKET=str(notify))
            try:
                said = channel.recv(4096).decode()
            except TimeoutError:
                raise Failed("volmgrd says that it is ready") from None
        self._print("shown", f"  {said.splitlines()[-1].replace('STATUS=', 'ready: ')}")

    def kill_daemon(self) -> None:
        """Kill volmgrd as a crash would."""
        daemon = self._living_daemon()
        self._print("typed", f"$ kill -9 {daemon.pid}")
        daemon.kill()
        daemon.wait(PATIENCE)

    def end_daemon(self) -> None:
        """Stop volmgrd as systemd would."""
        daemon = self._living_daemon()
        self._print("typed", f"$ kill {daemon.pid}; wait {daemon.pid}")
        daemon.terminate()
        self.check(daemon.wait(PATIENCE) == 0, "volmgrd ends with 0 when it is told to stop")

    def _living_daemon(self) -> subprocess.Popen[str]:
        if self._daemon is None:
            raise Failed("the daemon runs")
        return self._daemon

    # --- events ---

    def follow(self) -> subprocess.Popen[str]:
        """Listen to what happens from now on."""
        asked = subprocess.run(
            [BIN / "volmgr", "events", "-o", "json"],
            cwd=self.top, env=self._environment, capture_output=True, text=True, timeout=PATIENCE, check=True,
        )  # fmt: skip
        last = json.loads(asked.stdout.splitlines()[-1])["number"]
        return self.spawn(f"exec volmgr events --follow --after {last}")

    def await_event(self, followed: subprocess.Popen[str], reason: str) -> None:
        """Show what comes until an event has this reason."""
        self._await(followed, (f" {reason} ", f" {reason}:"), f"an event {reason} comes")

    def await_line(self, child: subprocess.Popen[str], text: str) -> None:
        """Show what a process prints until a line has this text."""
        self._await(child, (text,), f"it prints {text!r}")

    def _await(self, child: subprocess.Popen[str], texts: Sequence[str], claim: str) -> None:
        lines = child.stdout or iter(())
        too_long = threading.Timer(PATIENCE, child.kill)
        too_long.start()
        for line in lines:
            self._show(line)
            if any(text in line for text in texts):
                too_long.cancel()
                return
        raise Failed(claim)
