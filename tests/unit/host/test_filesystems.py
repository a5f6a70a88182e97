"""File systems on devices of a host in memory: what the tools say, and what is made of it."""

import os
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import pytest

from volmgr.errors import CommandError, OperationError, SpecError
from volmgr.host.device_content import DeviceContent, content_of, ext_size
from volmgr.host.filesystems import DeviceMount, FileSystemSettings
from volmgr.host.interface import CommandResult
from volmgr.testing import FakeHost, FaultHost

DISK = Path("/dev/sdb")
MIB = 1 << 20


def host_with(fstype: str = "", content: bytes = bytes(4 * MIB)) -> FakeHost:
    host = FakeHost()
    host.device(DISK, content)
    if fstype:
        host.machine.format(DISK, fstype)
    return host


def wanted(host: FakeHost, fstype: str = "ext4") -> DeviceMount:
    target = host.paths.plugins / "mnt"
    host.mkdir(target)
    return DeviceMount(device=DISK, target=target, owner="PersistentVolume pv-1", fstype=fstype)


def answer(host: FakeHost, program: str, exit_code: int, stdout: str = "") -> None:
    host.programs[program] = lambda _argv, _stdin: CommandResult(exit_code, stdout, "no good")


def commands(host: FaultHost) -> list[str]:
    return [" ".join(map(str, call.args[0])) for call in host.trace if call.verb == "commands.run"]  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType, reportUnknownVariableType, reportUnknownArgumentType]


@pytest.mark.parametrize("exit_code", [0, 1, 2, 8, 16])
def test_what_fsck_corrected_or_could_not_look_at_is_mounted(exit_code: int) -> None:
    host = host_with("ext4")
    answer(host, "fsck", exit_code)
    host.filesystems.ensure_mounted(wanted(host))
    assert list(host.table.values()) == ["ext4"]


def test_what_fsck_cannot_correct_is_refused() -> None:
    host = host_with("ext4")
    answer(host, "fsck", 4)
    with pytest.raises(OperationError) as caught:
        host.filesystems.ensure_mounted(wanted(host))
    assert str(caught.value) == (
        "cannot mount /dev/sdb for PersistentVolume pv-1: `fsck -a /dev/sdb` found errors that it does not correct by"
        " itself; repair it by hand: fsck /dev/sdb"
    )
    assert host.table == {}


def test_without_fsck_a_device_is_mounted_unchecked_and_that_is_said() -> None:
    host = host_with("ext4")
    del host.programs["fsck"]
    said: list[str] = []
    host.filesystems.ensure_mounted(replace(wanted(host), progress=said.append))
    assert said == ["fsck is not installed: /dev/sdb is mounted unchecked"]
    assert list(host.table.values()) == ["ext4"]


def test_a_read_only_or_used_device_is_not_checked() -> None:
    host = host_with("ext4")
    host.mkdir("/mnt")
    asked = wanted(host)
    read_only = FaultHost(host)
    read_only.filesystems.ensure_mounted(replace(asked, read_only=True))
    assert [command.split()[0] for command in commands(read_only)] == ["blkid"]
    host.mounts.unmount(asked.target)
    host.machine.mount("/mnt", "ext4", source=str(DISK))
    used = FaultHost(host)
    used.filesystems.ensure_mounted(asked)
    assert [command.split()[0] for command in commands(used)] == ["blkid"]


def test_what_is_said_while_it_takes_its_time() -> None:
    host = host_with()
    said: list[str] = []
    asked = replace(wanted(host), progress=said.append, size=8 * MIB)
    host.filesystems.ensure_mounted(asked)
    host.mounts.unmount(asked.target)
    host.machine.find(DISK)[1].content = bytes(8 * MIB)
    answer(host, "fsck", 1)
    host.filesystems.ensure_mounted(asked)
    assert said == [
        "making a file system of type ext4 on /dev/sdb",
        "fsck corrected errors on /dev/sdb",
        "growing the file system of /dev/sdb",
    ]


@pytest.mark.parametrize("exit_code", [1, 4, 13])
def test_a_probe_that_fails_proves_nothing(exit_code: int) -> None:
    host = host_with()
    answer(host, "blkid", exit_code)
    with pytest.raises(OperationError, match=r"cannot tell what is on /dev/sdb of .+, so it is not touched: blkid -p"):
        host.filesystems.ensure_mounted(wanted(host))
    del host.programs["blkid"]
    with pytest.raises(OperationError, match="so it is not touched: cannot run blkid"):
        host.filesystems.ensure_mounted(wanted(host))
    assert host.machine.formatted(DISK) is None


@pytest.mark.parametrize(
    ("exit_code", "stdout", "content"),
    [
        (2, "", DeviceContent()),
        (8, "", DeviceContent("", ("signatures of more than one kind (blkid calls it ambivalent)",), known=True)),
        (0, "TYPE=xfs\nUSAGE=filesystem\n", DeviceContent("xfs", ("a file system of type xfs",), known=True)),
        (0, "TYPE=zfs_member\nUSAGE=raid\n", DeviceContent("", ("a signature of zfs_member",), known=True)),
        (0, "PTTYPE=gpt\n", DeviceContent("", ("a partition table of type gpt",), known=True)),
        (
            0,
            "TYPE=swap\nUSAGE=other\nPTTYPE=dos\n",
            DeviceContent("", ("a signature of swap and a partition table of type dos",), known=True),
        ),
        (0, "DEVNAME=x\n", DeviceContent("", ("something that blkid does not name: 'DEVNAME=x'",), known=True)),
    ],
)
def test_what_blkid_says_is_put_into_words(exit_code: int, stdout: str, content: DeviceContent) -> None:
    host = host_with()
    answer(host, "blkid", exit_code, stdout)
    assert content_of(host, DISK) == content


