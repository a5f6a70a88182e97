"""Executed helpers: own session, a deadline that kills the whole process group, bounded output.

By `posix_spawn` (vfork and exec inside libc: 1 ms, never a copy of the daemon) and awaited by pidfd; `subprocess` would
add 15 ms to each start of the daemon and has no wait with a deadline that does not poll.
"""

from __future__ import annotations

import os
import select
import signal
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from volmgr.errors import CommandError, OperationError, OverdueError, UncertainError
from volmgr.host import noted, processor, scopes, syscalls
from volmgr.host.interface import HELPER_DEADLINE, CommandResult
from volmgr.host.noted import Note, Notebook, StartedHelper, StuckHelper

GRACE = 0.5
"""Seconds between SIGTERM, on which mount.nfs and others clean up, and SIGKILL."""
OUTPUT_TAIL = 64 * 1024
"""Bytes kept of each output of a helper: its end, where the error is; as much as a pipe holds."""
_LAST_WAIT = 2.0  # for a killed process to go; one in uninterruptible sleep does not
_CANCEL_TICK = 0.2  # seconds between looks at whether it is cancelled; only where somebody can cancel
_STANDARD = 2  # input, output and errors
_GATE = 3  # where a stub waits until its pid is on record
_STUB = ("/bin/sh", "-c", f'read -r _ <&{_GATE} || exit; exec {_GATE}<&-; exec "$@"', "volmgr-stub")
_NOT_EXECUTED = frozenset({126, 127})  # exit codes of a shell that could not execute what it was to become
_LONGEST_POLL = 86400.0  # poll(2) takes milliseconds in an int
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# Python ignores these two, and a child would inherit that.
_DEFAULT_SIGNALS = (signal.SIGPIPE, signal.SIGXFSZ)


class LocalCommands:
    """Commands of this machine, with a clean environment: PATH, HOME and the C locale."""

    def run(
        self,
        argv: Sequence[str],
        *,
        deadline: float = HELPER_DEADLINE,
        accept: Sequence[int] = (0,),
        stdin: bytes = b"",
        environment: Mapping[str, str] | None = None,
        cancelled: Callable[[], bool] | None = None,
        told: Callable[[str], None] | None = None,
        changes: bool = True,
    ) -> CommandResult:
        """Run a command to its end; a negative exit code is the signal that ended it."""
        path = self.find(argv[0])
        if path is None:
            raise OperationError(f"cannot run {argv[0]}: it is not installed; install the package that brings it")
        if any("\0" in word for word in argv):
            raise OperationError(f"cannot run {argv[0]}: an argument has a NUL in it; correct what it comes from")
        if cancelled is not None and cancelled():
            raise OperationError(f"{argv[0]} was not run: the operation is cancelled")
        notebook, until = noted.current.get() if changes else None, time.monotonic() + deadline
        with processor.spread_meanwhile():
            child = _Child(path, argv, _environment(environment), told, gated=notebook is not None)
        try:
            if notebook is not None:
                child.let_run(notebook.note, _short_name(argv), until)
            if not child.wait(stdin, until, cancelled):
                child.kill(StuckHelper(_short_name(argv), child.pid), notebook, late=time.monotonic() >= until)
        finally:
            child.close()
        result = child.result()
        if notebook is not None and result.exit_code in _NOT_EXECUTED and result.stderr.startswith(_STUB[-1]):
            raise OperationError(f"cannot run {path}: {result.stderr.strip().rpartition(': ')[2].lower()}")
        if result.exit_code not in accept:
            raise CommandError(argv, result.exit_code, result.stderr)
        return result

    def lasting(self, argv: Sequence[str]) -> tuple[str, ...]:
        """Give the command in a scope of its own, where systemd is there to give it one."""
        is_there = self.find(argv[0]) is not None and self.find(scopes.RUNNER) is not None
        return scopes.in_scope(argv) if is_there and scopes.booted() else tuple(argv)

    def find(self, name: str) -> Path | None:
        """Give the path of an installed command; directories for root are searched, too."""
        directories = [""] if "/" in name else [*os.environ.get("PATH", "").split(":"), *_PATH.split(":")]
        for directory in directories:
            path = os.path.join(directory, name)
            if (directory or "/" in name) and os.access(path, os.X_OK) and not os.path.isdir(path):
                return Path(path)
        return None


