"""Executing a driver: one command at a time, its answer judged, what it does not support remembered.

Secrets are in the driver's arguments, as the protocol has it; they are kept out of everything that we say.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from volmgr.plugin import Host, OperationError, TransientError, UncertainError
from volmgr_flexvolume.protocol import NOT_SUPPORTED, SUCCESS, Capabilities, Reply, read_reply

MASK = "<masked>"
"""What is shown in place of a secret."""

_ANY_CODE = range(-128, 256)  # negative: the signal that ended it
_SERVING = frozenset({"mount", "mountdevice"})  # may leave a FUSE server running
_QUOTED = 200  # characters of an answer that is none


def _never() -> bool:
    return False


class Driver:
    """One executable. It remembers nothing of volumes, and of itself only which commands it does not support."""

    def __init__(self, name: str, executable: Path) -> None:
        self.name = name
        self.executable = executable
        self._unsupported: set[str] = set()  # only ever grows, so that any thread may look

    def supports(self, command: str) -> bool:
        """Say whether a command is still worth asking."""
        return command not in self._unsupported

    def initialize(self, host: Host, deadline: float, cancelled: Callable[[], bool] = _never) -> Capabilities:
        """Ask what it can do; raises VolmgrError when it is no driver (yet)."""
        reply = self.ask(host, "init", deadline=deadline, cancelled=cancelled)
        if reply is None:
            raise OperationError(f"{self._called('init')} answered {NOT_SUPPORTED!r}, which every driver must support")
        return reply.capabilities

    def ask(
        self,
        host: Host,
        command: str,
        *arguments: str,
        deadline: float,
        cancelled: Callable[[], bool] | None = None,
        secrets: Mapping[str, str] | None = None,
    ) -> Reply | None:
        """Execute a command and give its answer, None when it is not supported; `deadline` in seconds from now.

        Raises TransientError when the executable is gone, OperationError when it says that it failed, and
        UncertainError when nobody knows what it did: killed at the deadline, or no sensible answer.
        """
        if not self.supports(command):
            return None
        if host.commands.find(str(self.executable)) is None:
            raise TransientError(
                f"cannot {command}: driver {self.name} is gone ({self.executable} is missing or not executable);"
                " install it again",
                waits_for=self.name,
            )
        masks = _masks((secrets or {}).values())
        try:
            argv = (str(self.executable), command, *arguments)
            wrapped = host.commands.lasting(argv) if command in _SERVING else argv
            done = host.commands.run(wrapped, deadline=max(deadline, 0.0), accept=_ANY_CODE, cancelled=cancelled)
        except UncertainError as error:
            if (shown := _masked(str(error), masks)) == str(error):
                raise
            raise UncertainError(shown) from None  # the original repeats a secret
        output = done.stdout if done.stdout.strip() else done.stderr
        return self._judged(command, output, done.exit_code, masks)

    def _judged(self, command: str, output: str, exit_code: int, masks: tuple[str, ...]) -> Reply | None:
        called = self._called(command)
        try:
            reply = read_reply(output)
        except ValueError as error:
            quoted = _quoted(_masked(output, masks))
            problem = "is no JSON" if type(error) is not ValueError else str(error)
            raise UncertainError(
                f"{called} exited with {exit_code}, and its answer {problem}; correct the driver: {quoted}"
            ) from None
        if reply.status == NOT_SUPPORTED:
            self._unsupported.add(command)
            return None
        if reply.status != SUCCESS:
            message = _quoted(_masked(f"{reply.status or 'no status'}: {reply.message or 'no message'}", masks), 2000)
            raise OperationError(f"{called} failed: {message}")
        if exit_code != 0:
            raise UncertainError(f"{called} said {SUCCESS} and exited with {exit_code}, which is a bug of the driver")
        return reply

    def _called(self, command: str) -> str:
        return f"{command} of driver {self.name}"


def _masks(secrets: Iterable[str]) -> tuple[str, ...]:
    """Give what must not be shown: each secret in base64 and, if it is text, in the clear; longest first."""
    found: set[str] = set()
    for secret in secrets:
        found.add(secret)
        try:
            found.add(base64.b64decode(secret).decode())
        except (UnicodeDecodeError, binascii.Error):
            continue
    return tuple(sorted((each for each in found if each.strip()), key=len, reverse=True))


def _masked(text: str, masks: tuple[str, ...]) -> str:
    for mask in masks:
        text = text.replace(mask, MASK)
    return text


def _quoted(text: str, most: int = _QUOTED) -> str:
    text = text.strip()
    return repr(text if len(text) <= most else f"{text[: most // 2]} … {text[-most // 2 :]}")
