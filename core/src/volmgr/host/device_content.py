"""What is on a block device, by several independent probes; nothing is ever written.

A device is *empty* only when every probe says so: `blkid` knows nothing on it, its first and last MiB and samples from
between are zeros, and no backup superblock is left where file systems keep theirs. Formatting rests on that.
Sources: blkid(8); `fs/ext4/ext4.h`, `fs/btrfs/disk-io.h` and `fs/xfs/libxfs/xfs_format.h` of Linux for the magics.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from volmgr.errors import OperationError

if TYPE_CHECKING:
    from volmgr.host.interface import Host

MIB = 1 << 20
SUPERBLOCK = 1024
"""Where ext2, 3 and 4 keep their superblock, and how long it is."""

_NOTHING, _AMBIVALENT = 2, 8  # exit codes of blkid -p
_BLKID = ("blkid", "-p", "-s", "TYPE", "-s", "PTTYPE", "-s", "USAGE", "-o", "export")
_EXT_MAGIC = (56, b"\x53\xef")
_BTRFS_MAGIC = (64, b"_BHRfS_M")
_XFS_MAGIC = (0, b"XFSB")
_EXT_64BIT = 0x80  # a flag of s_feature_incompat
_EXT_LARGEST = 6  # s_log_block_size of blocks of 64 KiB; blkid believes any
_XFS_GROUPS = 4  # what mkfs.xfs divides a device into by default
_SAMPLE = 4096
_SAMPLES = 64  # at most; seeks of less than a second in all
_SAMPLED = 16 * MIB  # a smaller device has fewer


@dataclass(frozen=True, slots=True)
class DeviceContent:
    """What the probes found: the type of a file system that can be mounted, and everything found, in words.

    `known` says that blkid knows something on it; what else was found may be rests of anything.
    """

    fstype: str = ""
    findings: tuple[str, ...] = ()
    known: bool = False

    @property
    def is_empty(self) -> bool:
        """Whether every probe found nothing."""
        return not self.findings


def content_of(host: Host, device: Path) -> DeviceContent:
    """Say what is on a device; raises OperationError when a probe could not be made, which proves nothing."""
    size = size_of(host, device)
    fstype, found = _known(host, device)
    if fstype:
        return DeviceContent(fstype, (found,), known=True)
    findings = (*([found] if found else []), *_traces(host, device, size))
    return DeviceContent(findings=findings, known=bool(found))


def size_of(host: Host, device: Path) -> int:
    """Give the size in bytes of a block device that has a medium; raises OperationError."""
    info = host.files.info(device, follow=True)
    if info is None:
        raise OperationError(f"cannot look at {device}: it does not exist")
    if info.kind != "block":
        raise OperationError(f"cannot look at {device}: it is no block device but a {info.kind}")
    size = host.block.size(device)
    if size <= 0:
        raise OperationError(f"cannot use {device}: it has no medium (its size is 0); insert or attach one")
    return size


def ext_size(host: Host, device: Path) -> int:
    """Give the size in bytes of the ext2, 3 or 4 on a device, by its superblock; 0 when there is none."""
    data = host.block.read(device, SUPERBLOCK, SUPERBLOCK)
    return _ext_size(data)


def _ext_size(data: bytes) -> int:
    if len(data) < SUPERBLOCK or not _has(data, _EXT_MAGIC):
        return 0
    low, log_block, incompatible, high = (_word(data, place) for place in (4, 24, 96, 0x150))
    if log_block > _EXT_LARGEST:
        return 0  # damaged: the kernel says more of it
    return ((high << 32 if incompatible & _EXT_64BIT else 0) | low) << (10 + log_block)


def _word(data: bytes, place: int) -> int:
    return int.from_bytes(data[place : place + 4], "little")


def _known(host: Host, device: Path) -> tuple[str, str]:
    """Ask blkid: the type of a file system or "", and what it found in words or ""."""
    result = host.commands.run([*_BLKID, str(device)], accept=(0, _NOTHING, _AMBIVALENT), changes=False)
    if result.exit_code == _NOTHING:
        return "", ""
    if result.exit_code == _AMBIVALENT:
        return "", "signatures of more than one kind (blkid calls it ambivalent)"
    said = {key: value for key, _, value in (line.partition("=") for line in result.stdout.splitlines())}
    kind, table = said.get("TYPE", ""), said.get("PTTYPE", "")
    if kind and said.get("USAGE") == "filesystem":
        return kind, f"a file system of type {kind}"
    words = [f"a signature of {kind}"] if kind else []
    words += [f"a partition table of type {table}"] if table else []
    return "", " and ".join(words) or f"something that blkid does not name: {result.stdout.strip()!r}"


def _traces(host: Host, device: Path, size: int) -> Iterator[str]:
    """Look where tools that blkid does not know write, and where damaged file systems still have their backups."""
    length = min(MIB, size)
    for where, offset in (("first", 0), ("last", size - length)):
        data = host.block.read(device, offset, length)
        if not _is_zero(data):
            position = offset + len(data) - len(data.lstrip(b"\0"))
            yield f"data in the {where} MiB (at byte {position})"
    sampled = next((place for place in _samples(size) if not _is_zero(host.block.read(device, place, _SAMPLE))), None)
    if sampled is not None:
        yield f"data in its middle (at byte {sampled})"
    for name, offset, magic in _backups(size):
        if _has(host.block.read(device, offset, SUPERBLOCK), magic):
            yield f"a backup superblock of {name} (at byte {offset})"


def _is_zero(data: bytes) -> bool:
    """Say whether all bytes are 0; `any` would look at each, 17 ms a MiB in which nobody else has the interpreter."""
    return data == bytes(len(data))


def _samples(size: int) -> list[int]:
    """Name places all over a device, where data may lie whose start was overwritten or that has none."""
    count = min(_SAMPLES, size // _SAMPLED)
    return [size * number // (count + 1) // _SAMPLE * _SAMPLE for number in range(1, count + 1)]


def _backups(size: int) -> list[tuple[str, int, tuple[int, bytes]]]:
    """Name where backup superblocks lie on a device of this size."""
    # ext: in the second group, which begins after 8 blocks' bits; with blocks of 1 KiB the first block is not counted.
    places = [("ext4", 8193 << 10, _EXT_MAGIC), ("ext4", 16384 << 11, _EXT_MAGIC), ("ext4", 32768 << 12, _EXT_MAGIC)]
    places += [("btrfs", 64 * MIB, _BTRFS_MAGIC), ("btrfs", 256 << 30, _BTRFS_MAGIC)]
    group = -(-(size >> 12) // _XFS_GROUPS) << 12
    places += [("xfs", number * group, _XFS_MAGIC) for number in range(1, _XFS_GROUPS)]
    return [place for place in places if MIB <= place[1] <= size - SUPERBLOCK]


def _has(data: bytes, magic: tuple[int, bytes]) -> bool:
    return data[magic[0] :].startswith(magic[1])
