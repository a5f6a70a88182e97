"""File systems on loop devices of the real kernel: what is formatted, what never is, and how they grow."""

import os
import struct
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from volmgr.errors import OperationError, UncertainError
from volmgr.host.device_content import content_of, ext_size
from volmgr.host.filesystems import DeviceMount, FileSystemSettings
from volmgr.host.formatting import erasing
from volmgr.host.interface import Host
from volmgr.testing import Fault, FaultHost, Killed, When
from volmgr.testing.real_host import RealHosts

MIB = 1 << 20
MKFS = 3  # which command it is: two probes come first
SMALLEST = {"ext3": 4, "ext4": 4, "xfs": 300, "btrfs": 110}
TYPES = tuple(SMALLEST)


class Site:
    """A real host, and disks."""

    def __init__(self, host: Host, top: Path) -> None:
        self.host = host
        self.top = top

    def disk(self, size: int = 4 * MIB, name: str = "disk.img", *, read_only: bool = False) -> Path:
        """Attach an empty disk."""
        image = self.top / name
        with image.open("wb") as file:
            file.truncate(size)
        return self.host.block.attach_loop(image, read_only=read_only)

    def wanted(self, device: Path, fstype: str = "ext4", name: str = "mnt") -> DeviceMount:
        """Say what is wanted of a disk."""
        target = self.host.paths.plugins / name
        self.host.files.ensure_directory(target, 0o750)
        return DeviceMount(device=device, target=target, owner="PersistentVolume pv-disk", fstype=fstype)

    def mount(self, wanted: DeviceMount) -> Path:
        self.host.filesystems.ensure_mounted(wanted)
        return wanted.target

    def refused(self, wanted: DeviceMount) -> str:
        """Give the words of a refusal, which changed nothing on the disk."""
        before = digest(wanted.device)
        with pytest.raises(OperationError) as caught:
            self.host.filesystems.ensure_mounted(wanted)
        assert digest(wanted.device) == before
        assert not self.host.mounts.is_mount_point(wanted.target)
        return str(caught.value)


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealHosts]:
    with RealHosts(tmp_path_factory.mktemp("file-systems")) as hosts:
        yield hosts


@pytest.fixture
def site(hosts: RealHosts) -> Iterator[Site]:
    yield Site(*hosts.fresh())
    hosts.clear()


def run(*argv: object, stdin: bytes = b"") -> None:
    subprocess.run([str(word) for word in argv], check=True, capture_output=True, input=stdin)


def digest(device: Path) -> str:
    return subprocess.run(["sha256sum", str(device)], check=True, capture_output=True, text=True).stdout


def write_at(device: Path, offset: int, data: bytes) -> None:
    with device.open("r+b") as file:
        file.seek(offset)
        file.write(data)


def said(attempt: Callable[[], object]) -> str:
    """Give the answer of an attempt, or the words of its failure."""
    try:
        return str(attempt())
    except OperationError as error:
        return str(error)


# What is empty is formatted


@pytest.mark.parametrize("fstype", TYPES)
def test_an_empty_disk_is_formatted_once_and_keeps_its_data(site: Site, fstype: str) -> None:
    wanted = site.wanted(site.disk(SMALLEST[fstype] * MIB), fstype)
    target = site.mount(wanted)
    entry = site.host.mounts.entry(target)
    assert entry is not None
    assert entry.fstype == fstype
    (target / "file").write_text("kept", encoding="utf-8")
    site.mount(wanted)
    site.host.filesystems.unmount(target)
    assert not target.exists()
    site.host.files.ensure_directory(target, 0o750)
    site.mount(wanted)
    assert (target / "file").read_text(encoding="utf-8") == "kept"
    assert site.host.files.names(site.host.paths.state / "formatting") == ()


def test_options_and_read_only_reach_the_mount(site: Site) -> None:
    wanted = site.wanted(site.disk())
    site.host.filesystems.unmount(site.mount(wanted))
    site.host.files.ensure_directory(wanted.target, 0o750)
    site.mount(replace(wanted, options=("noexec", "_netdev"), read_only=True))
    entry = site.host.mounts.entry(wanted.target)
    assert entry is not None
    assert {"noexec", "ro"} <= set(entry.options)


def test_reserved_blocks_are_none_as_kubelet_makes_it(site: Site) -> None:
    device = site.disk()
    site.mount(site.wanted(device))
    assert struct.unpack("<I", site.host.block.read(device, 1024 + 8, 4)) == (0,)


# What is not proved empty is never formatted


