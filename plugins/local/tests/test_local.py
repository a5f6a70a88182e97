"""local on a host in memory: directories, devices with a file system, devices as they are."""

from dataclasses import replace
from pathlib import Path

import pytest

from volmgr.plugin import (
    Found,
    Mounted,
    Notice,
    NotReconstructible,
    ObjectMeta,
    OperationError,
    PersistentVolume,
    Quantity,
    SpecError,
    TransientError,
    UncertainError,
    VolumeMode,
)
from volmgr.testing import FakeHost, Fault, FaultHost, Volume, pod
from volmgr_local.plugin import Local, LocalSource, others

DATA = Path("/srv/data")
DISK = Path("/dev/sdb")
MIB = 1 << 20
GLOBAL = "plugins/kubernetes.io/local-volume/mounts"
MAPS = "plugins/kubernetes.io~local-volume/volumeDevices"


def volume(path: Path | str = DATA, *, fs_type: str = "", name: str = "pv-1", **spec: object) -> Volume:
    return Volume(Local(), LocalSource(path=str(path), fs_type=fs_type), name=name, spec_fields=spec)


def of_pod(name: str, of: Volume) -> Volume:
    return replace(of, pod=pod(name))


def host_with_directory() -> FakeHost:
    host = FakeHost()
    host.mkdir(DATA)
    host.put(DATA / "file", b"kept")
    return host


def host_with_disk(content: bytes = bytes(4 * MIB)) -> FakeHost:
    host = FakeHost()
    host.device(DISK, content)
    return host


# Directories


def test_a_directory_is_not_mounted_on_the_node_but_bound_for_each_pod() -> None:
    host = host_with_directory()
    ready = volume().set_up(host)
    assert host.table == {}
    assert ready.mount(host) == Mounted()
    assert host.table == {ready.target(host): "ext4 /srv/data"}
    assert host.content(ready.target(host) / "file") == b"kept"
    ready.unmount(host)
    ready.unmount_device(host)
    assert host.table == {}
    assert host.files.info(ready.target(host)) is None
    assert host.content(DATA / "file") == b"kept"


def test_mount_options_and_read_only_are_those_of_the_bind() -> None:
    host = host_with_directory()
    ready = volume(mount_options=("noexec",)).set_up(host)
    ready.mount(host, read_only=True)
    assert host.table == {ready.target(host): "ext4 /srv/data ro,noexec"}


def test_a_linked_directory_is_bound_like_the_one_it_leads_to() -> None:
    host = host_with_directory()
    host.link("/srv/link", DATA)
    ready = volume("/srv/link").set_up(host)
    ready.mount(host)
    assert host.table == {ready.target(host): "ext4 /srv/data"}


def test_another_mount_in_the_place_of_the_volume_is_never_reported_as_it() -> None:
    host = host_with_directory()
    ready = volume().set_up(host)
    host.mkdir(ready.target(host))
    host.mkdir("/srv/other")
    host.machine.bind("/srv/other", ready.target(host))
    with pytest.raises(OperationError, match="something else is mounted there"):
        ready.mount(host)
    assert host.table == {ready.target(host): "ext4 /srv/other"}


def test_what_was_written_below_a_mount_that_was_missing_is_kept_and_named() -> None:
    host = host_with_directory()
    ready = volume().set_up(host)
    host.mkdir(ready.target(host))
    host.put(ready.target(host) / "lost", b"written to the node's disk")
    with pytest.raises(OperationError, match="it is kept; move it away"):
        ready.unmount(host)
    assert host.content(ready.target(host) / "lost") == b"written to the node's disk"


def test_a_volume_found_on_disk_is_rebuilt_without_its_path() -> None:
    host = host_with_directory()
    ready = volume().set_up(host)
    ready.mount(host)
    rebuilt = ready.reconstruct(host).spec
    assert (rebuilt.name, rebuilt.source, rebuilt.mode) == ("pv-1", LocalSource(path=""), VolumeMode.FILESYSTEM)


def test_a_directory_needs_no_expansion() -> None:
    host = host_with_directory()
    assert volume().set_up(host).expand(host, new_size=7).size == 7


# What is no local volume


@pytest.mark.parametrize("path", ["/srv/../data", "/srv/data/..", "srv/data", "", "/srv/\0"])
def test_a_path_that_no_volume_may_have_is_refused_unseen(path: str) -> None:
    faulty = FaultHost(host_with_directory())
    of = volume(path)
    with pytest.raises(SpecError, match=r"invalid local\.path"):
        of.plugin.check(of.spec, None)
    for attempt in (volume(path).mount_device, volume(path).mount):
        with pytest.raises(SpecError, match=r"invalid local\.path .* of PersistentVolume pv-1: it must"):
            attempt(faulty)
    assert faulty.trace == []


