"""Which volume a claim gets and keeps, what `why` and `claims` say of it, and what a living Pod never loses."""

from __future__ import annotations

from pathlib import Path

from tests.eventually import eventually
from tests.root.acceptance.objects import CLAIMED, Document, claim, directory, named
from tests.root.acceptance.outside import Outside, memory, pod


def uses(name: str) -> Document:
    return {"name": "v", "persistentVolumeClaim": {"claimName": name}}


def phase(node: Outside, kind: str, name: str) -> str:
    """Give the phase of a claim or volume; empty when nobody knows it."""
    return next((each["phase"] for each in node.json("claims")[kind] if each["name"] == name), "")


def reason(node: Outside, name: str) -> str:
    (found,) = (each["reason"] for each in node.json("claims")["claims"] if each["name"] == name)
    return str(found)


def bound(node: Outside) -> dict[str, str]:
    """Give the volume of each claim that has one."""
    return {each["name"]: each["volume"] for each in node.json("claims")["claims"] if each["phase"] == "Bound"}


def test_a_living_pod_keeps_its_volumes_when_claim_and_volume_vanish_also_over_restarts(
    node: Outside, tmp_path: Path
) -> None:
    data = tmp_path / "data"
    data.mkdir()
    local = named("PersistentVolume", "disk")
    local["spec"] = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "local": {"path": str(data)}}
    volume, asked = node.put("pv.json", local), node.put("claim.json", claim())
    shop = node.put("shop.json", pod("shop", CLAIMED))
    node.wait("shop")
    place = node.volume("shop", "disk", "kubernetes.io~local-volume")
    (place / "file").write_text("kept")
    before = node.mounts()
    volume.unlink()
    eventually(lambda: phase(node, "claims", "orders") == "Lost")
    asked.unlink()
    eventually(lambda: phase(node, "claims", "orders") != "Lost")
    for _ in range(2):
        node.settle()
        assert node.mounts() == before
        assert (place / "file").read_text() == "kept"
        node.kill()
        node.start()
    assert "PersistentVolumeClaim default/orders" in node.why("shop")
    shop.unlink()
    node.wait("shop", "unmounted")
    assert not node.mounts()
    assert (data / "file").read_text() == "kept"


def test_a_claim_of_a_class_that_waits_gets_its_volume_with_its_first_pod(node: Outside, tmp_path: Path) -> None:
    later = named("StorageClass", "later", provisioner="kubernetes.io/no-provisioner")
    later |= {"apiVersion": "storage.k8s.io/v1", "volumeBindingMode": "WaitForFirstConsumer"}
    node.put("class.json", later)
    node.put("pv.json", directory("v", tmp_path / "v", storageClassName="later"))
    node.put("claim.json", claim(storageClassName="later"))
    eventually(lambda: "when a Pod uses it" in reason(node, "orders"))
    node.settle()
    assert phase(node, "volumes", "v") == "Available"
    node.put("shop.json", pod("shop", CLAIMED))
    node.wait("shop")
    assert bound(node) == {"orders": "v"}


def test_the_smallest_volume_that_fits_is_given_and_reservations_are_kept(node: Outside, tmp_path: Path) -> None:
    labelled = directory("labelled", tmp_path / "l", "2Gi", accessModes=["ReadWriteMany"])
    labelled["metadata"]["labels"] = {"tier": "gold"}
    node.put(
        "volumes.json",
        directory("reserved", tmp_path / "r", "1Gi", claimRef={"namespace": "default", "name": "owner"}),
        directory("large", tmp_path / "9", "9Gi"),
        directory("small", tmp_path / "3", "3Gi"),
        labelled,
    )
    node.put(
        "claims.json",
        claim("plain", "1Gi"),
        claim("owner", "1Gi"),
        claim("gold", "1Gi", accessModes=["ReadWriteMany"], selector={"matchLabels": {"tier": "gold"}}),
        claim("named", "1Gi", volumeName="large"),
        claim("many", "1Gi", accessModes=["ReadWriteMany"]),
    )
    expected = {"plain": "small", "owner": "reserved", "gold": "labelled", "named": "large"}
    eventually(lambda: bound(node) == expected)
    node.put("shop.json", pod("shop", uses("many")))
    for name, part in (
        ("small", "belongs to claim default/plain"),
        ("large", "belongs to claim default/named"),
        ("reserved", "default/owner"),
        ("labelled", "default/gold"),
    ):
        node.until_why("shop", f"PersistentVolume {name}: ")
        line = next(line for line in node.why("shop").splitlines() if f"PersistentVolume {name}: " in line)
        assert part in line
    node.kill()
    node.start()
    assert bound(node) == expected


