"""What the Pods of a node refer to: read while one does, by a watch or by asking, and what is missing is waited for."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.eventually import eventually
from tests.kube.certificates import Authority
from tests.kube.cluster import Cluster
from tests.kube.kube_node import KubeNode, NodeIdentity
from tests.kube.objects import (
    CONFIG_MAP,
    NO_TOKEN,
    PROJECTED,
    SECRET,
    Document,
    claim,
    config_map,
    from_claim,
    from_config_map,
    from_secret,
    persistent_volume,
    secret,
)
from volmgr.kube.resources import CLAIMS, CONFIG_MAPS, PODS, SECRETS, TRUST_BUNDLES, VOLUMES, Resource

Maker = Callable[..., Document]

FRESH = {"object_lifetime": "300ms", "await_max": "1s"}
"""Of the configuration: what is asked for again is asked for soon."""


@pytest.fixture(scope="module")
def node(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubeNode]:
    top = tmp_path_factory.mktemp("node")
    identity = NodeIdentity.added_to(cluster, "node-of-references")
    with KubeNode(identity, top, "--config", configured(top, **FRESH)) as node:
        yield node
    cluster.admin.delete("/api/v1/nodes/node-of-references")


def configured(top: Path, **kubernetes: object) -> str:
    """Write a configuration, and give its path."""
    path = top / "config.json"
    path.write_text(json.dumps({"kubernetes": kubernetes}))
    return str(path)


def run_pod(node: KubeNode, namespace: str, volume: dict[str, Any], name: str = "web") -> dict[str, Any]:
    """Create a Pod with one volume, which is not waited for."""
    return node.identity.run_pod(namespace, name, volume, **NO_TOKEN)


def pair(volume: Path) -> tuple[str, str] | None:
    """Read the files `a` and `b` as they were at one moment; None when that moment is over."""
    try:
        moment = os.open(volume / "..data", os.O_PATH | os.O_DIRECTORY)
    except FileNotFoundError:
        return None
    try:
        return tuple(Path(f"/proc/self/fd/{moment}/{name}").read_text() for name in "ab")  # type: ignore[return-value]
    except FileNotFoundError:
        return None
    finally:
        os.close(moment)


@pytest.mark.parametrize(
    ("made", "resource", "volume", "plugin", "field"),
    [
        (config_map, CONFIG_MAPS, from_config_map, CONFIG_MAP, "data"),
        (secret, SECRETS, from_secret, SECRET, "stringData"),
    ],
    ids=["ConfigMap", "Secret"],
)
def test_files_follow_the_object_all_of_them_at_once(
    node: KubeNode,
    namespace: str,
    cluster: Cluster,
    made: Maker,
    resource: Resource,
    volume: Maker,
    plugin: str,
    field: str,
) -> None:
    cluster.admin.create(made(namespace, "settings", a="1", b="1"))
    directory = node.volume_of(run_pod(node, namespace, volume("settings")), plugin)
    node.wait(f"{namespace}/web")
    assert pair(directory) == ("1", "1")
    seen: set[tuple[str, str] | None] = set()

    def is_new() -> bool:
        seen.add(pair(directory))
        return ("2", "2") in seen

    cluster.admin.patch(resource.path(namespace, "settings"), {field: {"a": "2", "b": "2"}})
    eventually(is_new, "the files have changed")
    assert seen <= {("1", "1"), ("2", "2"), None}


def test_the_largest_object_that_a_server_takes_becomes_a_file(
    node: KubeNode, namespace: str, cluster: Cluster
) -> None:
    text = "0123456789abcdef" * (1 << 16)  # 1 MiB, MaxSecretSize
    cluster.admin.create(config_map(namespace, "large", a=text))
    made = run_pod(node, namespace, from_config_map("large"))
    node.wait(f"{namespace}/web")
    assert (node.volume_of(made, CONFIG_MAP) / "a").read_text() == text


def test_the_file_of_a_key_that_is_removed_goes(node: KubeNode, namespace: str, cluster: Cluster) -> None:
    cluster.admin.create(config_map(namespace, "settings", a="1", b="1"))
    directory = node.volume_of(run_pod(node, namespace, from_config_map("settings")), CONFIG_MAP)
    node.wait(f"{namespace}/web")
    cluster.admin.patch(CONFIG_MAPS.path(namespace, "settings"), {"data": {"a": None}})
    eventually(lambda: not (directory / "a").exists(), "the file is gone")
    assert (directory / "b").read_text() == "1"


def test_an_optional_object_that_is_missing_is_no_files_until_it_appears(
    node: KubeNode, namespace: str, cluster: Cluster
) -> None:
    directory = node.volume_of(run_pod(node, namespace, from_config_map("late", optional=True)), CONFIG_MAP)
    node.wait(f"{namespace}/web")
    assert [each.name for each in directory.iterdir() if not each.name.startswith("..")] == []
    cluster.admin.create(config_map(namespace, "late", a="1"))
    eventually((directory / "a").exists, "the file appears")
    assert (directory / "a").read_text() == "1"


@pytest.mark.parametrize(
    ("kind", "made", "volume"),
    [("ConfigMap", config_map, from_config_map), ("Secret", secret, from_secret)],
    ids=["ConfigMap", "Secret"],
)
def test_a_pod_waits_for_an_object_that_the_server_has_not(
    node: KubeNode,
    namespace: str,
    cluster: Cluster,
    kind: str,
    made: Maker,
    volume: Maker,
) -> None:
    run_pod(node, namespace, volume("late"))
    said = node.until_why(f"{namespace}/web", f"{kind} {namespace}/late", "the API server has none")
    assert "403" not in said.partition("waits for")[2]  # a UID may have any digits
    cluster.admin.create(made(namespace, "late", a="1"))
    node.wait(f"{namespace}/web")


def test_the_files_stay_when_an_object_in_use_is_deleted_and_follow_the_next_of_its_name(
    node: KubeNode, namespace: str, cluster: Cluster
) -> None:
    cluster.admin.create(config_map(namespace, "settings", a="1"))
    file = node.volume_of(run_pod(node, namespace, from_config_map("settings")), CONFIG_MAP) / "a"
    node.wait(f"{namespace}/web")
    cluster.admin.delete(CONFIG_MAPS.path(namespace, "settings"))
    node.until_why(f"{namespace}/web", "settings", "the API server has none")
    assert file.read_text() == "1"
    cluster.admin.create(config_map(namespace, "settings", a="2"))
    eventually(lambda: file.read_text() == "2", "the file has changed")
    node.wait(f"{namespace}/web")


def test_a_claim_that_a_controller_has_bound_is_mounted(
    node: KubeNode, namespace: str, cluster: Cluster, tmp_path: Path
) -> None:
    add_claim(cluster, namespace, "disk", tmp_path)
    cluster.admin.until(CLAIMS.path(namespace, "disk"), lambda claim: claim["status"]["phase"] == "Bound")
    made = run_pod(node, namespace, from_claim("disk"))
    node.wait(f"{namespace}/web")
    (tmp_path / "there").touch()
    assert node.tell("mounts", f"{namespace}/web").count(str(tmp_path)) == 1, made
    delete_pod(cluster, namespace)
    drop_claim(cluster, namespace)


def test_a_pod_waits_for_its_claim_to_be_bound_and_is_mounted_soon_after(
    node: KubeNode, namespace: str, cluster: Cluster, tmp_path: Path
) -> None:
    run_pod(node, namespace, from_claim("disk"))
    node.until_why(f"{namespace}/web", f"PersistentVolumeClaim {namespace}/disk", "the API server has none")
    cluster.admin.create(claim(namespace, "disk"))
    said = node.until_why(f"{namespace}/web", f"PVC {namespace}/disk: PVC is not bound")
    assert "there is no PersistentVolume" not in said  # which there are is not ours to know
    assert f"a controller gives it one: kubectl describe pvc --namespace {namespace} disk" in said
    volume = volume_of(namespace, "disk")
    cluster.admin.create(persistent_volume(volume, namespace, "disk", hostPath={"path": str(tmp_path)}))
    node.wait(f"{namespace}/web")
    delete_pod(cluster, namespace)
    drop_claim(cluster, namespace)


def test_a_volume_that_has_grown_is_noticed(node: KubeNode, namespace: str, cluster: Cluster, tmp_path: Path) -> None:
    add_claim(cluster, namespace, "disk", tmp_path)
    run_pod(node, namespace, from_claim("disk"))
    node.wait(f"{namespace}/web")
    assert "16Mi" in node.tell("claims")
    cluster.admin.patch(VOLUMES.path(name=volume_of(namespace, "disk")), {"spec": {"capacity": {"storage": "32Mi"}}})

    def capacities() -> list[str]:
        volumes = json.loads(node.tell("claims", "-o", "json"))["volumes"]
        return [each["capacity"] for each in volumes if each["name"] == volume_of(namespace, "disk")]

    eventually(lambda: capacities() == ["32Mi"], "its new size is known")
    delete_pod(cluster, namespace)
    drop_claim(cluster, namespace)


def add_claim(cluster: Cluster, namespace: str, name: str, directory: Path) -> None:
    """Let there be a claim, and the volume that the controller gives it."""
    volume = persistent_volume(volume_of(namespace, name), namespace, name, hostPath={"path": str(directory)})
    cluster.admin.create(volume)
    cluster.admin.create(claim(namespace, name))


def volume_of(namespace: str, name: str) -> str:
    return f"{namespace}-{name}"


def drop_claim(cluster: Cluster, namespace: str, name: str = "disk") -> None:
    """Remove a claim that no Pod uses any more, and its volume, which nothing else would."""
    cluster.admin.delete(CLAIMS.path(namespace, name))
    cluster.admin.until_gone(CLAIMS.path(namespace, name))
    cluster.admin.delete(VOLUMES.path(name=volume_of(namespace, name)))


def delete_pod(cluster: Cluster, namespace: str) -> None:
    cluster.admin.delete(PODS.path(namespace, "web"), gracePeriodSeconds=0)


def bundle(namespace: str, signer: str, certificate: str) -> tuple[str, dict[str, Any]]:
    """Give a trust bundle of a signer, or of none, and its name."""
    name = f"{signer.replace('/', ':')}:{namespace}" if signer else namespace
    spec = {"trustBundle": certificate} | ({"signerName": signer} if signer else {})
    metadata = {"name": name, "labels": {"of": namespace}}
    kind = {"apiVersion": TRUST_BUNDLES.api_version, "kind": TRUST_BUNDLES.kind}
    return name, {**kind, "metadata": metadata, "spec": spec}


@pytest.mark.parametrize("signer", ["", "lane.example/signer"], ids=["by name", "by signer"])
def test_a_trust_bundle_is_waited_for_and_its_file_follows_it(
    node: KubeNode, namespace: str, cluster: Cluster, tmp_path: Path, signer: str
) -> None:
    certificate = (cluster.state / "pki/ca.crt").read_text()
    name, document = bundle(namespace, signer, certificate)
    selector = {"signerName": signer, "labelSelector": {"matchLabels": {"of": namespace}}} if signer else {"name": name}
    source = {"clusterTrustBundle": {**selector, "path": "ca.crt"}}
    made = run_pod(node, namespace, {"name": "v", "projected": {"sources": [source]}})
    node.until_why(f"{namespace}/web", "ClusterTrustBundle", "the API server has none")

    cluster.admin.create(document)
    node.wait(f"{namespace}/web")
    file = node.volume_of(made, PROJECTED) / "ca.crt"
    assert file.read_text() == certificate

    another = Authority(tmp_path / "pki").own.certificate.read_text()
    cluster.admin.patch(TRUST_BUNDLES.path(name=name), {"spec": {"trustBundle": another}})
    eventually(lambda: file.read_text() == another, "the file has changed")
    cluster.admin.delete(TRUST_BUNDLES.path(name=name))


def test_nothing_is_asked_for_any_more_when_no_pod_refers_to_it(
    node: KubeNode, namespace: str, cluster: Cluster, tmp_path: Path
) -> None:
    eventually(lambda: reading(node) == (0, 0), "nothing of other tests is followed")
    began = cluster.audit.mark()
    for name in ("disk", "kept"):
        add_claim(cluster, namespace, name, tmp_path)
        run_pod(node, namespace, from_claim(name), name)
    cluster.admin.create(config_map(namespace, "settings", a="1"))
    run_pod(node, namespace, from_config_map("settings"), "other")
    for name in ("disk", "kept", "other"):
        node.wait(f"{namespace}/{name}")
    assert reading(node) == (1, 4)
    assert f"read from {cluster.url}: watches 1, objects asked for 4" in node.tell("status")

    for name in ("disk", "other"):
        cluster.admin.delete(PODS.path(namespace, name), gracePeriodSeconds=0)
        node.wait(f"{namespace}/{name}", "unmounted")

    eventually(lambda: reading(node) == (0, 2), "the others are not followed")
    eventually(lambda: watches_of(cluster, node.identity, began, "settings") == {True}, "the watch has ended")
    mark = cluster.audit.mark()

    def asked(name: str) -> int:
        requests = cluster.requests(after=mark, user=node.identity.user)
        return len([each for each in requests if name in each.uri.rpartition("/")[2]])

    eventually(lambda: asked("kept") >= 4, "the claim in use is asked for again and again")
    assert (asked("disk"), asked("settings")) == (0, 0)
    cluster.admin.delete(PODS.path(namespace, "kept"), gracePeriodSeconds=0)
    for name in ("disk", "kept"):
        drop_claim(cluster, namespace, name)


def watches_of(cluster: Cluster, node: NodeIdentity, mark: int, name: str) -> set[bool]:
    """Give of the watches of one ConfigMap whether they are over."""
    begun = cluster.requests(after=mark, user=node.user, verb="watch", resource=CONFIG_MAPS.plural)
    return {each.over for each in begun if each.name == name}


def test_beyond_the_limit_objects_are_asked_for_and_watched_when_a_watch_is_free(
    cluster: Cluster, kube_node: NodeIdentity, namespace: str, tmp_path: Path
) -> None:
    config = configured(tmp_path, object_watches=2, **FRESH)
    names = ("a", "b", "c", "d")
    for name in names:
        cluster.admin.create(config_map(namespace, name, a="1"))
    with KubeNode(kube_node, tmp_path, "--config", config) as node:
        files: dict[str, Path] = {}
        for name in names:
            made = run_pod(node, namespace, from_config_map(name), name)
            files[name] = node.volume_of(made, CONFIG_MAP) / "a"
            node.wait(f"{namespace}/{name}")
        assert reading(node) == (2, 2)

        for name in names:
            cluster.admin.patch(CONFIG_MAPS.path(namespace, name), {"data": {"a": "2"}})
        eventually(lambda: {file.read_text() for file in files.values()} == {"2"}, "all follow")

        mark = cluster.audit.mark()
        cluster.admin.delete(PODS.path(namespace, "a"), gracePeriodSeconds=0)
        eventually(lambda: watched(cluster, kube_node, mark) == {"c"}, "another is watched")
        eventually(lambda: reading(node) == (2, 1), "one is asked for")

        cluster.admin.patch(CONFIG_MAPS.path(namespace, "c"), {"data": {"a": "3"}})
        eventually(lambda: files["c"].read_text() == "3", "it follows")


def reading(node: KubeNode) -> tuple[int, int]:
    """Give how many watches there are, and how many objects are asked for."""
    said = node.status()["reading"]
    return said["watches"], said["asked"]


def watched(cluster: Cluster, node: NodeIdentity, mark: int) -> set[str]:
    """Give which ConfigMaps a node has begun to watch."""
    begun = cluster.requests(after=mark, user=node.user, verb="watch", resource=CONFIG_MAPS.plural)
    return {each.name for each in begun}
