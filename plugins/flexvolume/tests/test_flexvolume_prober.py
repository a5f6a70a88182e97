"""Finding drivers in a real directory, by real inotify: each way to install one, and every race."""

from __future__ import annotations

import os
import queue
import random
import shutil
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from volmgr.errors import UnservedError
from volmgr.host.local import local_host
from volmgr.plugin import Attachable, DriverInfo, OperationError, Searched, VolumePlugin, watch_directories
from volmgr.plugins import Plugins
from volmgr_flexvolume.ground import Ground
from volmgr_flexvolume.prober import Prober
from volmgr_flexvolume.source import FlexVolumeSettings

if TYPE_CHECKING:
    from volmgr.plugin import Watches

PATIENCE = 60.0
GOOD = """#!/bin/sh
echo '{"status": "Success", "capabilities": {"attach": false}}'
"""
ATTACHES = """#!/bin/sh
echo '{"status": "Success"}'
"""
HANGS = """#!/bin/sh
sleep 1000
"""


class Registry:
    """Where the prober says which drivers there are; a test waits here for what it expects."""

    def __init__(self) -> None:
        self.there: dict[str, VolumePlugin[Any]] = {}
        self.log: list[str] = []
        self.searched = Searched(field="flexVolume")
        self.blocked = threading.Event()
        self.blocked.set()
        self._changed = threading.Condition()

    def register(self, plugin: VolumePlugin[Any]) -> None:
        with self._changed:
            self.there[plugin.name] = plugin
            self.log.append(f"+{plugin.name}")
            self._changed.notify_all()
        self.blocked.wait(PATIENCE)

    def retire(self, name: str) -> None:
        with self._changed:
            del self.there[name]
            self.log.append(f"-{name}")
            self._changed.notify_all()

    def declare(self, info: DriverInfo) -> None:
        raise AssertionError(f"{info.name}: each driver of flexVolume is a type of its own")

    def withdraw(self, name: str) -> None:
        raise AssertionError(f"{name}: each driver of flexVolume is a type of its own")

    def report(self, searched: Searched) -> None:
        with self._changed:
            self.searched = searched
            self._changed.notify_all()

    def await_that(self, holds: Callable[[Registry], bool]) -> None:
        with self._changed:
            end = time.monotonic() + PATIENCE
            while not holds(self):
                assert time.monotonic() < end, f"{self.log} {self.searched}"
                self._changed.wait(0.05)  # what lies on the disk is not announced

    def await_drivers(self, *names: str) -> None:
        self.await_that(lambda registry: set(registry.there) == set(names))

    def await_misfit(self, name: str, text: str) -> None:
        self.await_that(lambda registry: text in registry.searched.misfits.get(name, ""))


