"""A claim goes in and a mounted volume comes out, on one node with a driver that serves its controller there, too."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.csi.fault_driver.profile import EVERYTHING
from tests.csi.fault_driver.rules import Rule
from tests.csi.fault_driver.running import ProcessDriver, running_fault_process
from tests.csi.node import CsiNode, registry
from tests.csi.objects import Document, claim, claimed, device_pod, storage_class
from tests.eventually import eventually
from tests.root.acceptance.outside import pod
from volmgr.model.names import claim_uid

NAME = "fault.csi.test"
MADE = f"pvc-{claim_uid('default', 'data')}"
PLACE = {"topology.fault.csi.test/machine": "machine-1"}


@pytest.fixture
def driver(top: Path) -> Iterator[ProcessDriver]:
    with running_fault_process(
        top / "driver", registration=registry(top) / "fault-reg.sock", controller=EVERYTHING, topology=PLACE
    ) as driver:
        yield driver


@pytest.fixture
def node(top: Path, driver: ProcessDriver) -> Iterator[CsiNode]:
    with CsiNode(top) as node:
        node.until_registered(driver.name)
        yield node


def fast(**more: Any) -> Document:  # noqa: ANN401 - YAML
    return storage_class("fast", NAME, **more)


def wanted(size: str = "16Mi", **more: Any) -> Document:  # noqa: ANN401 - YAML
    return claim("data", size=size, storageClassName="fast", **more)


def user(**spec: Any) -> Document:  # noqa: ANN401 - YAML
    return pod("web", claimed("data"), **spec)


def reason(node: CsiNode) -> str:
    found = node.json("claims")["claims"]
    return str(found[0]["reason"]) if found else "no claim was read yet"


def methods(driver: ProcessDriver) -> list[str]:
    """Name what the controller service was asked, in order, and what the node service was."""
    return [call.method for call in driver.calls() if "Get" not in call.method and call.method != "Probe"]


def test_a_claim_becomes_a_mounted_volume_that_is_deleted_when_that_is_said(
    node: CsiNode, driver: ProcessDriver
) -> None:
    node.put("class.yaml", fast(mountOptions=["noatime"], parameters={"csi.storage.k8s.io/fstype": "xfs", "tier": "1"}))
    node.put("data.yaml", wanted())
    node.put("web.yaml", user())
    node.wait("web")
    (node.target("web", MADE) / "kept").write_text("1")
    assert methods(driver) == ["CreateVolume", "ControllerPublishVolume", "NodeStageVolume", "NodePublishVolume"]
    (asked,) = driver.calls("CreateVolume")
    assert asked.request == {
        "name": MADE,
        "capacityRange": {"requiredBytes": str(16 << 20)},
        "volumeCapabilities": [
            {
                "mount": {"fsType": "xfs", "mountFlags": ["noatime"]},
                "accessMode": {"mode": "SINGLE_NODE_MULTI_WRITER"},
            }
        ],
        "parameters": {"tier": "1"},
        "accessibilityRequirements": {"requisite": [{"segments": PLACE}], "preferred": [{"segments": PLACE}]},
    }
    for file in ("web.yaml", "data.yaml"):
        (node.manifests / file).unlink()
    node.wait("web", "unmounted")
    driver.until_called("ControllerUnpublishVolume")
    (orphan,) = node.json("orphans")["orphans"]
    assert orphan["volume"] == f"pv/{MADE}"
    assert len(driver.volumes.all()) == 1
    assert "is deleted, with what was on it" in node.volmgr("delete", "pvc/default/data", "--data").stdout
    assert driver.volumes.all() == []
    assert node.json("orphans")["orphans"] == []
    assert node.json("claims")["volumes"] == []


CALLS = {
    "CreateVolume": 1,
    "ControllerPublishVolume": 1,
    "ControllerExpandVolume": 2,
    "ControllerUnpublishVolume": 3,
    "DeleteVolume": 4,
}
"""After which stop of a life each call comes."""


def life(node: CsiNode) -> Iterator[None]:
    """Let a volume be made, attached, grown, detached and deleted; stops after what begins each of it."""
    node.put("data.yaml", wanted())
    node.put("web.yaml", user())
    yield
    node.volmgr("wait", "web")
    node.put("data.yaml", wanted("32Mi"))
    yield
    eventually(lambda: node.json("claims")["volumes"][0]["capacity"] == "32Mi", "a larger volume")
    (node.manifests / "web.yaml").unlink()
    yield
    node.volmgr("wait", "web", "--for", "unmounted")
    (node.manifests / "data.yaml").unlink()
    eventually(lambda: node.json("claims")["claims"] == [], "no claim")
    eventually(lambda: "volmgr delete" in node.json("claims")["volumes"][0]["reason"], "a released volume")
    node.volmgr("delete", "pvc/data", "--data", "--timeout", "0", code=None)
    yield
    eventually(lambda: node.json("claims")["volumes"] == [], "no volume")


@pytest.mark.parametrize("side", ["before", "after"])
@pytest.mark.parametrize("method", CALLS)
def test_a_daemon_that_is_killed_around_a_call_loses_no_volume_and_makes_none_twice(
    node: CsiNode, driver: ProcessDriver, method: str, side: str
) -> None:
    node.put("class.yaml", fast(allowVolumeExpansion=True))
    gates = ("here", "") if side == "before" else ("", "here")
    driver.script(Rule(method=method, gate_before=gates[0], gate_after=gates[1]))
    for stop, _ in enumerate(life(node), 1):
        if stop == CALLS[method]:
            driver.until_reached("here")
            node.kill()
            driver.open("here")
            node.start()
    assert driver.volumes.all() == []
    assert len({call.request["name"] for call in driver.calls("CreateVolume")}) == 1
    assert not list((node.root / "volmgr/provisioned").glob("*.json"))
    assert not list((node.root / "volmgr/csi/attachments").glob("*.json"))


@pytest.mark.parametrize("side", ["before", "after"])
@pytest.mark.parametrize("method", CALLS)
def test_a_driver_that_crashes_around_a_call_loses_no_volume_and_makes_none_twice(
    node: CsiNode, driver: ProcessDriver, method: str, side: str
) -> None:
    node.put("class.yaml", fast(allowVolumeExpansion=True))
    driver.script(Rule(method=method, crash=side))
    for stop, _ in enumerate(life(node), 1):
        if stop == CALLS[method]:
            driver.until_crashed()
            driver.start()
    assert driver.volumes.all() == []
    assert len({call.request["name"] for call in driver.calls("CreateVolume")}) == 1
    assert not list((node.root / "volmgr/provisioned").glob("*.json"))
    assert not list((node.root / "volmgr/csi/attachments").glob("*.json"))


def test_a_claim_that_asks_for_more_grows_while_it_is_mounted(node: CsiNode, driver: ProcessDriver) -> None:
    node.put("class.yaml", fast(allowVolumeExpansion=True))
    node.put("data.yaml", wanted())
    node.put("web.yaml", user())
    node.wait("web")
    driver.script(Rule(method="ControllerExpandVolume", code="ABORTED", message="one moment"))
    node.put("data.yaml", wanted("32Mi"))
    (grown, *_) = driver.until_called("NodeExpandVolume", code="OK")
    assert grown.request["capacityRange"] == {"requiredBytes": str(32 << 20)}
    assert [call.code for call in driver.calls("ControllerExpandVolume")] == ["ABORTED", "OK"]
    eventually(lambda: node.json("claims")["volumes"][0]["capacity"] == "32Mi", "a larger volume")


def test_a_block_volume_is_made_for_a_claim(node: CsiNode, driver: ProcessDriver) -> None:
    node.put("all.yaml", fast(), wanted(volumeMode="Block"), device_pod("web", claimed("data")))
    node.wait("web")
    assert node.device("web", MADE).is_block_device()
    (asked,) = driver.calls("CreateVolume")
    assert asked.request["volumeCapabilities"][0]["block"] == {}


def test_what_the_driver_says_is_said_of_the_claim(node: CsiNode, driver: ProcessDriver) -> None:
    driver.script(Rule(method="CreateVolume", code="OUT_OF_RANGE", message="there is no such size", times=3))
    node.put("all.yaml", fast(), wanted())
    words = f"class fast: CreateVolume of csi driver {NAME} failed: OUT_OF_RANGE: there is no such size; tried again in"
    eventually(lambda: reason(node).startswith(words), lambda: reason(node))
    driver.until_called("CreateVolume", code="OK")
    eventually(lambda: reason(node) == "", lambda: reason(node))


def test_secrets_of_a_class_reach_each_call_they_are_for_and_no_disk(node: CsiNode, driver: ProcessDriver) -> None:
    uses = ("provisioner", "controller-publish", "controller-expand", "node-stage", "node-publish", "node-expand")
    named = {f"csi.storage.k8s.io/{use}-secret-name": "${pvc.name}-" + use for use in uses}
    placed = {f"csi.storage.k8s.io/{use}-secret-namespace": "${pvc.namespace}" for use in uses}
    secrets: list[Document] = [
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": f"data-{use}"},
            "stringData": {"key": f"very secret {use}"},
        }
        for use in uses
    ]
    node.put("all.yaml", fast(parameters={**named, **placed}, allowVolumeExpansion=True), *secrets)
    node.put("data.yaml", wanted())
    node.put("web.yaml", user())
    node.wait("web")
    node.put("data.yaml", wanted("32Mi"))
    driver.until_called("NodeExpandVolume", code="OK")
    for file in ("web.yaml", "data.yaml"):
        (node.manifests / file).unlink()
    node.wait("web", "unmounted")
    node.volmgr("delete", "pvc/data", "--data")
    told = {call.method: call.request.get("secrets", {}).get("key") for call in driver.calls()}
    expected = {
        "CreateVolume": "provisioner",
        "ControllerPublishVolume": "controller-publish",
        "ControllerExpandVolume": "controller-expand",
        "NodeStageVolume": "node-stage",
        "NodePublishVolume": "node-publish",
        "NodeExpandVolume": "node-expand",
        "ControllerUnpublishVolume": "controller-publish",
        "DeleteVolume": "provisioner",
    }
    assert {method: told[method] for method in expected} == {m: f"very secret {use}" for m, use in expected.items()}
    state = [path for path in (node.root / "volmgr").rglob("*") if path.is_file()]
    assert not [path for path in state if b"very secret" in path.read_bytes()]
    assert "very secret" not in node.log.read_text()


def test_a_volume_that_the_storage_has_and_nobody_knows_is_listed_and_left_alone(
    node: CsiNode, driver: ProcessDriver
) -> None:
    stranger = "pvc-ffffffff-92fc-5438-bfde-25049d835bd6"
    driver.add_volume(stranger)
    driver.add_volume("an-administrators")
    node.put("all.yaml", fast(), wanted())
    driver.until_called("CreateVolume", code="OK")
    (orphan,) = node.json("orphans")["orphans"]
    assert orphan["volume"] == stranger
    assert orphan["reason"].startswith(f"{NAME} has it, and it looks made for a claim; nothing here knows it")
    driver.script(Rule(method="ListVolumes", code="UNAVAILABLE", message="later"))
    (problem,) = node.json("orphans")["problems"]
    assert problem == f"what {NAME} has cannot be listed: ListVolumes of csi driver {NAME} failed: UNAVAILABLE: later"
    assert {each.id for each in driver.volumes.all()} >= {stranger, "an-administrators"}
