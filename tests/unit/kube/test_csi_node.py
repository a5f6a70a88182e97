"""The CSINode: what is made with the first contact, what drivers add, and that nothing of others is touched."""

from __future__ import annotations

import json
import logging
from collections.abc import Generator
from dataclasses import replace
from typing import Any

import pytest

from tests.unit.kube.memory_api import Document, MemoryApi
from tests.unit.kube.turned_thread import TurnedThread
from volmgr.errors import PluginError
from volmgr.in_tree import MIGRATED as MIGRATED_FIELDS
from volmgr.kube.csi_entries import (
    MIGRATED,
    MIGRATED_PLUGINS,
    NODE_IDS,
    csi_node_steps,
    in_process_drivers,
    migrated_plugins,
    new_csi_node,
)
from volmgr.kube.csi_node import CsiNodes
from volmgr.kube.errors import ApiError
from volmgr.model.driver_info import LARGEST, DriverInfo
from volmgr.model.kube import KubeSettings
from volmgr.plugin import Handles, VolumePlugin, Where
from volmgr.testing.node import plugins_of

NODE, CSI_NODE = "/api/v1/nodes/n1", "/apis/storage.k8s.io/v1/csinodes/n1"
EBS = DriverInfo(name="ebs.example.com", node_id="i-1", topology={"topology.example.com/zone": "a"}, limit=25)


class Site:
    """A server with a Node, and who keeps its CSINode; time passes as a test says."""

    def __init__(self) -> None:
        self.api = MemoryApi()
        self.put_node("uid-n1")
        self.thread = TurnedThread()
        self.csi = CsiNodes(self.thread, self.api, KubeSettings(), "n1")

    def put_node(self, uid: str, **metadata: Any) -> None:  # noqa: ANN401 - fields of any type
        self.api.put(NODE, {"metadata": {"name": "n1", "uid": uid, **metadata}})

    def started(self, *drivers: DriverInfo) -> Site:
        for info in drivers:
            self.csi.declare(info)
        self.csi.start()
        self.thread.settle()
        return self

    def declare(self, info: DriverInfo) -> None:
        self.csi.declare(info)
        self.thread.settle()

    def pauses(self, tries: int) -> list[float]:
        """Let tries pass, and give what was waited before each."""
        return [self.thread.pass_to_next() for _ in range(tries)]

    @property
    def document(self) -> Document:
        return self.api.objects[CSI_NODE]

    @property
    def drivers(self) -> list[Document]:
        return list(self.document["spec"]["drivers"])

    @property
    def node(self) -> Document:
        return dict(self.api.objects[NODE]["metadata"])

    def writes(self) -> list[str]:
        return [method for method, _, _ in self.api.requests if method != "GET"]


@pytest.fixture
def site() -> Generator[Site]:
    made = Site()
    yield made
    made.thread.stop()


