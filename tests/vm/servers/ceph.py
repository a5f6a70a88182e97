"""One-node Ceph: a monitor, an OSD in memory, a metadata server, and a CephFS on them."""

from __future__ import annotations

import base64
import json
import os
import shutil
import signal
import struct
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self
from uuid import uuid4

from tests.eventually import eventually
from tests.vm.servers.guest import load, tell

_ETC = Path("/etc/ceph")
_STATE = Path("/var/lib/ceph")
_LOGS = Path("/var/log/ceph")
_MON, _OSD, _MDS = (_STATE / kind for kind in ("mon/ceph-a", "osd/ceph-0", "mds/ceph-a"))
_PLACES = (_ETC, _MON, _OSD, _MDS, Path("/run/ceph"), _LOGS)
_PORT = 6789
_DAEMONS = ("ceph-mds", "ceph-osd", "ceph-mon")
_ALL = "allow *"


class Ceph:
    """The cluster; it takes half a minute until a file system can be mounted. One per session of pytest is enough.

    A kernel mount by hand: `mount -t ceph 127.0.0.1:6789:/ /mnt -o name=admin,secret=KEY`.
    """

    monitor = f"127.0.0.1:{_PORT}"
    """As in a volume's `monitors`; the kernel speaks the first protocol there."""

    def __init__(self, users: Mapping[str, str] | None = None) -> None:
        """`users` of the file system, beside `admin`, with the directory that each may use."""
        self._rights = {
            f"client.{name}": {"mds": f"allow rw path={path}", "mon": "allow r", "osd": "allow rw pool=data"}
            for name, path in (users or {}).items()
        }
        self._keys = {name: _key() for name in (*_RIGHTS, *self._rights)}

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
        self._write_keyrings()
        tell("ceph-mon", "--mkfs", "-i", "a", "--keyring", _ETC / "ceph.mon.keyring")
        tell("ceph-mon", "-i", "a")
        tell("ceph-osd", "-i", "0", "--mkfs", "--osd-uuid", disk, "--no-mon-config")
        with _Monitor() as monitor:
            monitor.tell("osd new", uuid=disk, id=0)
            monitor.tell("osd pool create", pool="meta", pg_num=1)
            monitor.tell("osd pool create", pool="data", pg_num=1)
            monitor.tell("fs new", fs_name="cephfs", metadata="meta", data="data")
            tell("ceph-osd", "-i", "0")
            tell("ceph-mds", "-i", "a")
            eventually(lambda: "up:active" in monitor.tell("mds stat", format="json"), "a metadata server that works")

    def _write_keyrings(self) -> None:
        """Give each its key; ceph-authtool would be a process for each, and those take long here."""
        rings = {name: _keyring(name, self._keys[name], {**_RIGHTS, **self._rights}[name]) for name in self._keys}
        files = {
            _ETC / "ceph.mon.keyring": "".join(rings.values()),  # the monitor's first database
            _ETC / "ceph.client.admin.keyring": rings["client.admin"],
            _OSD / "keyring": rings["osd.0"],
            _MDS / "keyring": rings["mds.a"],
        }
        for file, text in files.items():
            file.touch(0o600)
            file.write_text(text)

    @property
    def key(self) -> str:
        """The secret of the user `admin`."""
        return self.user("admin")

    def user(self, name: str) -> str:
        """Give the secret of a user."""
        return self._keys[f"client.{name}"]

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


class _Monitor:
    """Whom the monitor obeys, without all that the command `ceph` imports and asks first."""

    _SCRIPT = """\
import rados, sys
with rados.Rados(conffile="/etc/ceph/ceph.conf") as cluster:
    for line in sys.stdin:
        code, answer, said = cluster.mon_command(line, b"")
        if code:
            sys.exit(f"{line}: {said}")
        print(answer.decode().replace("\\n", " "), flush=True)
"""

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            ["/usr/bin/python3", "-I", "-c", self._SCRIPT],  # the guest's own, which has the library
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._process as process:
            assert process.stdin is not None
            process.stdin.close()

    def tell(self, prefix: str, **words: str | int) -> str:
        """Give a command, which must succeed, and give the answer."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        print(json.dumps({"prefix": prefix, **words}), file=self._process.stdin, flush=True)
        answer = self._process.stdout.readline()
        assert answer, self._process.stderr.read()
        return answer


def _key() -> str:
    """Make a secret: 16 bytes for AES, of this moment."""
    return base64.b64encode(struct.pack("<HIIH", 1, int(time.time()), 0, 16) + os.urandom(16)).decode()


def _keyring(name: str, key: str, rights: Mapping[str, str]) -> str:
    lines = (f"key = {key}", *(f'caps {each} = "{may}"' for each, may in rights.items()))
    return f"[{name}]\n" + "".join(f"\t{line}\n" for line in lines)


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


_RIGHTS: Mapping[str, Mapping[str, str]] = {
    "mon.": {"mon": _ALL},
    "client.admin": {"mon": _ALL, "osd": _ALL, "mds": _ALL, "mgr": _ALL},
    "osd.0": {"mon": "allow profile osd", "osd": _ALL},
    "mds.a": {"mon": "allow profile mds", "osd": "allow rwx", "mds": "allow"},
}


def _configuration(cluster: str) -> str:
    return f"""\
[global]
fsid = {cluster}
mon_initial_members = a
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
