"""In-tree volumes are served as csi: names, records, restarts, and who serves them instead."""

from __future__ import annotations

from typing import Any

import pytest

from tests.flow.core.pool import Pool, PoolProvisioner
from tests.flow.core.probes import Disk, Plain, Script, claim_of, storage
from tests.unit.sources.claim_bench import pvc
from volmgr.config import Config
from volmgr.errors import ManifestError
from volmgr.model.volume import Facets
from volmgr.plugin import (
    CsiSource,
    Handles,
    Host,
    ObjectRef,
    Provision,
    Provisioned,
    Reference,
    StorageClass,
    VolumeSpec,
    csi_volume_name,
)
from volmgr.report.pods import pod_status
from volmgr.report.why import why
from volmgr.testing import FakeHost
from volmgr.testing.node import FILES, TestNode, plugins_of, pod
from volmgr.volume_type import Origin

CSI, DRIVER, UNIQUE = "kubernetes.io/csi", "ebs.csi.aws.com", "kubernetes.io/csi/ebs.csi.aws.com^vol-1"
NAME = "ebs.csi.aws.com-vol-1"
DECLARED = {"name": "data", "awsElasticBlockStore": {"volumeID": "aws://us-east-1a/vol-1"}}


class Generic(Disk):
    """Serves all drivers of csi."""

    name = CSI
    handles = (Handles("csi"),)

    def volume_name(self, spec: VolumeSpec[Any]) -> str:
        return csi_volume_name(spec.source.driver, spec.source.volume_handle)

    def device_target(self, spec: VolumeSpec[Any], host: Host) -> Any:  # noqa: ANN401 - a path
        return host.paths.plugin(self.name) / "mounts" / spec.source.volume_handle


class InTree(Plain):
    """A package that serves the in-tree field itself."""

    name = "example.com/ebs"
    handles = (Handles("awsElasticBlockStore"),)


@pytest.fixture
def script() -> Script:
    return Script(facets=Facets(attach=True, device=True))


@pytest.fixture
def node(host: FakeHost, script: Script) -> TestNode:
    node = TestNode(host, plugins_of(Generic(script)), sources=("api", FILES))
    node.sources_ready()
    return node


def restart(node: TestNode, script: Script) -> None:
    script.forget()
    node.start()
    node.sources_ready()


def test_a_volume_of_a_pod_has_kubelet_s_names_over_restarts_until_it_is_gone(node: TestNode, script: Script) -> None:
    node.apply(pod("web", DECLARED, uid="u1"))
    assert node.is_mounted("web"), node.warnings()
    request = script.last("mount")
    assert request.target == node.host.paths.volumes("u1") / "kubernetes.io~csi" / NAME
    source = CsiSource(driver=DRIVER, volume_handle="vol-1", volume_attributes={"partition": "0"})
    assert (request.spec.source, request.spec.access_modes) == (source, ("ReadWriteOnce",))
    assert [each.name for each in node.world.actual] == [UNIQUE]
    restart(node, script)
    assert (node.is_mounted("web"), script.calls) == (True, [])
    (found,) = node.world.actual
    assert (found.name, found.mounts["u1"].inline) == (UNIQUE, True)
    node.delete("u1")
    assert script.last("unmount").target == request.target
    assert node.host.files.names(node.host.paths.pods) == ()


def test_two_names_of_one_disk_are_one_volume(node: TestNode, script: Script) -> None:
    again = {"name": "again", "awsElasticBlockStore": {"volumeID": "vol-1"}}
    node.apply(pod("web", DECLARED, again, uid="u1"))
    assert node.is_mounted("web"), node.warnings()
    assert script.count("mount") == 1
    (report,) = pod_status(node.world, "u1").volumes
    assert set(report.names) == {"data", "again"}


def test_what_cannot_be_a_file_name_is_escaped_as_kubelet_does(node: TestNode, script: Script) -> None:
    uri = "/subscriptions/s/resourceGroups/g/providers/Microsoft.Compute/disks/d"
    node.apply(pod("web", {"name": "data", "azureDisk": {"diskName": "d", "diskURI": uri}}, uid="u1"))
    request = script.last("mount")
    assert request.target.name == uri.replace("/", "~")
    assert (request.spec.name, request.spec.pv.metadata.name) == (request.target.name, uri)
    restart(node, script)
    assert node.is_mounted("web")
    node.delete("u1")
    assert node.is_unmounted("u1")


def test_a_claim_s_volume_keeps_its_name_and_is_csi(node: TestNode, script: Script) -> None:
    node.put_file("storage.yaml", *storage("d1", source={"awsElasticBlockStore": {"volumeID": "vol-1"}}))
    node.apply(pod("web", claim_of("data", "d1"), uid="u1"))
    assert node.is_mounted("web"), node.warnings()
    assert script.last("mount").target.name == "pv-d1"
    assert [each.name for each in node.world.actual] == [UNIQUE]


