"""Waiting for a directory's links to be swapped, by inotify: as soon as a container could see it, without polling."""

from __future__ import annotations

import ctypes
import os
import select
import struct
import time
from collections.abc import Iterable
from pathlib import Path

from tests.bench.mount_table import PATIENCE

_MOVED_TO = 0x80
_HEAD = struct.Struct("iIII")
_libc = ctypes.CDLL(None, use_errno=True)


class Arrivals:
    """What is renamed into some directories: where an atomic volume publishes, `..data` arrives."""

    def __init__(self, directories: Iterable[Path]) -> None:
        self._descriptor = _libc.inotify_init1(os.O_CLOEXEC | os.O_NONBLOCK)
        self._poll = select.poll()
        self._poll.register(self._descriptor, select.POLLIN)
        self._watches = {self._watch(directory) for directory in directories}

    def close(self) -> None:
        """Give the descriptor back."""
        os.close(self._descriptor)

    def until_all(self, name: bytes = b"..data") -> float:
        """Wait until `name` has arrived in each directory; gives the time (time.perf_counter) of the last."""
        left = set(self._watches)
        deadline = time.monotonic() + PATIENCE
        while left:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{name.decode()} never arrived in {len(left)} directories")
            self._poll.poll(1000 * PATIENCE)
            left -= {watch for watch, arrived in self._read() if arrived == name}
        return time.perf_counter()

    def _watch(self, directory: Path) -> int:
        watch: int = _libc.inotify_add_watch(self._descriptor, os.fsencode(directory), _MOVED_TO)
        if watch < 0:
            raise OSError(ctypes.get_errno(), f"cannot watch {directory}")
        return watch

    def _read(self) -> Iterable[tuple[int, bytes]]:
        try:
            data = os.read(self._descriptor, 1 << 16)
        except BlockingIOError:
            return
        offset = 0
        while offset < len(data):
            watch, _, _, length = _HEAD.unpack_from(data, offset)
            offset += _HEAD.size + length
            yield watch, data[offset - length : offset].rstrip(b"\0")