def test_what_is_wrong_with_a_claim_is_said_in_kubelet_s_words(node: Outside, tmp_path: Path) -> None:
    leaving = claim("leaving")
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    affinity = {"required": {"nodeSelectorTerms": [{"matchExpressions": [AFFINITY]}]}}
    objects = (
        leaving,
        directory("block", tmp_path / "b", volumeMode="Block"),
        claim("block", volumeMode="Block"),
        directory("options", tmp_path / "o", mountOptions=["noatime"]),
        claim("options", volumeName="options"),
        directory("far", tmp_path / "f", nodeAffinity=affinity),
        claim("far", volumeName="far"),
        claim("nowhere", volumeName="nowhere"),
    )
    node.put("objects.json", *objects, directory("plain", tmp_path / "p"), claim("plain", volumeName="plain"))
    wrong = pod("device", uses("plain"))
    wrong["spec"]["containers"] = [{"name": "main", "volumeDevices": [{"name": "v", "devicePath": "/dev/x"}]}]
    for name in ("leaving", "block", "options", "nowhere", "missing"):
        node.put(f"{name}.json", pod(name, uses(name)))
    node.put("device.json", wrong)
    for name, part in (
        ("leaving", "PVC is being deleted"),
        ("block", "volumeMode Block, but is specified in volumeMounts"),
        ("device", "volumeMode Filesystem, but is specified in volumeDevices"),
        ("options", "mount options"),
        ("nowhere", "PersistentVolume nowhere, which it names, does not exist"),
        ("missing", "PersistentVolumeClaim default/missing does not exist"),
    ):
        node.until_why(name, part)
    assert not node.mounts()


AFFINITY = {"key": "kubernetes.io/hostname", "operator": "In", "values": ["elsewhere"]}


def test_a_volume_of_another_node_is_not_given(tmp_path: Path) -> None:
    here = named("Node", "here")
    here["metadata"]["labels"] = {"kubernetes.io/hostname": "here"}
    affinity = {"required": {"nodeSelectorTerms": [{"matchExpressions": [AFFINITY]}]}}
    with Outside(tmp_path, "--node-name", "here") as node:
        node.put("objects.json", here, directory("far", tmp_path / "f", nodeAffinity=affinity), claim())
        node.put("shop.json", pod("shop", CLAIMED))
        node.until_why("shop", "PersistentVolume far: ")
        assert "nodeAffinity" in node.why("shop")


def test_an_ephemeral_claim_outlives_a_start_that_cannot_read_its_pod(node: Outside, tmp_path: Path) -> None:
    scratch = {"name": "v", "ephemeral": {"volumeClaimTemplate": {"spec": claim()["spec"]}}}
    node.put("pv.json", directory("v", tmp_path / "v"))
    shop = node.put("shop.json", pod("shop", scratch))
    node.wait("shop")
    node.kill()
    elsewhere = node.manifests.rename(tmp_path / "elsewhere")
    node.start(ready=False)
    assert node.http("GET", "/readyz")[0] == 503
    assert bound(node) == {"shop-v": "v"}
    node.kill()
    elsewhere.rename(node.manifests)
    node.start()
    node.settle()
    assert bound(node) == {"shop-v": "v"}
    shop.write_text(shop.read_text().replace('"kind": "Pod"', '"kind": "Pod'))
    node.settle()
    assert bound(node) == {"shop-v": "v"}
    shop.unlink()
    node.wait("shop", "unmounted")
    eventually(lambda: phase(node, "volumes", "v") == "Released")
    assert not bound(node)


def test_a_claim_that_somebody_wrote_is_no_ephemeral_volume_s(node: Outside, tmp_path: Path) -> None:
    scratch = {"name": "v", "ephemeral": {"volumeClaimTemplate": {"spec": claim()["spec"]}}}
    node.put("objects.json", directory("v", tmp_path / "v"), claim("shop-v"))
    eventually(lambda: bound(node) == {"shop-v": "v"})
    node.put("shop.json", pod("shop", scratch), pod("calm", memory()))
    node.wait("calm")
    node.until_why("shop", "was not created for pod default/shop (pod is not owner)")
    assert bound(node) == {"shop-v": "v"}