class Site:
    """A directory of drivers, and the prober that watches it."""

    def __init__(self, top: Path, **settings: float) -> None:
        self.top = top
        self.flex = top / "flex/exec"
        self.settings = FlexVolumeSettings(flex_dir=str(self.flex), **settings)
        self.registry = Registry()

    @contextmanager
    def watched(self, open_watches: Callable[[], Watches] = watch_directories) -> Generator[Registry]:
        host = local_host(self.top / "root")
        prober = Prober(self.registry, host, self.settings, open_watches=open_watches)
        prober.start()
        try:
            yield self.registry
        finally:
            self.registry.blocked.set()
            prober.stop()

    def place(self, name: str) -> Path:
        """Give where the executable of `vendor/driver` lies."""
        return self.flex / name.replace("/", "~") / name.rpartition("/")[2]

    def install(self, name: str, text: str = GOOD) -> Path:
        """Install a driver as one should: under a dot-name first, then renamed."""
        path = self.place(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_name(f".{path.name}")
        draft.write_text(text)
        draft.chmod(0o755)
        draft.rename(path)
        return path


def remove(tree: Path) -> None:
    """Remove a tree as an owner does, who may find it gone."""
    shutil.rmtree(tree, ignore_errors=True)  # noqa: TID251 - whoever uninstalls a driver asks no host


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def test_a_missing_directory_is_made(site: Site) -> None:
    with site.watched() as registry:
        registry.await_that(lambda _: site.flex.is_dir())
        assert site.flex.stat().st_mode & 0o7777 == 0o755
        registry.await_that(lambda registry: registry.searched.places == (str(site.flex),))


def test_a_driver_that_is_there_at_the_start_is_one_event_and_then_none(site: Site) -> None:
    site.install("example.com/old")
    with site.watched() as registry:
        registry.await_drivers("example.com/old")
        site.install("example.com/new", ATTACHES)
        registry.await_drivers("example.com/old", "example.com/new")
        assert isinstance(registry.there["example.com/new"], Attachable)
        remove(site.place("example.com/new").parent)
        registry.await_drivers("example.com/old")
        assert registry.log == ["+example.com/old", "+example.com/new", "-example.com/new"]


@pytest.mark.parametrize("whole", [True, False], ids=["the directory", "the executable"])
def test_what_is_removed_is_retired_and_found_when_it_returns(site: Site, whole: bool) -> None:
    with site.watched() as registry:
        path = site.install("example.com/disk")
        registry.await_drivers("example.com/disk")
        if whole:
            remove(path.parent)
        else:
            path.unlink()
        registry.await_drivers()
        site.install("example.com/disk")
        registry.await_drivers("example.com/disk")


def test_a_driver_that_is_replaced_is_asked_again(site: Site) -> None:
    with site.watched() as registry:
        site.install("example.com/disk")
        registry.await_drivers("example.com/disk")
        site.install("example.com/disk", ATTACHES)
        registry.await_that(lambda registry: isinstance(registry.there.get("example.com/disk"), Attachable))
        assert registry.log == ["+example.com/disk", "+example.com/disk"]


def test_dot_files_are_never_executed(site: Site) -> None:
    witness = f"#!/bin/sh\ntouch {site.top}/executed\n"
    for path in (site.flex / "example.com~disk/.disk", site.flex / ".example.com~disk/disk"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(witness)
        path.chmod(0o755)
    with site.watched() as registry:
        (site.flex / "example.com~disk/.disk").write_text(witness)
        site.install("example.com/last")
        registry.await_drivers("example.com/last")
    assert not (site.top / "executed").exists()


def test_chmod_makes_it_a_driver_and_takes_that_back(site: Site) -> None:
    with site.watched() as registry:
        path = site.place("example.com/disk")
        registry.await_that(lambda _: site.flex.is_dir())
        path.parent.mkdir()
        path.write_text(GOOD)
        registry.await_misfit("example.com/disk", f"make it so: chmod +x {path}")
        path.chmod(0o755)
        registry.await_drivers("example.com/disk")
        path.chmod(0o644)
        registry.await_drivers()


def test_a_removed_directory_is_made_again_and_watched(site: Site) -> None:
    with site.watched() as registry:
        site.install("example.com/disk")
        registry.await_drivers("example.com/disk")
        for gone in (site.flex, site.flex.parent):
            remove(gone)
            registry.await_drivers()
            registry.await_that(lambda _: site.flex.is_dir())
            assert site.flex.stat().st_mode & 0o7777 == 0o755
            site.install("example.com/disk")
            registry.await_drivers("example.com/disk")


def test_a_directory_that_is_removed_while_it_is_made_is_made_again(tmp_path: Path) -> None:
    ground = Ground(str(tmp_path / "above/exec"), watch_directories)
    turns: queue.Queue[bool] = queue.Queue(8)

    def remove_once_each_turn() -> None:
        while turns.get():
            for directory in (tmp_path / "above/exec", tmp_path / "above"):
                with suppress(OSError):
                    directory.rmdir()

    vandal = threading.Thread(target=remove_once_each_turn)
    vandal.start()
    try:
        for _ in range(500):
            turns.put(True)
            assert ground.make() == ""
    finally:
        turns.put(False)
        vandal.join()


def test_a_directory_that_is_exchanged_is_the_new_one(site: Site) -> None:
    site.install("example.com/old")
    with site.watched() as registry:
        registry.await_drivers("example.com/old")
        other = Site(site.top / "other")
        other.install("example.com/new")
        site.flex.rename(site.top / "moved")
        registry.await_drivers()
        registry.await_that(lambda _: site.flex.is_dir())
        other.flex.rename(site.flex)  # over the empty one that was made: at once, or it would be made again between
        registry.await_drivers("example.com/new")


def test_a_directory_by_way_of_a_link_is_watched_where_it_leads(site: Site) -> None:
    real = Site(site.top / "real")
    real.install("example.com/disk")
    site.flex.parent.mkdir()
    site.flex.symlink_to(real.flex)
    vendor = site.top / "opt/x"
    vendor.mkdir(parents=True)
    (site.flex / "example.com~linked").symlink_to(vendor)
    with site.watched() as registry:
        registry.await_drivers("example.com/disk")
        (vendor / "linked").write_text(GOOD)
        (vendor / "linked").chmod(0o755)
        registry.await_drivers("example.com/disk", "example.com/linked")


def test_a_driver_that_is_copied_in_place_slowly_is_found_when_it_is_whole(site: Site) -> None:
    text = GOOD + "#" * 65_536 + "\n"
    with site.watched() as registry:
        registry.await_that(lambda _: site.flex.is_dir())
        path = site.place("example.com/disk")
        path.parent.mkdir()
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT, 0o755), "w", buffering=1) as file:
            for start in range(0, len(text), 1024):
                file.write(text[start : start + 1024])
                file.flush()
                site.install("example.com/beside", GOOD + f"# {start}\n")
        registry.await_drivers("example.com/disk", "example.com/beside")
    assert registry.log.count("+example.com/disk") == 1


