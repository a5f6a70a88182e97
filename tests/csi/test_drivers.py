"""The drivers of the lane keep to CSI themselves: csi-sanity of Kubernetes says so."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.csi.fault_driver.profile import EVERYTHING, MOUNT_GROUP, NODE, SINGLE_NODE_MULTI_WRITER
from tests.csi.fault_driver.running import running_fault_process
from tests.kube.cluster import BINARIES
from tests.kube.drivers import running_loopcsi

MIB = 1 << 20


def passed(socket: Path, top: Path, *options: str) -> int:
    """Give how many of csi-sanity's examinations a driver passed; it must fail none."""
    argv = [str(BINARIES / "csi-sanity"), f"-csi.endpoint={socket}", "-ginkgo.no-color"]
    argv += [f"-csi.mountdir={top / 'mount'}", f"-csi.stagingdir={top / 'staging'}"]
    argv += [f"-csi.testvolumesize={16 * MIB}", f"-csi.testvolumeexpandsize={32 * MIB}", *options]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=170, check=False)
    assert done.returncode == 0, done.stdout[-20000:]
    (counted,) = re.findall(r"(\d+) Passed \| 0 Failed", done.stdout)
    return int(counted)


def test_the_fault_driver_passes_csi_sanity(tmp_path: Path) -> None:
    with running_fault_process(tmp_path / "driver") as driver:
        assert passed(driver.socket, tmp_path) > 40
        assert driver.volumes.all() == []


def test_the_fault_driver_passes_csi_sanity_with_all_that_it_can_do(tmp_path: Path) -> None:
    node = (*NODE, SINGLE_NODE_MULTI_WRITER, MOUNT_GROUP)
    topology = {"topology.fault.csi.test/machine": "machine-1"}
    with running_fault_process(
        tmp_path / "driver", node=node, controller=EVERYTHING, topology=topology, max_volumes=9
    ) as driver:
        assert passed(driver.socket, tmp_path) > 50
        assert driver.volumes.all() == []


@pytest.mark.parametrize("options", [(), ("-attach",)], ids=["plain", "attach"])
def test_loopcsi_passes_csi_sanity(tmp_path: Path, options: tuple[str, ...]) -> None:
    with running_loopcsi(tmp_path / "driver", "loop.csi.e2e", "machine-1", *options) as driver:
        assert passed(driver.socket, tmp_path) > 40
        assert list(driver.volumes.glob("*.img")) == []
