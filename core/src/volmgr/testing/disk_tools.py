"""The programs of a machine in memory that know block devices: blkid, mkfs, fsck, and those that grow file systems."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from volmgr.host.interface import CommandResult
from volmgr.testing.machine import Machine

Program = Callable[[tuple[str, ...], bytes], CommandResult]

_SIGNATURES = (("crypto_LUKS", 0, b"LUKS\xba\xbe"), ("swap", 4086, b"SWAPSPACE2"), ("LVM2_member", 512, b"LABELONE"))
_NOT_FOUND = CommandResult(2, "", "")


def disk_tools(machine: Machine) -> dict[str, Program]:
    """Give the programs, by name."""
    making: dict[str, Program] = {
        f"mkfs.{fstype}": _on(machine, _mkfs(fstype)) for fstype in ("ext2", "ext3", "ext4", "xfs", "btrfs")
    }
    return making | {
        "blkid": _on(machine, _blkid),
        "fsck": _on(machine, _nothing),
        "e2fsck": _on(machine, _nothing),
        "resize2fs": _on(machine, _grow),
        "xfs_growfs": _on(machine, _grow_mounted),
        "btrfs": _on(machine, _grow_mounted),
    }


def _on(machine: Machine, act: Callable[[Machine, tuple[str, ...]], CommandResult]) -> Program:
    def program(argv: tuple[str, ...], _stdin: bytes) -> CommandResult:
        with machine.lock:
            try:
                return act(machine, argv)
            except OSError as error:
                return CommandResult(4, "", f"{argv[0]}: {argv[-1]}: {error.strerror}")

    return program


def _blkid(machine: Machine, argv: tuple[str, ...]) -> CommandResult:
    disk, content = machine.formatted(argv[-1]), machine.device_content(argv[-1])
    if disk is not None:
        return CommandResult(0, f"DEVNAME={argv[-1]}\nTYPE={disk.fstype}\nUSAGE=filesystem\n", "")
    for name, offset, magic in _SIGNATURES:
        if content.startswith(magic, offset):
            return CommandResult(0, f"DEVNAME={argv[-1]}\nTYPE={name}\nUSAGE=other\n", "")
    if content[510:512] == b"\x55\xaa":
        return CommandResult(0, f"DEVNAME={argv[-1]}\nPTTYPE=dos\n", "")
    return _NOT_FOUND


def _mkfs(fstype: str) -> Callable[[Machine, tuple[str, ...]], CommandResult]:
    def make(machine: Machine, argv: tuple[str, ...]) -> CommandResult:
        forced = "-f" in argv or fstype.startswith("ext")
        if machine.formatted(argv[-1]) is not None and not forced:
            return CommandResult(1, "", f"mkfs.{fstype}: {argv[-1]} appears to contain an existing filesystem")
        machine.format(argv[-1], fstype)
        return CommandResult(0, "", "")

    return make


def _nothing(machine: Machine, argv: tuple[str, ...]) -> CommandResult:
    machine.find(argv[-1])
    return CommandResult(0, "", "")


def _grow(machine: Machine, argv: tuple[str, ...]) -> CommandResult:
    disk = machine.formatted(argv[-1])
    if disk is None:
        return CommandResult(1, "", f"{argv[0]}: bad magic number in super-block")
    disk.size = machine.device_size(argv[-1])
    return CommandResult(0, "", "")


def _grow_mounted(machine: Machine, argv: tuple[str, ...]) -> CommandResult:
    mount = machine.mount_at(Path(argv[-1]))
    if mount is None:
        return CommandResult(1, "", f"{argv[0]}: {argv[-1]} is not a mounted file system")
    return _grow(machine, (argv[0], mount.source))
