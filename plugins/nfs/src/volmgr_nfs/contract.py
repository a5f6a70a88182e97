"""What the contract suite tries nfs with: exports of a server in memory, and of the kernel's server of this machine.

On a real host a server must run (`rpc.nfsd 8; rpc.mountd`); `/srv/volmgr-contract` is exported, and emptied each time.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from volmgr.plugin import Host
from volmgr.testing import FakeHost, Sample
from volmgr_nfs.plugin import NfsSource

_SERVERS = {"127.0.0.1": "127.0.0.1", "::1": "[::1]"}
_EXPORT = Path("/srv/volmgr-contract")
_EXPORTED = Path("/var/lib/nfs/etab")
_HOW = "rw,no_root_squash,no_subtree_check,insecure"
# Two mounts of one export share what they remember of it, and would show files that an earlier test had.
_OPTIONS = ("nosharecache",)


def samples(top: Path) -> Iterator[Sample]:
    """Give an export by both kinds of addresses."""
    del top
    for server in _SERVERS:
        source = NfsSource(server=server, path=str(_EXPORT))
        yield Sample(source=source, arrange=_serve, spec={"mount_options": _OPTIONS})


def _serve(host: Host) -> None:
    """Let an empty directory be exported."""
    if isinstance(host, FakeHost):
        for server in _SERVERS.values():
            host.machine.serve("nfs", f"{server}:{_EXPORT}")
        return
    host.files.ensure_directory(_EXPORT, 0o755)
    for name in host.files.names(_EXPORT):
        host.files.remove_tree(_EXPORT / name)
    if f"{_EXPORT}\t" not in (host.files.read(_EXPORTED) or b"").decode():
        host.commands.run(("exportfs", "-o", _HOW, f"*:{_EXPORT}"))