def luks(device: Path) -> None:
    options = ("--batch-mode", "--pbkdf", "pbkdf2", "--pbkdf-force-iterations", "1000")
    run("cryptsetup", "luksFormat", *options, device, "-", stdin=b"secret")


def swap(device: Path) -> None:
    run("mkswap", device)


def physical_volume(device: Path) -> None:
    """Write what pvcreate does into the second sector (`lib/format_text/layout.h` of LVM2)."""
    label = bytearray(512)
    label[:8] = b"LABELONE"
    struct.pack_into("<Q", label, 8, 1)
    struct.pack_into("<I", label, 20, 32)
    label[24:32] = b"LVM2 001"
    label[32:64] = b"abcdefabcdefabcdefabcdefabcdefab"
    struct.pack_into("<I", label, 16, lvm_checksum(bytes(label[20:])))
    write_at(device, 512, bytes(label))


def lvm_checksum(data: bytes) -> int:
    crc = 0xF597A6CF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0xEDB88320 if crc & 1 else 0)
    return crc


def raid_member(device: Path) -> None:
    """Write a version 1.0 superblock of md, which lies near the end (`include/uapi/linux/raid/md_p.h`)."""
    size = os.stat(device).st_size or int(Path(f"/sys/block/{device.name}/size").read_text()) * 512
    sector = ((size >> 9) - 16) & ~7
    block = bytearray(256)
    struct.pack_into("<II", block, 0, 0xA92B4EFC, 1)
    block[16:32] = bytes(range(16))
    struct.pack_into("<Q", block, 0x90, sector)
    words = struct.unpack("<64I", bytes(block))
    total = sum(words)
    struct.pack_into("<I", block, 0xD8, ((total & 0xFFFFFFFF) + (total >> 32)) & 0xFFFFFFFF)
    write_at(device, sector << 9, bytes(block))


def zfs_member(device: Path) -> None:
    """Write uberblocks into the first label (`include/sys/uberblock_impl.h` of OpenZFS)."""
    for number in range(8):
        write_at(device, (128 << 10) + number * 1024, struct.pack("<QQQ", 0x00BAB10C, 5000, 1 + number))


def cache(device: Path) -> None:
    """Write the magic of bcache (`include/uapi/linux/bcache.h`)."""
    magic = bytes.fromhex("c68573f64e1a45ca8265f57f48ba6d81")
    write_at(device, 4096, struct.pack("<QQQ", 0, 8, 1) + magic + bytes(range(16)))


def master_boot_record(device: Path) -> None:
    write_at(device, 446, struct.pack("<B3sB3sII", 0, b"\0\2\0", 0x83, b"\0\2\0", 2048, 2048))
    write_at(device, 510, b"\x55\xaa")


def backup_table_alone(device: Path) -> None:
    """Leave of a GPT what lies in the last sector, as when its first MiB was overwritten."""
    size = int(Path(f"/sys/block/{device.name}/size").read_text())
    write_at(device, (size - 1) << 9, b"EFI PART" + struct.pack("<II", 0x10000, 92))


def garbage_at_the_start(device: Path) -> None:
    write_at(device, 777, b"somebody's data")


def garbage_at_the_end(device: Path) -> None:
    size = int(Path(f"/sys/block/{device.name}/size").read_text()) << 9
    write_at(device, size - 1, b"x")


def two_signatures(device: Path) -> None:
    run("mkfs.ext4", "-q", "-F", device)
    write_at(device, 0, b"XFSB" + bytes(96))
    write_at(device, 0x10040, b"_BHRfS_M")


SIGNATURES: dict[str, tuple[Callable[[Path], None], str]] = {
    "luks": (luks, "a signature of crypto_LUKS"),
    "swap": (swap, "a signature of swap"),
    "lvm": (physical_volume, "a signature of LVM2_member"),
    "md": (raid_member, "a signature of linux_raid_member"),
    "zfs": (zfs_member, "data in the first MiB (at byte 131072)"),
    "bcache": (cache, "data in the first MiB"),
    "mbr": (master_boot_record, "a partition table of type dos"),
    "gpt-backup": (backup_table_alone, "data in the last MiB"),
    "start": (garbage_at_the_start, "data in the first MiB (at byte 777)"),
    "end": (garbage_at_the_end, "data in the last MiB"),
    "two": (two_signatures, "signatures of more than one kind (blkid calls it ambivalent)"),
}


