"""The whole host, wired."""

import os
from contextlib import suppress
from pathlib import Path

from volmgr.errors import OperationError
from volmgr.host.interface import BlockDevices, Commands, Files, Host, Mounts, Ownership


def test_the_real_host_keeps_every_protocol(host: Host) -> None:
    services: tuple[Mounts, Files, Commands, BlockDevices, Ownership] = (
        host.mounts,
        host.files,
        host.commands,
        host.block,
        host.ownership,
    )
    assert all(services)


def test_facts_of_this_machine_are_read(host: Host) -> None:
    pages, size = os.sysconf("SC_PHYS_PAGES"), os.sysconf("SC_PAGE_SIZE")
    assert host.kernel.memory == pages * size
    assert host.kernel.boot_id == Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    assert not host.kernel.user_namespace


def test_noswap_is_claimed_just_where_a_tmpfs_takes_it(host: Host, target: Path) -> None:
    with suppress(OperationError):
        host.mounts.ensure_mounted(target, "tmpfs", options=["noswap"])
    assert host.mounts.is_mount_point(target) == host.kernel.tmpfs_noswap


def test_the_clock_never_goes_back(host: Host) -> None:
    first = host.clock()
    assert host.clock() >= first
