"""A real volmgrd with flexVolume drivers that come and go while their volumes are mounted."""

import json
import os
import select
import shutil
import signal
import sys
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.live_node import PATIENCE, LiveNode
from volmgr.cli.client import Client

DRIVERS = Path(__file__).parents[3] / "plugins/flexvolume/tests/drivers"


class FlexNode(LiveNode):
    """A daemon that looks for drivers in a directory of the test's own."""

    def __init__(self, top: Path, **options: object) -> None:
        self.flex = top / "flex"
        config = top / "config.yaml"
        settings = {"kubernetes.io/flexvolume": {"flex_dir": str(self.flex)}}
        config.write_text(json.dumps({**options, "plugins": settings}))
        super().__init__(Path(sys.executable), top, "--config", str(config))

    def install(self, driver: str) -> Path:
        """Install an example driver as one should: its copy is renamed when it is whole."""
        place = self.flex / f"example.com~{driver}"
        place.mkdir(parents=True, exist_ok=True)
        draft = place / f".{driver}"
        shutil.copy(DRIVERS / driver, draft)
        draft.rename(place / driver)
        return place / driver

    def put_flex(self, name: str, driver: str, **source: object) -> None:
        self.put(name, {"flexVolume": {"driver": f"example.com/{driver}", **source}})

    def place(self, name: str, driver: str) -> Path:
        return self.volume(name, f"example.com/{driver}")

    def types(self) -> set[str]:
        return {each["name"] for each in json.loads(self.tell("plugins", "-o", "json"))["types"]}

    def follow(self, tells: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """Give the first event, old or new, that tells something."""
        client = Client(str(self.socket))
        watchdog = threading.Timer(PATIENCE, client.close)
        watchdog.start()
        try:
            return next(event for line in client.follow() if tells(event := json.loads(line)))
        finally:
            watchdog.cancel()
            client.close()

    def await_event(self, reason: str, text: str, count: int = 1) -> None:
        """Wait until the daemon has said something so many times."""
        seen: list[int] = []

        def tells(event: dict[str, Any]) -> bool:
            if event["reason"] == reason and text in event["message"]:
                seen.append(1)
            return len(seen) >= count

        self.follow(tells)


@pytest.fixture
def node(tmp_path: Path) -> Iterator[FlexNode]:
    with flex_node(tmp_path) as node:
        yield node


@contextmanager
def flex_node(top: Path, **options: object) -> Generator[FlexNode]:
    try:
        with FlexNode(top, **options) as node:
            yield node
    finally:
        end_drivers(top / "flex")


def end_drivers(flex: Path) -> None:
    """End the drivers that outlived their daemon, each with its children: it leads a process group."""
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            words = (process / "cmdline").read_bytes().split(b"\0")
            if len(words) > 1 and words[1].startswith(os.fsencode(flex)):  # after the shell
                os.killpg(int(process.name), signal.SIGKILL)


def test_a_pod_that_came_before_its_driver_is_told_where_it_is_looked_for_and_mounted_when_it_comes(
    node: FlexNode,
) -> None:
    (node.flex / "example.com~tmpfs").mkdir(parents=True, exist_ok=True)
    (node.flex / "example.com~tmpfs/other").write_text("#!/bin/sh\n")
    node.put_flex("web", "tmpfs", options={"size": "128k"})
    why = node.await_why("web", "has no executable tmpfs (there is other)")
    assert f"looked in {node.flex}" in why
    assert node.run("wait", "web", "--for", "mounted", "--timeout", "0s").returncode != 0
    node.install("tmpfs")
    node.tell("wait", "web", "--for", "mounted")
    assert os.path.ismount(node.place("web", "tmpfs"))
    assert "example.com/tmpfs" in node.types()


def test_a_driver_that_vanishes_takes_no_volume_with_it_and_is_waited_for_by_name(node: FlexNode) -> None:
    executable = node.install("tmpfs")
    node.put_flex("web", "tmpfs")
    node.tell("wait", "web", "--for", "mounted")
    before = node.mount_ids()
    shutil.rmtree(executable.parent)
    node.await_event("DriverVanished", "example.com/tmpfs")
    assert node.mount_ids() == before
    node.remove("web")
    node.await_event("FailedUnmount", "driver example.com/tmpfs is gone")
    why = node.run("why", "uid-web").stdout
    assert "install it again" in why
    assert node.mount_ids() == before
    node.install("tmpfs")
    node.tell("wait", "uid-web", "--for", "unmounted")
    assert not node.place("web", "tmpfs").exists()


def test_what_a_vanished_driver_did_not_support_is_undone_without_it_and_the_rest_waits(node: FlexNode) -> None:
    file = node.top / "disk.img"
    with file.open("wb") as opened:
        opened.truncate(16 << 20)
    executable = node.install("loopfile")
    noted = executable.parent / ".attached/v"
    for name in ("first", "second"):  # after the first it is known what the driver does not support
        node.put_flex(name, "loopfile", options={"file": str(file)})
        node.tell("wait", name, "--for", "mounted")
        if name == "first":
            node.remove(name)
            node.tell("wait", f"uid-{name}", "--for", "unmounted")
            while noted.exists():
                node.tell("status")
    executable.unlink()
    node.await_event("DriverVanished", "example.com/loopfile")
    node.remove("second")
    node.tell("wait", "uid-second", "--for", "unmounted")
    node.await_event("FailedDetachVolume", "driver example.com/loopfile is gone")
    assert node.mount_ids() == {}
    assert noted.exists()
    node.install("loopfile")
    while noted.exists():
        node.tell("status")


def test_volumes_are_found_again_by_a_daemon_that_starts_before_their_driver(node: FlexNode) -> None:
    executable = node.install("tmpfs")
    node.put_flex("web", "tmpfs")
    node.tell("wait", "web", "--for", "mounted")
    before = node.mount_ids()
    node.kill()
    shutil.rmtree(executable.parent)
    node.start()
    assert node.mount_ids() == before
    node.remove("web")
    node.install("tmpfs")
    node.tell("wait", "uid-web", "--for", "unmounted")
    assert node.mount_ids() == {}


def test_a_disk_of_a_driver_survives_a_restart_and_is_given_back(node: FlexNode) -> None:
    file = node.top / "disk.img"
    with file.open("wb") as opened:
        opened.truncate(16 << 20)
    node.install("loopfile")
    node.put_flex("web", "loopfile", options={"file": str(file)})
    node.tell("wait", "web", "--for", "mounted")
    (node.place("web", "loopfile") / "file").write_text("kept")
    before = node.mount_ids()
    assert str(node.root / "plugins/kubernetes.io/flexvolume/example.com/loopfile/mounts/v") in before
    node.kill()
    node.start()
    node.tell("wait", "web", "--for", "mounted")
    assert node.mount_ids() == before
    node.remove("web")
    node.tell("wait", "uid-web", "--for", "unmounted")
    noted = node.flex / "example.com~loopfile/.attached/v"
    while noted.exists():  # detaching comes after what a client waits for
        node.tell("status")


def test_a_driver_that_hangs_keeps_no_other_waiting(node: FlexNode) -> None:
    for driver in ("hangs", "tmpfs", "nothing", "lies"):
        node.install(driver)
    node.put_flex("stuck", "hangs")
    node.put_flex("web", "tmpfs")
    node.tell("wait", "web", "--for", "mounted")
    assert {"example.com/hangs", "example.com/tmpfs"} <= node.types()
    with suppress(FileNotFoundError):
        node.remove("web")
    node.tell("wait", "uid-web", "--for", "unmounted")
    node.remove("stuck")


class Gated:
    """The driver whose calls a test lets begin and end."""

    def __init__(self, node: FlexNode) -> None:
        self.node = node
        self.place = node.install("gated").parent
        for name in (".came", ".go"):
            os.mkfifo(self.place / name)

    def came(self) -> tuple[int, int]:
        """Await the next call; gives its PID and that of its child."""
        call, child = (self.place / ".came").read_text().split()
        return int(call), int(child)

    def go(self, word: str = "") -> None:
        """Let the call that waits go on; `fail`: in vain."""
        (self.place / ".go").write_text(f"{word}\n")

    def log(self) -> list[str]:
        return (self.place / ".log").read_text().splitlines()


def helpers(node: FlexNode) -> list[str]:
    return sorted(path.name for path in (node.root / "volmgr/helpers").iterdir())


@pytest.mark.parametrize("ending", ["", "fail"], ids=["it mounts", "it fails"])
def test_calls_for_one_volume_do_not_overlap_over_a_daemon_that_is_killed_in_the_middle(
    node: FlexNode, ending: str
) -> None:
    driver = Gated(node)
    node.put_flex("web", "gated")
    first, _ = driver.came()
    assert [name.partition("-")[0] for name in helpers(node)] == [str(first)]
    for _ in range(2):
        node.kill()
        node.start()
        node.await_event("HelperOutlivedDaemon", f"`gated mount` (pid {first}) still runs")
        node.await_event("DriverRegistered", "example.com/gated")
        why = node.run("why", "web").stdout
        assert f"waits for an earlier volmgrd's `gated mount` (pid {first}, since " in why
        assert "which still runs" in why
    node.install("tmpfs")
    node.put_flex("other", "tmpfs")
    node.tell("wait", "other")
    assert driver.log() == [f"begin {first}"]
    calls = [f"begin {first}", f"end {first}"]
    driver.go(ending)
    if ending:  # what is mounted when the first has ended needs no second one
        second, _ = driver.came()
        calls.append(f"begin {second}")
        assert driver.log() == calls
        driver.go()
        calls.append(f"end {second}")
    node.tell("wait", "web")
    assert driver.log() == calls
    assert os.path.ismount(node.place("web", "gated"))
    assert helpers(node) == []


def test_a_driver_that_outlives_its_daemon_is_killed_with_its_children_at_its_deadline(tmp_path: Path) -> None:
    with flex_node(tmp_path, operation_deadline="2s") as node:
        driver = Gated(node)
        node.put_flex("web", "gated")
        first, child = driver.came()
        with os.fdopen(os.pidfd_open(first)) as ended, os.fdopen(os.pidfd_open(child)) as child_ended:
            node.kill()
            node.start()
            node.await_event("HelperOutlivedDaemon", f"(pid {first}) still runs")
            for each in (ended, child_ended):
                assert select.select([each], [], [], PATIENCE)[0]
        second, _ = driver.came()
        driver.go()
        node.tell("wait", "web")
        assert driver.log() == [f"begin {first}", f"begin {second}", f"end {second}"]
