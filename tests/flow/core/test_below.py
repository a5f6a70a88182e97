"""What is mounted below its volume's directory, on the host in memory; on the kernel: tests/root/core."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.flow.core.below import STORIES, Site, a_device_s_bind_that_somebody_unmounts_is_made_again
from volmgr.host.interface import Host
from volmgr.testing import FakeHost


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
def test_on_the_host_in_memory(story: Callable[[Host], None]) -> None:
    story(FakeHost())


def test_a_bind(host: FakeHost) -> None:
    host.put("/srv/disk.img", bytes(64 << 10))
    a_device_s_bind_that_somebody_unmounts_is_made_again(host, Path("/srv/disk.img"), "64Ki")


def test_after_a_reboot_it_is_mounted_again() -> None:
    host = FakeHost()
    site = Site.with_pod(host)
    host.reboot()
    site.restart()
    assert site.plugin.calls == ["mount", "mount"]
    assert host.mounts.is_mount_point(site.place)


def test_files_are_written_again_after_a_reboot() -> None:
    host = FakeHost()
    site = Site.with_pod(host, files=True)
    host.reboot()
    site.restart()
    assert site.plugin.calls == ["mount", "mount"]
