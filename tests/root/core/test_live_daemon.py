"""A real volmgrd among what its users suffered from: churning mounts, hung paths, large volumes, remounts."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.live_node import PATIENCE, LiveNode
from tests.root.host.fuse import SilentFuse
from volmgr.cli.client import Client
from volmgr.host import syscalls
from volmgr.testing.node import pod
from volmgr_emptydir.plugin import EmptyDir

DISK: dict[str, object] = {"emptyDir": {}}
MEMORY: dict[str, object] = {"emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}}
PYTHON = Path(sys.executable)


def configured(top: Path, **options: object) -> LiveNode:
    """Start a daemon with a configuration file."""
    path = top / "config.json"
    path.write_text(json.dumps(options))
    return LiveNode(PYTHON, top, "--config", str(path))


@contextmanager
def talking_to(node: LiveNode) -> Generator[Client]:
    client = Client(str(node.socket))
    yield client
    client.close()


def events(client: Client) -> Iterator[tuple[str, str]]:
    """Give the reason and message of each event, old and new."""
    for line in client.follow():
        event = json.loads(line)
        yield event["reason"], event["message"]


def flags_of(path: Path) -> set[str]:
    """Give the flags of the mount at a path; none when there is none."""
    rows = [line.split(" ") for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    return {flag for row in rows if row[4] == str(path) for flag in row[5].split(",")}


@contextmanager
def churning(place: Path) -> Generator[None]:
    """Mount and unmount a tmpfs all the time, a thousand times at least."""
    place.mkdir()
    stop = threading.Event()

    def churn() -> None:
        pairs = 0
        while pairs < 1000 or not stop.is_set():
            syscalls.mount("tmpfs", str(place), "tmpfs")
            syscalls.umount(str(place))
            pairs += 1

    thread = threading.Thread(target=churn)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


@pytest.mark.parametrize("command", [("wait", "web"), ("wait", "gone", "--for", "unmounted")])
def test_what_is_so_when_the_time_is_over_is_no_timeout(command: tuple[str, ...], tmp_path: Path) -> None:
    with LiveNode(PYTHON, tmp_path) as node:
        node.put("web", MEMORY)
        node.tell("wait", "web")
        node.tell(*command, "--timeout", "0s")


def test_no_volume_is_lost_or_mounted_twice_while_others_mount_and_unmount(tmp_path: Path) -> None:
    names = [f"pod-{number}" for number in range(20)]
    with LiveNode(PYTHON, tmp_path) as node, churning(tmp_path / "churned"):
        for name in names:
            node.put(name, MEMORY)
        with talking_to(node) as client:
            for name in names:
                client.wait(name, "mounted", PATIENCE)
        before = node.mount_ids()
        assert set(before) == {str(node.volume(name, EmptyDir.name)) for name in names}
        for _ in range(3):
            node.kill()
            node.start()
            assert node.mount_ids() == before
        for name in names:
            node.remove(name)
        with talking_to(node) as client:
            for name in names:
                client.wait(name, "unmounted", PATIENCE)
            told = client.get("/v1/events")
        assert node.mount_ids() == {}
        assert told.count(b"SuccessfulUnmountVolume") == len(names)
        assert b"Warning" not in told


def test_a_path_that_does_not_answer_is_quarantined_and_named_and_harms_no_other_pod(tmp_path: Path) -> None:
    hung = tmp_path / "hung"
    hung.mkdir()
    options = {"workers": 1, "operation_deadline": "300ms", "quarantine_grace": 0}
    with SilentFuse(hung) as fuse, configured(tmp_path, **options) as node, talking_to(node) as client:
        fuse.serve_until_asked()
        node.put("hung", {"hostPath": {"path": str(hung / "data"), "type": "Directory"}})
        assert fuse.asked()
        node.put("other", MEMORY)
        node.tell("wait", "other")
        text = node.tell("why", "hung")
        assert "mount running since" in text
        assert "past its deadline: quarantined until it really ends" in text
        assert ("OperationStuck", "mount does not return; it is left alone until it does") in events(client)
        node.remove("hung")
        node.remove("other")
        node.tell("wait", "other", "--for", "unmounted")
        assert node.run("wait", "hung", "--for", "unmounted", "--timeout", "0s").returncode == 1
        fuse.die()
        node.tell("wait", "hung", "--for", "unmounted")


def test_mount_options_of_the_configuration_file_are_on_memory_and_disk_and_nowhere_without_it(tmp_path: Path) -> None:
    flags = {"nosuid", "nodev", "noexec"}
    with configured(tmp_path, mount_options={EmptyDir.name: sorted(flags)}) as node:
        for name, volume in (("memory", MEMORY), ("disk", DISK)):
            node.put(name, volume)
            node.tell("wait", name)
            assert flags <= flags_of(node.volume(name, EmptyDir.name))
        before = node.mount_ids()
        node.kill()
        node.options = ()
        node.start()
        assert node.mount_ids() == before, "they hold for what is mounted from now on"
        node.put("plain", MEMORY)
        node.tell("wait", "plain")
        assert not flags & flags_of(node.volume("plain", EmptyDir.name))


def test_a_volume_of_many_files_is_deleted_behind_other_pods_and_over_a_kill(tmp_path: Path) -> None:
    with LiveNode(PYTHON, tmp_path) as node:
        with talking_to(node) as client:
            client.post("/v1/pods", json.dumps(pod("big", {"name": "v", **DISK}, uid="uid-big")).encode())
            client.wait("big", "mounted", PATIENCE)
            volume = node.volume("big", EmptyDir.name)
            for number in range(20_000):
                os.close(os.open(volume / str(number), os.O_CREAT | os.O_WRONLY))
            client.request("DELETE", "/v1/pods/big")
            client.wait("big", "unmounted", PATIENCE)
            client.post("/v1/pods", json.dumps(pod("next", {"name": "v", **DISK}, uid="uid-next")).encode())
            client.wait("next", "mounted", PATIENCE)
        node.kill()
        trash = node.root / "volmgr" / "trash"
        (left,) = trash.iterdir()
        assert 0 < len(os.listdir(left)) < 20_000, "it was killed in the middle"
        assert not volume.parent.parent.parent.exists()
        node.start()
        with talking_to(node) as client:
            while os.listdir(trash):
                client.get("/v1/pods/next")


def test_a_volume_that_somebody_made_read_only_is_named_and_mounted_writable_again(tmp_path: Path) -> None:
    with LiveNode(PYTHON, tmp_path) as node, talking_to(node) as client:
        node.put("web", MEMORY)
        node.tell("wait", "web")
        path = node.volume("web", EmptyDir.name)
        (path / "data").write_text("of a user")
        seen = events(client)
        assert next(seen)[0] == "SuccessfulMountVolume"
        subprocess.run(["mount", "-o", "remount,ro", path], check=True)
        assert next(seen) == ("VolumeVanished", "its mount has turned read-only")
        assert next(seen)[0] == "SuccessfulMountVolume"
        (path / "data").write_text((path / "data").read_text() + ", and more")
        assert node.tell("why", "web").splitlines() == ["Pod default/web (uid-web): mounted"]
