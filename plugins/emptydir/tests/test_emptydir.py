"""emptyDir on a host in memory: the exact values of kubelet, and what it does in every kind of bad weather."""

import dataclasses
from pathlib import Path
from typing import cast

import pytest

from volmgr.plugin import (
    Applies,
    BusyError,
    Container,
    OperationError,
    Pod,
    Quantity,
    ResourceRequirements,
    SpecError,
    TransientError,
    UncertainError,
)
from volmgr.testing import FakeHost, Fault, FaultHost, Killed, Volume, pod
from volmgr_emptydir.plugin import EmptyDir, EmptyDirSource

MIB = 1 << 20
ROOT = Path("/var/lib/volmgr")
TARGET = ROOT / "pods/uid-web/volumes/kubernetes.io~empty-dir/data"
MARKER = ROOT / "pods/uid-web/plugins/kubernetes.io~empty-dir/data/ready"


def volume(medium: str = "", size_limit: str | None = None, of: Pod | None = None) -> Volume:
    limit = None if size_limit is None else Quantity.parse(size_limit)
    return Volume(EmptyDir(), EmptyDirSource(medium=medium, size_limit=limit), of or pod())


def requesting(*containers: dict[str, str], init: dict[str, str] | None = None) -> Pod:
    return pod(
        containers=tuple(asking(f"c{number}", requests) for number, requests in enumerate(containers)),
        init_containers=() if init is None else (asking("init", init),),
    )


def asking(name: str, requests: dict[str, str]) -> Container:
    amounts = {resource: Quantity.parse(amount) for resource, amount in requests.items()}
    return Container(name=name, resources=ResourceRequirements(requests=amounts))


def mount_options(host: FakeHost, of: Volume, **changes: object) -> tuple[str, ...]:
    faulty = FaultHost(host)
    of.mount(faulty, **changes)
    (call,) = [call for call in faulty.trace if call.verb == "mounts.ensure_mounted"]
    return cast("tuple[str, ...]", call.kwargs["options"])


# Disk


def test_a_disk_volume_has_mode_0777_whatever_the_umask_is() -> None:
    host = FakeHost(umask=0o027)
    volume().mount(host)
    assert host.tree(TARGET) == {TARGET: "directory 777 0:0"}
    assert host.table == {}


def test_the_ready_marker_is_an_empty_file_in_a_directory_of_mode_0750() -> None:
    host = FakeHost(umask=0o077)
    volume().mount(host)
    assert host.tree(MARKER.parent) == {MARKER.parent: "directory 750 0:0", MARKER: "file 640 0:0 b''"}


def test_a_second_mount_keeps_what_the_pod_wrote_and_the_mode_it_chose() -> None:
    host = FakeHost()
    volume().mount(host)
    host.put(TARGET / "file", b"mine")
    host.machine.chmod(TARGET, 0o700)
    volume().mount(host)
    assert host.tree(TARGET) == {TARGET: "directory 700 0:0", TARGET / "file": "file 644 0:0 b'mine'"}


def test_a_ready_volume_whose_directory_was_deleted_is_made_again() -> None:
    host = FakeHost()
    volume().mount(host)
    host.machine.rmdir(TARGET)
    volume().mount(host)
    assert host.tree(TARGET) == {TARGET: "directory 777 0:0"}
    assert MARKER in host.tree(MARKER)


def test_a_directory_that_holds_data_and_has_no_marker_keeps_it() -> None:
    host = FakeHost()
    host.mkdir(TARGET, 0o700)
    host.put(TARGET / "file", b"from before a crash")
    volume().mount(host)
    assert host.content(TARGET / "file") == b"from before a crash"


def test_a_disk_volume_survives_a_reboot() -> None:
    host = FakeHost()
    volume().mount(host)
    host.put(TARGET / "file", b"kept")
    host.reboot()
    volume().mount(host)
    assert host.content(TARGET / "file") == b"kept"


def test_something_that_others_mounted_in_its_place_is_refused_and_left_as_it_is() -> None:
    host = FakeHost()
    host.mkdir("/srv/data", 0o711)
    host.mkdir(TARGET)
    host.mounts.ensure_bound(Path("/srv/data"), TARGET)
    with pytest.raises(OperationError, match="a ext4 is mounted there; unmount it"):
        volume().mount(host)
    assert host.tree("/srv/data") == {Path("/srv/data"): "directory 711 0:0"}


