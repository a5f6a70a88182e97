"""What is mounted below its volume's directory, on the kernel; on the host in memory: tests/flow/core."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.flow.core.below import STORIES, a_device_s_bind_that_somebody_unmounts_is_made_again
from volmgr.host.interface import Host
from volmgr.testing.real_host import RealHosts


@pytest.fixture
def hosts(tmp_path: Path) -> Iterator[RealHosts]:
    with RealHosts(tmp_path) as hosts:
        yield hosts


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
def test_on_the_kernel(hosts: RealHosts, story: Callable[[Host], None]) -> None:
    host, _ = hosts.fresh()
    story(host)


def test_a_bind(hosts: RealHosts) -> None:
    host, top = hosts.fresh()
    image = top / "disk.img"
    with image.open("wb") as file:
        file.truncate(1 << 20)
    a_device_s_bind_that_somebody_unmounts_is_made_again(host, image, "1Mi")
