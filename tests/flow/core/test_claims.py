"""A node that gives volumes to claims by itself: from files to mounts, over restarts, kills and vanished manifests."""

from __future__ import annotations

from typing import Any

import pytest

from tests.flow.core.probes import DISK_FACETS, Disk, Plain, Script, claim_of, node_item
from tests.unit.sources.claim_bench import GIB, Document, asking, pv, pvc
from volmgr.config import Config
from volmgr.errors import OperationError
from volmgr.model.volume import Facets
from volmgr.report.claims import check_unused, claims_report
from volmgr.report.why import why, why_lines
from volmgr.testing import FakeHost, Fault, FaultHost, Killed, When
from volmgr.testing.node import FILES, TestNode, plugins_of, pod
from volmgr_hostpath.plugin import HostPath

HERE: Document = {"hostPath": {"path": "/srv/data", "type": "DirectoryOrCreate"}}
SCRATCH: dict[str, Any] = {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": asking()}}}


def disk(name: str, size: str = "1Gi", *modes: str, **spec: Any) -> Document:  # noqa: ANN401 - YAML
    """Give a PersistentVolume of the probing type."""
    document = pv(name, size, *modes, **spec)
    del document["spec"]["hostPath"]
    document["spec"]["diskProbe"] = {"disk": name}
    return document


@pytest.fixture
def local(host: FakeHost) -> TestNode:
    """A node with hostPath, whose sources were read."""
    node = TestNode(host, plugins_of(HostPath()), sources=("api", FILES))
    node.sources_ready()
    return node


def test_one_file_with_volume_claim_and_pod_is_mounted_and_may_be_removed_and_put_back(local: TestNode) -> None:
    documents = (pod("web", claim_of("data", "c"), uid="u1"), pvc("c"), pv("v", **HERE))
    for _ in range(2):
        local.put_file("all.yaml", *documents)
        assert local.is_mounted("web"), why_lines(local.world, "web")
        assert local.warnings() == ()
        local.remove_file("all.yaml")
        assert local.is_unmounted("web")


def test_a_claim_that_goes_does_not_unmount_a_living_pod_and_its_volume_is_released_after_it(local: TestNode) -> None:
    local.put_file("pv.yaml", pv("v", **HERE))
    local.put_file("pvc.yaml", pvc("c"))
    local.put_file("web.yaml", pod("web", claim_of("data", "c"), uid="u1"))
    local.remove_file("pvc.yaml")
    assert len(local.world.actual.of_pod("u1")) == 1
    (volume,) = claims_report(local.world).volumes
    assert (volume.phase, volume.claim, volume.pods) == ("Released", "default/c", ("default/web",))
    with pytest.raises(OperationError, match="PersistentVolume v is still mounted for default/web; let them end first"):
        check_unused(local.world, "v")
    with pytest.raises(OperationError, match="is used by Pods through claim default/c"):
        local.registry.release("v")
    local.remove_file("web.yaml")
    local.put_file("pvc.yaml", pvc("c"))
    local.put_file("web.yaml", pod("web", claim_of("data", "c"), uid="u2"))
    assert not local.is_mounted("web")
    local.registry.release("v")
    local.settle()
    assert local.is_mounted("web")


def test_a_volume_that_goes_does_not_unmount_a_living_pod_and_its_claim_is_lost(local: TestNode) -> None:
    local.put_file("pv.yaml", pv("v", **HERE))
    local.put_file("web.yaml", pvc("c"), pod("web", claim_of("data", "c"), uid="u1"))
    local.remove_file("pv.yaml")
    assert len(local.world.actual.of_pod("u1")) == 1
    assert "PVC is not bound: PersistentVolume v, its volume, is not there any more" in "".join(
        why_lines(local.world, "web")
    )
    local.put_file("pv.yaml", pv("v", **HERE))
    assert local.is_mounted("web")
    assert why(local.world, "web")[0].volumes == ()


def test_why_says_of_an_unbound_claim_volume_by_volume_what_is_against_it(local: TestNode) -> None:
    local.put_file(
        "small.yaml", pv("small", "1Mi"), pv("block", volumeMode="Block"), pv("gold", storageClassName="gold")
    )
    local.put_file("taken.yaml", pv("taken"), pvc("other"))
    local.put_file("web.yaml", pvc("c"), pod("web", claim_of("data", "c"), uid="u1"))
    (report,) = why(local.world, "web")
    (claim,) = report.claims
    assert {each.volume: each.reason for each in claim.refused} == {
        "small": "its capacity is 1Mi, less than 1Gi",
        "block": "its volumeMode is Block, not Filesystem",
        "gold": "its storageClassName is 'gold', not ''",
        "taken": "it belongs to claim default/other",
    }
    assert "    PersistentVolume small: its capacity is 1Mi, less than 1Gi" in report.text.splitlines()
    local.put_file("many.yaml", *(pv(f"x{number:02}", "1Mi") for number in range(30)))
    (claim,) = why(local.world, "web")[0].claims
    assert (len(claim.refused), claim.more) == (10, 24)
    assert "and 24 more; volmgr claims lists them" in why(local.world, "web")[0].text


def test_an_ephemeral_volume_goes_with_its_pod_and_not_on_a_restart(local: TestNode, host: FakeHost) -> None:
    local.put_file("pv.yaml", pv("v", **HERE))
    local.apply(pod("web", SCRATCH, uid="u1"))
    assert local.is_mounted("web"), why_lines(local.world, "web")
    local.host = host
    local.start()
    local.put_file("pv.yaml", pv("v", **HERE))
    local.sources_ready()
    assert local.is_mounted("web")
    local.source_lost(FILES, "unreadable")
    assert [claim.phase for claim in claims_report(local.world).claims] == ["Bound"]
    local.sources_ready()
    local.delete("u1")
    report = claims_report(local.world)
    assert report.claims == ()
    assert [volume.phase for volume in report.volumes] == ["Released"]
    local.apply(pod("web", SCRATCH, uid="u2"))
    assert not local.is_mounted("web")
    local.registry.release("v")
    local.settle()
    assert local.is_mounted("web")


def test_a_held_pod_s_ephemeral_claim_stays_until_the_last_of_its_volumes_is_gone(local: TestNode) -> None:
    local.put_file("pv.yaml", pv("v", **HERE))
    local.apply(pod("web", SCRATCH, uid="u1"))
    hold = local.hold("u1", 100)
    local.delete("u1")
    assert [claim.phase for claim in claims_report(local.world).claims] == ["Bound"]
    local.release(hold)
    assert claims_report(local.world).claims == ()


@pytest.mark.parametrize(
    ("mode", "devices", "message"),
    [
        ("Block", (), "volume data has volumeMode Block, but is specified in volumeMounts"),
        ("Filesystem", ("data",), "volume data has volumeMode Filesystem, but is specified in volumeDevices"),
        (None, ("data",), "volume data has volumeMode Filesystem, but is specified in volumeDevices"),
    ],
)
def test_a_claim_s_mode_must_fit_its_use(
    node: TestNode, mode: str | None, devices: tuple[str, ...], message: str
) -> None:
    spec: dict[str, Any] = {"volumeMode": mode} if mode else {}
    node.put_file("all.yaml", disk("v", **spec), pvc("c", **spec))
    node.apply(pod("web", claim_of("data", "c"), devices=devices, uid="u1"))
    assert node.world.pods["u1"].errors == {"data": message}


def test_a_volume_that_grew_while_nobody_used_it_is_grown_once_when_it_is_mounted(
    node: TestNode, disk_script: Script
) -> None:
    node.put_file("all.yaml", disk("v"), pvc("c"))
    node.apply(pod("web", claim_of("data", "c"), uid="u1"))
    node.delete("u1")
    assert disk_script.count("expand") == 0
    node.put_file("all.yaml", disk("v", "2Gi"), pvc("c"))
    node.apply(pod("web", claim_of("data", "c"), uid="u1"))
    request = disk_script.last("expand")
    assert (request.old_size, request.new_size) == (GIB, 2 * GIB)
    node.delete("u1")
    node.apply(pod("web", claim_of("data", "c"), uid="u1"))
    assert disk_script.count("expand") == 1


def test_a_read_only_claim_is_not_grown_and_a_writable_one_is(node: TestNode, disk_script: Script) -> None:
    node.put_file("all.yaml", disk("v"), pvc("c"))
    node.put_file("all.yaml", disk("v", "2Gi"), pvc("c"))
    node.apply(pod("reader", claim_of("data", "c", read_only=True), uid="u1"))
    (volume,) = node.world.desired
    assert (volume.size, volume.known_size, disk_script.count("expand")) == (0, GIB, 0)
    node.apply(pod("writer", claim_of("data", "c"), uid="u2"))
    (volume,) = node.world.desired
    assert (volume.size, disk_script.count("expand")) == (2 * GIB, 1)


@pytest.mark.parametrize("kind", ["plain", "disk"])
def test_a_volume_for_one_pod_is_not_given_to_a_second_until_the_first_has_let_go(host: FakeHost, kind: str) -> None:
    script = Script(facets=DISK_FACETS if kind == "disk" else Facets())
    node = TestNode(host, plugins_of(Disk(script), Plain(script)))
    node.sources_ready()
    volume = disk("v", "1Gi", "ReadWriteOncePod")
    if kind == "plain":
        volume["spec"]["plainProbe"] = volume["spec"].pop("diskProbe")
    node.put_file("all.yaml", volume, pvc("c", "1Gi", "ReadWriteOncePod"))
    for uid in ("ua", "ub"):
        node.registry.apply(node_item(node, pod(uid, claim_of("data", "c"), uid=uid)))
    node.settle()
    assert (node.is_mounted("ua"), node.is_mounted("ub")) == (True, False)
    said = "volume uses the ReadWriteOncePod access mode and is already in use by another pod"
    assert said in "".join(why_lines(node.world, "ub"))
    node.start()
    node.put_file("all.yaml", volume, pvc("c", "1Gi", "ReadWriteOncePod"))
    node.sources_ready()
    assert (node.is_mounted("ua"), node.is_mounted("ub")) == (True, False)
    node.delete("ua")
    assert node.is_mounted("ub")


def test_a_volume_with_a_further_access_mode_is_given_to_both(node: TestNode) -> None:
    node.put_file("all.yaml", disk("v", "1Gi", "ReadWriteOncePod", "ReadWriteOnce"), pvc("c"))
    node.apply(*(pod(uid, claim_of("data", "c"), uid=uid) for uid in ("ua", "ub")))
    assert node.is_mounted("ua")
    assert node.is_mounted("ub")


def test_the_annotation_s_mount_options_win_and_are_sorted(node: TestNode, disk_script: Script) -> None:
    volume = disk("v", mountOptions=["sync"])
    node.put_file("all.yaml", volume, pvc("c"))
    node.apply(pod("web", claim_of("data", "c"), uid="u1"))
    said = "PersistentVolume v: mount options are not supported for this volume type"
    assert node.world.pods["u1"].errors == {"data": said}
    assert disk_script.calls == []
    volume["metadata"]["annotations"] = {"volume.beta.kubernetes.io/mount-options": ""}
    node.put_file("all.yaml", volume, pvc("c"))
    assert node.is_mounted("web")


def test_a_volume_of_another_node_is_neither_attached_nor_mounted(host: FakeHost, disk_script: Script) -> None:
    node = TestNode(host, plugins_of(Disk(disk_script)), Config(node_name="n1"))
    node.sources_ready()
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n2"]}]}
    away = disk("v", nodeAffinity={"required": {"nodeSelectorTerms": [term]}})
    node.put_file("all.yaml", away, pvc("c", volumeName="v"))
    node.put_file("node.yaml", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}})
    node.apply(pod("web", claim_of("data", "c"), uid="u1"))
    assert disk_script.calls == []
    assert "PersistentVolume v: its nodeAffinity does not match node n1" in node.warnings()