@pytest.mark.parametrize("kind", SIGNATURES)
def test_what_is_not_proved_empty_is_refused_and_emptied_by_the_command_that_is_named(site: Site, kind: str) -> None:
    make, finding = SIGNATURES[kind]
    device = site.disk(32 * MIB)
    make(device)
    wanted = site.wanted(device)
    message = site.refused(wanted)
    assert f"cannot make a file system of type ext4 on {device} for PersistentVolume pv-disk" in message
    assert finding in message
    assert message.endswith(erasing(device))
    run(*erasing(device).split())
    site.mount(wanted)


@pytest.mark.parametrize(
    ("fstype", "size", "backup"),
    [("ext4", 256, 128 * MIB), ("ext4-1k", 32, 8193 << 10), ("xfs", 320, 80 * MIB), ("btrfs", 128, 64 * MIB)],
)
def test_a_file_system_whose_start_was_overwritten_is_known_by_its_backups(
    site: Site, fstype: str, size: int, backup: int
) -> None:
    device = site.disk(size * MIB)
    argv = {
        "ext4": ("mkfs.ext4", "-q", "-F", "-b", "4096"),
        "ext4-1k": ("mkfs.ext4", "-q", "-F", "-b", "1024"),
        "xfs": ("mkfs.xfs", "-q"),
        "btrfs": ("mkfs.btrfs", "-q"),
    }[fstype]
    run(*argv, device)
    write_at(device, 0, bytes(MIB))
    if fstype == "btrfs":  # whose trees of chunks lie near its end
        write_at(device, (size - 1) * MIB, bytes(MIB))
    name = fstype.partition("-")[0]
    assert f"a backup superblock of {name} (at byte {backup})" in site.refused(site.wanted(device))


def test_a_disk_without_a_medium_is_refused(site: Site) -> None:
    device = site.disk()
    site.host.block.detach_loop(device)
    with pytest.raises(OperationError, match="its size is 0"):
        site.host.filesystems.ensure_mounted(site.wanted(device))


def test_a_disk_that_cannot_be_read_is_refused(site: Site) -> None:
    device = site.disk(8 * MIB)
    os.truncate(site.top / "disk.img", 4096)  # behind its end the loop device gives input/output errors
    with pytest.raises(OperationError, match=f"cannot tell what is on {device} of .+, so it is not touched"):
        site.host.filesystems.ensure_mounted(site.wanted(device))


def test_a_disk_in_use_is_refused(site: Site) -> None:
    device = site.disk()
    descriptor = os.open(device, os.O_RDONLY | os.O_EXCL)
    try:
        assert "the device is in use" in site.refused(site.wanted(device))
    finally:
        os.close(descriptor)
    site.mount(site.wanted(device))


def test_an_empty_disk_is_not_formatted_for_a_read_only_volume(site: Site) -> None:
    wanted = replace(site.wanted(site.disk()), read_only=True)
    assert "read-only volume is never formatted" in site.refused(wanted)


def test_a_type_that_nobody_makes_here_is_refused(site: Site) -> None:
    wanted = site.wanted(site.disk(), "vfat")
    with pytest.raises(Exception, match="no file system of type vfat is made here; ask for one of btrfs, ext2"):
        site.host.filesystems.ensure_mounted(wanted)


def test_a_regular_file_is_no_device(site: Site) -> None:
    file = site.top / "file"
    file.write_bytes(bytes(MIB))
    with pytest.raises(OperationError, match="it is no block device but a file"):
        site.host.filesystems.ensure_mounted(site.wanted(file))


def test_another_file_system_than_asked_for_is_a_mismatch_and_left(site: Site) -> None:
    device = site.disk(SMALLEST["xfs"] * MIB)
    run("mkfs.xfs", "-q", device)
    message = site.refused(site.wanted(device, "ext4"))
    assert "filesystem mismatch: it has xfs, and the volume asks for ext4" in message


def test_a_disk_that_shrank_below_its_file_system_is_never_formatted(site: Site) -> None:
    image = site.top / "disk.img"
    device = site.disk(400 * MIB)
    run("mkfs.ext4", "-q", "-F", device)
    site.host.block.detach_loop(device)
    os.truncate(image, 150 * MIB)
    device = site.host.block.attach_loop(image)
    before = image.read_bytes()[: 2 * MIB]
    assert "it shrank, or is another one; nothing on it was touched" in site.refused(site.wanted(device))
    assert image.read_bytes()[: 2 * MIB] == before
    os.truncate(image, 400 * MIB)
    site.host.block.refresh_size(device)
    assert content_of(site.host, device).fstype == "ext4"


# What a crash cut off


