"""The Pods of one node, from a real API server to the mount table, and back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.eventually import eventually
from tests.kube.cluster import Cluster
from tests.kube.kube_node import KubeNode, NodeIdentity
from tests.kube.objects import EMPTY_DIR, MEMORY, NO_TOKEN, container_status
from volmgr.kube.pods import MIRROR
from volmgr.kube.resources import PODS


@pytest.fixture(scope="module")
def node(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubeNode]:
    identity = NodeIdentity.added_to(cluster, "node-of-pods")
    with KubeNode(identity, tmp_path_factory.mktemp("node")) as node:
        yield node
    cluster.admin.delete("/api/v1/nodes/node-of-pods")


def run_pod(node: KubeNode, namespace: str, name: str = "web", **spec: Any) -> dict[str, Any]:  # noqa: ANN401 - of the Pod
    """Create a Pod with a tmpfs, and return when that is mounted."""
    made = node.identity.run_pod(namespace, name, MEMORY, **NO_TOKEN, **spec)
    node.wait(made["metadata"]["uid"])
    assert str(node.volume_of(made, EMPTY_DIR)) in node.mount_ids()
    return made


def set_status(node: KubeNode, namespace: str, name: str = "web", **status: object) -> None:
    node.identity.cluster.admin.patch(PODS.path(namespace, name, "status"), {"status": status})


def delete(node: KubeNode, namespace: str, name: str = "web", *, grace: int = 0) -> None:
    node.identity.cluster.admin.delete(PODS.path(namespace, name), gracePeriodSeconds=grace)


def test_a_pod_is_mounted_and_taken_down_with_its_object(node: KubeNode, namespace: str) -> None:
    made = node.identity.run_pod(namespace, "web", MEMORY, **NO_TOKEN)
    key = f"{namespace}/web"

    assert node.tell("wait", key) == f"{key}: mounted\n"
    volume = node.volume_of(made, EMPTY_DIR)
    assert str(volume) in node.mount_ids()

    delete(node, namespace)

    assert node.tell("wait", key, "--for", "unmounted") == f"{key}: unmounted\n"
    assert not volume.exists()


def test_a_pod_that_terminates_keeps_its_volumes_until_its_status_says_that_its_containers_ended(
    node: KubeNode, namespace: str
) -> None:
    key, volume = f"{namespace}/web", node.volume_of(run_pod(node, namespace), EMPTY_DIR)
    set_status(node, namespace, phase="Running", containerStatuses=[container_status("main", "running")])
    delete(node, namespace, grace=3600)

    node.until_why(key, "the Pod is terminating; its volumes stay while it is held", "its containers still run: main")
    assert str(volume) in node.mount_ids()

    set_status(node, namespace, containerStatuses=[container_status("main", "terminated")])

    node.wait(key, "unmounted")
    assert str(volume) not in node.mount_ids()
    assert node.identity.cluster.admin.is_there(PODS.path(namespace, "web"))


def test_an_ephemeral_or_init_container_that_runs_keeps_the_volumes_too(node: KubeNode, namespace: str) -> None:
    sidecar = {"name": "sidecar", "image": "none", "restartPolicy": "Always"}
    made = run_pod(node, namespace, initContainers=[sidecar])
    set_status(
        node,
        namespace,
        phase="Running",
        containerStatuses=[container_status("main", "terminated")],
        initContainerStatuses=[container_status("sidecar", "running")],
    )
    delete(node, namespace, grace=3600)
    node.until_why(f"{namespace}/web", "its containers still run: sidecar")
    set_status(node, namespace, initContainerStatuses=[container_status("sidecar", "terminated")])
    node.wait(made["metadata"]["uid"], "unmounted")


def test_a_pod_whose_object_was_removed_by_force_is_taken_down_whatever_its_status_said(
    node: KubeNode, namespace: str
) -> None:
    made = run_pod(node, namespace)
    set_status(node, namespace, phase="Running", containerStatuses=[container_status("main", "running")])
    delete(node, namespace)
    node.wait(made["metadata"]["uid"], "unmounted")


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_finished_pod_is_taken_down_while_its_object_stays(node: KubeNode, namespace: str, phase: str) -> None:
    made = run_pod(node, namespace)
    set_status(node, namespace, phase=phase, containerStatuses=[container_status("main", "terminated")])
    node.wait(made["metadata"]["uid"], "unmounted")
    assert not node.volume_of(made, EMPTY_DIR).exists()
    assert node.identity.cluster.admin.is_there(PODS.path(namespace, "web"))


def test_a_pod_of_the_same_name_is_another_pod(node: KubeNode, namespace: str) -> None:
    first = run_pod(node, namespace)
    file = node.volume_of(first, EMPTY_DIR) / "old"
    file.touch()
    delete(node, namespace)
    second = run_pod(node, namespace)
    node.wait(first["metadata"]["uid"], "unmounted")
    assert not file.exists()
    assert list(node.volume_of(second, EMPTY_DIR).iterdir()) == []


def test_mirror_pods_and_those_of_other_nodes_never_appear(
    node: KubeNode, make_node: Callable[..., NodeIdentity], namespace: str
) -> None:
    owner = {"apiVersion": "v1", "kind": "Node", "name": node.identity.name, "controller": True}
    owner["uid"] = node.identity.client.get(f"/api/v1/nodes/{node.identity.name}")["metadata"]["uid"]
    metadata = {"name": "mirror", "namespace": namespace, "annotations": {MIRROR: "1"}, "ownerReferences": [owner]}
    container = {"name": "main", "image": "none", "volumeMounts": [{"name": "v", "mountPath": "/v"}]}
    spec = {"nodeName": node.identity.name, "volumes": [MEMORY], "containers": [container], **NO_TOKEN}
    node.identity.cluster.admin.create({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
    make_node().run_pod(namespace, "elsewhere", MEMORY, **NO_TOKEN)
    run_pod(node, namespace, "later")
    assert [pod["name"] for pod in node.status()["pods"] if pod["namespace"] == namespace] == ["later"]


def test_a_volume_of_an_ephemeral_container_is_mounted_when_that_is_added(node: KubeNode, namespace: str) -> None:
    spare = {"name": "spare", "emptyDir": {"medium": "Memory"}}
    made = run_pod(node, namespace, volumes=[MEMORY, spare])
    target = str(node.volume_of(made, EMPTY_DIR, "spare"))
    assert target not in node.mount_ids()
    debugger = {"name": "debugger", "image": "none", "volumeMounts": [{"name": "spare", "mountPath": "/spare"}]}
    path = PODS.path(namespace, "web", "ephemeralcontainers")
    node.identity.cluster.admin.patch(path, {"spec": {"ephemeralContainers": [debugger]}}, "strategic")
    eventually(lambda: target in node.mount_ids(), "the volume of the new container is mounted")


def test_a_volume_of_a_type_that_nobody_serves_keeps_no_other_pod_waiting(node: KubeNode, namespace: str) -> None:
    rbd = {"name": "v", "rbd": {"monitors": ["192.0.2.1"], "image": "tapes"}}
    node.identity.run_pod(namespace, "rbd", rbd, **NO_TOKEN)
    node.until_why(f"{namespace}/rbd", "rbd.csi.ceph.com")
    run_pod(node, namespace)
    delete(node, namespace, "rbd")
    eventually(lambda: "no source has it" in node.why(f"{namespace}/rbd"), "it is gone")


def test_a_daemon_that_executes_itself_anew_goes_on(node: KubeNode, namespace: str) -> None:
    first = run_pod(node, namespace, "first")
    before = node.mount_ids()
    node.tell("plugins", "reload")
    delete(node, namespace, "first")
    second = run_pod(node, namespace, "second")
    node.wait(first["metadata"]["uid"], "unmounted")
    gone, new = (str(node.volume_of(each, EMPTY_DIR)) for each in (first, second))
    assert {*node.mount_ids()} == {*before} - {gone} | {new}


def test_a_pod_is_mounted_when_it_is_bound_to_the_node(node: KubeNode, namespace: str) -> None:
    admin = node.identity.cluster.admin
    container = {"name": "main", "image": "none", "volumeMounts": [{"name": "v", "mountPath": "/v"}]}
    metadata = {"name": "web", "namespace": namespace}
    spec = {"volumes": [MEMORY], "containers": [container], **NO_TOKEN}
    made = admin.create({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
    target = {"apiVersion": "v1", "kind": "Node", "name": node.identity.name}
    binding = {"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": target}
    admin.post(PODS.path(namespace, "web", "binding"), binding)
    node.wait(f"{namespace}/web")
    assert str(node.volume_of(made, EMPTY_DIR)) in node.mount_ids()
