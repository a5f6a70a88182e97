"""Claims, volumes and Pods as files in a directory: bound, mounted, released, and ephemeral, by a real daemon."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.eventually import eventually
from tests.root.acceptance.outside import Outside, pod

Document = dict[str, Any]
CLAIM: Document = {"name": "v", "persistentVolumeClaim": {"claimName": "orders"}}


def volume(name: str, path: Path, size: str = "1Gi", **spec: object) -> Document:
    """Give a PersistentVolume of a directory."""
    source = {"path": str(path), "type": "DirectoryOrCreate"}
    common = {"capacity": {"storage": size}, "accessModes": ["ReadWriteOnce"], "hostPath": source}
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": {**common, **spec}}


def claim(name: str = "orders", size: str = "1Gi", **metadata: object) -> Document:
    """Give a claim."""
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}}
    meta = {"name": name, **metadata}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": meta, "spec": spec}


def phases(node: Outside) -> dict[str, str]:
    """Give the phase of each claim and volume."""
    report = node.json("claims")
    claims = {f"{each['namespace']}/{each['name']}": each["phase"] for each in report["claims"]}
    return claims | {f"pv/{each['name']}": each["phase"] for each in report["volumes"]}


def test_a_claim_a_volume_and_a_pod_in_one_file_are_bound_and_mounted(node: Outside, tmp_path: Path) -> None:
    node.put(
        "all.json", pod("shop", CLAIM), claim(), volume("large", tmp_path / "l", "9Gi"), volume("v", tmp_path / "v")
    )
    node.wait("shop")
    assert node.json("status", "shop")["volumes"][0]["path"] == str(tmp_path / "v")
    assert (tmp_path / "v").is_dir()
    assert phases(node) == {"default/orders": "Bound", "pv/v": "Bound", "pv/large": "Available"}
    node.kill()
    node.start()
    node.wait("shop")
    assert phases(node)["default/orders"] == "Bound"


def test_a_deleted_claim_leaves_its_volume_released_until_somebody_says_so(node: Outside, tmp_path: Path) -> None:
    node.put("pv.json", volume("v", tmp_path / "v"))
    node.put("claim.json", claim())
    shop = node.put("shop.json", pod("shop", CLAIM))
    node.wait("shop")
    (tmp_path / "v" / "data").write_text("precious")
    assert node.volmgr("release", "pv/v", code=1).stderr.startswith("volmgr: PersistentVolume v is still mounted for")
    (node.manifests / "claim.json").unlink()
    eventually(lambda: phases(node).get("pv/v") == "Released")
    assert node.json("status", "shop")["volumes"][0]["state"] == "mounted", "a living Pod keeps what it has"
    assert node.volmgr("release", "pv/v", code=1).stderr.startswith("volmgr: PersistentVolume v is still mounted for")
    shop.unlink()
    node.wait("shop", "unmounted")
    node.put("claim.json", claim())
    node.put("shop.json", pod("shop", CLAIM, uid="second"))
    node.until_why("shop", "volmgr release pv/v lets another claim have it")
    node.kill()
    node.start()
    assert phases(node) == {"default/orders": "Pending", "pv/v": "Released"}
    assert node.volmgr("release", "pv/v").stdout == "PersistentVolume v is free; what is on it is as it was\n"
    node.wait("shop")
    assert (tmp_path / "v" / "data").read_text() == "precious"
    assert node.volmgr("release", "pv/v", code=1).stderr != ""
    assert "no PersistentVolume unheard is known" in node.volmgr("release", "pv/unheard", code=1).stderr
    assert node.volmgr("release", "v/a", code=2).stderr != ""


@pytest.mark.parametrize("uid", ["uid-shop", "given"])
def test_an_ephemeral_claim_goes_with_its_pod_and_survives_a_restart(node: Outside, tmp_path: Path, uid: str) -> None:
    scratch = {"name": "v", "ephemeral": {"volumeClaimTemplate": {"spec": claim()["spec"]}}}
    node.put("pv.json", volume("v", tmp_path / "v", persistentVolumeReclaimPolicy="Delete"))
    shop = node.put("shop.json", pod("shop", scratch, uid=uid))
    node.wait("shop")
    (tmp_path / "v" / "data").write_text("kept")
    assert phases(node) == {"default/shop-v": "Bound", "pv/v": "Bound"}
    node.kill()
    node.start()
    assert phases(node) == {"default/shop-v": "Bound", "pv/v": "Bound"}
    shop.unlink()
    node.wait("shop", "unmounted")
    eventually(lambda: phases(node) == {"pv/v": "Released"})
    assert (tmp_path / "v" / "data").read_text() == "kept"
    printed = node.volmgr("claims").stdout
    assert "nothing deletes or empties a volume here: a reclaim policy of Delete does as Retain does" in printed


def test_a_claim_that_finds_no_volume_says_why_volume_by_volume(node: Outside, tmp_path: Path) -> None:
    node.put("pv.json", volume("small", tmp_path / "s", "1Mi"), volume("gold", tmp_path / "g", storageClassName="gold"))
    node.put("shop.json", claim(), pod("shop", CLAIM))
    node.until_why("shop", "PersistentVolume small: its capacity is 1Mi, less than 1Gi")
    assert "PersistentVolume gold: its storageClassName is 'gold', not ''" in node.why("shop")
    assert phases(node)["default/orders"] == "Pending"


def test_types_that_nobody_serves_are_refused_with_what_to_use(node: Outside) -> None:
    node.put("a.json", pod("a", {"name": "v", "glusterfs": {"endpoints": "e", "path": "p"}}))
    node.until_why("a", "write a csi volume with driver org.gluster.glusterfs instead")
    path = node.put("b.json", pod("b", {"name": "v", "rbd": {"image": "i", "monitors": ["m"]}}))
    assert "rbd.csi.ceph.com" in node.volmgr("check", str(path)).stdout


def local(name: str, path: Path, *modes: str) -> Document:
    """Give a PersistentVolume of type local, without a nodeAffinity."""
    path.mkdir(exist_ok=True)
    document = volume(name, path, accessModes=list(modes or ("ReadWriteOnce",)), local={"path": str(path)})
    del document["spec"]["hostPath"]
    return document


def test_a_local_volume_needs_no_node_affinity_and_keeps_its_data_over_pods(node: Outside, tmp_path: Path) -> None:
    node.put("storage.json", local("v", tmp_path / "v"), claim())
    for number in range(3):
        shop = node.put("shop.json", pod("shop", CLAIM, uid=f"uid-{number}"))
        node.wait("shop")
        target = node.root / "pods" / f"uid-{number}" / "volumes" / "kubernetes.io~local-volume" / "v"
        assert str(target) in node.mounts()
        (target / f"data-{number}").write_text("kept")
        shop.unlink()
        node.wait("shop", "unmounted")
    assert sorted(each.name for each in (tmp_path / "v").iterdir()) == ["data-0", "data-1", "data-2"]
    assert phases(node) == {"default/orders": "Bound", "pv/v": "Bound"}


@pytest.mark.parametrize("kind", [volume, local])
def test_a_volume_for_one_pod_is_handed_over_when_that_pod_is_gone(node: Outside, tmp_path: Path, kind: Any) -> None:  # noqa: ANN401
    document = kind("v", tmp_path / "v")
    document["spec"]["accessModes"] = ["ReadWriteOncePod"]
    asked = claim()
    asked["spec"]["accessModes"] = ["ReadWriteOncePod"]
    node.put("storage.json", document, asked)
    first = node.put("a.json", pod("a", CLAIM))
    node.wait("a")
    node.put("b.json", pod("b", CLAIM))
    node.until_why("b", "volume uses the ReadWriteOncePod access mode and is already in use by another pod")
    first.unlink()
    node.wait("b")


def test_a_dumped_pair_of_a_cluster_is_bound_as_it_is(node: Outside, tmp_path: Path) -> None:
    owner = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": "default", "name": "orders", "uid": "u1"}
    dumped = claim(uid="u1", finalizers=["kubernetes.io/pvc-protection"], resourceVersion="7")
    dumped["spec"]["volumeName"] = "v"
    dumped["status"] = {"phase": "Bound", "capacity": {"storage": "1Gi"}}
    node.put("claim.json", dumped)
    node.put("pv.json", volume("v", tmp_path / "v", claimRef=owner))
    node.put("shop.json", pod("shop", CLAIM))
    node.wait("shop")


def test_a_wrong_template_of_an_ephemeral_volume_is_refused_where_it_stands(node: Outside) -> None:
    template = {"spec": {"accessModes": "ReadWriteOnce"}}
    path = node.put("a.json", pod("a", {"name": "v", "ephemeral": {"volumeClaimTemplate": template}}))
    said = node.volmgr("check", str(path), code=1).stderr
    assert "spec.volumes[0].ephemeral.volumeClaimTemplate.spec.accessModes" in said
    missing = node.put("b.json", pod("b", {"name": "v", "ephemeral": {}}))
    assert "ephemeral.volumeClaimTemplate: is missing" in node.volmgr("check", str(missing), code=1).stderr


def test_a_plan_without_a_daemon_binds_on_paper_only(node: Outside, tmp_path: Path) -> None:
    node.put("all.json", pod("shop", CLAIM), claim(), volume("v", tmp_path / "v"))
    root = tmp_path / "another"
    plan = node.volmgr("plan", "--root-dir", str(root), "--manifests", str(node.manifests), code=2).stdout
    assert "mount" in plan
    assert not root.exists()
