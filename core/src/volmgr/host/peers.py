"""Who is at the other end of a unix socket, as the kernel knows it (SO_PEERCRED of unix(7))."""

from __future__ import annotations

import socket
import struct
from typing import NamedTuple

_CREDENTIALS = struct.Struct("=iII")  # struct ucred: pid, uid, gid


class Peer(NamedTuple):
    """A process when it connected, or began to listen; `pid` is 0 for one that cannot be seen from here."""

    pid: int
    uid: int


def peer_of(connection: socket.socket) -> Peer:
    """Ask for the other end of a connected socket; raises OSError."""
    pid, uid, _gid = _CREDENTIALS.unpack(
        connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    )
    return Peer(pid, uid)
