"""Which file systems there are: their statfs magic, and which of them never wait for a server. Pure.

Source: `include/uapi/linux/magic.h`.
"""

from __future__ import annotations

import errno

# fmt: off
LOCAL_TYPES = frozenset({
    "bcachefs", "bpf", "btrfs", "cgroup", "cgroup2", "configfs", "debugfs", "devpts", "devtmpfs", "efivarfs",
    "erofs", "exfat", "ext2", "ext3", "ext4", "f2fs", "fusectl", "hugetlbfs", "iso9660", "jfs", "mqueue",
    "msdos", "nilfs2", "ntfs3", "overlay", "proc", "pstore", "ramfs", "reiserfs", "rootfs", "securityfs",
    "squashfs", "sysfs", "tmpfs", "tracefs", "udf", "vfat", "xfs", "zfs",
})
# fmt: on
"""Types that mount(2) and umount2(2) handle without waiting for anything but this machine."""

CORRUPTED = frozenset(
    {
        errno.ENOTCONN,
        errno.ESTALE,
        errno.EIO,
        errno.EACCES,
        errno.EHOSTDOWN,
        errno.EWOULDBLOCK,
        errno.ENODEV,
    }
)
"""What stat says of a mount whose server is gone (mount-utils `IsCorruptedMnt`)."""


def is_fuse(fstype: str) -> bool:
    """Say whether a process serves a type, which may have died."""
    return fstype.startswith("fuse") and fstype != "fusectl"


_NAMES = {
    0x01021994: "tmpfs",
    0x958458F6: "hugetlbfs",
    0xEF53: "ext",
    0x58465342: "xfs",
    0x9123683E: "btrfs",
    0x794C7630: "overlay",
    0x858458F6: "ramfs",
    0x73717368: "squashfs",
    0xE0F5E1E2: "erofs",
    0xF2F52010: "f2fs",
    0x2FC12FC1: "zfs",
    0x4D44: "msdos",
    0x9660: "iso9660",
    0x9FA0: "proc",
    0x62656572: "sysfs",
    0x27E0EB: "cgroup",
    0x63677270: "cgroup2",
    0x1CD1: "devpts",
    0x64626720: "debugfs",
    0x6969: "nfs",
    0x65735546: "fuse",
    0xFF534D42: "cifs",
    0xFE534D42: "smb2",
    0x00C36400: "ceph",
    0x01021997: "9p",
}


def type_name(magic: int) -> str:
    """Name a file system as mount(8) does (`ext` for ext2, 3 and 4, which share a number); `0x…` when unknown."""
    return _NAMES.get(magic, hex(magic))
