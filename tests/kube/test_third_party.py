"""A volume type of somebody else, in Pods that a real API server accepted: by drivers of `flexVolume` and of `csi`."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.kube.client import Document, Refused
from tests.kube.cluster import Cluster
from tests.kube.kube_node import KubeNode, NodeIdentity
from tests.kube.objects import NO_TOKEN, claim, from_claim, persistent_volume
from tests.root.third_party.author import Author
from tests.side_venv import SideVenv
from volmgr.kube.resources import CLAIMS, CSI_DRIVERS, NODES, PODS, VOLUMES

NODE, FLEX, CSI = "node-of-others", "example.com/overlay", "overlay.example.com"


@pytest.fixture(scope="module")
def node(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubeNode]:
    """A daemon with a wheel of the type, on a file system that can hold what is written to an overlay."""
    author = Author(tmp_path_factory.mktemp("author") / "overlay")
    for module in ("plugin.py", "contract.py"):
        author.take_over(module)
    top = tmp_path_factory.mktemp("node")
    venv = SideVenv.make(tmp_path_factory.mktemp("environment") / "venv")
    venv.install(author.build("0.1.0"))
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", top], check=True)
    driver = {"attachRequired": False, "volumeLifecycleModes": ["Persistent", "Ephemeral"]}
    metadata = {"name": CSI}
    cluster.admin.create({"apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver", "metadata": metadata, "spec": driver})
    with KubeNode(NodeIdentity.added_to(cluster, NODE), top, python=venv.python) as node:
        yield node
    cluster.admin.delete(CSI_DRIVERS.path(name=CSI))
    cluster.admin.delete(NODES.path(name=NODE))
    subprocess.run(["umount", top], check=True)


@pytest.fixture
def layers(tmp_path: Path) -> str:
    """Two directories of the node, as the type's options name them."""
    for layer in ("over", "base"):
        (tmp_path / layer).mkdir()
        (tmp_path / layer / "both").write_text(layer)
        (tmp_path / layer / f"only-{layer}").touch()
    return f"{tmp_path}/over:{tmp_path}/base"


def flex(layers: str, **more: object) -> Document:
    """Give a Pod's volume by `flexVolume`."""
    return {"name": "v", "flexVolume": {"driver": FLEX, "options": {"lower": layers}, **more}}


def csi(layers: str, **more: object) -> Document:
    """Give a Pod's volume by `csi`."""
    return {"name": "v", "csi": {"driver": CSI, "volumeAttributes": {"lower": layers}, **more}}


def claimed(node: KubeNode, namespace: str, source: Document) -> Document:
    """Let there be a volume with a source, and a claim that the real binder gives it to; gives the Pod's volume."""
    name, admin = f"{namespace}-layers", node.identity.cluster.admin
    volume = persistent_volume(name, namespace, name)
    volume["spec"] |= {field: value for field, value in source.items() if field != "name"}
    admin.create(volume)
    admin.create(claim(namespace, name))
    return from_claim(name)


@pytest.mark.parametrize("form", ["flexVolume", "csi", "flexVolume of a claim", "csi of a claim"])
def test_a_pod_has_it_and_its_own_files_until_it_leaves(node: KubeNode, namespace: str, layers: str, form: str) -> None:
    volumes: dict[str, Callable[[], Document]] = {
        "flexVolume": lambda: flex(layers),
        "csi": lambda: csi(layers),
        "flexVolume of a claim": lambda: claimed(node, namespace, flex(layers)),
        "csi of a claim": lambda: claimed(node, namespace, csi(layers, volumeHandle="layers")),
    }
    volume, key = volumes[form](), f"{namespace}/web"
    made = node.identity.run_pod(namespace, "web", volume, **NO_TOKEN)
    node.wait(key)
    directory = "kubernetes.io/csi" if form.startswith("csi") else FLEX
    place = node.volume_of(made, directory, f"{namespace}-layers" if "claim" in form else "v")
    assert {path.name for path in place.iterdir()} == {"both", "only-base", "only-over"}
    assert (place / "both").read_text() == "over"
    (place / "both").write_text("of the Pod")

    ids = node.mount_ids()
    node.kill()
    node.start()
    node.wait(key)
    assert node.mount_ids() == ids
    assert (place / "both").read_text() == "of the Pod"
    assert (Path(layers.partition(":")[0]) / "both").read_text() == "over"

    admin = node.identity.cluster.admin
    admin.delete(PODS.path(namespace, "web"), gracePeriodSeconds=0)
    node.wait(key, "unmounted")
    assert not place.exists()
    if "claim" in form:
        admin.delete(CLAIMS.path(namespace, f"{namespace}-layers"))
        admin.delete(VOLUMES.path(name=f"{namespace}-layers"))


def test_an_unknown_driver_is_named_and_what_has_it(node: KubeNode, namespace: str, layers: str) -> None:
    volume = flex(layers)
    volume["flexVolume"]["driver"] = "example.com/overlap"
    node.identity.run_pod(namespace, "web", volume, **NO_TOKEN)
    node.until_why(f"{namespace}/web", "'flexVolume' with driver 'example.com/overlap'")


REFUSED: dict[str, tuple[Callable[[str], Document], str]] = {
    "options that are no texts": (
        lambda layers: flex(layers, options={"lower": [layers]}),
        "flexVolume.options of type string",
    ),
    "options with reserved names": (
        lambda layers: flex(layers, options={"kubernetes.io/lower": layers}),
        "namespaces are reserved",
    ),
    "attributes that are no texts": (
        lambda layers: csi(layers, volumeAttributes={"lower": [layers]}),
        "csi.volumeAttributes of type string",
    ),
    "a csi driver without a DNS name": (
        lambda layers: csi(layers, driver="example.com/overlay"),
        "spec.volumes[0].csi.driver: Invalid value",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_an_api_server_refuses(node: KubeNode, namespace: str, layers: str, what: str) -> None:
    volume, text = REFUSED[what]
    with pytest.raises(Refused) as refused:
        node.identity.run_pod(namespace, "web", volume(layers), **NO_TOKEN)
    assert text in str(refused.value)


def test_a_field_of_its_own_is_dropped_on_the_way_and_an_empty_directory_is_what_is_left(
    node: KubeNode, namespace: str, layers: str
) -> None:
    made = node.identity.run_pod(namespace, "web", {"name": "v", "overlay": {"lower": [layers]}}, **NO_TOKEN)
    assert made["spec"]["volumes"] == [{"name": "v", "emptyDir": {}}]


def test_a_volume_of_a_claim_has_a_handle(node: KubeNode, namespace: str, layers: str) -> None:
    with pytest.raises(Refused) as refused:
        claimed(node, namespace, csi(layers))
    assert "spec.csi.volumeHandle: Required value" in str(refused.value)
