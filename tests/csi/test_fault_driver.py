"""The fault driver does what it is told: errors with and without the work, gates, crashes, and it remembers."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.csi.fault_driver.kernel import is_mounted
from tests.csi.fault_driver.profile import ATTACH, CONTROLLER
from tests.csi.fault_driver.rules import FOREVER, Rule
from tests.csi.fault_driver.running import Records, running_fault_driver, running_fault_process
from volmgr_csi.driver.connection import CallError, Connection
from volmgr_csi.driver.methods import NODE_INFO, PUBLISH, STAGE, UNPUBLISH, UNSTAGE, A, Method, Q
from volmgr_csi.v1 import csi_pb2 as csi

MOUNTED = csi.VolumeCapability(
    mount=csi.VolumeCapability.MountVolume(), access_mode=csi.VolumeCapability.AccessMode(mode="SINGLE_NODE_WRITER")
)
BLOCK = csi.VolumeCapability(
    block=csi.VolumeCapability.BlockVolume(), access_mode=csi.VolumeCapability.AccessMode(mode="SINGLE_NODE_WRITER")
)


def ask(driver: Records, method: Method[Q, A], question: Q, timeout: float = 60.0) -> A:
    connection = Connection(driver.name, str(driver.socket))
    try:
        return connection.call(method, question, timeout)
    finally:
        connection.close()


def staged(at: Path, secrets: Mapping[str, str] | None = None) -> csi.NodeStageVolumeRequest:
    at.mkdir(exist_ok=True)
    return csi.NodeStageVolumeRequest(
        volume_id="disk", staging_target_path=str(at), volume_capability=MOUNTED, secrets=secrets
    )


def unstaged(at: Path) -> csi.NodeUnstageVolumeRequest:
    return csi.NodeUnstageVolumeRequest(volume_id="disk", staging_target_path=str(at))


def test_a_rule_answers_an_error_without_the_work_or_after_it_as_often_as_it_says(tmp_path: Path) -> None:
    staging = tmp_path / "staging"
    with running_fault_driver(tmp_path / "driver") as driver:
        driver.add_volume("disk")
        driver.script(
            Rule(method="NodeStageVolume", code="INTERNAL", message="broken", match={"volume_id": "disk"}),
            Rule(method="NodeStageVolume", code="UNAVAILABLE", skip_work=False),
            Rule(method="NodeStageVolume", code="ABORTED", match={"volume_id": "other"}, times=FOREVER),
        )
        with pytest.raises(CallError, match="broken") as error:
            ask(driver, STAGE, staged(staging))
        assert error.value.code == "INTERNAL"
        assert not is_mounted(str(staging))
        with pytest.raises(CallError, match="UNAVAILABLE"):
            ask(driver, STAGE, staged(staging, {"key": "hidden"}))
        assert is_mounted(str(staging))
        ask(driver, STAGE, staged(staging))
        ask(driver, UNSTAGE, unstaged(staging))
        assert not is_mounted(str(staging))
        calls = driver.calls("NodeStageVolume")
        assert [call.code for call in calls] == ["INTERNAL", "UNAVAILABLE", "OK"]
        assert calls[1].request["secrets"] == {"key": "hidden"}
        assert (driver.top / "calls").stat().st_mode & 0o777 == 0o600


def test_a_call_waits_at_its_gate_and_its_work_is_done_though_nobody_waits_for_it(tmp_path: Path) -> None:
    staging = tmp_path / "staging"
    with running_fault_driver(tmp_path / "driver") as driver:
        driver.add_volume("disk")
        driver.script(Rule(method="NodeStageVolume", gate_before="go"))
        with pytest.raises(CallError, match="DEADLINE_EXCEEDED"):
            ask(driver, STAGE, staged(staging), timeout=0.5)
        driver.until_reached("go")
        assert not is_mounted(str(staging))
        driver.open("go")
        driver.until_called("NodeStageVolume")
        assert is_mounted(str(staging))
        ask(driver, UNSTAGE, unstaged(staging))


def test_what_a_rule_changes_in_an_answer_is_what_the_caller_reads(tmp_path: Path) -> None:
    with running_fault_driver(tmp_path / "driver", max_volumes=3) as driver:
        driver.script(Rule(method="NodeGetInfo", answer={"nodeId": "other"}))
        told = ask(driver, NODE_INFO, csi.NodeGetInfoRequest())
        assert (told.node_id, told.max_volumes_per_node) == ("other", 3)
        assert ask(driver, NODE_INFO, csi.NodeGetInfoRequest()).node_id == "machine-1"


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_crash_is_a_crash_and_the_driver_knows_its_volumes_afterwards(tmp_path: Path, when: str) -> None:
    staging, target = tmp_path / "staging", tmp_path / "target"
    with running_fault_process(tmp_path / "driver") as driver:
        driver.add_volume("disk")
        driver.script(Rule(method="NodeStageVolume", crash=when))
        with pytest.raises(CallError, match="UNAVAILABLE"):
            ask(driver, STAGE, staged(staging))
        driver.until_crashed()
        assert is_mounted(str(staging)) == (when == "after")
        assert [call.code for call in driver.calls()] == [""]
        driver.start()
        ask(driver, STAGE, staged(staging))
        ask(driver, PUBLISH, published(staging, target, MOUNTED))
        (staging / "file").write_text("there")
        assert (target / "file").read_text() == "there"
        ask(driver, UNPUBLISH, csi.NodeUnpublishVolumeRequest(volume_id="disk", target_path=str(target)))
        ask(driver, UNSTAGE, unstaged(staging))
        (volume,) = driver.volumes.all()
        assert (volume.staged, volume.published) == ([], {})


def published(staging: Path, target: Path, capability: csi.VolumeCapability) -> csi.NodePublishVolumeRequest:
    return csi.NodePublishVolumeRequest(
        volume_id="disk", staging_target_path=str(staging), target_path=str(target), volume_capability=capability
    )


def test_gates_of_a_process_are_opened_from_outside(tmp_path: Path) -> None:
    with running_fault_process(tmp_path / "driver") as driver:
        driver.script(Rule(method="NodeGetInfo", gate_after="go"))
        asking = threading.Thread(target=ask, args=(driver, NODE_INFO, csi.NodeGetInfoRequest()))
        asking.start()
        driver.until_reached("go")
        driver.open("go")
        asking.join()
        assert [call.code for call in driver.calls("NodeGetInfo")] == ["OK"]


def test_a_block_volume_is_a_loop_device_at_its_target(tmp_path: Path) -> None:
    staging, target = tmp_path / "staging", tmp_path / "target"
    with running_fault_driver(tmp_path / "driver") as driver:
        driver.add_volume("disk", block=True)
        staging.mkdir()
        ask(
            driver,
            STAGE,
            csi.NodeStageVolumeRequest(volume_id="disk", staging_target_path=str(staging), volume_capability=BLOCK),
        )
        ask(driver, PUBLISH, published(staging, target, BLOCK))
        assert target.is_block_device()
        ask(driver, UNPUBLISH, csi.NodeUnpublishVolumeRequest(volume_id="disk", target_path=str(target)))
        ask(driver, UNSTAGE, unstaged(staging))
        assert not target.exists()


def test_a_driver_that_attaches_refuses_to_stage_what_is_not_attached(tmp_path: Path) -> None:
    with running_fault_driver(tmp_path / "driver", controller=(*CONTROLLER, ATTACH)) as driver:
        driver.add_volume("disk")
        with pytest.raises(CallError, match="not attached"):
            ask(driver, STAGE, staged(tmp_path / "staging"))