class UnkillableError(OverdueError):
    """A helper was to end and has not: it waits in the kernel, and may still do what it was asked for."""

    def __init__(self, message: str, helper: StuckHelper) -> None:
        super().__init__(message)
        self.helper = helper


class _Child:
    """One running helper and its three pipes; a gated one does nothing before `let_run`."""

    def __init__(
        self,
        path: Path,
        argv: Sequence[str],
        environment: Mapping[str, str],
        told: Callable[[str], None] | None,
        *,
        gated: bool = False,
    ) -> None:
        self._name = " ".join(argv[:2])
        self._told = told
        self._line = b""
        self._ended: Callable[[], None] = _nobody
        pipes = [os.pipe2(os.O_CLOEXEC) for _ in range(4 if gated else 3)]
        (child_in, self._stdin), (self._stdout, child_out), (self._stderr, child_err) = pipes[:3]
        child_gate, self._gate = pipes[3] if gated else (-1, -1)
        theirs = [child_in, child_out, child_err, child_gate][: len(pipes)]
        command = [*_STUB, str(path), *argv[1:]] if gated else list(argv)
        try:
            self.pid = os.posix_spawn(
                _STUB[0] if gated else path,
                command,
                dict(environment),
                file_actions=[
                    *((os.POSIX_SPAWN_CLOSE, descriptor) for descriptor in _inheritable()),
                    *((os.POSIX_SPAWN_DUP2, descriptor, place) for place, descriptor in enumerate(theirs)),
                ],
                setsid=True,
                setsigmask=(),
                setsigdef=_DEFAULT_SIGNALS,
            )
        except OSError as error:
            for descriptor in (self._stdin, self._stdout, self._stderr, *((self._gate,) if gated else ())):
                os.close(descriptor)
            raise syscalls.failed(f"run {path}", error) from error
        finally:
            for descriptor in theirs:
                os.close(descriptor)
        self._pidfd = os.pidfd_open(self.pid)
        self._exit_code: int | None = None
        self._rest = memoryview(b"")
        self._output = {self._stdout: bytearray(), self._stderr: bytearray()}
        for descriptor in (self._stdin, self._stdout, self._stderr):
            os.set_blocking(descriptor, False)

    def let_run(self, note: Note, name: str, until: float) -> None:
        """Have it noted, then let it run; when noting raises, `close` ends it before it did anything."""
        self._ended = note(StartedHelper(name, self.pid, until))
        with suppress(BrokenPipeError):  # somebody killed it; wait() tells
            os.write(self._gate, b"\n")
        self._close_gate()

    def wait(self, stdin: bytes, until: float, cancelled: Callable[[], bool] | None) -> bool:
        """Feed and drain the helper until it ends; False when it is late, or cancelled, and must be killed.

        The end is that of the process, not of its pipes: a server that it left running may hold those.
        """
        self._rest = memoryview(stdin)
        if not stdin:
            self._close_stdin()
        waiting = self._waiting()
        while True:
            left = until - time.monotonic()
            if left <= 0 or (cancelled is not None and cancelled()):
                return False
            ready = waiting.poll(1000 * min(left, _LONGEST_POLL if cancelled is None else _CANCEL_TICK))
            for descriptor, _ in ready:
                if descriptor != self._pidfd and not self._serve(descriptor):
                    waiting.unregister(descriptor)
                    if descriptor == self._stdin:
                        self._close_stdin()
            if any(descriptor == self._pidfd for descriptor, _ in ready):
                self._reap()
                return True

    def kill(self, stuck: StuckHelper, notebook: Notebook | None, *, late: bool) -> None:
        """End the process group and raise: nobody knows what the helper had done. One that stays is written down."""
        kind, reason = (OverdueError, "did not end before its deadline") if late else (UncertainError, "was cancelled")
        for number, patience in ((signal.SIGTERM, GRACE), (signal.SIGKILL, _LAST_WAIT)):
            with suppress(ProcessLookupError):
                os.killpg(self.pid, number)
            if self._ends_within(patience):
                self._kill_rest()
                raise kind(f"{self._name} {reason} and was killed{self._last_words()}")
        if notebook is not None:
            notebook.stuck.append(stuck)
        threading.Thread(target=self._await_end, args=(stuck,), daemon=True).start()
        raise UnkillableError(
            f"{self._name} {reason}, and process {self.pid} cannot be killed: it waits in the kernel,"
            " probably for a server that does not answer",
            stuck,
        )

    def result(self) -> CommandResult:
        """Give what the ended helper said."""
        out, err = (bytes(self._output[each]).decode("utf-8", "replace") for each in (self._stdout, self._stderr))
        return CommandResult(0 if self._exit_code is None else self._exit_code, out, err)

    def close(self) -> None:
        """Close all descriptors."""
        if self._gate >= 0:
            self._close_gate()
            os.waitpid(self.pid, 0)
        self._close_stdin()
        for descriptor in (*self._output, self._pidfd):
            os.close(descriptor)

    def _waiting(self) -> select.poll:
        waiting = select.poll()
        waiting.register(self._pidfd, select.POLLIN)
        for descriptor in self._output:
            waiting.register(descriptor, select.POLLIN)
        if self._stdin >= 0:
            waiting.register(self._stdin, select.POLLOUT)
        return waiting

    def _serve(self, descriptor: int) -> bool:
        """Move bytes of one pipe; False when it is done."""
        if descriptor != self._stdin:
            return self._drain(descriptor)
        with suppress(BlockingIOError):
            try:
                self._rest = self._rest[os.write(descriptor, self._rest[:65536]) :]
            except BrokenPipeError:
                self._rest = self._rest[:0]
        return bool(self._rest)

    def _drain(self, descriptor: int) -> bool:
        """Read what is there, keep its tail; False at the end."""
        buffer = self._output[descriptor]
        try:
            data = os.read(descriptor, OUTPUT_TAIL)
        except BlockingIOError:
            return True
        buffer += data
        del buffer[:-OUTPUT_TAIL]
        if self._told is not None and descriptor == self._stdout:
            self._tell(data, self._told)
        return bool(data)

    def _tell(self, data: bytes, told: Callable[[str], None]) -> None:
        """Pass on each line as it is complete; of a longer one than is kept, the end."""
        *lines, rest = (self._line + data).split(b"\n")
        self._line = rest[-OUTPUT_TAIL:]
        for line in lines:
            told(line.decode("utf-8", "replace"))

    def _reap(self) -> None:
        _, status = os.waitpid(self.pid, 0)
        self._exit_code = os.waitstatus_to_exitcode(status)
        self._ended()
        for descriptor in self._output:
            self._drain_rest(descriptor)

    def _drain_rest(self, descriptor: int) -> None:
        # A pipe holds 64 KiB unless it was enlarged: twice is all that an ended process can have left.
        for _ in range(2):
            if not self._drain(descriptor):
                return

    def _await_end(self, stuck: StuckHelper) -> None:
        os.waitid(os.P_PID, self.pid, os.WEXITED)
        self._ended()
        stuck.ended.set()

    def _ends_within(self, seconds: float) -> bool:
        waiting = select.poll()
        waiting.register(self._pidfd, select.POLLIN)
        return bool(waiting.poll(1000 * seconds))

    def _kill_rest(self) -> None:
        # The group outlives its leader until the leader is reaped: kill what SIGTERM left, then reap.
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self._reap()

    def _last_words(self) -> str:
        words = bytes(self._output[self._stderr]).decode("utf-8", "replace").strip()
        return f": {words[-500:]}" if words else ""

    def _close_gate(self) -> None:
        os.close(self._gate)
        self._gate = -1

    def _close_stdin(self) -> None:
        if self._stdin >= 0:
            os.close(self._stdin)
            self._stdin = -1


def _short_name(argv: Sequence[str]) -> str:
    """Name a helper by its executable and its sub-command, if it has one: never by what may be secret."""
    command = scopes.without_scope(argv)
    return " ".join([os.path.basename(command[0]), *(word for word in command[1:2] if word.isalpha())])


def _nobody() -> None:
    return None


def _inheritable() -> list[int]:
    """List what the daemon was itself given open, and what a helper would get in its turn."""
    found: list[int] = []
    for name in os.listdir("/proc/self/fd"):
        with suppress(OSError):  # closed meanwhile
            if int(name) > _STANDARD and os.get_inheritable(int(name)):
                found.append(int(name))
    return found


def _environment(given: Mapping[str, str] | None) -> dict[str, str]:
    clean = {"PATH": os.environ.get("PATH", _PATH), "HOME": os.environ.get("HOME", "/")}
    return {**clean, **(given or {}), "LANG": "C", "LC_ALL": "C"}
