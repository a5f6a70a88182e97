"""The mock driver of Kubernetes' own e2e suite, with a registrar of ours: each capability that it can advertise."""

from __future__ import annotations

import json
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.csi import objects
from tests.csi.fault_driver.registration import Registration
from tests.csi.node import QUICK, CsiNode, registry
from tests.csi.registrar import Registrar, running_registrar
from tests.eventually import eventually
from tests.kube.cluster import BINARIES
from tests.kube.servers import Server
from tests.root.acceptance.outside import pod

NAME = "mock.csi.e2e"


@dataclass(frozen=True)
class MockCsi:
    """A driver that runs, and its registrar."""

    log: Path
    registrar: Registrar

    def requests(self, method: str) -> list[dict[str, Any]]:
        """Give what a method was asked, when that succeeded."""
        lines = map(json.loads, self.log.read_text().splitlines())
        return [each["request"] for each in lines if each["method"].endswith(f"/{method}") and "error" not in each]


@contextmanager
def running_mockcsi(top: Path, *options: str) -> Generator[MockCsi]:
    """Run it beside a node below `top`."""
    state = top / "mock"
    state.mkdir()
    socket, log = state / "csi.sock", state / "calls"
    argv = [str(BINARIES / "mockcsi"), "-endpoint", f"unix://{socket}", "-drivername", NAME, "-calllog", str(log)]
    server = Server(state / "mockcsi.log", [*argv, *options])
    server.start()
    try:
        server.until("listens", socket.exists)
        registration = Registration(name=NAME, endpoint=str(socket))
        with running_registrar(registry(top) / "mock-reg.sock", state / "registrar", registration) as registrar:
            yield MockCsi(log, registrar)
    finally:
        server.stop()


@contextmanager
def running_node(top: Path, **spec: Any) -> Generator[CsiNode]:  # noqa: ANN401 - YAML
    """Run a node with the driver, whose CSIDriver has these fields, and a class of it."""
    with CsiNode(top, **QUICK) as node:
        node.put("driver.json", objects.driver_object(NAME, **spec))
        node.put("class.json", objects.storage_class("mock", NAME, allowVolumeExpansion=True))
        node.until_registered(NAME)
        yield node
        for file in ("shop.json", "db.json"):
            (node.manifests / file).unlink(missing_ok=True)
        node.until_clean()


def put_shop(node: CsiNode, size: str = "1Gi", **spec: Any) -> None:  # noqa: ANN401 - YAML
    node.put("claim.json", objects.claim("orders", size=size, storageClassName="mock"))
    node.put("shop.json", pod("shop", objects.claimed("orders"), **spec))


def test_it_is_registered_by_our_registrar_which_is_told(top: Path) -> None:
    with running_mockcsi(top, "-disable-attach") as mock, running_node(top) as node:
        assert node.drivers()[NAME]["node_id"] == NAME
        eventually(lambda: len(mock.registrar.calls()) >= 2, "the registrar is told")
        assert [call.method for call in mock.registrar.calls()] == ["GetInfo", "NotifyRegistrationStatus"]
        assert mock.registrar.calls()[1].request == {"pluginRegistered": True}


@pytest.mark.parametrize("options", [(), ("-permissive-target-path",)], ids=["strict", "permissive"])
def test_a_claim_s_volume_is_made_attached_staged_and_published_by_it(top: Path, options: tuple[str, ...]) -> None:
    with running_mockcsi(top, *options) as mock, running_node(top, attachRequired=True) as node:
        put_shop(node)
        node.wait("shop")
        (attached,) = mock.requests("ControllerPublishVolume")
        (staged,) = mock.requests("NodeStageVolume")
        (published,) = mock.requests("NodePublishVolume")
        assert attached["volume_id"] == staged["volume_id"] == published["volume_id"]
        assert staged["publish_context"] == published["publish_context"] != {}
        (node.manifests / "shop.json").unlink()
        node.wait("shop", "unmounted")
        eventually(lambda: mock.requests("ControllerUnpublishVolume"), "it is detached")


def test_a_driver_that_attaches_nothing_is_not_asked_to(top: Path) -> None:
    with running_mockcsi(top, "-disable-attach") as mock, running_node(top) as node:
        put_shop(node)
        node.wait("shop")
        assert mock.requests("ControllerPublishVolume") == []
        assert len(mock.requests("NodePublishVolume")) == 1


def test_its_limit_is_listed(top: Path) -> None:
    with running_mockcsi(top, "-attach-limit", "3") as _, running_node(top) as node:
        assert node.drivers()[NAME]["limit"] == 3


def test_its_topology_is_listed_and_asked_for(top: Path) -> None:
    with running_mockcsi(top, "-disable-attach", "-topology") as mock, running_node(top) as node:
        topology = node.drivers()[NAME]["topology"]
        assert topology
        put_shop(node)
        node.wait("shop")
        (made,) = mock.requests("CreateVolume")
        assert {"segments": topology} in made["accessibility_requirements"]["requisite"]


@pytest.mark.parametrize("on_the_node", [True, False], ids=["node-too", "controller-alone"])
def test_a_volume_grows_on_the_node_only_where_it_says_so(top: Path, on_the_node: bool) -> None:
    options = ("-disable-attach", *(("-node-expand-required",) if on_the_node else ()))
    with running_mockcsi(top, *options) as mock, running_node(top) as node:
        put_shop(node)
        node.wait("shop")
        put_shop(node, "2Gi")
        eventually(lambda: mock.requests("ControllerExpandVolume"), "it grows")
        eventually(lambda: node.json("claims")["volumes"][0]["capacity"] == "2Gi", lambda: str(node.json("claims")))
        assert len(mock.requests("NodeExpandVolume")) == on_the_node


def test_a_group_is_the_driver_s_business_where_it_says_so(top: Path) -> None:
    with running_mockcsi(top, "-disable-attach", "-volume-mount-group") as mock, running_node(top) as node:
        put_shop(node, securityContext={"fsGroup": 3000})
        node.wait("shop")
        for method in ("NodeStageVolume", "NodePublishVolume"):
            (asked,) = mock.requests(method)
            assert asked["volume_capability"]["AccessType"]["Mount"]["volume_mount_group"] == "3000"
        assert node.target("shop", node.json("claims")["claims"][0]["volume"]).stat().st_gid != 3000
