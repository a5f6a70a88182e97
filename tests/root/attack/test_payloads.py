"""A container that plays with the links of its ConfigMap on disk while it changes: nothing outside is ever touched."""

from __future__ import annotations

import os
import random
import threading
from contextlib import suppress
from pathlib import Path

from volmgr.errors import VolmgrError
from volmgr.host.interface import Host
from volmgr.plugin import ConfigMap, ObjectMeta, ObjectRef
from volmgr.testing import Volume
from volmgr_configmap.plugin import ConfigMapSource, ConfigMapVolume

REF = ObjectRef("ConfigMap", "default", "settings")
GROUP = 4711
ROUNDS = 500


def settings(version: str) -> Volume:
    found = ConfigMap(metadata=ObjectMeta(name="settings"), data={"file": version, "other": version})
    return Volume(ConfigMapVolume(), ConfigMapSource(name="settings"), objects={REF: found})


class Container:
    """Root in a container that has only the volume: each move is one that a mount of it allows."""

    def __init__(self, top: Path, outside: Path) -> None:
        self._top = top
        self._outside = outside
        self._random = random.Random(4)
        self.over = threading.Event()

    def run(self) -> None:
        moves = (self._lead_out, self._replace_stamp, self._replace_file, self._spoil, self._remove)
        while not self.over.is_set():
            with suppress(OSError):
                self._random.choice(moves)()

    def _stamp(self) -> Path:
        return self._top / Path(os.readlink(self._top / "..data")).name

    def _link(self, path: Path, target: Path | str) -> None:
        draft = self._top / "draft"
        draft.unlink(missing_ok=True)
        draft.symlink_to(target)
        draft.rename(path)

    def _lead_out(self) -> None:
        self._link(self._top / self._random.choice(("..data", "..data_tmp", "file")), self._outside)

    def _replace_stamp(self) -> None:
        stamp = self._stamp()
        stamp.rename(self._top / "taken")
        stamp.symlink_to(self._outside)

    def _replace_file(self) -> None:
        directory = os.open(self._stamp(), os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            os.unlink("file", dir_fd=directory)
            os.symlink(self._outside / "file", "file", dir_fd=directory)
        finally:
            os.close(directory)

    def _spoil(self) -> None:
        os.mkfifo(self._top / "..2026_01_02_03_04_05.6")  # of the scheme by its name, and nothing that we made

    def _remove(self) -> None:
        (self._top / self._random.choice(("..data", "..data_tmp", "other"))).unlink()


def test_links_that_move_while_a_config_map_changes_lead_nowhere_and_the_next_change_is_whole(
    host: Host, outside: Path
) -> None:
    of = settings("0")
    of.mount(host, fs_group=GROUP)
    top = of.target(host)
    inode = top.stat().st_ino
    before = (outside.stat(), (outside / "file").stat())
    container = Container(top, outside)
    thread = threading.Thread(target=container.run)
    thread.start()
    for number in range(ROUNDS):
        with suppress(VolmgrError):
            settings(str(number)).mount(host, remount=True, fs_group=GROUP)
    container.over.set()
    thread.join()
    settings("last").mount(host, remount=True, fs_group=GROUP)
    assert {name: (top / name).read_text() for name in ("file", "other")} == {"file": "last", "other": "last"}
    assert [name for name in os.listdir(top) if name.startswith("..2")] == [os.readlink(top / "..data")]
    assert top.stat().st_ino == inode, "what the container has mounted would be cut off"
    of.unmount(host)
    assert (outside / "file").read_text() == "of a user"
    for old, path in zip(before, (outside, outside / "file"), strict=True):
        assert (old.st_mode, old.st_gid, old.st_mtime_ns) == (
            path.stat().st_mode,
            path.stat().st_gid,
            path.stat().st_mtime_ns,
        )