@pytest.mark.parametrize("kind", ["file", "socket", "fifo", "char"])
def test_only_directories_and_block_devices_are_volumes(kind: str) -> None:
    host = FakeHost()
    if kind == "file":
        host.put(DATA)
    else:
        host.special(DATA, kind)
    before = host.tree()
    for attempt in (volume().mount_device, volume().mount):
        with pytest.raises(OperationError, match=r"only directory and block device are supported\.$"):
            attempt(host)
    assert host.tree() == before


def test_what_is_not_there_yet_is_waited_for() -> None:
    with pytest.raises(TransientError) as caught:
        volume().mount_device(FakeHost())
    assert caught.value.waits_for == str(DATA)


def test_a_directory_is_no_block_volume() -> None:
    with pytest.raises(OperationError, match="the volume's mode is Block: it must be a block device"):
        volume(mode=VolumeMode.BLOCK).mount_device(host_with_directory())


# Devices with a file system


def test_an_empty_device_is_formatted_mounted_once_and_bound_for_each_pod() -> None:
    host = host_with_disk()
    ready = volume(DISK).set_up(host)
    assert ready.device_path == str(DISK)
    shared = host.paths.root / GLOBAL / "pv-1"
    assert host.table == {shared: "ext4"}
    one, two = of_pod("one", ready), of_pod("two", ready)
    for each in (one, two):
        each.mount(host)
    assert host.table == {shared: "ext4", one.target(host): "ext4", two.target(host): "ext4"}
    for each in (one, two):
        each.unmount(host)
    ready.unmount_device(host)
    assert host.table == {}
    assert host.files.info(shared) is None


@pytest.mark.parametrize("fs_type", ["ext3", "xfs", "btrfs"])
def test_the_file_system_is_of_the_type_that_is_asked_for(fs_type: str) -> None:
    host = host_with_disk()
    volume(DISK, fs_type=fs_type).set_up(host)
    assert list(host.table.values()) == [fs_type]


def test_a_device_that_is_not_proved_empty_is_named_with_what_was_found_and_what_to_do() -> None:
    host = host_with_disk(b"LUKS\xba\xbe".ljust(4 * MIB, b"\0"))
    with pytest.raises(OperationError) as caught:
        volume(DISK).mount_device(host)
    for word in ("/dev/sdb", "PersistentVolume pv-1", "a signature of crypto_LUKS", "blkdiscard --force --zeroout"):
        assert word in str(caught.value)
    assert host.table == {}
    assert host.files.info(host.paths.root / GLOBAL / "pv-1") is None
    assert host.machine.formatted(DISK) is None


def test_a_device_without_a_medium_or_that_cannot_be_read_is_refused() -> None:
    with pytest.raises(OperationError, match="it has no medium"):
        volume(DISK).mount_device(host_with_disk(b""))
    host = host_with_disk()
    host.unreadable.add(DISK)
    with pytest.raises(OperationError, match=r"cannot tell what is on /dev/sdb of .+, so it is not touched"):
        volume(DISK).mount_device(host)
    assert host.machine.formatted(DISK) is None


def test_a_pod_is_never_given_the_empty_directory_of_a_device_that_is_not_mounted() -> None:
    host = host_with_disk()
    ready = volume(DISK).set_up(host)
    host.machine.unmount(next(mount for mount in host.machine.mounts() if mount.source == str(DISK)))
    with pytest.raises(OperationError, match="its file system is not mounted on the node"):
        ready.mount(host)


def test_a_device_grows_before_it_is_mounted_when_its_volume_says_more() -> None:
    host = host_with_disk()
    ready = volume(DISK).set_up(host)
    ready.unmount_device(host)
    host.machine.find(DISK)[1].content = bytes(8 * MIB)
    pv = PersistentVolume(metadata=ObjectMeta(name="pv-1"), capacity={"storage": Quantity.of(8 * MIB)})
    replace(ready, spec_fields={"pv": pv}).set_up(host)
    assert host.mounts.file_system(host.paths.root / GLOBAL / "pv-1").size == 8 * MIB


def test_a_mounted_device_grows() -> None:
    host = host_with_disk()
    ready = volume(DISK, fs_type="xfs").set_up(host)
    host.machine.find(DISK)[1].content = bytes(8 * MIB)
    assert ready.expand(host, new_size=8 * MIB).size == 8 * MIB
    assert host.mounts.file_system(host.paths.root / GLOBAL / "pv-1").size == 8 * MIB


def test_a_mounted_device_found_on_disk_is_rebuilt_with_its_device() -> None:
    host = host_with_disk()
    ready = volume(DISK).set_up(host)
    ready.mount(host)
    rebuilt = ready.reconstruct(host)
    assert (rebuilt.spec.source, rebuilt.device_path) == (LocalSource(path=str(DISK)), str(DISK))


def test_only_its_own_directory_is_unmounted_as_a_device() -> None:
    host = host_with_disk()
    ready = volume(DISK).set_up(host)
    request = ready.unmount_device_request(host)
    assert request is not None
    before = dict(host.table)
    Local().unmount_device(replace(request, target=DATA), host)
    assert host.table == before


