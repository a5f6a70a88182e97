"""Giving a volume's files to a group."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Protocol


class OwnershipProgress(str):
    """What a walk over a volume's files says each second that it gets on: entries done, changed, and how fast.

    The core makes an event of it when the walk lasts, and does not take the operation for stuck.
    """

    __slots__ = ()


class Ownership(Protocol):
    """Giving a volume's files to the Pod's fsGroup."""

    def apply(
        self,
        path: Path,
        group: int,
        *,
        policy: str = "Always",
        read_only: bool = False,
        cancelled: Callable[[], bool] = ...,
        progress: Callable[[str], None] = ...,
    ) -> None:
        """Set group and mode bits (behaviours §3.2), children first, root last; stops when cancelled.

        Raises TransientError when cancelled, OperationError naming the path and the policy that would avoid it.
        """
        ...