def test_mount_flags_bind_a_disk_volume_to_itself() -> None:
    host = FakeHost()
    for _ in range(2):
        volume().mount(host, options=("nosuid", "noexec"))
    assert host.table == {TARGET: f"ext4 {TARGET} nosuid,noexec"}
    host.put(TARGET / "file", b"kept")
    host.reboot()
    volume().mount(host, options=("nosuid", "noexec"))
    assert host.table == {TARGET: f"ext4 {TARGET} nosuid,noexec"}
    assert host.content(TARGET / "file") == b"kept"
    volume().unmount(host)
    assert host.table == {}
    assert host.tree(TARGET) == {}


# Memory


@pytest.mark.parametrize(
    ("noswap", "limit", "options"),
    [
        (False, "123Ki", ("size=125952",)),
        (True, "123Ki", ("size=125952", "noswap")),
        (False, "0", ()),
        (False, None, ()),
    ],
)
def test_memory_is_limited_to_the_size_limit(noswap: bool, limit: str | None, options: tuple[str, ...]) -> None:
    host = FakeHost(memory=0, tmpfs_noswap=noswap)
    assert mount_options(host, volume("Memory", limit)) == options


@pytest.mark.parametrize(
    ("size_limit", "memory_limit", "machine", "size"),
    [
        ("64Mi", 0, 8 * MIB, 8 * MIB),
        ("64Mi", 32 * MIB, 128 * MIB, 32 * MIB),
        ("16Mi", 32 * MIB, 128 * MIB, 16 * MIB),
        ("0", 32 * MIB, 128 * MIB, 32 * MIB),
        (None, 0, 128 * MIB, 128 * MIB),
        ("0.5", 0, 128 * MIB, 1),
    ],
)
def test_memory_has_the_smallest_limit_that_is_set(
    size_limit: str | None, memory_limit: int, machine: int, size: int
) -> None:
    host = FakeHost(memory=machine, tmpfs_noswap=False)
    options = mount_options(host, volume("Memory", size_limit), memory_limit=memory_limit)
    assert options == (f"size={size}",)


def test_a_user_namespace_never_asks_for_noswap() -> None:
    assert mount_options(FakeHost(user_namespace=True, memory=0), volume("Memory")) == ()


def test_mount_flags_are_added_to_those_of_memory() -> None:
    host = FakeHost(tmpfs_noswap=False)
    options = mount_options(host, volume("Memory", "64Mi"), options=("nosuid", "nodev", "noexec"))
    assert options == ("nosuid", "nodev", "noexec", "size=67108864")


def test_a_memory_volume_is_a_tmpfs_of_mode_0777() -> None:
    host = FakeHost()
    volume("Memory", "64Mi").mount(host)
    assert host.table == {TARGET: "tmpfs size=65536k,noswap"}
    assert host.tree(TARGET) == {TARGET: "directory 777 0:0"}


def test_a_second_mount_of_memory_keeps_the_mount_and_its_data() -> None:
    host = FakeHost()
    volume("Memory").mount(host)
    host.put(TARGET / "file", b"mine")
    before = host.mounts.table()
    volume("Memory").mount(host)
    assert host.mounts.table() == before
    assert host.content(TARGET / "file") == b"mine"


def test_memory_that_a_reboot_took_is_mounted_anew_with_mode_and_group() -> None:
    host = FakeHost()
    volume("Memory").mount(host, fs_group=2000)
    host.put(TARGET / "file", b"lost")
    host.reboot()
    volume("Memory").mount(host, fs_group=2000)
    assert host.tree(TARGET) == {TARGET: "directory 2777 0:2000"}
    assert list(host.table) == [TARGET]


def test_another_file_system_in_place_of_the_tmpfs_is_refused() -> None:
    host = FakeHost()
    host.mkdir(TARGET)
    host.mounts.ensure_mounted(TARGET, "hugetlbfs", source="nodev")
    with pytest.raises(OperationError, match="a hugetlbfs is mounted there"):
        volume("Memory").mount(host)


# Huge pages


@pytest.mark.parametrize(
    ("medium", "of", "page_size"),
    [
        ("HugePages", requesting({"hugepages-2Mi": "100Mi"}), "2Mi"),
        ("HugePages", requesting({"hugepages-1Gi": "2Gi"}, {"hugepages-1Gi": "4Gi"}), "1Gi"),
        ("HugePages", requesting({}, init={"hugepages-2Mi": "100Mi"}), "2Mi"),
        ("HugePages", requesting({"hugepages-2048Ki": "4Mi", "memory": "1Gi"}), "2Mi"),
        ("HugePages-1Gi", requesting({"hugepages-1Gi": "2Gi", "hugepages-2Mi": "100Mi"}), "1Gi"),
        ("HugePages-2Mi", requesting({"hugepages-1Gi": "2Gi"}, {"hugepages-2Mi": "100Mi"}), "2Mi"),
    ],
)
def test_huge_pages_have_the_size_that_is_requested(medium: str, of: Pod, page_size: str) -> None:
    host = FakeHost()
    assert mount_options(host, volume(medium, of=of)) == (f"pagesize={page_size}",)
    assert host.table[TARGET].startswith("hugetlbfs pagesize=")
    assert host.mounts.table()[-1].source == "nodev"
    assert host.tree(TARGET) == {TARGET: "directory 777 0:0"}