def test_a_driver_that_is_copied_slowly_under_a_dot_name_is_asked_once_and_as_itself(site: Site) -> None:
    text = f'#!/bin/sh\necho "$0" >> {site.top}/asked\n{GOOD}' + "#" * 65_536 + "\n"
    with site.watched() as registry:
        registry.await_that(lambda _: site.flex.is_dir())
        path = site.place("example.com/disk")
        path.parent.mkdir()
        draft = path.with_name(".disk")
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT, 0o755), "w", buffering=1) as file:
            for start in range(0, len(text), 1024):
                file.write(text[start : start + 1024])
                file.flush()
        site.install("example.com/beside")
        registry.await_drivers("example.com/beside")
        draft.rename(path)
        registry.await_drivers("example.com/disk", "example.com/beside")
        assert registry.log == ["+example.com/beside", "+example.com/disk"]
    assert (site.top / "asked").read_text().split() == [str(path)]


def test_an_init_that_failed_is_tried_again_on_the_next_change(site: Site) -> None:
    with site.watched() as registry:
        needy = f"#!/bin/sh\n. {site.flex}/example.com~disk/lib/answer\n"
        path = site.install("example.com/disk", needy)
        registry.await_misfit("example.com/disk", "was found and is not ready: init of driver example.com/disk exited")
        (path.parent / "lib").mkdir()
        (path.parent / "lib/answer").write_text(GOOD)
        registry.await_drivers("example.com/disk")
        registry.await_that(lambda registry: not registry.searched.misfits)


def test_a_driver_that_fails_and_writes_beside_itself_is_not_asked_without_end(site: Site) -> None:
    noisy = '#!/bin/sh\necho asked >>"$(dirname "$0")/log"\n'
    with site.watched() as registry:
        path = site.install("example.com/noisy", noisy)
        registry.await_misfit("example.com/noisy", "not ready")
        for number in range(20):
            site.install(f"example.com/n{number}")
        registry.await_that(lambda registry: len(registry.there) == 20)
        assert len((path.parent / "log").read_text().split()) < 10


def test_four_drivers_at_once_are_found_beside_one_that_hangs(site: Site) -> None:
    names = [f"example.com/d{number}" for number in range(4)]
    with site.watched() as registry:
        registry.await_that(lambda _: site.flex.is_dir())
        site.install("example.com/hangs", HANGS)
        threads = [threading.Thread(target=site.install, args=(name,)) for name in names]
        for thread in threads:
            thread.start()
        registry.await_drivers(*names)
        for thread in threads:
            thread.join()


def test_an_init_that_hangs_is_killed_at_its_deadline_with_its_children(tmp_path: Path) -> None:
    site = Site(tmp_path, init_deadline=0.2)
    with site.watched() as registry:
        site.install("example.com/hangs", HANGS)
        registry.await_misfit("example.com/hangs", "did not end before its deadline and was killed")


def test_what_is_no_driver_says_what_would_make_it_one(site: Site) -> None:
    (site.flex / "example.com~empty").mkdir(parents=True)
    (site.flex / "example.com~disk").mkdir()
    (site.flex / "example.com~disk/other").write_text(GOOD)
    (site.flex / "a~b~c").mkdir()
    (site.flex / "example.com~stray").write_text(GOOD)
    (site.flex / "example.com~dir/dir").mkdir(parents=True)
    with site.watched() as registry:
        registry.await_misfit("example.com/disk", f"has no executable disk (there is other); install it as {site.flex}")
        registry.await_misfit("example.com/empty", "(it is empty)")
        registry.await_misfit("a/b/c", "name it vendor~driver")
        registry.await_misfit("example.com/stray", f"is installed as {site.flex}/example.com~stray/stray")
        registry.await_misfit("example.com/dir", "is no file")
        assert registry.there == {}


def test_who_asks_in_vain_is_told_where_it_was_looked_for_and_what_is_near(site: Site) -> None:
    (site.flex / "example.com~disk").mkdir(parents=True)
    (site.flex / "example.com~disk/other").write_text(GOOD)
    plugins = Plugins()
    with site.watched() as registry:
        registry.await_misfit("example.com/disk", "there is other")
    plugins.searched["flexVolume"] = registry.searched
    for asked in ("example.com/disk", "vendor.org/disk", "example.com/dsik"):
        with pytest.raises(UnservedError, match=f"looked in {site.flex}") as error:
            plugins.find("flexVolume", asked)
        assert "has no executable disk (there is other)" in str(error.value)
    with pytest.raises(UnservedError, match="install its driver there"):
        plugins.find("flexVolume", "nobody.org/zzzz")