@pytest.mark.parametrize(
    ("content", "finding"),
    [
        (b"x".rjust(4 * MIB, b"\0"), "data in the last MiB (at byte 4194303)"),
        (b"\0\0x".ljust(4 * MIB, b"\0"), "data in the first MiB (at byte 2)"),
        (b"x".ljust(512, b"\0"), "data in the first MiB (at byte 0)"),
    ],
)
def test_bytes_that_are_not_zero_are_found(content: bytes, finding: str) -> None:
    assert finding in content_of(host_with(content=content), DISK).findings


def test_data_in_the_middle_of_a_device_is_not_looked_for() -> None:
    assert content_of(host_with(content=bytes(2 * MIB) + b"x" + bytes(2 * MIB)), DISK).is_empty


def test_the_size_of_an_ext_is_read_from_its_superblock() -> None:
    assert ext_size(host_with("ext4"), DISK) == 4 * MIB
    assert ext_size(host_with("xfs"), DISK) == 0
    assert ext_size(host_with(content=bytes(512)), DISK) == 0
    assert ext_size(host_with("ext4", content=bytes(3 * MIB + 4096)), DISK) == 3 * MIB + 4096


def test_only_xfs_is_mounted_with_nouuid_and_not_where_it_is_turned_off() -> None:
    for fstype, strict, expected in (("xfs", False, True), ("xfs", True, False), ("ext4", False, False)):
        host = host_with(fstype).with_settings(FileSystemSettings(xfs_nouuid=not strict))
        faulty = FaultHost(host)
        faulty.filesystems.ensure_mounted(wanted(host, fstype))
        (call,) = [call for call in faulty.trace if call.verb == "mounts.ensure_mounted"]
        assert ("nouuid" in call.kwargs["options"]) is expected  # type: ignore[operator]  # pyright: ignore[reportOperatorIssue]


def test_what_is_mounted_is_not_looked_at_again() -> None:
    host = host_with("ext4")
    host.filesystems.ensure_mounted(wanted(host))
    again = FaultHost(host)
    again.filesystems.ensure_mounted(wanted(host))
    assert commands(again) == []


def test_a_type_that_is_not_made_here_is_the_author_s_to_correct() -> None:
    host = host_with()
    with pytest.raises(SpecError, match="no file system of type vfat is made here"):
        host.filesystems.ensure_mounted(wanted(host, "vfat"))
    host.machine.format(DISK, "vfat")
    host.filesystems.ensure_mounted(wanted(host, "vfat"))
    assert list(host.table.values()) == ["vfat"]
    with pytest.raises(OperationError, match="nobody knows how, for type vfat"):
        host.filesystems.grow(DISK, wanted(host).target)


def test_mkfs_that_fails_says_so_and_may_be_tried_again() -> None:
    host = host_with()
    works = host.programs["mkfs.ext4"]
    answer(host, "mkfs.ext4", 1)
    with pytest.raises(CommandError, match="no good"):
        host.filesystems.ensure_mounted(wanted(host))
    host.programs["mkfs.ext4"] = works
    host.filesystems.ensure_mounted(wanted(host))
    assert list(host.table.values()) == ["ext4"]


def test_a_damaged_note_of_a_format_proves_nothing() -> None:
    host = host_with(content=b"x".ljust(4 * MIB, b"\0"))
    note = host.paths.state / "formatting" / f"%2Fdev%2Fsdb.{sha256(b'/dev/sdb').hexdigest()[:16]}"
    host.mkdir(note.parent)
    for text in (b"{", b"[]", b'{"device": "/dev/sdb"}', b'{"more": 1}', b"[" * 200_000):
        host.put(note, text)
        with pytest.raises(OperationError, match=r"it is not empty: .*volmgr was interrupted"):
            host.filesystems.ensure_mounted(wanted(host))


def test_growing_what_is_not_mounted_is_refused() -> None:
    host = host_with("xfs")
    with pytest.raises(OperationError, match="it is not mounted on"):
        host.filesystems.grow(DISK, wanted(host).target)


def test_a_mounted_ext_grows_or_says_what_it_needs() -> None:
    host = host_with("ext4")
    host.filesystems.ensure_mounted(wanted(host))
    assert host.filesystems.grow(DISK, wanted(host).target) == 4 * MIB
    answer(host, "resize2fs", 1)
    with pytest.raises(OperationError, match=r"needs CAP_SYS_RESOURCE; .* it grows when it is mounted next \(no good"):
        host.filesystems.grow(DISK, wanted(host).target)


def test_a_disk_that_takes_the_place_of_the_one_that_is_looked_at_is_not_formatted() -> None:
    host, link = host_with(), Path("/dev/by-path")
    host.device("/dev/sdc", bytes(4 * MIB), rdev=os.makedev(240, 2))
    host.link(link, DISK)
    probe, probes = host.programs["blkid"], iter(range(9))

    def exchange(argv: tuple[str, ...], stdin: bytes) -> CommandResult:
        if next(probes) == 1:  # the one by which it is proved empty
            host.files.remove_file(link)
            host.link(link, "/dev/sdc")
        return probe(argv, stdin)

    host.programs["blkid"] = exchange
    asked = replace(wanted(host), device=link)
    with pytest.raises(OperationError, match="another device took its place while it was looked at"):
        host.filesystems.ensure_mounted(asked)
    assert content_of(host, DISK).is_empty
    host.filesystems.ensure_mounted(asked)
    assert list(host.table.values()) == ["ext4"]
