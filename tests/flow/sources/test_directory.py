"""The manifests directory, on real files and a real inotify."""

import os
import queue
import resource
import shutil
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from volmgr.host.directory_watches import NoWatchError, Watches
from volmgr.host.local import local_host
from volmgr.manifest import NoTypes
from volmgr.sources import footing
from volmgr.sources.changes import Change, Complaints, PodAccepted, PodLeft, SourceState
from volmgr.sources.directory import DirectorySource
from volmgr.sources.registry import Registry

SETTLE = 0.15
PATIENCE = 10.0


def manifest(name: str, label: str = "") -> str:
    return f"""
apiVersion: v1
kind: Pod
metadata: {{name: {name}, labels: {{x: "{label}"}}}}
spec:
  containers: [{{name: main, volumeMounts: [{{name: a, mountPath: /a}}]}}]
  volumes: [{{name: a, emptyDir: {{}}}}]
"""


class Node:
    """A directory of manifests, its source, and what that tells."""

    def __init__(self, base: Path, root: Path | None = None) -> None:
        self.base = base
        self.manifests = base / "manifests"
        root = root or base / "root"
        root.mkdir(exist_ok=True)
        self.host = local_host(root)
        self.told = queue.SimpleQueue[Change]()
        self.gate = threading.Event()
        self.gate.set()
        self.registry = Registry(self.host.files, self.host.paths, self.hear)
        self.source: DirectorySource | None = None

    def hear(self, change: Change) -> None:
        self.told.put(change)
        self.gate.wait(PATIENCE)

    def start(self, open_watches: Callable[[], Watches] = Watches, rescan_interval: float = 30.0) -> None:
        self.registry.start()
        self.source = DirectorySource(
            "dir",
            self.manifests,
            self.host,
            self.registry,
            NoTypes(),
            removal_settle=SETTLE,
            rescan_interval=rescan_interval,
            record_retry=0.2,
            open_watches=open_watches,
        )
        self.source.start()

    def ready(self) -> "Node":
        self.manifests.mkdir(exist_ok=True)
        self.start()
        assert self.next() == "ready"
        return self

    def stop(self) -> None:
        if self.source is not None:
            self.source.stop()
            self.source = None

    def restart(self) -> "Node":
        self.stop()
        return Node(self.base)

    def next(self) -> str:
        """Wait for the next change, one word."""
        return short(self.told.get(timeout=PATIENCE))

    def until(self, wanted: str) -> list[str]:
        """Wait for a change; gives what was told before it."""
        before: list[str] = []
        while (found := self.next()) != wanted:
            before.append(found)
        return before

    def quiet(self, seconds: float = SETTLE * 3) -> None:
        """Make sure that nothing is told for some time."""
        with pytest.raises(queue.Empty):
            pytest.fail(f"told {self.told.get(timeout=seconds)}")

    def rename_in(self, name: str, text: str) -> None:
        (self.base / "temporary").write_text(text)
        os.rename(self.base / "temporary", self.manifests / name)


def short(change: Change) -> str:
    match change:
        case PodAccepted():
            return f"+{change.pod.metadata.name}{change.pod.metadata.labels.get('x', '')}"
        case PodLeft():
            return "-"
        case SourceState():
            return "ready" if change.ready else f"not ready: {change.problem}"
        case Complaints():
            return f"!{Path(change.origin).name}: {'; '.join(map(str, change.errors))}"
        case _:
            return type(change).__name__


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    made = Node(tmp_path)
    yield made
    made.stop()


def test_what_is_there_is_read_before_the_source_is_ready(node: Node) -> None:
    node.manifests.mkdir()
    for number in range(20):
        node.rename_in(f"{number:02}.yaml", manifest(f"web{number}"))
    node.start()
    assert node.until("ready") == [f"+web{number}" for number in range(20)]


def test_a_file_renamed_in_is_accepted(node: Node) -> None:
    node.ready().rename_in("web.yaml", manifest("web"))
    assert node.next() == "+web"


def test_a_file_written_in_place_is_read_when_it_is_closed(node: Node) -> None:
    node.ready()
    text = manifest("web")
    with (node.manifests / "web.yaml").open("w") as file:
        for part in (text[:60], text[60:120]):
            file.write(part)
            file.flush()
            node.quiet(0.05)
        file.write(text[120:])
    assert node.next() == "+web"


def test_a_file_open_for_writing_at_the_start_is_waited_for(node: Node) -> None:
    node.manifests.mkdir()
    with (node.manifests / "web.yaml").open("w") as file:
        file.write(manifest("web") + "---\n")
        file.flush()
        node.start()
        assert node.next() == "ready"
        file.write(manifest("db"))
    assert [node.next(), node.next()] == ["+web", "+db"]