def test_a_share_finds_the_secret_of_its_claim_s_namespace_or_of_its_pod_s(node: TestNode, script: Script) -> None:
    share = {"azureFile": {"secretName": "s", "shareName": "share"}}
    node.put_file("storage.yaml", *storage("d1", source=share))
    node.apply(pod("web", claim_of("data", "d1"), {"name": "own", **share}, uid="u1"))
    assert node.is_mounted("web"), node.warnings()
    mounted = [request for call, request in zip(script.calls, script.requests, strict=True) if call == "mount"]
    handles = {request.spec.source.volume_handle for request in mounted}
    assert handles == {"#s#share#pv-d1#default", "#s#share#own#default"}
    assert {request.spec.source.node_stage_secret_ref.namespace for request in mounted} == {"default"}


AFFINITY = {"required": {"nodeSelectorTerms": [{"matchExpressions": [
    {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["us-east-1a"]}]}]}}  # fmt: skip
DRIVER_ZONE, ZONE = "topology.ebs.csi.aws.com/zone", "topology.kubernetes.io/zone"


@pytest.mark.parametrize(
    ("labels", "fits"),
    [
        ({ZONE: "us-east-1a"}, True),
        ({ZONE: "us-east-1b"}, False),
        ({DRIVER_ZONE: "us-east-1a"}, True),
        ({ZONE: "us-east-1a", DRIVER_ZONE: "us-east-1b"}, False),
        ({}, False),
    ],
)
def test_a_node_is_judged_by_the_driver_s_labels_once_it_has_them(
    host: FakeHost, script: Script, labels: dict[str, str], *, fits: bool
) -> None:
    node = TestNode(host, plugins_of(Generic(script)), Config(node_name="n1"), sources=("api", FILES))
    node.sources_ready()
    node.put_file("node.yaml", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1", "labels": labels}})
    ebs = {"awsElasticBlockStore": {"volumeID": "vol-1"}}
    node.put_file("storage.yaml", *storage("d1", source=ebs, nodeAffinity=AFFINITY))
    node.apply(pod("web", claim_of("data", "d1"), uid="u1"))
    assert node.is_mounted("web") is fits, node.warnings()


def test_what_a_volume_refers_to_is_waited_for_as_with_csi(node: TestNode, script: Script) -> None:
    script.references = (Reference(ObjectRef("Secret", "default", "s")),)
    node.apply(pod("web", DECLARED, uid="u1"))
    (found,) = why(node.world, "web")
    assert "Secret default/s" in found.text


def test_a_living_pod_keeps_its_volume_when_the_type_for_csi_is_removed(
    node: TestNode, script: Script, host: FakeHost
) -> None:
    node.apply(pod("web", DECLARED, uid="u1"))
    node.plugins = plugins_of()
    restart(node, script)
    (found,) = why(node.world, "web")
    assert (
        "its volumes become volumes of csi, of driver ebs.csi.aws.com; install that driver and volmgr-csi" in found.text
    )
    (report,) = [each for each in pod_status(node.world, "u1").volumes if each.names == ("data",)]
    assert (report.plugin, report.type) == (CSI, "awsElasticBlockStore")
    assert host.files.names(host.paths.volumes("u1") / "kubernetes.io~csi") == (NAME,)
    node.plugins = plugins_of(Generic(script))
    restart(node, script)
    assert node.is_mounted("web")
    assert script.count("unmount") == 0


def test_a_pod_that_returns_with_another_disk_has_the_first_one_unmounted(node: TestNode, script: Script) -> None:
    node.put_file("web.yaml", pod("web", DECLARED, uid="u1"))
    hold = node.hold("u1", 7)
    node.remove_file("web.yaml")
    assert script.count("unmount") == 0
    other = {"name": "data", "awsElasticBlockStore": {"volumeID": "vol-2"}}
    node.put_file("web.yaml", pod("web", other, uid="u1"))
    node.release(hold)
    assert node.is_mounted("web"), node.warnings()
    assert [each.name for each in node.world.actual] == [UNIQUE.replace("vol-1", "vol-2")]


class EbsPool(PoolProvisioner):
    """Makes volumes for the driver, and keeps the class that it was asked with."""

    def __init__(self, pool: Pool, name: str = DRIVER) -> None:
        super().__init__(pool)
        self.name = name
        self.classes: list[StorageClass] = []

    def serves(self, provisioner: str) -> bool:
        return provisioner == self.name

    def provision(self, request: Provision, host: Host) -> Provisioned:
        self.classes.append(request.storage_class)
        super().provision(request, host)
        return Provisioned(source={"csi": {"driver": DRIVER, "volumeHandle": "vol-1"}})


OLD_CLASS = {
    "apiVersion": "storage.k8s.io/v1",
    "kind": "StorageClass",
    "metadata": {"name": "fast"},
    "provisioner": "kubernetes.io/aws-ebs",
    "parameters": {"fsType": "xfs", "zones": "us-east-1a,us-east-1b"},
}


def test_a_class_of_an_in_tree_type_has_its_volumes_made_by_the_driver(host: FakeHost, script: Script) -> None:
    plugins, maker = plugins_of(Generic(script)), EbsPool(Pool())
    plugins.provisioners.append((maker, Origin("test-pool", "0", "test")))
    node = TestNode(host, plugins, sources=("api", FILES))
    node.sources_ready()
    node.put_file("class.yaml", OLD_CLASS, pvc("c", storageClassName="fast"))
    node.apply(pod("web", claim_of("data", "c"), uid="u1"))
    assert node.is_mounted("web"), node.warnings()
    (asked,) = maker.classes
    assert (asked.provisioner, asked.parameters) == (DRIVER, {"csi.storage.k8s.io/fstype": "xfs"})
    zones = {"key": DRIVER_ZONE, "values": ["us-east-1a", "us-east-1b"]}
    assert asked.allowed_topologies == ({"matchLabelExpressions": [zones]},)


def test_who_serves_the_in_tree_class_itself_wins(host: FakeHost, script: Script) -> None:
    plugins, maker = plugins_of(Generic(script)), EbsPool(Pool(), "kubernetes.io/aws-ebs")
    plugins.provisioners.append((maker, Origin("test-pool", "0", "test")))
    node = TestNode(host, plugins, sources=("api", FILES))
    node.sources_ready()
    node.put_file("class.yaml", OLD_CLASS, pvc("c", storageClassName="fast"))
    node.apply(pod("web", claim_of("data", "c"), uid="u1"))
    (asked,) = maker.classes
    assert (asked.provisioner, dict(asked.parameters)) == (OLD_CLASS["provisioner"], OLD_CLASS["parameters"])


def test_a_class_that_says_its_zones_twice_has_no_volumes_made(host: FakeHost, script: Script) -> None:
    plugins, maker = plugins_of(Generic(script)), EbsPool(Pool())
    plugins.provisioners.append((maker, Origin("test-pool", "0", "test")))
    node = TestNode(host, plugins, sources=("api", FILES))
    node.sources_ready()
    topologies = [{"matchLabelExpressions": [{"key": ZONE, "values": ["us-east-1a"]}]}]
    node.put_file("class.yaml", {**OLD_CLASS, "allowedTopologies": topologies}, pvc("c", storageClassName="fast"))
    node.apply(pod("web", claim_of("data", "c"), uid="u1"))
    assert maker.classes == []
    (found,) = why(node.world, "web")
    assert "nobody here makes one as kubernetes.io/aws-ebs would" in found.text


def test_a_package_that_serves_the_field_wins(host: FakeHost, script: Script) -> None:
    own = Script()
    node = TestNode(host, plugins_of(Generic(script), InTree(own)))
    node.sources_ready()
    node.apply(pod("web", DECLARED, uid="u1"))
    assert (own.calls, script.calls) == (["mount"], [])
    assert own.last("mount").target.parent.name == "example.com~ebs"


def test_a_class_that_is_the_driver_serves_it(host: FakeHost, script: Script) -> None:
    class Driver(Generic):
        name = "example.com/driver"
        handles = (Handles("csi", driver=DRIVER),)

    node = TestNode(host, plugins_of(Driver(script)))
    node.sources_ready()
    node.apply(pod("web", DECLARED, uid="u1"))
    assert node.is_mounted("web"), node.warnings()
    assert [each.name for each in node.world.actual] == [UNIQUE]


def test_another_class_for_the_same_driver_is_an_error_that_names_both(host: FakeHost, script: Script) -> None:
    class Driver(Generic):
        name = "example.com/driver"

    node = TestNode(host, plugins_of(Generic(script), Driver(script)))
    node.sources_ready()
    node.apply(pod("web", DECLARED, uid="u1"))
    (found,) = why(node.world, "web")
    assert (
        "volume type 'csi' is claimed by test-generic 0 (test) and test-driver 0 (test); uninstall one of them"
        in found.text
    )


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ({"volumeID": "vol-1", "partition": 256}, "awsElasticBlockStore.partition: 256 is no partition"),
        ({"volumeID": "vol-1", "fstype": "x"}, "awsElasticBlockStore.fstype: unknown field; did you mean fsType"),
        ({}, "awsElasticBlockStore.volumeID: is missing"),
    ],
)
def test_a_manifest_is_refused_by_its_field(node: TestNode, source: dict[str, object], message: str) -> None:
    with pytest.raises(ManifestError) as error:
        node.apply(pod("web", {"name": "data", "awsElasticBlockStore": source}, uid="u1"))
    assert message in str(error.value)


def test_a_manifest_is_not_looked_into_where_nobody_serves_csi(host: FakeHost) -> None:
    node = TestNode(host, plugins_of())
    node.sources_ready()
    node.apply(pod("web", {"name": "data", "awsElasticBlockStore": {}}, uid="u1"))
    assert "install that driver and volmgr-csi" in node.warnings()[0]
