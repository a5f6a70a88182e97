"""What a driver was asked: one JSON line for each call, in the order in which they ended."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message


@dataclass(frozen=True, slots=True)
class Call:
    """One call that ended, or at which the driver crashed: that one has no code."""

    method: str
    """`NodeStageVolume`."""
    request: Mapping[str, Any]
    """As protobuf's JSON: `volumeId`; secrets, too."""
    code: str
    """gRPC's name: `OK`."""
    error: str
    started: float
    """Seconds of CLOCK_MONOTONIC, which all processes of the machine share."""
    ended: float
    wall: float
    """When it started, in seconds since the epoch."""


class CallLog:
    """A file that only its owner may read: it has secrets."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()

    def note(self, path: str, request: Message, code: str, error: str, started: float) -> None:
        """Write one call down; `started` as time.monotonic said."""
        now = time.monotonic()
        line = {
            "method": path,
            "request": MessageToDict(request),
            "code": code,
            "error": error,
            "started": started,
            "ended": now,
            "wall": time.time() - (now - started),
        }
        with self._lock:
            descriptor = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                os.write(descriptor, f"{json.dumps(line)}\n".encode())
            finally:
                os.close(descriptor)


def read_calls(path: Path, *methods: str) -> list[Call]:
    """Give the calls of some methods, or of all."""
    if not path.exists():
        return []
    *lines, _ = path.read_text().split("\n")
    return [call for call in map(_read, lines) if not methods or call.method in methods]


def _read(line: str) -> Call:
    said = json.loads(line)
    return Call(**{**said, "method": said["method"].rpartition("/")[2]})