@pytest.mark.parametrize("when", list(When))
def test_a_kill_at_any_write_leaves_a_node_that_ends_the_same(when: When) -> None:
    """Tell one story up to each write of it, and let a new daemon go on."""
    files = {
        "pv.yaml": (pv("v", **HERE), pv("w", "2Gi", **HERE)),
        "pvc.yaml": (pvc("c"),),
        "web.yaml": (pod("web", claim_of("data", "c"), SCRATCH, uid="u1"),),
    }

    def tell(host: FakeHost, fault: Fault | None) -> tuple[int, tuple[object, ...]]:
        faulty = FaultHost(host, [fault] if fault else [])
        node = TestNode(faulty, plugins_of(HostPath()), sources=("api", FILES))
        try:
            node.sources_ready()
            for name, documents in files.items():
                node.put_file(name, *documents)
        except Killed:
            node.host = host
            node.start()
            for name, documents in files.items():
                node.put_file(name, *documents)
            node.sources_ready()
        assert node.is_mounted("web"), why_lines(node.world, "web")
        report = claims_report(node.world)
        return faulty.verbs.count("files.write"), ({(each.name, each.volume) for each in report.claims},)

    writes, undisturbed = tell(FakeHost(), None)
    assert writes > 4
    for at in range(2, writes + 1):  # the first says whose root it is
        assert tell(FakeHost(), Fault.kill(at, when, verb="files.write"))[1] == undisturbed, at


