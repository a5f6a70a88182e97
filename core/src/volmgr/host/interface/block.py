"""Block and loop devices."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol


class BlockDevices(Protocol):
    """Loop devices and what is on a block device."""

    def attach_loop(self, backing: Path, *, read_only: bool = False) -> Path:
        """Give the loop device of a file or device, attaching one if there is none."""
        ...

    def find_loops(self, backing: Path) -> tuple[Path, ...]:
        """Find the loop devices of a backing file by device and inode (symlinked roots and deleted files too)."""
        ...

    def detach_loop(self, device: Path) -> None:
        """Detach a loop device; detached is success."""
        ...

    def size(self, device: Path) -> int:
        """Give the size of a block device in bytes."""
        ...

    def is_free(self, device: Path) -> bool:
        """Say whether the device can be opened exclusively (O_EXCL) and no loop device is over it.

        A missing device or none is free.
        """
        ...

    def refresh_size(self, device: Path) -> None:
        """Let a loop device see that its backing file grew."""
        ...

    def read(self, device: Path, offset: int, length: int) -> bytes:
        """Read from a block device; less than `length` bytes only at its end. Raises OperationError."""
        ...

    def identity(self, device: Path) -> str:
        """Name a block device as no other of this boot is named, not even one that gets its number later."""
        ...
