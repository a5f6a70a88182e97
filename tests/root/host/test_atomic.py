"""Files that are replaced at once on a real kernel: who watches never opens what is not there, nor half of it."""

from __future__ import annotations

import ctypes
import os
import stat
import struct
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from volmgr.host.interface import Host
from volmgr.model.payload import PayloadFile

pytestmark = pytest.mark.root

_libc = ctypes.CDLL(None, use_errno=True)
_CREATE, _MOVED_TO = 0x100, 0x80
_EVENT = struct.Struct("iIII")


class Watcher:
    """Opens each link as soon as the kernel tells of it, as programs do that wait for their configuration."""

    def __init__(self) -> None:
        self.inotify = _libc.inotify_init1(os.O_CLOEXEC)
        assert self.inotify >= 0
        self.places: dict[int, Path] = {}
        self.opened: list[int] = []
        """The modes of the files that were opened."""
        self.failed: list[str] = []

    def add(self, path: Path) -> None:
        watch = _libc.inotify_add_watch(self.inotify, os.fsencode(path), _CREATE | _MOVED_TO)
        assert watch >= 0
        self.places[watch] = path

    def run(self) -> None:
        while events := os.read(self.inotify, 1 << 16):
            at = 0
            while at < len(events):
                watch, _mask, _cookie, length = _EVENT.unpack_from(events, at)
                name = events[at + _EVENT.size :][:length].rstrip(b"\0").decode()
                at += _EVENT.size + length
                if name == "end":
                    return
                if not name.startswith("..") or name == "..data":
                    self.open(self.places[watch] / name)

    def open(self, path: Path) -> None:
        try:
            descriptor = os.open(path, os.O_RDONLY)
        except OSError as error:
            self.failed.append(f"{path}: {error}")
            return
        found = os.fstat(descriptor)
        if stat.S_ISREG(found.st_mode):
            self.opened.append(stat.S_IMODE(found.st_mode))
        os.close(descriptor)


@contextmanager
def watching(top: Path) -> Generator[Watcher]:
    """Watch until the end of the block, and hear all that was told by then."""
    watcher = Watcher()
    watcher.add(top)
    thread = threading.Thread(target=watcher.run)
    thread.start()
    try:
        yield watcher
    finally:
        (top / "end").touch()
        thread.join()
        os.close(watcher.inotify)


def test_a_thousand_first_writes_show_no_watcher_a_link_that_leads_nowhere(host: Host, root: Path) -> None:
    payload = {"key": PayloadFile(data=b"value", mode=0o640), "dir/file": PayloadFile(data=b"", mode=0o600)}
    with watching(root) as watcher:
        for number in range(1000):
            volume = root / f"v{number}"
            volume.mkdir()
            watcher.add(volume)
            host.atomic.write(volume, payload)
    assert watcher.failed == []
    assert watcher.opened == [0o640] * 1000


def test_a_reader_finds_old_or_new_content_whole_and_never_nothing(host: Host, target: Path) -> None:
    size, versions, stop, wrong = 1 << 16, b"abcdef", threading.Event(), list[bytes]()

    def read() -> None:
        while not stop.is_set():
            found = (target / "key").read_bytes()
            if len(found) != size or found.count(found[:1]) != size:
                wrong.append(found[:20])

    def write(version: int) -> None:
        host.atomic.write(target, {"key": PayloadFile(data=bytes([version]) * size, mode=0o644)})

    write(versions[0])
    reader = threading.Thread(target=read)
    reader.start()
    for _ in range(50):
        for version in versions:
            write(version)
    stop.set()
    reader.join()
    assert wrong == []


def test_modes_and_owners_are_exact_whatever_the_umask_is(host: Host, target: Path) -> None:
    before = os.umask(0o077)
    try:
        host.atomic.write(target, {"d/f": PayloadFile(data=b"x", mode=0o666, uid=1234, gid=4321)})
    finally:
        os.umask(before)
    found = (target / "d/f").stat()
    assert (stat.S_IMODE(found.st_mode), found.st_uid, found.st_gid) == (0o666, 1234, 4321)
    assert stat.S_IMODE((target / "d").stat().st_mode) == 0o755
    assert stat.S_IMODE((target / "..data/").stat().st_mode) == 0o755


@pytest.mark.parametrize("kind", ["fifo", "link", "directory", "device"])
def test_what_took_a_file_s_place_is_neither_opened_nor_followed_but_replaced(
    host: Host, target: Path, tmp_path: Path, kind: str
) -> None:
    payload = {"key": PayloadFile(data=b"value", mode=0o644)}
    outside = tmp_path / "outside"
    outside.write_bytes(b"value")
    outside.chmod(0o644)
    host.atomic.write(target, payload)
    place = target / "..data" / "key"
    place.unlink()
    if kind == "fifo":
        os.mkfifo(place, 0o644)
    elif kind == "device":
        os.mknod(place, stat.S_IFCHR | 0o644, os.makedev(240, 77))  # of no driver: opening it is an error
    elif kind == "link":
        place.symlink_to(outside)
    else:
        place.mkdir()
    assert host.atomic.write(target, payload) is True
    assert (target / "key").read_bytes() == b"value"
    assert outside.read_bytes() == b"value"


@pytest.mark.usefixtures("descriptors")
def test_no_descriptor_is_left_open(host: Host, target: Path) -> None:
    for number in range(3):
        host.atomic.write(target, {"a/b": PayloadFile(data=b"x" * number, mode=0o644)})
        host.atomic.write(target, {"a/b": PayloadFile(data=b"x" * number, mode=0o644)})