def test_why_says_once_what_a_claim_wants_and_of_a_volume_that_it_names_nothing_of_others(local: TestNode) -> None:
    local.put_file("pvs.yaml", pv("a", **HERE), pv("b", **HERE), pv("c", **HERE))
    local.put_file("web.yaml", pod("web", claim_of("data", "c"), uid="u1"), pvc("c", "9Gi"))
    lines = why_lines(local.world, "web")
    assert [line.strip() for line in lines if "it wants" in line] == [
        "it wants storageClassName '', 9Gi, ReadWriteOnce, volumeMode Filesystem"
    ]
    assert sum("PersistentVolume" in line and "less than 9Gi" in line for line in lines) == 3
    local.put_file("web.yaml", pod("web", claim_of("data", "d"), uid="u2"), pvc("d", "9Gi", volumeName="b"))
    (named,) = [
        line for line in why_lines(local.world, "u2") if "less than 9Gi" in line and "  PersistentVolume" in line
    ]
    assert "PersistentVolume b: " in named
    assert not any("PersistentVolume a" in line for line in why_lines(local.world, "u2"))
    local.put_file("web.yaml", pod("web", claim_of("data", "e"), uid="u3"), pvc("e", volumeName="none"))
    text = "\n".join(why_lines(local.world, "u3"))
    assert "there is no PersistentVolume none; add it to the manifests" in text