@pytest.mark.parametrize(
    "resources",
    [
        ResourceRequirements(requests={"hugepages-2Mi": Quantity.parse("4Mi")}),
        ResourceRequirements(limits={"hugepages-2Mi": Quantity.parse("4Mi")}),
    ],
)
def test_huge_pages_may_be_requested_by_the_pod_as_a_whole(resources: ResourceRequirements) -> None:
    assert mount_options(FakeHost(), volume("HugePages", of=pod(resources=resources))) == ("pagesize=2Mi",)


MANY = "medium: HugePages can't be used if container requests multiple huge page sizes"


@pytest.mark.parametrize(
    ("medium", "of", "message"),
    [
        ("HugePages", requesting({"hugepages-2Mi": "100Mi", "hugepages-1Gi": "2Gi"}), MANY),
        ("HugePages", requesting({"hugepages-2Mi": "100Mi"}, {"hugepages-1Gi": "2Gi"}), MANY),
        ("HugePages", requesting({"hugepages-2Mi": "100Mi"}, init={"hugepages-1Gi": "2Gi"}), MANY),
        (
            "HugePages",
            requesting({"memory": "1Gi"}),
            "medium HugePages: hugePages storage requested, but there is no resource request for huge pages",
        ),
        (
            "HugePages-1Mi",
            requesting({"hugepages-2Mi": "100Mi"}),
            "medium HugePages-1Mi: hugePages storage requested, but there is no resource request for huge pages",
        ),
        ("HugePages-", requesting({"hugepages-2Mi": "100Mi"}), "storage medium \"HugePages-\": '' is not a quantity"),
        ("foo", requesting({"hugepages-2Mi": "100Mi"}), 'unknown storage medium "foo"'),
        ("memory", requesting(), 'unknown storage medium "memory"'),
        ("HugePages", requesting({"hugepages-lots": "1"}), "resource hugepages-lots: 'lots' is not a quantity"),
    ],
)
def test_a_medium_that_cannot_be_had_is_the_authors_to_correct(medium: str, of: Pod, message: str) -> None:
    host = FakeHost()
    before = host.tree()
    with pytest.raises(SpecError) as caught:
        volume(medium, of=of).mount(host)
    assert str(caught.value).startswith(message)
    assert host.tree() == before
    wanted = volume(medium, of=of)
    with pytest.raises(SpecError) as caught:
        wanted.plugin.check(wanted.spec, of)
    assert str(caught.value).startswith(message)


def test_a_limit_below_nothing_is_refused() -> None:
    wanted = Volume(EmptyDir(), EmptyDirSource(size_limit=Quantity.parse("-1Gi")))
    with pytest.raises(SpecError, match="sizeLimit -1Gi is negative; write how much it may hold"):
        wanted.plugin.check(wanted.spec, wanted.pod)


def test_mounted_huge_pages_of_the_same_size_stay() -> None:
    host = FakeHost()
    for medium in ("HugePages-2Mi", "HugePages-2Mi", "HugePages"):
        volume(medium, of=requesting({"hugepages-2Mi": "4Mi"})).mount(host)
    assert host.table == {TARGET: "hugetlbfs pagesize=2M"}


def test_mounted_huge_pages_of_another_size_are_refused() -> None:
    host = FakeHost()
    volume("HugePages-2Mi", of=requesting({"hugepages-2Mi": "4Mi"})).mount(host)
    wanted = volume("HugePages-1Gi", of=requesting({"hugepages-1Gi": "1Gi"}))
    with pytest.raises(SpecError) as caught:
        wanted.mount(host)
    assert str(caught.value) == (
        f"pod default/web: mounted dir {TARGET} pagesize(2Mi) and requested medium size(1Gi) differ"
    )


# Groups


def test_the_group_of_the_pod_gets_the_whole_volume_although_the_policy_would_stop_at_the_root() -> None:
    host = FakeHost()
    host.mkdir(TARGET)
    host.put(TARGET / "file", mode=0o600)
    host.machine.chown(TARGET, 0, 2000)
    volume().mount(host, fs_group=2000, fs_group_policy="OnRootMismatch")
    assert host.tree(TARGET) == {TARGET: "directory 2777 0:2000", TARGET / "file": "file 660 0:2000 b''"}