def test_the_first_contact_makes_it_with_its_owner_and_the_migrated_types(site: Site) -> None:
    assert (site.csi.is_ready, site.csi.problem) == (False, "CSINode n1 is not yet initialized")
    site.started()
    metadata = site.document["metadata"]
    assert metadata["ownerReferences"] == [{"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "uid-n1"}]
    assert metadata["annotations"][MIGRATED] == (
        "kubernetes.io/aws-ebs,kubernetes.io/azure-disk,kubernetes.io/azure-file,kubernetes.io/cinder,"
        "kubernetes.io/gce-pd,kubernetes.io/portworx-volume,kubernetes.io/vsphere-volume"
    )
    assert site.drivers == []
    assert (site.csi.is_ready, site.csi.problem) == (True, "")
    assert "annotations" not in site.node


def test_a_driver_has_an_entry_and_the_node_its_id_and_topology(site: Site) -> None:
    site.started(EBS)
    assert site.drivers == [
        {
            "name": "ebs.example.com",
            "nodeID": "i-1",
            "topologyKeys": ["topology.example.com/zone"],
            "allocatable": {"count": 25},
        }
    ]
    assert site.node["annotations"][NODE_IDS] == '{"ebs.example.com":"i-1"}'
    assert site.node["labels"] == {"topology.example.com/zone": "a"}


def test_what_is_right_is_not_written_again(site: Site) -> None:
    site.started(EBS)
    written = site.writes()
    again = CsiNodes(site.thread, site.api, KubeSettings(), "n1")
    again.declare(EBS)
    again.start()
    site.csi = again
    site.thread.settle()
    assert again.is_ready
    assert site.writes() == written


def test_a_driver_that_says_nothing_new_to_the_cluster_costs_no_request(site: Site) -> None:
    site.started(EBS)
    asked = len(site.api.requests)
    site.declare(replace(EBS, since=17.0, version="2", capabilities=("EXPAND_VOLUME",)))
    assert len(site.api.requests) == asked


@pytest.mark.parametrize(
    ("limit", "allocatable"), [(10, {"count": 10}), (0, None), (-1, None), (1 << 40, {"count": LARGEST})]
)
def test_a_limit_is_a_count_that_the_api_can_hold(site: Site, limit: int, allocatable: object) -> None:
    site.started(DriverInfo(name="a", node_id="i", limit=limit))
    assert site.drivers[0].get("allocatable") == allocatable


@pytest.mark.parametrize("node_id", ["", "x" * 257])
def test_a_node_id_that_no_csi_node_takes_is_the_driver_s_fault(node_id: str) -> None:
    with pytest.raises(PluginError, match="csi driver a gives"):
        DriverInfo(name="a", node_id=node_id)


@pytest.mark.parametrize(
    ("key", "value"),
    [("-zone", "a"), ("a/b/zone", "a"), ("Zone_/zone", "a"), ("z" * 64, "a"), ("zone", "a b"), ("zone", "v" * 64)],
)
def test_topology_that_no_label_can_say_is_the_driver_s_fault(key: str, value: str) -> None:
    with pytest.raises(PluginError, match=r"says that the node is in .* which no label can say"):
        DriverInfo(name="a", node_id="i", topology={key: value})


def test_topology_may_be_all_that_a_label_can_say() -> None:
    said = {f"{'p' * 63}.Example.com/Zone_1".lower(): "A.b_c-1", "zone": ""}
    assert DriverInfo(name="a", node_id="i", topology=said).topology == said


def test_a_node_id_with_control_characters_is_the_driver_s_fault() -> None:
    with pytest.raises(PluginError, match=r"with control characters: '\\x1b\[31m'"):
        DriverInfo(name="a", node_id="\x1b[31m")


@pytest.mark.parametrize("status", [403, 422])
def test_what_the_node_does_not_take_of_one_driver_keeps_no_other_out(site: Site, status: int) -> None:
    site.api.refusals = [ApiError("a label that is not ours", status=status) for _ in range(2)]
    site.started(DriverInfo(name="a.example.com", node_id="n", topology={"not-ours": "1"}), EBS)
    assert [entry["name"] for entry in site.drivers] == [EBS.name]
    assert json.loads(site.node["annotations"][NODE_IDS]) == {EBS.name: "i-1"}
    assert site.csi.is_ready
    text = "the Node does not take what csi driver a.example.com says of it: a label that is not ours"
    assert site.csi.driver_problems == {"a.example.com": text}


def test_of_two_drivers_that_contradict_each_other_the_first_has_its_topology(site: Site) -> None:
    other = replace(EBS, name="other.example.com", topology={"topology.example.com/zone": "b"})
    site.started(EBS, other)
    assert [entry["name"] for entry in site.drivers] == [EBS.name]
    assert site.node["labels"] == EBS.topology
    assert list(site.csi.driver_problems) == [other.name]


def test_entries_ids_and_labels_of_others_stay(site: Site) -> None:
    other: Document = {"name": "other", "nodeID": "o", "topologyKeys": [], "future": {"field": 1}}
    document = new_csi_node("n1", "uid-n1")
    site.api.put(CSI_NODE, {**document, "spec": {"drivers": [other]}, "status": {"kept": True}})
    site.put_node("uid-n1", annotations={NODE_IDS: '{"other":"o"}', "x": "y"}, labels={"l": "m"})
    site.started(EBS)
    assert [entry["name"] for entry in site.drivers] == ["other", "ebs.example.com"]
    assert site.drivers[0] == other
    assert site.document["status"] == {"kept": True}
    assert site.node["annotations"] == {NODE_IDS: '{"ebs.example.com":"i-1","other":"o"}', "x": "y"}
    site.csi.withdraw("ebs.example.com")
    site.thread.settle()
    assert site.drivers == [other]
    assert site.node["annotations"] == {NODE_IDS: '{"other":"o"}', "x": "y"}


def test_the_last_driver_takes_the_annotation_with_it(site: Site) -> None:
    site.started(EBS)
    site.csi.withdraw("ebs.example.com")
    site.thread.settle()
    assert site.drivers == []
    assert site.node["annotations"] == {}


def test_a_new_limit_is_one_update_and_a_new_id_is_an_entry_that_goes_and_one_that_comes(site: Site) -> None:
    site.started(EBS)
    site.declare(DriverInfo(name=EBS.name, node_id="i-1", topology=EBS.topology, limit=3))
    assert site.writes().count("PUT") == 2
    assert site.drivers[0]["allocatable"] == {"count": 3}
    site.declare(DriverInfo(name=EBS.name, node_id="i-2", topology=EBS.topology))
    updates = [body["spec"]["drivers"] for _, body in site.api.asked("PUT")]
    assert [[entry["nodeID"] for entry in each] for each in updates] == [["i-1"], ["i-1"], [], ["i-2"]]


def test_topology_that_contradicts_a_label_keeps_only_its_own_driver_out(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    site.put_node("uid-n1", labels={"topology.example.com/zone": "b"})
    with caplog.at_level(logging.WARNING):
        site.started(EBS, DriverInfo(name="other", node_id="o"))
    assert [entry["name"] for entry in site.drivers] == ["other"]
    text = "is in topology.example.com/zone=a, and its label is topology.example.com/zone=b"
    assert text in site.csi.driver_problems[EBS.name]
    assert text in site.csi.problem
    assert caplog.text.count(text) == 1
    site.put_node("uid-n1", labels={"topology.example.com/zone": "a"})
    site.thread.pass_time(KubeSettings().object_lifetime)
    assert (site.csi.driver_problems, site.csi.problem) == ({}, "")
    assert len(site.drivers) == 2


def test_one_of_an_earlier_node_of_that_name_is_replaced(site: Site) -> None:
    site.api.put(CSI_NODE, {**new_csi_node("n1", "uid-earlier"), "spec": {"drivers": [{"name": "x", "nodeID": "y"}]}})
    site.started(EBS)
    assert [entry["name"] for entry in site.drivers] == [EBS.name]
    assert site.document["metadata"]["ownerReferences"][0]["uid"] == "uid-n1"


def test_a_node_that_was_made_anew_gets_its_csi_node(site: Site) -> None:
    site.started(EBS)
    site.put_node("uid-anew")
    del site.api.objects[CSI_NODE]
    written = len(site.writes())
    site.csi.saw_node("uid-n1")
    site.thread.settle()
    assert len(site.writes()) == written
    site.csi.saw_node("uid-anew")
    site.thread.settle()
    assert site.document["metadata"]["ownerReferences"][0]["uid"] == "uid-anew"
    assert [entry["name"] for entry in site.drivers] == [EBS.name]


def test_an_old_or_missing_annotation_of_migrated_types_is_corrected(site: Site) -> None:
    site.api.put(CSI_NODE, {**new_csi_node("n1", "uid-n1"), "metadata": {
        "name": "n1", "ownerReferences": [{"kind": "Node", "name": "n1", "uid": "uid-n1"}],
        "annotations": {MIGRATED: "kubernetes.io/cinder", "kept": "yes"}}})  # fmt: skip
    site.started()
    annotations = site.document["metadata"]["annotations"]
    assert annotations == {MIGRATED: ",".join(MIGRATED_PLUGINS), "kept": "yes"}


def test_the_first_contact_is_tried_after_30_ms_times_8_and_never_given_up(site: Site) -> None:
    site.api.down = True
    site.started(EBS)
    assert not site.csi.is_ready
    assert "CSINode n1 is not yet initialized: cannot reach" in site.csi.problem
    pauses = site.pauses(6)
    assert pauses == pytest.approx([0.03, 0.24, 1.92, 15.36, 30, 30])
    site.api.down = False
    site.pauses(1)
    assert (site.csi.is_ready, site.csi.problem) == (True, "")


def test_a_node_that_is_not_there_yet_is_waited_for_and_its_appearance_wakes(site: Site) -> None:
    node = site.api.objects.pop(NODE)
    site.started()
    assert "create the Node, which volmgrd never does" in site.csi.problem
    site.api.put(NODE, node)
    site.csi.saw_node("uid-n1")
    site.thread.settle()
    assert site.csi.is_ready


def test_a_later_update_that_fails_is_tried_after_10_ms_times_5_and_the_node_stays_ready(site: Site) -> None:
    site.started()
    site.api.refusal = ApiError("503 Service Unavailable", status=503)
    site.declare(EBS)
    assert site.csi.is_ready
    assert site.csi.problem == "CSINode n1 is not up to date: 503 Service Unavailable"
    assert site.pauses(3) == pytest.approx([0.01, 0.05, 0.25])
    site.api.refusal = None
    site.pauses(1)
    assert [entry["name"] for entry in site.drivers] == [EBS.name]


@pytest.mark.parametrize("path", [NODE, CSI_NODE])
def test_a_write_of_somebody_else_in_between_is_read_and_kept(site: Site, path: str) -> None:
    site.started()

    def meddle(asked: str) -> None:
        if asked == path:
            site.api.after_get = None
            changed = site.api.objects[path]
            site.api.put(path, {**changed, "metadata": {**changed["metadata"], "finalizers": ["by/another"]}})

    site.api.after_get = meddle
    site.declare(EBS)
    site.pauses(1)
    assert [entry["name"] for entry in site.drivers] == [EBS.name]
    assert site.api.objects[path]["metadata"]["finalizers"] == ["by/another"]


def test_who_writes_often_does_not_make_the_pauses_long(site: Site) -> None:
    site.started()
    site.api.refusals = [ApiError("409 Conflict", status=409) for _ in range(8)]
    site.declare(EBS)
    assert site.pauses(8) == pytest.approx([0.01 * 1.25**number for number in range(8)])
    assert [entry["name"] for entry in site.drivers] == [EBS.name]


def test_what_is_declared_while_it_is_published_is_published_next(site: Site) -> None:
    site.csi.start()
    for number in range(20):
        site.csi.declare(DriverInfo(name=f"d{number}", node_id="i"))
        if number % 2:
            site.csi.withdraw(f"d{number}")
    site.thread.settle()
    assert {entry["name"] for entry in site.drivers} == {f"d{number}" for number in range(0, 20, 2)}


class InProcess(VolumePlugin[None]):
    """A class that is a CSI driver."""

    name = "example.com/in-process"
    handles = (Handles("csi", driver="a.example.com"), Handles("flexVolume", driver="v/d"), Handles("csi"))


class InTree(VolumePlugin[None]):
    """A package that serves in-tree fields itself."""

    name = "example.com/in-tree"
    handles = (Handles("cinder"), Handles("azureDisk", where=Where.PV))


def annotations_of(document: Document) -> object:
    return dict(document["metadata"])["annotations"]


def test_types_that_a_package_serves_itself_are_not_said_to_be_migrated() -> None:
    migrated = migrated_plugins(plugins_of(InTree()).fields())
    assert set(MIGRATED_PLUGINS) - set(migrated) == {"kubernetes.io/cinder", "kubernetes.io/azure-disk"}
    made = new_csi_node("n1", "u", migrated)
    assert annotations_of(made) == {MIGRATED: ",".join(migrated)}
    (corrected,) = csi_node_steps(new_csi_node("n1", "u"), [], [], migrated)
    assert corrected == made
    assert csi_node_steps(made, [], [], migrated) == []


def test_where_packages_serve_all_of_them_nothing_is_said() -> None:
    assert migrated_plugins(MIGRATED_FIELDS) == ()
    (corrected,) = csi_node_steps(new_csi_node("n1", "u"), [], [], ())
    assert corrected == new_csi_node("n1", "u", ())
    assert annotations_of(corrected) == {}


def test_a_class_that_is_a_driver_calls_the_node_by_its_name() -> None:
    drivers = plugins_of(InProcess()).drivers_of("csi")
    assert in_process_drivers(drivers, "n1") == (DriverInfo(name="a.example.com", node_id="n1"),)


def test_a_csi_node_that_is_right_takes_no_step() -> None:
    (document,) = csi_node_steps({**new_csi_node("n1", "u"), "spec": {}}, [EBS], [])
    assert csi_node_steps(document, [EBS], ["other"]) == []