def test_truncating_a_file_lets_nothing_leave(node: Node) -> None:
    node.ready().rename_in("web.yaml", manifest("web"))
    assert node.next() == "+web"
    with (node.manifests / "web.yaml").open("w") as file:
        node.quiet()
        file.write(manifest("web", "2"))
    assert node.next() == "+web2"
    (node.manifests / "web.yaml").write_text("")
    assert "is empty; what it said last stays" in node.next()
    (node.manifests / "web.yaml").unlink()
    assert node.next() == "-"


def test_an_editor_that_saves_by_rename_changes_nothing_but_the_content(node: Node) -> None:
    node.ready().rename_in("web.yaml", manifest("web"))
    assert node.next() == "+web"
    os.rename(node.manifests / "web.yaml", node.manifests / "web.yaml~")
    (node.manifests / "web.yaml").write_text(manifest("web", "2"))
    assert node.next() == "+web2"
    node.quiet()


def test_a_deleted_file_lets_its_pods_leave_once_it_was_gone_for_a_while(node: Node) -> None:
    node.ready().rename_in("web.yaml", manifest("web"))
    assert node.next() == "+web"
    before = time.monotonic()
    (node.manifests / "web.yaml").unlink()
    assert node.next() == "-"
    assert time.monotonic() - before >= SETTLE


def test_a_renamed_file_moves_its_pods_without_teardown(node: Node) -> None:
    node.ready().rename_in("a.yaml", manifest("web"))
    assert node.next() == "+web"
    os.rename(node.manifests / "a.yaml", node.manifests / "b.yaml")
    assert node.next() == "+web"
    node.quiet()


def test_dot_files_backups_and_what_is_no_file_are_ignored(node: Node) -> None:
    node.ready()
    (node.manifests / ".hidden.yaml").write_text(manifest("hidden"))
    (node.manifests / "web.yaml~").write_text(manifest("backup"))
    (node.manifests / "directory").mkdir()
    (node.manifests / "directory" / "deep.yaml").write_text(manifest("deep"))
    os.mkfifo(node.manifests / "fifo.yaml")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(node.manifests / "socket.yaml"))
        os.symlink("/dev/null", node.manifests / "device.yaml")
        node.rename_in("web.yaml", manifest("web"))
        assert node.next() == "+web"
        node.quiet()


def test_a_file_replaced_by_a_fifo_counts_as_deleted(node: Node) -> None:
    node.ready().rename_in("web.yaml", manifest("web"))
    assert node.next() == "+web"
    (node.manifests / "web.yaml").unlink()
    os.mkfifo(node.manifests / "web.yaml")
    assert node.next() == "-"


def test_a_file_above_ten_mebibytes_is_named_and_not_read(node: Node) -> None:
    node.ready()
    with (node.base / "big").open("wb") as file:
        file.truncate(20 << 30)  # sparse: reading it whole would take minutes
    os.rename(node.base / "big", node.manifests / "big.yaml")
    assert "big.yaml: the file has 21474836480 bytes, and at most 10485760 (10 MiB) are read" in node.next()
    (node.manifests / "big.yaml").unlink()
    assert node.next() == "!big.yaml: "


def test_what_is_wrong_is_told_and_taken_back(node: Node) -> None:
    node.ready().rename_in("web.yaml", "kind: [")
    assert "web.yaml: document 1: line 2: did not find expected node content" in node.next()
    node.rename_in("web.yaml", manifest("web"))
    assert [node.next(), node.next()] == ["+web", "!web.yaml: "]


def test_a_name_that_is_no_text_is_told(node: Node) -> None:
    node.ready()
    (node.base / "temporary").write_text(manifest("web"))
    os.rename(node.base / "temporary", os.fsencode(node.manifests) + b"/\xff.yaml")
    assert "its name is not UTF-8; rename it" in node.next()
    node.rename_in("web.yaml", manifest("db"))
    assert node.next() == "+db"


def test_links_are_followed_and_their_targets_watched(node: Node) -> None:
    node.ready()
    elsewhere = node.base / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "real.yaml").write_text(manifest("web"))
    (node.manifests / "web.yaml").symlink_to("../elsewhere/real.yaml")
    assert node.next() == "+web"
    (elsewhere / "real.yaml").write_text(manifest("web", "2"))
    assert node.next() == "+web2"
    (elsewhere / "new").write_text(manifest("web", "3"))
    os.rename(elsewhere / "new", elsewhere / "real.yaml")
    assert node.next() == "+web3"
    (elsewhere / "real.yaml").unlink()
    assert "it is a symbolic link to ../elsewhere/real.yaml, which is missing; what it said last stays" in node.next()
    node.quiet()
    (node.manifests / "web.yaml").unlink()
    assert node.until("-") in (["!web.yaml: "], [])


