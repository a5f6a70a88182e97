"""A disk of a network and the real attach-detach controller: told in use, attached, logged in; and back again."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.eventually import eventually
from tests.kube.cluster import MANAGED_ATTACHMENT, Cluster
from tests.kube.kube_node import KubeNode, NodeIdentity
from tests.kube.objects import NO_TOKEN
from tests.kube.scripted_scsi import ScriptedHost, scripted_host
from volmgr.kube.resources import NODES, PODS

IQN = "iqn.2026-01.io.test:disks"
PLUGIN = "kubernetes.io/iscsi"
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


def in_use(node: Mapping[str, Any]) -> list[str]:
    return list(node["status"].get("volumesInUse", []))


def attached(node: Mapping[str, Any]) -> list[str]:
    return [each["name"] for each in node["status"].get("volumesAttached", [])]


def test_a_disk_is_told_in_use_then_attached_then_logged_in_and_given_back_in_the_opposite_order(
    cluster: Cluster, make_node: Callable[..., NodeIdentity], host: ScriptedHost, namespace: str, tmp_path: Path
) -> None:
    identity = make_node(managed_attachment=False)
    place = NODES.path(name=identity.name)
    unique = f"{PLUGIN}/{host.portal}:{IQN}:0"
    volume = {"name": "v", "iscsi": {"targetPortal": host.portal, "iqn": IQN, "lun": 0}}
    with ScriptedNode(identity, tmp_path, host) as node:
        made = identity.run_pod(namespace, "web", volume, **NO_TOKEN)
        cluster.admin.until(place, lambda now: in_use(now) == [unique])
        node.until_why(f"{namespace}/web", "waits for")
        assert host.initiator.commands == [], "nobody has attached it yet"

        cluster.admin.patch(place, {"metadata": {"annotations": {MANAGED_ATTACHMENT: "true"}}})
        node.wait(f"{namespace}/web")
        assert host.steps == ["login"]
        assert attached(cluster.admin.get(place)) == [unique]
        target = node.volume_of(made, PLUGIN)
        assert str(target) in node.mount_ids()

        reached, goes_on = threading.Event(), threading.Event()
        mounts: list[str] = []

        def before(command: str) -> None:
            """Hold the logout back, to look at what there is while it has not been done."""
            if command.startswith("-m session"):
                mounts.extend(path for path in node.mount_ids() if "iscsi" in path)
                reached.set()
                goes_on.wait(PATIENCE)

        host.before = before
        cluster.admin.delete(PODS.path(namespace, "web"), gracePeriodSeconds=0)
        assert reached.wait(PATIENCE)
        assert host.steps == ["login", "flush", "delete"]
        assert mounts == []
        now = cluster.admin.get(place)
        assert (in_use(now), attached(now)) == ([unique], [unique])

        goes_on.set()
        cluster.admin.until(place, lambda now: in_use(now) == [] and attached(now) == [])
        assert host.steps == ["login", "flush", "delete", "logout"]
        assert host.initiator.sessions == {}
        eventually(lambda: not (node.root / "plugins" / PLUGIN).exists() or not leftovers(node), "an empty directory")


def leftovers(node: KubeNode) -> list[Path]:
    """Give the files below what is iscsi's on the node."""
    return [each for each in (node.root / "plugins" / PLUGIN).rglob("*") if each.is_file()]
