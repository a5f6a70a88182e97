"""Names of file systems."""

from volmgr.host.file_system_types import LOCAL_TYPES, type_name


def test_a_known_file_system_has_the_name_that_mount_gives_it() -> None:
    assert type_name(0x01021994) == "tmpfs"
    assert type_name(0xEF53) == "ext"


def test_an_unknown_file_system_keeps_its_number() -> None:
    assert type_name(0xABCD) == "0xabcd"


def test_no_type_that_waits_for_a_server_counts_as_local() -> None:
    assert not LOCAL_TYPES & {"nfs", "nfs4", "cifs", "ceph", "9p", "fuse", "fuse.sshfs", "fuseblk", "afs", "virtiofs"}


def test_every_type_that_the_disk_of_a_node_may_have_is_local() -> None:
    """Else each look below the root directory would cost a process."""
    assert {"ext4", "xfs", "btrfs", "zfs", "bcachefs", "f2fs", "jfs", "overlay", "tmpfs", "rootfs"} <= LOCAL_TYPES
