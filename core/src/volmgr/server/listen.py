"""The listening socket: private from its first moment, never taken from a daemon that answers, removed by its own."""

from __future__ import annotations

import errno
import os
import socket
import stat
import threading
from contextlib import suppress
from typing import TYPE_CHECKING

from volmgr.host.peers import peer_of

if TYPE_CHECKING:
    from pathlib import Path

BACKLOG = 1024
"""Connections that may wait to be accepted; the kernel allows as many as net.core.somaxconn."""
_umask = threading.Lock()


def listen(path: Path, mode: int = 0o600) -> socket.socket:
    """Listen on `path`, replacing the socket of a daemon that has ended; raises OSError when that cannot be done."""
    path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    _remove_stale(path)
    server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with _umask:
            # bind() makes the file with 0777 & ~umask: chmod afterwards would leave it open for a moment.
            old = os.umask(0o777 & ~mode)
            try:
                server.bind(str(path))
            finally:
                os.umask(old)
        server.listen(BACKLOG)
        server.settimeout(0)
    except OSError as error:
        server.close()
        raise OSError(error.errno, f"cannot listen on {path}: {error.strerror or error}") from error
    return server


def remove(path: Path) -> None:
    """Remove the socket's file at the end, if it leads to this very process; to be called while that still listens.

    Who listens is asked of the kernel, since the file may be another's by now, and since the process may have been
    executed anew. As long as it answers, no other daemon replaces the file.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe, suppress(OSError):
        probe.settimeout(0)
        probe.connect(str(path))
        if peer_of(probe).pid == os.getpid() and not path.is_symlink():
            path.unlink()


def _remove_stale(path: Path) -> None:
    try:
        found = path.lstat()
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(found.st_mode):
        raise OSError(errno.EEXIST, f"cannot listen on {path}: it exists and is no socket; move it away")
    probe = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    with probe:
        probe.settimeout(0)
        try:
            probe.connect(str(path))
        except BlockingIOError:
            pass  # its backlog is full: somebody is there
        except OSError:
            with suppress(FileNotFoundError):
                path.unlink()
            return
    raise OSError(errno.EADDRINUSE, f"cannot listen on {path}: another daemon answers there; stop it first")