def test_a_configmap_layout_is_followed_when_its_data_is_swapped(node: Node) -> None:
    node.manifests.mkdir()
    publish(node.manifests, "1", {"web.yaml": manifest("web", "1"), "db.yaml": manifest("db", "1")})
    for name in ("web.yaml", "db.yaml"):
        (node.manifests / name).symlink_to(f"..data/{name}")
    node.start()
    assert node.until("ready") == ["+db1", "+web1"]
    for version in ("2", "3"):
        publish(node.manifests, version, {"web.yaml": manifest("web", version), "db.yaml": manifest("db", version)})
        assert {node.next(), node.next()} == {f"+web{version}", f"+db{version}"}
    node.quiet()


def publish(directory: Path, version: str, files: dict[str, str]) -> None:
    """Do as kubelet's AtomicWriter does."""
    (directory / f"..{version}").mkdir()
    for name, text in files.items():
        (directory / f"..{version}" / name).write_text(text)
    (directory / "..data_tmp").symlink_to(f"..{version}")
    before = os.readlink(directory / "..data") if (directory / "..data").is_symlink() else ""
    os.rename(directory / "..data_tmp", directory / "..data")
    if before:
        shutil.rmtree(directory / before)


def test_a_link_that_turns_in_circles_is_told(node: Node) -> None:
    node.ready()
    (node.manifests / "loop.yaml").symlink_to("loop.yaml")
    assert "loop.yaml: cannot be read: Too many levels of symbolic links" in node.next()


def test_a_missing_directory_is_not_ready_and_is_read_when_it_appears(node: Node) -> None:
    node.start()
    assert node.next() == (
        f"not ready: the manifests directory {node.manifests} is missing;"
        " what was accepted from it stays; make or mount it"
    )
    (node.base / "new").mkdir()
    (node.base / "new" / "web.yaml").write_text(manifest("web"))
    os.rename(node.base / "new", node.manifests)
    assert [node.next(), node.next()] == ["+web", "ready"]


def test_a_directory_whose_parents_are_missing_is_found_too(node: Node) -> None:
    node.manifests = node.base / "deep" / "er" / "manifests"
    node.start()
    assert node.next().startswith("not ready")
    node.manifests.mkdir(parents=True)
    node.until("ready")
    node.rename_in("web.yaml", manifest("web"))
    assert node.next() == "+web"


def test_removing_the_directory_empties_nothing_and_a_new_one_is_watched(node: Node) -> None:
    node.ready().rename_in("web.yaml", manifest("web"))
    assert node.next() == "+web"
    shutil.rmtree(node.manifests)
    assert node.next().startswith("not ready")
    node.quiet()
    node.manifests.mkdir()
    node.rename_in("web.yaml", manifest("web", "2"))
    node.until("+web2")
    node.rename_in("db.yaml", manifest("db"))
    node.until("+db")


def test_a_replaced_directory_is_watched_and_the_old_one_no_longer(node: Node) -> None:
    node.ready().rename_in("web.yaml", manifest("web"))
    assert node.next() == "+web"
    (node.base / "new").mkdir()
    (node.base / "new" / "db.yaml").write_text(manifest("db"))
    os.rename(node.manifests, node.base / "old")
    os.rename(node.base / "new", node.manifests)
    node.until("+db")
    node.until("-")
    (node.base / "old" / "late.yaml").write_text(manifest("late"))
    node.quiet()
    node.rename_in("more.yaml", manifest("more"))
    assert node.next() == "+more"


def test_a_directory_behind_a_link_is_followed(node: Node) -> None:
    for name in ("one", "two"):
        (node.base / name).mkdir()
        (node.base / name / "web.yaml").write_text(manifest("web", name))
    node.manifests.symlink_to("one")
    node.start()
    assert node.until("ready") == ["+webone"]
    (node.base / "link").symlink_to("two")
    os.rename(node.base / "link", node.manifests)
    assert node.until("+webtwo") == []


def test_pods_survive_a_restart_without_their_directory(node: Node) -> None:
    node.ready().rename_in("web.yaml", manifest("web"))
    assert node.next() == "+web"
    again = node.restart()
    shutil.rmtree(again.manifests)
    again.start()
    try:
        assert again.next() == "+web"
        assert again.next().startswith("not ready")
        again.quiet()
        again.manifests.mkdir()
        again.until("-")
    finally:
        again.stop()


def test_a_file_deleted_while_the_daemon_was_down_counts(node: Node) -> None:
    node.ready().rename_in("web.yaml", manifest("web"))
    assert node.next() == "+web"
    again = node.restart()
    (again.manifests / "web.yaml").unlink()
    again.start()
    try:
        assert [again.next(), again.next(), again.next()] == ["+web", "ready", "-"]
    finally:
        again.stop()


