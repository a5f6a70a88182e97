"""What is written ahead and read back; damaged, foreign and newer records read as nothing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from volmgr import records
from volmgr.host.interface import Identity
from volmgr.journal import Journal, MountRecord, SpecRecord, VolumeRecord
from volmgr.model.volume import Presence, VolumeMode
from volmgr.testing import FakeHost

SPEC = SpecRecord(name="pv1", type="nfs", source={"server": "s", "path": "/x"}, read_only=True, inline=False)
MOUNT = MountRecord(
    volume="kubernetes.io/nfs/u1-pv1",
    plugin="kubernetes.io/nfs",
    pod_uid="u1",
    spec=SPEC,
    step="mounted",
    boot_id="b",
    identity=Identity(1 << 40, 2, 3),
    mounted_at=1.5,
)
VOLUME = VolumeRecord(
    volume="kubernetes.io/iscsi/a:b:0",
    plugin="kubernetes.io/iscsi",
    spec=SPEC,
    boot_id="b",
    attached=Presence.UNCERTAIN,
    device=Presence.YES,
    device_path="/dev/sda",
)


@pytest.fixture
def host() -> FakeHost:
    return FakeHost()


def test_records_are_read_back_as_they_were_written(host: FakeHost) -> None:
    journal = Journal(host)
    journal.write_mount(MOUNT)
    journal.write_volume(VOLUME)
    again = Journal(host)
    assert again.read_mount("u1", "pv1") == MOUNT
    assert again.read_volume(VOLUME.volume) == VOLUME
    assert again.mounts() == [MOUNT]
    assert again.volumes() == [VOLUME]
    again.forget_mount("u1", "pv1")
    again.forget_volume(VOLUME.volume)
    again.forget_pod("u1")
    assert (again.mounts(), again.volumes()) == ([], [])
    assert host.files.names(host.paths.state / "mounts") == ()


@pytest.mark.parametrize(
    "place",
    [
        "",
        "pods",
        "objects",
        "holds",
        "sources",
        "claims",
        "tokens",
        "formatting",
        "volumes",
        "mounts/u1",
        "csi/published",
    ],
)
def test_what_a_killed_write_left_is_swept_wherever_records_are(host: FakeHost, place: str) -> None:
    directory = host.paths.state / place
    host.files.ensure_directory(directory, 0o700, parents_mode=0o700)
    host.files.write(directory / ".a.json.7.1.tmp", b"half", 0o600)
    host.files.write(directory / "a.json", b"whole", 0o600)
    records.sweep(host.files, host.paths.state)
    assert "a.json" in host.files.names(directory)
    assert not [name for name in host.files.names(directory) if name.endswith(".tmp")]


def test_forgetting_what_was_never_written_is_nothing(host: FakeHost) -> None:
    journal = Journal(host)
    journal.forget_mount("u1", "pv1")
    journal.forget_volume("v")
    journal.forget_pod("u1")


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'{"kind": "volume", "version": 1}',
        b'{"kind": "pod-mount", "version": 2}',
        b'{"kind": "pod-mount"}',
        b'{"kind": "pod-mount", "version": "1"}',
        b'{"kind": "pod-mount", "version": 1, "volume": 7}',
        b"\x00" * 100,
    ],
)
def test_a_damaged_foreign_or_newer_record_reads_as_nothing_and_stays(host: FakeHost, data: bytes) -> None:
    journal = Journal(host)
    journal.write_mount(MOUNT)
    path = records.pod_mount(host.paths.state, "u1", "pv1")
    host.put(path, data)
    assert journal.read_mount("u1", "pv1") is None
    assert journal.mounts() == []
    assert host.content(path) == data


def test_a_record_with_fields_of_a_later_version_is_read_without_them(host: FakeHost) -> None:
    journal = Journal(host)
    journal.write_mount(MOUNT)
    path = records.pod_mount(host.paths.state, "u1", "pv1")
    host.put(path, host.content(path).replace(b'"step"', b'"later":[1],"step"'))
    assert journal.read_mount("u1", "pv1") == MOUNT


@given(
    st.text(max_size=300).filter(lambda text: text.isprintable()),
    st.text(max_size=300).filter(lambda text: text.isprintable()),
)
def test_any_name_gives_a_file_name_of_its_own(one: str, other: str) -> None:
    first, second = records.file_name(one), records.file_name(other)
    assert "/" not in first
    assert "\n" not in first
    assert len(first.encode()) <= 255
    assert (first == second) == (one == other)


@given(
    st.builds(
        SpecRecord,
        name=st.text(max_size=20),
        type=st.text(max_size=20),
        source=st.dictionaries(st.text(max_size=5), st.one_of(st.text(), st.booleans(), st.integers(0, 1 << 53))),
        access_modes=st.lists(st.sampled_from(["ReadWriteOnce", "ReadOnlyMany"])).map(tuple),
        mode=st.sampled_from(VolumeMode),
        inline=st.booleans(),
    )
)
def test_any_spec_survives_its_record(spec: SpecRecord) -> None:
    host = FakeHost()
    Journal(host).write_volume(VolumeRecord(volume="v", plugin="p", spec=spec, boot_id="b"))
    found = Journal(host).read_volume("v")
    assert found is not None
    assert found.spec == spec
