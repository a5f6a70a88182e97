"""What the contract suite tries nfs with: exports of a server in memory, read and written, by name and by address."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from volmgr.plugin import Host
from volmgr.testing import FakeHost, Sample
from volmgr_nfs.plugin import NfsSource

_SERVERS = ("10.0.0.1", "fd00::1")


def samples(top: Path) -> Iterator[Sample]:
    """Give exports of servers that every fresh host knows."""
    del top
    for server in _SERVERS:
        yield Sample(source=NfsSource(server=server, path="/srv/data"), arrange=_serve)


def _serve(host: Host) -> None:
    if isinstance(host, FakeHost):
        for source in ("10.0.0.1:/srv/data", "[fd00::1]:/srv/data"):
            host.machine.serve("nfs", source)