@pytest.mark.parametrize("fstype", ["ext4", "xfs", "btrfs"])
def test_a_format_that_was_killed_in_the_middle_is_made_again(site: Site, fstype: str) -> None:
    device = site.disk(SMALLEST[fstype] * MIB)
    wanted = site.wanted(device, fstype)
    with pytest.raises(Killed):
        FaultHost(site.host, [Fault.kill(MKFS, verb="commands.run")]).filesystems.ensure_mounted(wanted)
    write_at(device, 4096, b"half a file system")  # what mkfs had written when it was killed
    site.mount(wanted)
    assert site.host.files.names(site.host.paths.state / "formatting") == ()


def test_a_format_that_was_killed_after_its_end_is_used_as_it_is(site: Site) -> None:
    device = site.disk()
    wanted = site.wanted(device)
    with pytest.raises(Killed):
        FaultHost(site.host, [Fault.kill(MKFS, When.AFTER, verb="commands.run")]).filesystems.ensure_mounted(wanted)
    uuid = site.host.block.read(device, 1024 + 0x68, 16)
    site.mount(wanted)
    assert site.host.block.read(device, 1024 + 0x68, 16) == uuid


def test_a_format_that_outlived_its_deadline_is_uncertain_and_made_again(site: Site) -> None:
    device = site.disk()
    wanted = site.wanted(device)
    faulty = FaultHost(site.host, [Fault(MKFS, UncertainError("mkfs.ext4 was killed"), When.AFTER, "commands.run")])
    with pytest.raises(UncertainError):
        faulty.filesystems.ensure_mounted(wanted)
    write_at(device, 1024, b"half a file system")
    site.mount(wanted)


@pytest.mark.parametrize("change", ["another disk", "another boot", "a stranger's data"])
def test_a_format_that_was_cut_off_proves_nothing_for_another_disk(site: Site, change: str) -> None:
    device = site.disk()
    wanted = site.wanted(device)
    with pytest.raises(Killed):
        FaultHost(site.host, [Fault.kill(MKFS, verb="commands.run")]).filesystems.ensure_mounted(wanted)
    if change == "another disk":  # of the same name, number and size
        site.host.block.detach_loop(device)
        assert site.disk(name="other.img") == device
    if change == "another boot":
        site.host = replace(site.host, kernel=replace(site.host.kernel, boot_id="the next"))
    if change == "a stranger's data":
        swap(device)
    else:
        write_at(device, 4096, b"precious")
    message = site.refused(wanted)
    assert erasing(device) in message
    if change != "a stranger's data":
        assert "volmgr was interrupted when it formatted a device of this name" in message


# Checks


def test_errors_that_fsck_corrects_are_no_obstacle(site: Site) -> None:
    device = site.disk()
    run("mkfs.ext4", "-q", "-F", device)
    run("debugfs", "-w", "-R", "set_super_value free_blocks_count 1", device)
    site.mount(site.wanted(device))
    assert site.host.commands.run(["e2fsck", "-n", "-f", str(device)], accept=range(256)).exit_code in {0, 8}


def test_errors_that_fsck_does_not_correct_are_named(site: Site) -> None:
    device = site.disk()
    run("mkfs.ext4", "-q", "-F", device)
    run("debugfs", "-w", "-R", "clri <2>", device)  # no root directory
    run("debugfs", "-w", "-R", "set_super_value state 0", device)
    with pytest.raises(OperationError, match=rf"found errors .* repair it by hand: fsck {device}"):
        site.host.filesystems.ensure_mounted(site.wanted(device))


def test_a_read_only_volume_is_not_checked(site: Site) -> None:
    device = site.disk()
    run("mkfs.ext4", "-q", "-F", device)
    faulty = FaultHost(site.host)
    faulty.filesystems.ensure_mounted(replace(site.wanted(device), read_only=True))
    assert [call.args[0][0] for call in faulty.trace if call.verb == "commands.run"] == ["blkid"]  # type: ignore[index]


# Clones


def test_a_clone_of_an_xfs_is_mounted_beside_its_origin(site: Site) -> None:
    device = site.disk(SMALLEST["xfs"] * MIB)
    run("mkfs.xfs", "-q", device)
    (site.top / "clone.img").write_bytes((site.top / "disk.img").read_bytes())
    clone = site.host.block.attach_loop(site.top / "clone.img")
    strict = site.host.with_settings(FileSystemSettings(xfs_nouuid=False))
    strict.filesystems.ensure_mounted(site.wanted(device, "xfs"))
    wanted = site.wanted(clone, "xfs", name="clone")
    with pytest.raises(OperationError):
        strict.filesystems.ensure_mounted(wanted)
    site.mount(wanted)


