"""Processes that have imported volmgr before they begin: an emulated processor takes ten seconds for that.

What runs the tests (`tests.vm.inside`) imports everything once, forks a process that does nothing but fork, and goes on
to be pytest. What that process forks is as what one executes: its command line given, its standard streams on files,
signals as at the beginning.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import queue
import select
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Never

PATIENCE = 300.0
"""Seconds that the forking process may take for what it is asked."""


PRELOADED = (
    "volmgr.cli",
    "volmgr.cli.app",
    "volmgr.daemon",
    "volmgr.discovery",
    "volmgr.manifest",
    "volmgr.model.fields",
    "volmgr.sources.directory",
    *(f"volmgr.cli.{name}" for name in ("drain", "mounts", "plan", "status", "wait", "why")),
)


class Forked:
    """A process as `subprocess.Popen` has it, so far as tests ask for it."""

    def __init__(self, pid: int, forking: Forking) -> None:
        self.pid = pid
        self._forking = forking

    def poll(self) -> int | None:
        """Give its exit code, a signal's negative; None while it runs."""
        return self._forking.ended(self.pid, 0)

    @property
    def returncode(self) -> int | None:
        """The same."""
        return self.poll()

    def wait(self, timeout: float = PATIENCE) -> int:
        """Return when it has ended; raises TimeoutExpired."""
        code = self._forking.ended(self.pid, timeout)
        if code is None:
            raise subprocess.TimeoutExpired(str(self.pid), timeout)
        return code

    def send_signal(self, number: int) -> None:
        """Send a signal, unless it has ended."""
        if self.poll() is None:
            with suppress(ProcessLookupError):  # it has, just now
                os.kill(self.pid, number)

    def terminate(self) -> None:
        """Send SIGTERM."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Send SIGKILL."""
        self.send_signal(signal.SIGKILL)


class Forking:
    """The process that forks; made once, it ends with whoever made it."""

    def __init__(self) -> None:
        """Fork it off this process, which has imported what it should know, and has no other thread."""
        self._codes: dict[int, int] = {}
        self._heard = threading.Condition()
        self._begun: queue.SimpleQueue[int] = queue.SimpleQueue()
        self._asking = threading.Lock()
        asked, ask = os.pipe()
        heard, tell = os.pipe()
        if not os.fork():
            os.close(ask)
            os.close(heard)
            _redirect(0, asked)
            _redirect(1, tell)
            _serve()
        os.close(asked)
        os.close(tell)
        self._ask, self._answers = os.fdopen(ask, "w"), os.fdopen(heard)
        threading.Thread(target=self._hear, daemon=True).start()

    def _hear(self) -> None:
        for line in self._answers:
            message: dict[str, int] = json.loads(line)
            with self._heard:
                if "ended" in message:
                    self._codes[message["ended"]] = message["code"]
                    self._heard.notify_all()
                    continue
                self._codes.pop(message["begun"], None)  # a PID that was another's
            self._begun.put(message["begun"])

    def start(
        self,
        entry: str,
        argv: Sequence[str],
        output: Path,
        *,
        environment: Mapping[str, str] | None = None,
        text: str = "",
        errors: Path | None = None,
    ) -> Forked:
        """Fork, and let `entry` (`module:function`) run with a command line; what it says is appended to `output`.

        It leads a session of its own.
        """
        said = {
            "entry": entry,
            "argv": list(argv),
            "output": str(output),
            "errors": str(errors or output),
            "environment": dict(os.environ if environment is None else environment),
            "input": text,
            "directory": str(Path.cwd()),
        }
        with self._asking:
            print(json.dumps(said), file=self._ask, flush=True)
            return Forked(self._begun.get(timeout=PATIENCE), self)

    def run(self, entry: str, argv: Sequence[str], *, text: str = "") -> subprocess.CompletedProcess[str]:
        """As `subprocess.run` that captures what is said."""
        with tempfile.TemporaryDirectory() as directory:
            output, errors = Path(directory, "output"), Path(directory, "errors")
            code = self.start(entry, argv, output, errors=errors, text=text).wait()
            return subprocess.CompletedProcess(list(argv), code, output.read_text(), errors.read_text())

    def ended(self, pid: int, within: float) -> int | None:
        """Give the exit code of one that has ended, or ends in so many seconds."""
        with self._heard:
            self._heard.wait_for(lambda: pid in self._codes, within)
            return self._codes.get(pid)


_begun: list[Forking] = []


def begin() -> None:
    """Import what daemons and commands need, and have them forked from now on."""
    for module in PRELOADED:
        importlib.import_module(module)
    sys.modules["volmgr.discovery"].load()  # and with them the volume types
    sys.modules["volmgr.manifest"].prepare()
    gc.freeze()  # nobody of those that are forked copies what all have
    _begun.append(Forking())


def forking() -> Forking:
    """Give the process that forks."""
    if not _begun:
        raise RuntimeError("nobody forks: pytest of a guest is started by `.venv/bin/python -m tests.vm.inside`")
    return _begun[0]


def _serve() -> Never:
    """Fork for whoever speaks on standard input, until that ends."""
    running: dict[int, int] = {}
    poll = select.poll()
    poll.register(0, select.POLLIN)
    asked = b""
    while True:
        for descriptor, _ in poll.poll():
            if descriptor:
                poll.unregister(descriptor)
                os.close(descriptor)
                pid = running.pop(descriptor)
                code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
                print(json.dumps({"ended": pid, "code": code}), flush=True)
                continue
            more = os.read(0, 1 << 16)
            if not more:
                os._exit(0)
            asked += more
            if not asked.endswith(b"\n"):
                continue
            pid = os.fork()
            if not pid:
                _become(json.loads(asked), running)
            asked = b""
            running[handle := os.pidfd_open(pid)] = pid
            poll.register(handle, select.POLLIN)
            print(json.dumps({"begun": pid}), flush=True)


def _become(said: Mapping[str, Any], inherited: Mapping[int, int]) -> Never:
    """Be the process that is asked for."""
    code = 1
    try:
        os.setsid()
        for descriptor in inherited:
            os.close(descriptor)
        _redirect(0, _memory(said["input"]))
        _redirect(1, os.open(said["output"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644))
        _redirect(2, os.open(said["errors"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644))
        os.chdir(said["directory"])
        os.environ.clear()
        os.environ.update(said["environment"])
        sys.argv = list(said["argv"])
        module, _, name = said["entry"].partition(":")
        function: Callable[[], None] = getattr(sys.modules[module], name)
        function()
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException as error:  # noqa: BLE001 - as the interpreter does
        sys.excepthook(type(error), error, error.__traceback__)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _memory(text: str) -> int:
    descriptor = os.memfd_create("input", 0)
    os.write(descriptor, text.encode())
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


def _redirect(number: int, descriptor: int) -> None:
    os.dup2(descriptor, number)
    os.close(descriptor)
