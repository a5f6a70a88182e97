"""What the contract suite tries cephfs with: a file system that both clients can mount.

In memory the clients are scripts. On a real kernel it needs a cluster at `MONITOR` whose user `admin` has the key in
`/etc/ceph/admin.secret`: `tests/vm/cephfs` starts one.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from volmgr.plugin import CommandResult, Host, ObjectMeta, Secret, SecretReference
from volmgr.testing import FakeHost, Sample
from volmgr_cephfs.clients import FUSE_MARKER
from volmgr_cephfs.settings import CephFsSettings, Client
from volmgr_cephfs.source import CephFsSource

MONITOR = "127.0.0.1:6789"
KEY = base64.b64encode(bytes(range(28))).decode()
_REAL_SECRET = Path("/etc/ceph/admin.secret")


def samples(_top: Path) -> Iterator[Sample]:
    """Give a whole file system, by the file of the node; and, by a Secret, one for readers."""
    kernel, fuse = (CephFsSettings(client=client) for client in (Client.KERNEL, Client.FUSE))
    yield Sample(source=CephFsSource(monitors=(MONITOR,)), settings=(kernel,), arrange=arrange)
    yield Sample(source=CephFsSource(monitors=(MONITOR,)), settings=(fuse,), arrange=arrange_fuse)
    key = _REAL_SECRET.read_bytes() if _REAL_SECRET.exists() else KEY.encode()
    secret = Secret(metadata=ObjectMeta(name="ceph", namespace="default"), data={"key": key})
    source = CephFsSource(monitors=(MONITOR,), secret_ref=SecretReference(name="ceph"), read_only=True)
    yield Sample(source=source, settings=(kernel,), objects=(secret,), arrange=arrange)


def arrange(host: Host) -> None:
    """Have the kernel's client, and the node's secret."""
    if isinstance(host, FakeHost):
        host.mkdir(_REAL_SECRET.parent)
        host.put(_REAL_SECRET, f"{KEY}\n".encode(), 0o600)
        host.machine.serve("ceph", f"{MONITOR}:/")


def arrange_fuse(host: Host) -> None:
    """Have ceph-fuse, too; on a real node it is there or not."""
    arrange(host)
    if isinstance(host, FakeHost):
        host.machine.serve("fuse.ceph-fuse", "ceph-fuse")
        host.programs[FUSE_MARKER] = host.programs["ceph-fuse"] = partial(ceph_fuse, host)


def ceph_fuse(host: FakeHost, argv: tuple[str, ...], _stdin: bytes) -> CommandResult:
    """Do what ceph-fuse does: read its keyring, mount, say so, and stay."""
    keyring, target = Path(argv[argv.index("-k") + 1]), Path(argv[argv.index("-m") + 2])
    options = argv[argv.index("-o") + 1].split(",") if "-o" in argv else ()
    if KEY.encode() not in (host.files.read(keyring) or b""):
        return CommandResult(1, "", "ceph-fuse[7]: ceph mount failed with (1) Operation not permitted\n")
    host.mounts.ensure_mounted(target, "fuse.ceph-fuse", source="ceph-fuse", options=options)
    return CommandResult(0, "", "ceph-fuse[7]: starting ceph client\nceph-fuse[7]: starting fuse\n")
