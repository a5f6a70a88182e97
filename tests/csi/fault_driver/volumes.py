"""The volumes that a driver keeps: one JSON document each, so that it knows them when it runs again."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

import grpc

MIB = 1 << 20


class RefusalError(Exception):
    """The driver answers an error."""

    def __init__(self, code: grpc.StatusCode, message: str) -> None:
        super().__init__(message)
        self.code = code


def not_found(what: str) -> RefusalError:
    """Give the error for what is not there."""
    return RefusalError(grpc.StatusCode.NOT_FOUND, f"there is no {what}")


def invalid(what: str) -> RefusalError:
    """Give the error for a request that cannot be."""
    return RefusalError(grpc.StatusCode.INVALID_ARGUMENT, what)


@dataclass(slots=True, kw_only=True)
class Volume:
    """One volume."""

    id: str
    name: str = ""
    size: int = 16 * MIB
    """What the storage gives; bytes."""
    node_size: int = 0
    """What NodeExpandVolume made of it on the node; 0: as `size` was."""
    block: bool = False
    medium: str = ""
    """`memory`: a tmpfs while it is staged; else a directory that stays."""
    context: dict[str, str] = field(default_factory=dict[str, str])
    nodes: dict[str, bool] = field(default_factory=dict[str, bool])
    """Where ControllerPublishVolume attached it, and whether read-only."""
    staged: list[str] = field(default_factory=list[str])
    published: dict[str, bool] = field(default_factory=dict[str, bool])
    """Where it is published, and whether read-only."""


class Volumes:
    """All of one driver, below its directory. The driver lets one call at a time in."""

    def __init__(self, top: Path) -> None:
        self._records = top / "volumes"
        self._data = top / "data"
        for each in (self._records, self._data):
            each.mkdir(parents=True, exist_ok=True)

    def directory(self, volume: Volume) -> Path:
        """Give where a mount volume's files are."""
        return self._data / quote(volume.id, safe="")

    def image(self, volume: Volume) -> Path:
        """Give the file that is a block volume."""
        return self._data / f"{quote(volume.id, safe='')}.img"

    def add(self, volume: Volume) -> Volume:
        """Let there be a volume."""
        if volume.block:
            with self.image(volume).open("ab") as image:
                image.truncate(volume.size)
        else:
            self.directory(volume).mkdir(exist_ok=True)
            self.directory(volume).chmod(0o777)
        self.keep(volume)
        return volume

    def keep(self, volume: Volume) -> None:
        """Write down what is known of it."""
        draft = self._record(volume.id).with_suffix(".draft")
        draft.write_text(json.dumps(asdict(volume)))
        draft.replace(self._record(volume.id))

    def drop(self, volume: Volume) -> None:
        """Let there be no such volume, nor its data."""
        self._record(volume.id).unlink(missing_ok=True)
        self.image(volume).unlink(missing_ok=True)
        shutil.rmtree(self.directory(volume), ignore_errors=True)

    def find(self, handle: str) -> Volume | None:
        """Give a volume, or None."""
        if not handle:
            raise invalid("the volume id is missing")
        try:
            return _read(json.loads(self._record(handle).read_text()))
        except FileNotFoundError:
            return None

    def get(self, handle: str) -> Volume:
        """Give a volume that must be there."""
        found = self.find(handle)
        if found is None:
            raise not_found(f"volume {handle}")
        return found

    def all(self) -> list[Volume]:
        """Give every volume, by id."""
        return [_read(json.loads(path.read_text())) for path in sorted(self._records.glob("*.json"))]

    def _record(self, handle: str) -> Path:
        return self._records / f"{handle.replace('/', '_')[: os.pathconf('/', 'PC_NAME_MAX') - 10]}.json"


def _read(said: Mapping[str, Any]) -> Volume:
    return Volume(**said)
