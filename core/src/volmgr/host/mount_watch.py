"""Noticing that the mount table changed: a descriptor for a selector, and no timer."""

from __future__ import annotations

import os
import select


class MountWatch:
    """Becomes readable when the mount table of this process changed since it was acknowledged.

    mountinfo itself is always readable and says a change by POLLPRI, which selectors do not ask for; so it lies in an
    epoll of its own, whose descriptor is readable when that bit is up.
    """

    def __init__(self) -> None:
        self._table = os.open("/proc/self/mountinfo", os.O_RDONLY | os.O_CLOEXEC)
        self._epoll = select.epoll()
        self._epoll.register(self._table, select.EPOLLPRI)

    def fileno(self) -> int:
        """Give the descriptor to select on."""
        return self._epoll.fileno()

    def acknowledge(self) -> bool:
        """Take note; call it before reading the table, so that no change is missed. Say whether there was one."""
        return bool(self._epoll.poll(0))

    def close(self) -> None:
        """Close both descriptors; closed is fine."""
        if not self._epoll.closed:
            self._epoll.close()
            os.close(self._table)
