"""Unpacking tar archives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class Unpacking:
    """What one tar archive, plain or compressed by gzip, must be, and what it may become.

    `name` is for messages (`layer 2 of image …`). `digest` and `size` are of the file, `content_digest` of the tar
    archive in it (`sha256:0f…`; empty, or None: not compared). `whiteouts`: names may hide what lower layers have.
    The limits are bytes of the tar archive, and entries.
    """

    name: str
    digest: str = ""
    size: int | None = None
    content_digest: str = ""
    whiteouts: bool = False
    bytes_limit: int
    entries_limit: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Unpacked:
    """What became of an archive: bytes of its files, its entries, and bytes of the tar archive itself."""

    content: int
    entries: int
    archive: int


class Archives(Protocol):
    """Tar archives from anywhere, also from those who mean harm."""

    def unpack(
        self,
        archive: Path,
        target: Path,
        what: Unpacking,
        *,
        cancelled: Callable[[], bool] = ...,
        progress: Callable[[str], None] = ...,
    ) -> Unpacked:
        """Unpack an archive over what an existing directory below the root holds, and sync it to disk.

        Nothing outside the directory is touched; owners, modes, times and `user.` attributes are those of the
        archive; devices and fifos are refused. A failure leaves a part of it. Raises OperationError naming the archive
        and the entry, TransientError when cancelled.
        """
        ...

    def verify(self, archive: Path, what: Unpacking, *, cancelled: Callable[[], bool] = ...) -> None:
        """Compare a file with its digest and size; raises OperationError, TransientError when cancelled."""
        ...