def test_a_directory_that_cannot_be_made_is_named_and_found_when_it_is_there(site: Site) -> None:
    site.flex.parent.parent.mkdir(exist_ok=True)
    site.flex.parent.write_text("in the way")
    with site.watched() as registry:
        registry.await_that(lambda registry: "cannot be made" in registry.searched.problem)
        assert "set flex_dir" in registry.searched.problem
        site.flex.parent.unlink()
        registry.await_that(lambda registry: not registry.searched.problem)
        site.install("example.com/disk")
        registry.await_drivers("example.com/disk")


def test_without_inotify_there_are_no_drivers_until_it_is_to_be_had(tmp_path: Path) -> None:
    site = Site(tmp_path, watch_retry=0.05)
    site.install("example.com/disk")
    exhausted = threading.Event()
    exhausted.set()

    def open_watches() -> Watches:
        if exhausted.is_set():
            message = "cannot watch directories: no inotify instance is left"
            raise OperationError(message)
        return watch_directories()

    with site.watched(open_watches) as registry:
        registry.await_that(lambda registry: "no inotify instance is left" in registry.searched.problem)
        assert registry.there == {}
        exhausted.clear()
        registry.await_drivers("example.com/disk")
        registry.await_that(lambda registry: not registry.searched.problem)


def test_after_an_overflow_everything_is_looked_at(site: Site) -> None:
    limit = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
    with site.watched() as registry:
        registry.blocked.clear()
        path = site.install("example.com/first")
        registry.await_drivers("example.com/first")  # and the prober stands still until it may go on
        for number in range(limit // 2 + 1):
            os.utime(path, (number, number))
            os.chmod(path.parent, 0o755 if number % 2 else 0o700)
        path.parent.chmod(0o755)
        site.install("example.com/second")
        remove(path.parent)
        registry.blocked.set()
        registry.await_drivers("example.com/second")


def test_stopping_ends_an_init_that_hangs(site: Site) -> None:
    with site.watched() as registry:
        registry.await_that(lambda _: site.flex.is_dir())
        path = site.install("example.com/hangs", f"#!/bin/sh\necho $$ >{site.top}/pid\nexec sleep 1000\n")
        site.install("example.com/good")
        registry.await_drivers("example.com/good")
        while not (site.top / "pid").exists() or not (site.top / "pid").read_text():
            site.install("example.com/good", GOOD + f"# {path}\n")
    assert not Path("/proc", (site.top / "pid").read_text().strip()).exists()


@pytest.mark.timeout(300)
@pytest.mark.parametrize("seed", range(2))
def test_a_thousand_random_installs_renames_and_removals_end_in_the_right_set(site: Site, seed: int) -> None:
    pick = random.Random(seed)
    names = [f"example.com/{letter}" for letter in "abcdef"]
    with site.watched() as registry:
        registry.await_that(lambda _: site.flex.is_dir())
        for _ in range(1000):
            change(site, pick, names)
        site.flex.mkdir(parents=True, exist_ok=True)
        site.install("example.com/last")
        right = {name for name in names if site.place(name).is_file() and os.access(site.place(name), os.X_OK)}
        registry.await_drivers("example.com/last", *right)
        site.install("example.com/very-last")
        registry.await_drivers("example.com/last", "example.com/very-last", *right)


def change(site: Site, pick: random.Random, names: list[str]) -> None:
    """Do one thing to the directory, as somebody might who knows nothing of the prober."""
    one, other = pick.sample(names, 2)
    path, place = site.place(one), site.place(one).parent
    match pick.randrange(9):
        case 0 | 1 | 2:
            site.install(one, pick.choice((GOOD, ATTACHES)))
        case 3 if path.is_file():
            path.unlink()
        case 4:
            remove(place)
        case 5 if place.is_dir() and not site.place(other).parent.exists():
            place.rename(site.place(other).parent)
            if (site.place(other).parent / path.name).exists():
                (site.place(other).parent / path.name).rename(site.place(other))
        case 6 if path.is_file():
            path.chmod(pick.choice((0o755, 0o644)))
        case 7 if path.is_file():
            path.rename(path.with_name(f".{path.name}"))
        case 8 if pick.random() < 0.1:
            remove(site.flex)
            site.flex.mkdir(parents=True, exist_ok=True)
        case _:
            place.mkdir(parents=True, exist_ok=True)