# Devices as they are


def test_a_block_volume_is_the_device_with_its_map_below_the_escaped_name() -> None:
    host = host_with_disk(b"raw data".ljust(MIB, b"\0"))
    ready = volume(DISK, mode=VolumeMode.BLOCK).set_up(host)
    assert ready.device_target(host) == host.paths.root / MAPS / "pv-1"
    assert ready.mount(host) == Mounted(device_path=str(DISK))
    link = host.paths.pod("uid-web") / "volumeDevices/kubernetes.io~local-volume/pv-1"
    assert host.files.read_link(link) == str(DISK)
    assert host.machine.formatted(DISK) is None
    rebuilt = ready.reconstruct(host).spec
    assert (rebuilt.source.path, rebuilt.mode) == ("", VolumeMode.BLOCK)
    assert ready.expand(host).size == MIB
    ready.unmount(host)
    ready.unmount_device(host)
    assert host.files.names(host.paths.root / MAPS) == ()


def test_a_block_volume_is_rebuilt_from_a_link_alone() -> None:
    host = host_with_disk()
    path = host.paths.block_volume("u1", Local.name, "pv-1")
    host.mkdir(path)
    found = Found(pod_uid="u1", plugin=Local.name, spec_name="pv-1", path=path, mode=VolumeMode.BLOCK)
    with pytest.raises(NotReconstructible):
        Local().reconstruct(found, host)


# The Pod's group


def test_the_first_pod_s_group_gets_the_files_and_the_next_one_s_is_told() -> None:
    host = host_with_directory()
    one, two = (of_pod(name, volume()).set_up(host) for name in ("one", "two"))
    assert one.mount(host, fs_group=7) == Mounted()
    told = two.mount(host, fs_group=8)
    assert host.tree(DATA)[DATA] == "directory 2775 0:7"
    assert told == Mounted(
        notices=(
            Notice(
                "AlreadyMountedVolume",
                "the requested fsGroup is 8, but the volume pv-1 has GID 7: another pod uses it;"
                " the volume may not be shareable",
            ),
        )
    )
    assert two.mount(host, fs_group=7) == Mounted()
    for each in (one, two):
        each.unmount(host)
    two.mount(host, fs_group=8)
    assert host.tree(DATA)[DATA] == "directory 2775 0:8"


def test_a_read_only_volume_is_given_to_no_group() -> None:
    host = host_with_directory()
    before = host.tree(DATA)
    volume().set_up(host).mount(host, fs_group=7, read_only=True)
    assert host.tree(DATA) == before


def test_only_mounts_of_other_pods_count_as_theirs() -> None:
    host = host_with_directory()
    mine = volume().set_up(host)
    mine.mount(host)
    outside, beside = Path("/mnt/outside"), Path(f"{host.paths.pods}pod-mount")
    for place in (outside, beside):
        host.mkdir(place)
        host.machine.bind(DATA, place)
    assert others(mine.target(host), host) == ()
    theirs = of_pod("p1", volume())
    theirs.mount(host)
    assert others(mine.target(host), host) == (theirs.target(host),)


def test_a_failed_mount_whose_undoing_fails_is_uncertain() -> None:
    host = host_with_directory()
    faulty = FaultHost(
        host,
        [
            Fault(1, OperationError("the disk is full"), verb="ownership.apply"),
            Fault(1, OperationError("busy"), verb="mounts.unmount"),
        ],
    )
    with pytest.raises(UncertainError):
        volume().mount(faulty, fs_group=7)


def test_two_volumes_of_one_path_are_never_made_at_once() -> None:
    plugin = Local()
    assert plugin.exclusive(volume(name="a").spec) == plugin.exclusive(volume(name="b").spec) != ()
    assert plugin.exclusive(volume("", name="a").spec) == ()


# What is left on the node


def test_a_device_that_no_pod_has_is_found_by_its_mount_on_the_node() -> None:
    host = host_with_disk()
    ready = volume(DISK, fs_type="ext4").set_up(host)
    host.mkdir(host.paths.root / GLOBAL / "pv-empty")
    (found,) = Local().devices(host)
    assert (found.target, found.device_path) == (host.paths.root / GLOBAL / "pv-1", str(DISK))
    assert found.spec is not None
    assert (found.spec.name, found.spec.source) == ("pv-1", LocalSource(path=str(DISK)))
    ready.unmount_device(host)
    assert Local().devices(host) == ()


def test_of_directories_and_block_volumes_nothing_is_found_on_the_node() -> None:
    for host, ready in (
        (host_with_directory(), volume()),
        (host_with_disk(), volume(DISK, mode=VolumeMode.BLOCK)),
    ):
        ready.set_up(host).mount(host)
        assert Local().devices(host) == ()