def test_the_plugin_itself_gives_the_files_to_the_group() -> None:
    assert volume().facets.fs_group is Applies.PLUGIN


def test_a_group_that_cannot_be_given_is_logged_and_the_volume_is_there(caplog: pytest.LogCaptureFixture) -> None:
    faulty = FaultHost(FakeHost(), [Fault(1, OperationError("no"), verb="ownership.apply")])
    volume().mount(faulty, fs_group=2000)
    assert [record.getMessage() for record in caplog.records] == ["volume data of pod default/web: no"]


def test_a_cancelled_walk_leaves_a_volume_that_is_not_ready() -> None:
    host = FakeHost()
    with pytest.raises(TransientError):
        volume("Memory").mount(host, fs_group=2000, cancelled=lambda: True)
    assert host.table == {}
    assert host.tree(MARKER.parent) == {}


# Teardown


def test_teardown_removes_directory_and_marker() -> None:
    host = FakeHost()
    volume().mount(host)
    host.put(TARGET / "file", b"gone with the pod")
    volume().unmount(host)
    assert host.tree(TARGET) == host.tree(MARKER.parent) == {}


def test_teardown_of_what_is_not_there_succeeds() -> None:
    host = FakeHost()
    volume().unmount(host)
    assert host.tree(ROOT) == {ROOT: "directory 750 0:0"}


@pytest.mark.parametrize("medium", ["Memory", "HugePages"])
def test_teardown_goes_by_what_is_mounted_and_not_by_the_medium(medium: str) -> None:
    host = FakeHost()
    volume(medium, of=requesting({"hugepages-2Mi": "4Mi"})).mount(host)
    rebuilt = volume().reconstruct(host).spec
    assert rebuilt.source == EmptyDirSource()
    dataclasses.replace(volume(), source=rebuilt.source).unmount(host)
    assert host.table == {}
    assert host.tree(TARGET) == {}


def test_the_marker_goes_first() -> None:
    host = FakeHost()
    volume().mount(host)
    faulty = FaultHost(host, [Fault.kill(2)])
    with pytest.raises(Killed):
        volume().unmount(faulty)
    assert faulty.verbs[0] == "files.remove_file"
    assert host.tree(MARKER) == {}
    assert host.tree(TARGET) != {}


def test_a_root_on_tmpfs_is_not_taken_for_a_memory_volume() -> None:
    host = FakeHost()
    host.machine.mount(ROOT, "tmpfs", source="tmpfs")
    volume().mount(host)
    host.put(TARGET / "file")
    volume().unmount(host)
    assert list(host.table) == [ROOT]
    assert host.tree(TARGET) == {}


@pytest.mark.parametrize("medium", ["", "Memory"])
def test_mounts_of_others_below_are_unmounted_deepest_first_and_never_entered(medium: str) -> None:
    host = FakeHost()
    volume(medium).mount(host)
    host.mkdir("/srv/data/inner")
    host.put("/srv/data/precious", b"not ours")
    host.put("/srv/message", b"termination log")
    before = host.tree("/srv")
    host.mkdir(TARGET / "data")
    host.put(TARGET / "log.txt")
    host.mounts.ensure_bound(Path("/srv/data"), TARGET / "data")
    host.mounts.ensure_mounted(TARGET / "data/inner", "tmpfs")
    host.mounts.ensure_bound(Path("/srv/message"), TARGET / "log.txt")
    volume(medium).unmount(host)
    assert host.table == {}
    assert host.tree(TARGET) == {}
    assert host.tree("/srv") == before


def test_links_in_the_volume_are_removed_and_not_followed() -> None:
    host = FakeHost()
    host.put("/srv/precious", b"not ours")
    volume().mount(host)
    host.link(TARGET / "to", "/srv")
    volume().unmount(host)
    assert host.content("/srv/precious") == b"not ours"


def test_a_busy_volume_says_who_holds_it_and_goes_later() -> None:
    host = FakeHost()
    volume("Memory").mount(host)
    host.busy[TARGET / "file"] = ("17 (tail)",)
    with pytest.raises(BusyError, match=r"held by 17 \(tail\)"):
        volume("Memory").unmount(host)
    assert list(host.table) == [TARGET]
    host.busy.clear()
    volume("Memory").unmount(host)
    assert host.table == {}


