"""A disk of a network and the real attach-detach controller: told in use, attached, logged in; and back again."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.eventually import eventually
from tests.kube.cluster import MANAGED_ATTACHMENT, Cluster
from tests.kube.kube_node import KubeNode, NodeIdentity
from tests.kube.objects import NO_TOKEN
from tests.kube.scripted_scsi import ScriptedFabric, ScriptedHost, scripted_host
from volmgr.kube.resources import NODES, PODS

IQN = "iqn.2026-01.io.test:disks"
ISCSI, FC = "kubernetes.io/iscsi", "kubernetes.io/fc"
WWN = "5000000000000001"
PATIENCE = 60.0


class ScriptedNode(KubeNode):
    """A daemon that finds the scripted commands first."""

    def __init__(self, identity: NodeIdentity, top: Path, host: ScriptedHost) -> None:
        self._bin = host.bin
        super().__init__(identity, top)

    def command(self, *options: str) -> list[str]:
        return [
            "env",
            f"PATH={self._bin}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin",
            *super().command(*options),
        ]


@pytest.fixture
def host(tmp_path: Path) -> Iterator[ScriptedHost]:
    (tmp_path / "scripted").mkdir()
    with scripted_host(tmp_path / "scripted") as host:
        host.initiator.map(host.initiator.target(IQN, host.portal), 0, "36001405aa")
        yield host


Told = tuple[list[str], list[str]]
"""What a node status has in use, and attached."""


def said(cluster: Cluster, place: str) -> Told:
    now = cluster.admin.get(place)
    return in_use(now), attached(now)


def in_use(node: Mapping[str, Any]) -> list[str]:
    return list(node["status"].get("volumesInUse", []))


def attached(node: Mapping[str, Any]) -> list[str]:
    return [each["name"] for each in node["status"].get("volumesAttached", [])]


def test_a_disk_is_told_in_use_then_attached_then_logged_in_and_given_back_in_the_opposite_order(
    cluster: Cluster, make_node: Callable[..., NodeIdentity], host: ScriptedHost, namespace: str, tmp_path: Path
) -> None:
    identity = make_node(managed_attachment=False)
    place = NODES.path(name=identity.name)
    unique = f"{ISCSI}/{host.portal}:{IQN}:0"
    volume = {"name": "v", "iscsi": {"targetPortal": host.portal, "iqn": IQN, "lun": 0}}
    with ScriptedNode(identity, tmp_path, host) as node:
        told: list[Told] = []
        host.before = lambda command: told.append(said(cluster, place)) if "--login" in command else None
        made = identity.run_pod(namespace, "web", volume, **NO_TOKEN)
        cluster.admin.until(place, lambda now: in_use(now) == [unique])
        let_attach(cluster, identity, PODS.path(namespace, "web"))
        node.wait(f"{namespace}/web")
        assert told == [([unique], [unique])], "what the node status said before the login"
        assert host.steps == ["login"]
        assert attached(cluster.admin.get(place)) == [unique]
        target = node.volume_of(made, ISCSI)
        assert str(target) in node.mount_ids()

        gate = Gate(node)
        host.before = lambda command: gate.wait() if command.startswith("-m session") else None
        cluster.admin.delete(PODS.path(namespace, "web"), gracePeriodSeconds=0)
        assert gate.reached.wait(PATIENCE)
        assert host.steps == ["login", "flush", "delete"]
        assert gate.mounts == []
        assert said(cluster, place) == ([unique], [unique])

        gate.goes_on.set()
        cluster.admin.until(place, lambda now: in_use(now) == [] and attached(now) == [])
        assert host.steps == ["login", "flush", "delete", "logout"]
        assert host.initiator.sessions == {}
        assert leftovers(node, ISCSI) == []


def test_a_disk_of_a_fabric_is_told_in_use_attached_and_scanned_for_and_forgotten_before_it_is_in_use_no_more(
    cluster: Cluster, make_node: Callable[..., NodeIdentity], host: ScriptedHost, namespace: str, tmp_path: Path
) -> None:
    fabric = ScriptedFabric(host.storage, WWN, {5: "36001405bb"})
    identity = make_node(managed_attachment=False)
    place = NODES.path(name=identity.name)
    unique = f"{FC}/[{WWN}]:5"
    volume = {"name": "v", "fc": {"targetWWNs": [WWN], "lun": 5}}
    with ScriptedNode(identity, tmp_path, host) as node:
        told: list[Told] = []
        fabric.before_scan = lambda: told.append(said(cluster, place))
        made = identity.run_pod(namespace, "web", volume, **NO_TOKEN)
        cluster.admin.until(place, lambda now: in_use(now) == [unique])
        let_attach(cluster, identity, PODS.path(namespace, "web"))
        node.wait(f"{namespace}/web")
        assert told == [([unique], [unique])], "what the node status said before the scan"
        assert host.steps == ["scan"]
        assert attached(cluster.admin.get(place)) == [unique]
        assert str(node.volume_of(made, FC)) in node.mount_ids()

        gate = Gate(node)
        host.storage.before_delete = gate.wait
        cluster.admin.delete(PODS.path(namespace, "web"), gracePeriodSeconds=0)
        assert gate.reached.wait(PATIENCE)
        assert host.steps == ["scan", "flush"]
        assert gate.mounts == []
        assert said(cluster, place) == ([unique], [unique])

        gate.goes_on.set()
        cluster.admin.until(place, lambda now: in_use(now) == [] and attached(now) == [])
        assert host.steps == ["scan", "flush", "delete"]
        assert leftovers(node, FC) == []


def let_attach(cluster: Cluster, node: NodeIdentity, pod: str) -> None:
    """Let controllers attach to the node. Pods that they passed over they look at again only when these change."""
    place, looks = NODES.path(name=node.name), itertools.count()
    cluster.admin.patch(place, {"metadata": {"annotations": {MANAGED_ATTACHMENT: "true"}}})

    def is_attached_after_an_event() -> bool:
        cluster.admin.patch(pod, {"metadata": {"labels": {"look": str(next(looks))}}})
        return attached(cluster.admin.get(place)) != []

    eventually(is_attached_after_an_event, "the volume is attached to the node")


class Gate:
    """Holds a step on the host back, to look at what there is while it has not been done."""

    def __init__(self, node: KubeNode) -> None:
        self.reached, self.goes_on = threading.Event(), threading.Event()
        self.mounts: list[str] = []
        """Of disks of a network, when the step was reached."""
        self._node = node

    def wait(self) -> None:
        """Wait until the test lets it go on."""
        self.mounts = [path for path in self._node.mount_ids() if "kubernetes.io" in path]
        self.reached.set()
        self.goes_on.wait(PATIENCE)


def leftovers(node: KubeNode, plugin: str) -> list[Path]:
    """Give the files below what a type has on the node."""
    return [each for each in (node.root / "plugins" / plugin).rglob("*") if each.is_file()]
