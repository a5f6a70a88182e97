"""One-node Ceph: a monitor, an OSD in memory, a metadata server, and a CephFS on them."""

from __future__ import annotations

import os
import shutil
import signal
from pathlib import Path
from types import TracebackType
from typing import Self
from uuid import uuid4

from tests.eventually import eventually
from tests.vm.servers.guest import load, tell, until_listening

_ETC = Path("/etc/ceph")
_STATE = Path("/var/lib/ceph")
_LOGS = Path("/var/log/ceph")
_PLACES = (_ETC, _STATE / "mon/ceph-a", _STATE / "osd/ceph-0", _STATE / "mds/ceph-a", Path("/run/ceph"), _LOGS)
_PORT = 6789
_DAEMONS = ("ceph-mds", "ceph-osd", "ceph-mon")


class Ceph:
    """The cluster; it takes half a minute until a file system can be mounted. One per session of pytest is enough.

    A kernel mount by hand: `mount -t ceph 127.0.0.1:6789:/ /mnt -o name=admin,secret=KEY`.
    """

    monitor = f"127.0.0.1:{_PORT}"
    """As in a volume's `monitors`; the kernel speaks the first protocol there."""

    def __enter__(self) -> Self:
        """Start it."""
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop it, and remove what it stored."""
        self.stop()

    def start(self) -> None:
        """Make a cluster with one file system, and wait until it can be mounted; again, it changes nothing."""
        if self.runs():
            return
        for place in _PLACES:
            place.mkdir(parents=True, exist_ok=True)
        cluster, disk = str(uuid4()), str(uuid4())
        (_ETC / "ceph.conf").write_text(_configuration(cluster))
        load("ceph")
        keys = _ETC / "ceph.mon.keyring"
        tell("ceph-authtool", "-C", keys, "--gen-key", "-n", "mon.", "--cap", "mon", "allow *")
        for name, file, rights in _IDENTITIES:
            caps = [word for subject, right in rights for word in ("--cap", subject, right)]
            tell("ceph-authtool", "-C", file, "--gen-key", "-n", name, *caps)
            tell("ceph-authtool", keys, "--import-keyring", file)
        addresses = f"[v2:127.0.0.1:3300,v1:{self.monitor}]"
        monitors = _ETC / "monmap"
        tell("monmaptool", "--create", "--clobber", "--fsid", cluster, "--addv", "a", addresses, monitors)
        tell("ceph-mon", "--mkfs", "-i", "a", "--monmap", monitors, "--keyring", keys)
        tell("ceph-mon", "-i", "a")
        tell("ceph-osd", "-i", "0", "--mkfs", "--osd-uuid", disk, "--no-mon-config")
        # One process for all that is asked of the monitor: each start of the command takes seconds here.
        tell(
            "ceph",
            "--connect-timeout",
            "60",
            text=f"osd new {disk} 0\nosd pool create meta 4 4\nosd pool create data 4 4\nfs new cephfs meta data\n",
        )
        tell("ceph-osd", "-i", "0")
        tell("ceph-mds", "-i", "a")
        until_listening(_PORT)
        self._until_mountable()

    def _until_mountable(self) -> None:
        place = Path("/run/ceph/mounted")
        place.mkdir(exist_ok=True)
        eventually(lambda: _mounts(f"{self.monitor}:/", place, f"name=admin,secret={self.key}"), "a CephFS that mounts")
        tell("umount", place)
        place.rmdir()

    @property
    def key(self) -> str:
        """The secret of the user `admin`."""
        return tell("ceph-authtool", "-p", "-n", "client.admin", _ETC / "ceph.client.admin.keyring").strip()

    def user(self, name: str, path: str = "/") -> str:
        """Let there be one more user, who may use a directory, and give the secret."""
        rights = ("mds", f"allow rw path={path}", "mon", "allow r", "osd", "allow rw pool=data")
        return tell("ceph", "--connect-timeout", "60", "auth", "get-or-create-key", f"client.{name}", *rights).strip()

    def runs(self) -> bool:
        """Tell whether all three daemons run."""
        return all(_pids(name) for name in _DAEMONS)

    def pause_monitor(self) -> None:
        """Let the monitor answer nothing: what is mounted works on, and nothing more can be mounted."""
        _signal(signal.SIGSTOP, "ceph-mon")

    def pause(self) -> None:
        """Let the whole cluster answer nothing: whoever uses what is mounted waits in the kernel."""
        _signal(signal.SIGSTOP, *_DAEMONS)

    def resume(self) -> None:
        """Let all answer again."""
        _signal(signal.SIGCONT, *reversed(_DAEMONS))

    def stop(self) -> None:
        """End it, and remove what it stored; again, it changes nothing. Unmount before."""
        _signal(signal.SIGKILL, *_DAEMONS)
        eventually(lambda: not any(_pids(name) for name in _DAEMONS), "the end of ceph's daemons")
        for place in _PLACES:
            shutil.rmtree(place, ignore_errors=True)


def _mounts(source: str, place: Path, options: str) -> bool:
    try:
        tell("mount", "-t", "ceph", source, place, "-o", options)
    except AssertionError:
        return False
    return True


def _pids(name: str) -> list[int]:
    """Give the processes with a name; those that have ended and nobody waited for are none."""
    found: list[int] = []
    for entry in os.listdir("/proc"):
        if entry.isdecimal():
            try:
                words = Path(f"/proc/{entry}/stat").read_text()
            except OSError:  # it ended meanwhile
                continue
            if f"({name})" in words and words.rpartition(")")[2].split()[0] != "Z":
                found.append(int(entry))
    return found


def _signal(number: signal.Signals, *names: str) -> None:
    for name in names:
        for pid in _pids(name):
            os.kill(pid, number)


_ADMIN = ("client.admin", _ETC / "ceph.client.admin.keyring")
_IDENTITIES = (
    (*_ADMIN, (("mon", "allow *"), ("osd", "allow *"), ("mds", "allow *"), ("mgr", "allow *"))),
    ("osd.0", _STATE / "osd/ceph-0/keyring", (("mon", "allow profile osd"), ("osd", "allow *"))),
    (
        "mds.a",
        _STATE / "mds/ceph-a/keyring",
        (("mon", "allow profile mds"), ("osd", "allow rwx"), ("mds", "allow")),
    ),
)


def _configuration(cluster: str) -> str:
    return f"""\
[global]
fsid = {cluster}
mon_host = [v2:127.0.0.1:3300,v1:127.0.0.1:{_PORT}]
public_addr = 127.0.0.1
osd_pool_default_size = 1
osd_pool_default_min_size = 1
osd_crush_chooseleaf_type = 0
mon_allow_pool_size_one = true
osd_objectstore = memstore
memstore_device_bytes = 1073741824
osd_class_load_list = *
osd_class_default_list = *
mon_data_avail_crit = 1
mds_cache_memory_limit = 67108864
osd_memory_target = 939524096
log_file = /var/log/ceph/$name.log
"""
