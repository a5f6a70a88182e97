"""A package that lets its daemon die, as by kill -9, before or after an operation that a file beside the root names."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator
from signal import SIGKILL

from volmgr.plugin import Host, hookimpl


def _die_if_told(moment: str, host: Host) -> None:
    note = host.paths.root.parent / "die-at"
    if note.exists() and note.read_text() == moment:
        note.unlink()
        os.kill(os.getpid(), SIGKILL)


def _around(operation: str) -> Callable[[object, Host], Generator[None, object, object]]:
    def wrapper(request: object, host: Host) -> Generator[None, object, object]:
        del request
        _die_if_told(f"before {operation}", host)
        outcome = yield
        _die_if_told(f"after {operation}", host)
        return outcome

    return wrapper


volmgr_wait_for_attach = hookimpl(wrapper=True)(_around("wait_for_attach"))
volmgr_mount_device = hookimpl(wrapper=True)(_around("mount_device"))
volmgr_mount = hookimpl(wrapper=True)(_around("mount"))
volmgr_unmount = hookimpl(wrapper=True)(_around("unmount"))
volmgr_unmount_device = hookimpl(wrapper=True)(_around("unmount_device"))
