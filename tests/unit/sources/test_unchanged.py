"""A start that leaves unchanged files unread knows what one that reads them all knows, whatever happened before."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import time
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from tests.unit.sources.test_registry import SECRET, config, pod
from volmgr.host.local import local_host
from volmgr.manifest import NoTypes
from volmgr.model.meta import ObjectRef
from volmgr.model.objects import ref_of
from volmgr.sources.changes import Change, Complaints, ObjectChanged, ObjectLeft, PodAccepted, PodLeft
from volmgr.sources.deadlines import Deadlines
from volmgr.sources.folder import Folder
from volmgr.sources.registry import Registry
from volmgr.sources.unchanged import Unchanged

SETTLE = 0.0


class Read(NoTypes):
    """What is asked when Pods are read."""

    def __init__(self) -> None:
        self.fields: list[str] = []

    def source_of(self, field: str, driver: str | None) -> type[object] | None:
        self.fields.append(field)
        return super().source_of(field, driver)


class Daemon:
    """One life of a registry and of the directory that it is told of."""

    def __init__(self, base: Path, root: Path, edition: str = "1") -> None:
        self.read = Read()
        self.pods: dict[str, tuple[object, str]] = {}
        self.objects: dict[ObjectRef, tuple[object, str, str]] = {}
        self.complaints: dict[str, tuple[str, ...]] = {}
        host = local_host(root)
        self.registry = Registry(host.files, host.paths, self.hear)
        self.registry.start()
        self.unchanged = Unchanged(host.files, host.paths, "dir", edition)
        self.deadlines = Deadlines()
        self.folder = Folder(
            "dir",
            str(base),
            self.registry,
            self.read,
            self.deadlines,
            self.unchanged,
            removal_settle=SETTLE,
            relook=1000,
            record_retry=1000,
        )
        self.folder.resolved = str(base)
        self.folder.begin()
        self.look()

    def hear(self, change: Change) -> None:
        match change:
            case PodAccepted():
                self.pods[change.pod.uid] = change.pod, change.origin
            case PodLeft():
                del self.pods[change.uid]
            case ObjectChanged():
                self.objects[ref_of(change.item)] = change.item, change.revision, change.origin
            case ObjectLeft():
                del self.objects[change.ref]
            case Complaints():
                self.complaints[change.origin] = tuple(map(str, change.errors))
            case _:
                raise AssertionError(change)

    def look(self) -> None:
        self.folder.scan()
        self.folder.look(lambda: None, lambda: None)
        self.deadlines.run_due(time.monotonic())
        self.folder.look(lambda: None, lambda: None)

    def knows(self) -> object:
        wrong = {origin: errors for origin, errors in self.complaints.items() if errors}
        return self.pods, self.objects, wrong


SECRETS = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "data": {"key": SECRET}}
FOREIGN = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}}
BROKEN = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}, "spec": {"containers": 1}}
PODS = st.builds(
    pod, st.sampled_from(["web", "db"]), uid=st.sampled_from(["", "u1"]), volume=st.sampled_from(["a", "b"])
)
CONFIGS = st.builds(config, st.sampled_from(["c", "d"]), key=st.sampled_from(["1", "2"]))
CLEAN = st.lists(st.one_of(PODS, CONFIGS), min_size=1, max_size=2)
ANY = st.lists(st.one_of(PODS, CONFIGS, st.sampled_from([SECRETS, FOREIGN, BROKEN])), min_size=1, max_size=2)
NAMES = st.sampled_from(["a", "b"])


def is_up(lives: Lives) -> bool:
    return lives.daemon is not None


class Lives(RuleBasedStateMachine):
    """A directory that people change while a daemon runs and while none does."""

    def __init__(self) -> None:
        super().__init__()
        self.top = Path(tempfile.mkdtemp())
        self.base, self.root, self.aside = self.top / "manifests", self.top / "root", self.top / "aside"
        for path in (self.base, self.root, self.aside):
            path.mkdir()
        self.edition = 1
        self.daemon: Daemon | None = Daemon(self.base, self.root, "1")

    @property
    def up(self) -> Daemon:
        assert self.daemon is not None
        return self.daemon

    def teardown(self) -> None:
        shutil.rmtree(self.top)

    @rule(name=NAMES, documents=st.one_of(CLEAN, ANY))
    def write(self, name: str, documents: list[dict[str, object]]) -> None:
        (self.top / "new").write_text("\n".join(map(json.dumps, documents)))
        os.rename(self.top / "new", self.base / name)
        if self.daemon is not None:
            self.daemon.look()

    @rule(name=NAMES, text=st.sampled_from(["{", "# nothing", ""]))
    def spoil(self, name: str, text: str) -> None:
        (self.base / name).write_text(text)

    @rule(name=NAMES)
    def change_in_place(self, name: str) -> None:
        """Write as many bytes, and set the time back."""
        path = self.base / name
        if path.is_file():
            before = path.stat()
            text = path.read_text()
            path.write_text(text.replace('"1"', '"2"').replace('"a"', '"b"'))
            os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))

    @rule(name=NAMES)
    def touch(self, name: str) -> None:
        if (self.base / name).is_file():
            (self.base / name).touch()

    @rule(name=NAMES)
    def move_away(self, name: str) -> None:
        if (self.base / name).is_file():
            os.rename(self.base / name, self.aside / name)

    @rule(name=NAMES, other=NAMES)
    def move_back(self, name: str, other: str) -> None:
        if (self.aside / name).is_file():
            os.rename(self.aside / name, self.base / other)

    @precondition(is_up)
    @rule()
    def look(self) -> None:
        self.up.look()

    @precondition(is_up)
    @rule(data=st.data())
    def use(self, data: st.DataObject) -> None:
        """Let Pods use some objects, which are kept then."""
        known = sorted(self.up.objects)
        self.up.registry.retain(data.draw(st.lists(st.sampled_from(known), unique=True)) if known else ())

    @precondition(is_up)
    @rule(recorded=st.booleans())
    def end(self, recorded: bool) -> None:
        """Stop, or be killed."""
        if recorded:
            self.up.folder.end()
        self.daemon = None

    @rule(recorded=st.sampled_from([True, True, False]), installed=st.integers(0, 4))
    def start(self, recorded: bool, installed: int) -> None:
        """Start on what there is, and on a copy of it without the record of files; both know the same then."""
        if self.daemon is not None:
            self.end(recorded)
        self.edition += installed == 4
        copy = self.top / "copy"
        shutil.copytree(self.root, copy)
        (copy / "volmgr" / "sources" / "dir.files.json").unlink(missing_ok=True)
        reader = Daemon(self.base, copy)
        self.daemon = Daemon(self.base, self.root, str(self.edition))
        assert self.daemon.knows() == reader.knows()
        shutil.rmtree(copy)


Lives.TestCase.settings = settings(max_examples=150, stateful_step_count=40)
TestLives = Lives.TestCase


@pytest.fixture
def base(tmp_path: Path) -> Path:
    (tmp_path / "manifests").mkdir()
    (tmp_path / "root").mkdir()
    return tmp_path


def start(base: Path, edition: str = "1") -> Daemon:
    return Daemon(base / "manifests", base / "root", edition)


def lived_once(base: Path, *documents: object, used: bool = True) -> Path:
    """Let a daemon read a file and stop; gives the file."""
    path = base / "manifests" / "a"
    path.write_text("\n".join(map(json.dumps, documents)))
    daemon = start(base)
    if used:
        daemon.registry.retain(daemon.objects)
    daemon.folder.end()
    return path


def test_a_file_of_which_every_word_is_recorded_is_not_read_again(base: Path) -> None:
    lived_once(base, pod(), config(key="1"))
    daemon = start(base)
    assert daemon.read.fields == []
    assert len(daemon.pods) == len(daemon.objects) == 1
    again = start(base)
    assert again.read.fields == []


def test_a_file_that_is_not_read_is_read_when_it_changes_later(base: Path) -> None:
    path = lived_once(base, pod())
    daemon = start(base)
    path.write_text(json.dumps(pod(labels={"x": "y"})))
    daemon.look()
    assert daemon.read.fields == ["emptyDir"]


@pytest.mark.parametrize("other", [SECRETS, FOREIGN, BROKEN], ids=["a Secret", "a note", "an error"])
def test_a_file_with_more_than_is_recorded_is_read(base: Path, other: object) -> None:
    lived_once(base, pod("db"), other)
    assert start(base).read.fields == ["emptyDir"]


def test_a_file_with_an_object_that_nobody_uses_is_read(base: Path) -> None:
    lived_once(base, pod(), config(key="1"), used=False)
    assert start(base).read.fields == ["emptyDir"]


def test_another_edition_reads_every_file_and_the_next_start_of_it_none(base: Path) -> None:
    lived_once(base, pod())
    other = start(base, edition="2")
    assert other.read.fields == ["emptyDir"]
    other.folder.end()
    assert start(base, edition="2").read.fields == []


def test_a_touched_file_and_one_that_was_moved_away_and_back_is_read(base: Path) -> None:
    path = lived_once(base, pod())
    path.rename(base / "aside")
    (base / "aside").rename(path)
    daemon = start(base)
    assert daemon.read.fields == ["emptyDir"]
    daemon.folder.end()
    path.touch()
    assert start(base).read.fields == ["emptyDir"]


def test_a_file_that_was_changed_in_place_is_read_even_if_size_and_time_are_as_before(base: Path) -> None:
    path = lived_once(base, pod(labels={"x": "1"}))
    before = path.stat()
    path.write_text(path.read_text().replace('"1"', '"2"'))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert start(base).read.fields == ["emptyDir"]


def test_after_a_kill_before_the_record_every_file_is_read(base: Path) -> None:
    path = base / "manifests" / "a"
    path.write_text(json.dumps(pod()))
    start(base)
    assert start(base).read.fields == ["emptyDir"]


@pytest.mark.parametrize("damage", [b"", b"{}", b'{"kind":"files","version":1,"edition":"1","files":{"a":["x"]}}'])
def test_a_damaged_record_costs_one_read(base: Path, damage: bytes) -> None:
    lived_once(base, pod())
    (base / "root" / "volmgr" / "sources" / "dir.files.json").write_bytes(damage)
    assert start(base).read.fields == ["emptyDir"]


def test_a_record_that_cannot_be_written_is_no_error(base: Path) -> None:
    lived_once(base, pod())
    sources = base / "root" / "volmgr" / "sources"
    shutil.rmtree(sources)
    sources.write_text("in its place")
    daemon = start(base)
    daemon.folder.end()
    assert daemon.read.fields == ["emptyDir"]
    assert len(daemon.pods) == 1


def test_no_secret_nor_a_digest_of_it_is_recorded(base: Path) -> None:
    lived_once(base, pod(), SECRETS)
    record = base / "root" / "volmgr" / "sources" / "dir.files.json"
    assert not record.exists() or json.loads(record.read_bytes())["files"] == {}
