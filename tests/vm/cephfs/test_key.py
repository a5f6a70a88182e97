"""Where a user's key is: in memory that only root may enter, while a client mounts, and nowhere else at any time."""

from __future__ import annotations

import base64
import os
import stat
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Self

import pytest

from tests.vm.cephfs.node import CephNode, cephfs, secret
from tests.vm.servers.ceph import Ceph

CLIENTS = {"kernel": Path("/sbin/mount.ceph"), "fuse": Path("/usr/bin/ceph-fuse")}


@contextmanager
def watched(client: str, top: Path, key: str) -> Generator[Path]:
    """Have a client look, before it mounts, into which files the key is written; gives where it says so."""
    program, found, words = CLIENTS[client], top / "found", Path("/root/words")
    real = program.with_name(f"{program.name}.real")
    words.write_text(f"{key}\n{base64.b64encode(key.encode()).decode()}\n")
    words.chmod(0o600)
    program.rename(real)
    program.write_text(
        "#!/bin/bash\n"
        f"grep --recursive --files-with-matches --fixed-strings --file={words} --exclude-dir=manifests"
        " --exclude-dir=store.db"  # the monitor's own database of keys
        f" /tmp /run /var/log /var/lib/ceph /var/tmp {top} >> {found}\n"
        f"stat --format='%a %u %n' $(dirname $(grep --max-count=1 /volmgr/ {found})) >> {found}.modes\n"
        f'exec -a {program} {real} "$@"\n'  # it names the type of its mount by its own name
    )
    program.chmod(0o755)
    try:
        yield found
    finally:
        real.replace(program)
        words.unlink()


class Sampler:
    """Looks every few milliseconds at what each process says of itself, and at the mount table, for a text."""

    _PAUSE = 0.01

    def __init__(self, key: str) -> None:
        self._key = key.encode()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look)
        self.seen: set[str] = set()
        self.rounds = 0

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._over.wait(self._PAUSE):
            self.rounds += 1
            for entry in os.listdir("/proc"):
                if entry.isdecimal():
                    self._read(f"/proc/{entry}/cmdline")
                    self._read(f"/proc/{entry}/environ")
            for file in ("/proc/self/mountinfo", "/proc/self/mounts", "/run/mount/utab"):
                self._read(file)

    def _read(self, file: str) -> None:
        try:
            content = Path(file).read_bytes()
        except OSError:  # it ended meanwhile
            return
        if self._key in content:
            self.seen.add(file)


@pytest.mark.parametrize("client", ["kernel", "fuse"])
def test_the_key_is_in_a_private_file_while_a_client_reads_it_and_in_no_option_or_other_file_107(
    node: CephNode, ceph: Ceph, top: Path
) -> None:
    key = ceph.key
    node.put("secret.json", secret(key))
    with watched(node.client, top, key) as found, Sampler(key) as sampler:
        node.mounted_pod("one", cephfs(secretRef={"name": "ceph"}))
        line = node.mounts()[str(node.data("one"))]
        node.restart()
        node.wait("one")
        (node.data("one") / "file").write_text("written")
        node.remove_pod("one")
    assert sampler.seen == set()
    assert sampler.rounds > 1
    assert "secretfile" not in line
    assert ("secret=<hidden>" in line) == (node.client == "kernel")  # the kernel's own word for what it does not show
    places = sorted(set(found.read_text().split()))
    assert len(places) == 1
    place = Path(places[0])
    assert place.parent.parent == node.root / "volmgr/cephfs"
    modes = set(Path(f"{found}.modes").read_text().splitlines())
    assert modes == {f"700 0 {place.parent}"}
    info = place.parent.parent.stat()
    assert (stat.S_IMODE(info.st_mode), info.st_uid) == (0o700, 0)
    assert node.private() == []
    assert key not in node.log_text()
