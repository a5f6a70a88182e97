"""`volmgr csi` with a driver that somebody else could have written, in Go: file systems, devices, attaching."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.csi.fault_driver.kernel import is_mounted
from tests.csi.node import loops_below
from tests.kube.drivers import LoopCsi, running_loopcsi
from volmgr.cli.app import cli

NAME = "loop.csi.command"


def run(top: Path, command: str, driver: LoopCsi, *words: str) -> Result:
    result = CliRunner().invoke(
        cli, ["csi", command, str(driver.socket), *words], env={"VOLMGR_CSI_STATE": str(top / "state")}
    )
    assert result.exit_code == 0, result.output
    return result


@pytest.mark.parametrize("options", [(), ("-attach",)], ids=["plain", "attach"])
def test_a_volume_is_made_published_measured_and_deleted(top: Path, options: tuple[str, ...]) -> None:
    target = top / "here"
    with running_loopcsi(top / "driver", NAME, "machine-1", *options) as driver:
        run(top, "publish", driver, "scratch", "--target", str(target), "--create", "16Mi", "--fs-type", "ext4")
        (target / "file").write_bytes(bytes(1 << 20))
        (usage,) = (
            each
            for each in json.loads(run(top, "stats", driver, "scratch", "-o", "json").stdout)["usage"]
            if each["unit"] == "bytes"
        )
        assert usage["used"] >= 1 << 20
        run(top, "unpublish", driver, "scratch")

        assert not target.exists()
        assert list(driver.volumes.iterdir()) == []
        assert list((top / "state").iterdir()) == []
        assert loops_below(top) == []


def test_a_device_is_published_and_taken_back(top: Path) -> None:
    target = top / "here"
    with running_loopcsi(top / "driver", NAME, "machine-1") as driver:
        run(top, "publish", driver, "raw", "--target", str(target), "--create", "16Mi", "--block")
        assert stat.S_ISBLK(target.stat().st_mode)
        run(top, "unpublish", driver, "raw")

        assert not is_mounted(str(target))
        assert not target.exists()
        assert loops_below(top) == []


def test_a_driver_of_go_says_what_it_is(top: Path) -> None:
    with running_loopcsi(top / "driver", NAME, "machine-1", "-attach") as driver:
        said = json.loads(run(top, "info", driver, "-o", "json").stdout)

    assert (said["name"], said["node_info"]["node_id"], said["ready"]) == (NAME, "machine-1", True)
    assert "PUBLISH_UNPUBLISH_VOLUME" in said["controller"]
    assert "VOLUME_EXPANSION_ONLINE" in said["plugin"]