def test_another_file_system_under_the_directory_is_not_ready_until_it_is_confirmed(node: Node) -> None:
    node.ready().rename_in("web.yaml", manifest("web"))
    assert node.next() == "+web"
    again = node.restart()
    found = footing.recorded(again.host, "dir")
    assert found is not None
    other = footing.Footing(found.path, "nfs4", "0:999", found.boot_id, mount_point=True)
    footing.record(again.host, "dir", other)
    (again.manifests / "web.yaml").unlink()
    again.start()
    try:
        assert again.next() == "+web"
        assert "was a mount point and is none now; mount it, or put it back" in again.next()
        again.quiet()
        assert again.source is not None
        again.source.accept_moved()
        assert again.until("-") == ["ready"]
    finally:
        again.stop()


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"fstype": "nfs4"}, "was on a file system of type nfs4 and is on ext now"),
        ({"device": "0:9"}, "was on device 0:9 and is on 8:1 now"),
        ({"mount_point": True}, "was a mount point and is none now"),
        ({"device": "0:9", "boot_id": "earlier"}, ""),
        ({"path": "/elsewhere"}, ""),
        ({}, ""),
    ],
)
def test_what_makes_a_directory_another_one(change: dict[str, str], problem: str) -> None:
    now = footing.Footing("/m", "ext", "8:1", "boot", mount_point=False)
    fields = {"path": "/m", "fstype": "ext", "device": "8:1", "boot_id": "boot", "mount_point": False} | change
    before = footing.Footing(
        str(fields["path"]),
        str(fields["fstype"]),
        str(fields["device"]),
        str(fields["boot_id"]),
        mount_point=bool(fields["mount_point"]),
    )
    assert footing.moved(before, now).startswith(f"/m {problem}" if problem else "")
    assert bool(footing.moved(before, now)) == bool(problem)
    assert footing.moved(None, now) == ""


class Exhausted:
    """inotify that is exhausted at first."""

    def __init__(self, error: str) -> None:
        self.error = error
        self.refused = 0

    def __call__(self) -> Watches:
        if self.refused < 1:
            self.refused += 1
            raise NoWatchError(self.error)
        return Watches()


def test_without_inotify_it_is_read_slowly_and_the_sysctl_is_named(node: Node) -> None:
    node.manifests.mkdir()
    node.start(Exhausted("no inotify instance is left; raise the sysctl fs.inotify.max_user_instances"), 0.2)
    complaint = node.next()
    assert "fs.inotify.max_user_instances; until then it is looked at every 0.2 s" in complaint
    assert node.next() == "ready"
    node.rename_in("web.yaml", manifest("web"))
    assert node.until("+web") in (["!manifests: "], [])
    node.rename_in("db.yaml", manifest("db"))
    node.until("+db")


def test_inotify_says_itself_what_is_exhausted() -> None:
    # By this process' limit of open files: without instances, daemons of other tests would look every 30 s only.
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) + 3, before[1]))
    opened: list[Watches] = []
    try:
        with pytest.raises(NoWatchError, match=r"raise the sysctl fs\.inotify\.max_user_instances"):
            opened.extend(iter(Watches, None))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
        for watches in opened:
            watches.close()


def test_an_overflow_makes_it_look_at_everything(node: Node) -> None:
    node.ready()
    limit = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
    node.gate.clear()
    node.rename_in("first.yaml", manifest("first"))
    assert node.next() == "+first"  # and the source is kept from reading events
    busy, other = node.manifests / ".busy", node.manifests / ".other"
    busy.touch()
    for _ in range(limit // 2):
        os.rename(busy, other)
        os.rename(other, busy)
    node.rename_in("last.yaml", manifest("last"))
    node.gate.set()
    assert node.next() == "+last"


def test_a_full_disk_is_told_and_tried_again(node: Node) -> None:
    node.ready()
    records = node.host.paths.state / "pods"
    records.write_text("")  # a file where the records' directory should be
    node.rename_in("web.yaml", manifest("web"))
    assert "the Pod default/web cannot be recorded" in node.next()
    records.unlink()
    assert node.next() == "+web"


def test_two_thousand_files_are_read_at_once(tmp_path: Path) -> None:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as root:  # each record is synced, which a disk takes 8 ms for
        node = Node(tmp_path, Path(root))
        node.manifests.mkdir()
        for number in range(2000):
            (node.manifests / f"{number}.yaml").write_text(manifest(f"web{number}"))
        node.start()
        assert len(node.until("ready")) == 2000
        node.rename_in("more.yaml", manifest("more"))
        assert node.next() == "+more"
        node.stop()


def test_a_stopped_source_keeps_no_descriptor(tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    for number in range(3):
        (tmp_path / str(number)).mkdir()
        node = Node(tmp_path / str(number)).ready()
        node.stop()
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_missing_watch_directory_is_no_error(tmp_path: Path) -> None:
    watches = Watches()
    watches.keep({str(tmp_path / "none"): 1})
    assert watches.happenings() == []
    watches.close()