def test_a_large_volume_is_moved_aside_at_once_and_deleted_later() -> None:
    host = FakeHost()
    host.hold_trash = True
    volume().mount(host)
    for number in range(100):
        host.put(TARGET / str(number))
    volume().unmount(host)
    assert host.tree(TARGET) == {}
    assert len(host.tree(ROOT / "volmgr/trash")) == 102
    host.settle()
    assert list(host.tree(ROOT / "volmgr/trash")) == [ROOT / "volmgr/trash"]


def test_what_was_written_below_a_vanished_memory_volume_goes_with_it() -> None:
    host = FakeHost()
    volume("Memory").mount(host)
    host.mounts.unmount(TARGET)
    host.put(TARGET / "file", b"written to the disk meanwhile")
    volume("Memory").mount(host)
    assert host.tree(TARGET) == {TARGET: "directory 777 0:0"}
    volume("Memory").unmount(host)
    assert host.tree(TARGET) == {}


# Failures


@pytest.mark.parametrize("medium", ["", "Memory"])
def test_a_full_or_read_only_disk_is_an_error_that_leaves_no_mount(medium: str) -> None:
    for change in ("disk_full", "read_only"):
        host = FakeHost()
        setattr(host, change, True)
        with pytest.raises(OperationError, match=r"no space left|read-only"):
            volume(medium).mount(host)
        assert host.table == {}
        setattr(host, change, False)
        volume(medium).mount(host)


def test_a_marker_that_cannot_be_written_takes_the_mount_back() -> None:
    host = FakeHost()
    faulty = FaultHost(host, [Fault(1, OperationError("no space left"), verb="files.ensure_file")])
    with pytest.raises(OperationError, match="no space left"):
        volume("Memory").mount(faulty)
    assert host.table == {}
    assert host.tree(TARGET) == host.tree(MARKER.parent) == {}


def test_a_mount_option_that_is_refused_leaves_nothing() -> None:
    host = FakeHost()
    faulty = FaultHost(host, [Fault(1, SpecError("no such option"), verb="mounts.ensure_mounted")])
    with pytest.raises(SpecError):
        volume("Memory").mount(faulty, options=("loop",))
    assert host.tree(TARGET) == {}


def test_a_mount_that_cannot_be_taken_back_is_uncertain() -> None:
    host = FakeHost()
    plan = [
        Fault(1, OperationError("no space left"), verb="files.ensure_file"),
        Fault(1, BusyError("it is in use"), verb="mounts.unmount"),
    ]
    with pytest.raises(UncertainError, match=r"failed \(no space left\), and so did undoing it: it is in use"):
        volume("Memory").mount(FaultHost(host, plan))


def test_a_failed_repair_keeps_what_is_in_the_volume() -> None:
    host = FakeHost()
    host.mkdir(TARGET)
    host.put(TARGET / "file", b"from before a crash")
    faulty = FaultHost(host, [Fault(1, OperationError("no space left"), verb="files.ensure_file")])
    with pytest.raises(OperationError):
        volume().mount(faulty)
    assert host.content(TARGET / "file") == b"from before a crash"


# Reconstruction and measuring


def test_the_disk_says_nothing_of_the_source() -> None:
    spec = volume().reconstruct(FakeHost()).spec
    assert spec.source == EmptyDirSource()
    assert (spec.name, spec.type) == ("data", "emptyDir")


def test_memory_is_measured_by_its_file_system() -> None:
    host = FakeHost()
    volume("Memory", "64Ki").mount(host)
    host.put(TARGET / "file", b"x" * 4096)
    measured = volume().measure(host)
    assert (measured.capacity, measured.available, measured.used) == (65536, 61440, 4096)


def test_a_disk_volume_is_measured_by_what_is_in_it_but_not_by_what_others_mounted() -> None:
    host = FakeHost()
    volume().mount(host)
    host.mkdir(TARGET / "sub/foreign")
    host.put(TARGET / "file", b"x" * 100)
    host.put(TARGET / "sub/file", b"x" * 20)
    host.mkdir("/srv/big")
    host.put("/srv/big/file", b"x" * 1000)
    host.mounts.ensure_bound(Path("/srv/big"), TARGET / "sub/foreign")
    measured = volume().measure(host)
    assert (measured.used, measured.inodes_used) == (120, 4)
    assert measured.capacity >= measured.available > 0


def test_measuring_ends_when_it_is_cancelled_or_late() -> None:
    host = FakeHost()
    volume().mount(host)
    with pytest.raises(TransientError):
        volume().measure(host, cancelled=lambda: True)
    with pytest.raises(TransientError):
        volume().measure(host, deadline=host.now - 1)
