"""Records that say what they should not: nothing outside of the root is touched because of them."""

from dataclasses import replace
from pathlib import Path

import pytest

from volmgr.journal import Journal, MountRecord, SpecRecord, VolumeRecord
from volmgr.testing import FakeHost
from volmgr.testing.node import TestNode, plugins_of
from volmgr_emptydir.plugin import EmptyDir

OUTSIDE = Path("/srv/of-a-user")
UP = "../" * 12


@pytest.fixture
def host() -> FakeHost:
    host = FakeHost()
    host.files.ensure_directory(OUTSIDE / "v", 0o755)
    host.put(OUTSIDE / "data", b"of a user")
    host.put(OUTSIDE / "ready", b"")
    host.mounts.ensure_mounted(OUTSIDE / "v", "tmpfs")
    return host


def record(uid: str, name: str) -> MountRecord:
    return MountRecord(
        volume=f"{EmptyDir.name}/{uid}-{name}",
        plugin=EmptyDir.name,
        pod_uid=uid,
        spec=SpecRecord(name=name, type="emptyDir"),
        step="mounted",
        boot_id="",
        path=str(OUTSIDE),
    )


@pytest.mark.parametrize(
    ("uid", "name"),
    [
        ("uid", str(OUTSIDE)),
        ("uid", f"{UP}{OUTSIDE}"),
        (f"{UP}{OUTSIDE}", "v"),
        ("..", "v"),
        ("uid", ".."),
        ("uid", ""),
        ("", "v"),
    ],
)
def test_a_record_that_names_a_place_outside_is_no_record(host: FakeHost, uid: str, name: str) -> None:
    state = host.paths.state / "mounts" / "uid"
    journal = Journal(host)
    journal.write_mount(record("uid", "v"))
    (written,) = host.files.names(state)
    body = host.content(state / written).replace(b'"pod_uid":"uid"', f'"pod_uid":"{uid}"'.encode())
    host.put(state / written, body.replace(b'"name":"v"', f'"name":"{name}"'.encode()))
    assert journal.mounts() == []
    node = TestNode(host, plugins_of(EmptyDir()))
    node.sources_ready()
    node.advance(600)
    assert host.content(OUTSIDE / "data") == b"of a user"
    assert host.files.info(OUTSIDE / "ready") is not None
    assert host.mounts.is_mount_point(OUTSIDE / "v")


def test_a_record_that_lies_where_that_of_another_pod_belongs_is_no_record(host: FakeHost) -> None:
    journal = Journal(host)
    journal.write_mount(record("one", "v"))
    (name,) = host.files.names(host.paths.state / "mounts" / "one")
    host.files.ensure_directory(host.paths.state / "mounts" / "two", 0o700)
    host.files.rename(host.paths.state / "mounts" / "one" / name, host.paths.state / "mounts" / "two" / name)
    assert journal.mounts() == []
    assert journal.read_mount("two", "v") is None


def test_a_device_mount_outside_of_the_root_is_not_believed(host: FakeHost) -> None:
    journal = Journal(host)
    good = VolumeRecord(
        volume="test/disk",
        plugin="test/disk",
        spec=SpecRecord(name="disk", type="disk"),
        boot_id="",
        device_target=str(host.paths.plugin("test/disk") / "mounts" / "one"),
    )
    for place in (str(OUTSIDE), f"{host.paths.root}/{UP}srv", str(host.paths.root), "srv", "/"):
        journal.write_volume(replace(good, device_target=place))
        assert [each.device_target for each in journal.volumes()] == [""]
    journal.write_volume(good)
    assert journal.volumes() == [good]
