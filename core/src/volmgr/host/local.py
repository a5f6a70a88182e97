"""The real machine as a Host. Needs Linux 5.8."""

from __future__ import annotations

import os
import time
from pathlib import Path

from volmgr.host import mount_table
from volmgr.host.archives import LocalArchives
from volmgr.host.block import LocalBlockDevices
from volmgr.host.commands import LocalCommands
from volmgr.host.files import LocalFiles
from volmgr.host.inquiries import PATIENCE, Inquiries
from volmgr.host.interface import Host
from volmgr.host.kernel import read_kernel
from volmgr.host.mounts import KernelMounts
from volmgr.host.network import LocalNetwork
from volmgr.host.ownership import LocalOwnership
from volmgr.host.paths import Paths
from volmgr.host.scsi import LocalScsi
from volmgr.host.subpaths import LocalSubpaths


def local_host(root: Path, *, look_deadline: float = PATIENCE) -> Host:
    """Give the services of this machine for one root, whose symbolic links are resolved here, once.

    A server that is asked about a path has `look_deadline` seconds to answer.
    """
    paths = Paths(Path(os.path.realpath(root)))
    commands, block = LocalCommands(), LocalBlockDevices()
    inquiries = Inquiries(commands, look_deadline)
    mounts, files = KernelMounts(commands, inquiries), LocalFiles(paths, inquiries)
    return Host(
        paths=paths,
        mounts=mounts,
        files=files,
        commands=commands,
        block=block,
        ownership=LocalOwnership(commands),
        archives=LocalArchives(paths),
        subpaths=LocalSubpaths(paths, files, mounts, inquiries),
        scsi=LocalScsi(commands, block, mounts),
        network=LocalNetwork(),
        kernel=read_kernel(),
        clock=time.monotonic,
    )


def propagation(host: Host) -> tuple[str, ...]:
    """Say how mounts below the root reach other namespaces: `shared:N`, `master:N`; empty is private."""
    entry = mount_table.containing(host.mounts.table(), host.paths.root)
    return () if entry is None else entry.propagation
