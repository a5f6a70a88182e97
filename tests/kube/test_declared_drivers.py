"""Drivers of `csi` that register while the daemon runs: what the cluster is told of them, and what people see."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.eventually import eventually
from tests.kube.client import Document
from tests.kube.cluster import Cluster
from tests.kube.kube_node import KubeNode, NodeIdentity
from tests.side_venv import SideVenv, write_package
from volmgr.kube.csi_entries import NODE_IDS
from volmgr.kube.resources import CSI_NODES, NODES

NAME, DRIVER, ZONE = "node-of-drivers", "disk.lane.example", "topology.lane.example/zone"
HERE = Path(__file__).parent


@dataclass(frozen=True)
class Site:
    """A daemon with a package that declares what a test writes into a pipe."""

    node: KubeNode

    def say(self, said: object) -> None:
        """Declare a driver, or withdraw the one of a name."""
        with (self.node.top / "drivers").open("w") as pipe:
            pipe.write(f"{json.dumps(said)}\n")

    def until_entries(self, *wanted: Document) -> None:
        """Return when the CSINode has these entries."""
        admin = self.node.identity.cluster.admin
        admin.until(CSI_NODES.path(name=NAME), lambda found: (found["spec"].get("drivers") or []) == list(wanted))

    def metadata(self) -> Document:
        """Give the Node's."""
        return dict(self.node.identity.cluster.admin.get(NODES.path(name=NAME))["metadata"])

    def listed(self) -> list[dict[str, Any]]:
        """Give what `volmgr plugins` lists."""
        return list(json.loads(self.node.tell("plugins", "-o", "json"))["drivers"])


@pytest.fixture
def site(cluster: Cluster, tmp_path: Path) -> Iterator[Site]:
    code = (HERE / "loop_type/announcer.py").read_text()
    venv = SideVenv.make(tmp_path / "venv")
    name = "volmgr-test-announcer"
    venv.install(write_package(tmp_path / "package", name, code, 'announcer = "volmgr_test_announcer"'))
    top = tmp_path / "node"
    top.mkdir()
    os.mkfifo(top / "drivers")
    with KubeNode(NodeIdentity.added_to(cluster, NAME), top, python=venv.python) as node:
        yield Site(node)
    cluster.admin.delete(NODES.path(name=NAME))


def entry(count: int) -> Document:
    """Give the entry of the CSINode."""
    return {"name": DRIVER, "nodeID": "i-1", "topologyKeys": [ZONE], "allocatable": {"count": count}}


def test_a_driver_has_its_entry_until_it_vanishes_on_a_node_that_was_made_anew_too(site: Site) -> None:
    said = {"name": DRIVER, "node_id": "i-1", "topology": {ZONE: "a"}, "limit": 7, "since": 1.0}
    site.say(said)
    site.until_entries(entry(7))
    metadata = site.metadata()
    assert json.loads(metadata["annotations"][NODE_IDS]) == {DRIVER: "i-1"}
    assert metadata["labels"][ZONE] == "a"
    (listed,) = site.listed()
    assert (listed["node_id"], listed["topology"], listed["limit"]) == ("i-1", {ZONE: "a"}, 7)

    site.say({**said, "limit": 3})
    site.until_entries(entry(3))
    mark = site.node.identity.cluster.audit.mark()
    site.say({**said, "limit": 3, "since": 2.0})
    eventually(lambda: site.listed()[0]["since"].endswith("02.000Z"), "it has registered again")
    assert site.node.identity.cluster.requests(after=mark, user=site.node.identity.user, resource="csinodes") == []

    admin = site.node.identity.cluster.admin
    admin.delete(NODES.path(name=NAME))
    admin.until_gone(CSI_NODES.path(name=NAME))
    site.node.identity.cluster.add_node(NAME)
    eventually(partial(admin.is_there, CSI_NODES.path(name=NAME)), "a CSINode of the new Node")
    site.until_entries(entry(3))
    assert json.loads(site.metadata()["annotations"][NODE_IDS]) == {DRIVER: "i-1"}

    site.say(DRIVER)
    site.until_entries()
    assert NODE_IDS not in site.metadata().get("annotations", {})
    assert site.listed() == []


def test_a_driver_whose_topology_contradicts_the_node_s_label_has_none_and_people_see_why(site: Site) -> None:
    admin = site.node.identity.cluster.admin
    admin.patch(NODES.path(name=NAME), {"metadata": {"labels": {ZONE: "b"}}})
    site.say({"name": DRIVER, "node_id": "i-1", "topology": {ZONE: "a"}})
    eventually(lambda: [each["problem"] for each in site.listed()] not in ([], [""]), "a problem is shown")
    assert f"says that the node is in {ZONE}=a, and its label is {ZONE}=b" in site.node.tell("plugins")
    site.until_entries()


def test_a_driver_whose_topology_is_not_the_node_s_to_say_keeps_no_other_out(site: Site) -> None:
    site.say({"name": "a.lane.example", "node_id": "i-1", "topology": {"node-restriction.kubernetes.io/zone": "a"}})
    site.say({"name": DRIVER, "node_id": "i-1", "topology": {ZONE: "a"}, "limit": 7})
    site.until_entries(entry(7))
    eventually(lambda: [bool(each["problem"]) for each in site.listed()] == [True, False], "a problem is shown")
    said = site.node.tell("plugins")
    assert "the Node does not take what csi driver a.lane.example says of it" in said
    assert "node-restriction.kubernetes.io/zone" in said