# Growth


@pytest.mark.parametrize("fstype", ["xfs", "btrfs"])
def test_a_mounted_file_system_grows_with_its_disk(site: Site, fstype: str) -> None:
    size = 320 * MIB
    device = site.disk(size)
    target = site.mount(site.wanted(device, fstype))
    (target / "file").write_text("kept", encoding="utf-8")
    before = site.host.mounts.file_system(target).size
    os.truncate(site.top / "disk.img", 2 * size)
    site.host.block.refresh_size(device)
    for _ in range(2):
        assert site.host.filesystems.grow(device, target) == 2 * size
        assert site.host.mounts.file_system(target).size > before * 1.5
    assert (target / "file").read_text(encoding="utf-8") == "kept"


def test_an_ext4_grows_before_it_is_mounted_if_its_volume_asks_for_more(site: Site) -> None:
    device = site.disk(16 * MIB)
    wanted = site.wanted(device)
    target = site.mount(wanted)
    (target / "file").write_text("kept", encoding="utf-8")
    site.host.mounts.unmount(target)
    os.truncate(site.top / "disk.img", 64 * MIB)
    site.host.block.refresh_size(device)
    site.mount(replace(wanted, size=16 * MIB))
    assert ext_size(site.host, device) == 16 * MIB
    site.host.mounts.unmount(target)
    site.mount(replace(wanted, size=64 * MIB))
    assert ext_size(site.host, device) == 64 * MIB
    assert (target / "file").read_text(encoding="utf-8") == "kept"


def test_a_mounted_ext4_grows_or_says_what_it_needs(site: Site) -> None:
    device = site.disk(16 * MIB)
    target = site.mount(site.wanted(device))
    os.truncate(site.top / "disk.img", 64 * MIB)
    site.host.block.refresh_size(device)
    answer = said(lambda: site.host.filesystems.grow(device, target))
    needed = "it needs CAP_SYS_RESOURCE" in answer and "it grows when it is mounted next" in answer
    assert needed or answer == str(64 * MIB)


def test_what_is_mounted_there_already_from_elsewhere_is_refused(site: Site) -> None:
    wanted = site.wanted(site.disk())
    site.host.mounts.ensure_mounted(wanted.target, "tmpfs")
    with pytest.raises(OperationError, match=r"tmpfs \(tmpfs\) is mounted there; unmount it first"):
        site.host.filesystems.ensure_mounted(wanted)


def test_data_in_the_directory_of_a_device_that_is_not_mounted_is_kept(site: Site) -> None:
    wanted = site.wanted(site.disk())
    (wanted.target / "file").write_text("kept", encoding="utf-8")
    with pytest.raises(OperationError, match="it is kept; move it away"):
        site.host.filesystems.unmount(wanted.target)
    assert (wanted.target / "file").read_text(encoding="utf-8") == "kept"


def test_sensitive_options_are_shown_nowhere(site: Site) -> None:
    wanted = replace(site.wanted(site.disk()), sensitive=("password=hunter2",))
    with pytest.raises(OperationError) as caught:
        site.host.filesystems.ensure_mounted(wanted)
    assert "hunter2" not in f"{caught.value!r} {caught.value.__cause__!r}"
    assert "<masked>" in str(caught.value)


# Attacks


def test_data_that_lies_only_in_the_middle_of_a_disk_is_never_formatted_over(site: Site) -> None:
    device = site.disk(400 * MIB)
    run("mkfs.ext4", "-q", "-F", device)
    for start in (0, 128, 399):  # what a careless wipe clears, and where the first backup lies
        write_at(device, start * MIB, bytes(MIB))
    write_at(device, 150 * MIB, b"precious" * (60 * MIB // 8))
    assert "data in its middle (at byte 1" in site.refused(site.wanted(device))


def test_an_ext4_that_says_that_its_blocks_are_endless_costs_nothing(site: Site) -> None:
    device = site.disk()
    run("mkfs.ext4", "-q", "-F", "-O", "^metadata_csum", device)
    write_at(device, 1024 + 24, b"\xf0\xff\xff\xff")
    assert content_of(site.host, device).fstype == "ext4"
    with pytest.raises(OperationError):
        site.host.filesystems.ensure_mounted(site.wanted(device))


def test_a_disk_may_have_the_longest_of_names(site: Site) -> None:
    link = site.top / ("x" * 250)
    link.symlink_to(site.disk())
    site.mount(site.wanted(link))
