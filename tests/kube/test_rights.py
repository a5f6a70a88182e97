"""What a daemon asks an API server for: as a node, and as another identity with the documented ClusterRole."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
import yaml

from tests.eventually import eventually
from tests.kube.audit import Request
from tests.kube.client import Client, Refused
from tests.kube.cluster import Cluster
from tests.kube.kube_node import KubeNode, NodeIdentity
from tests.kube.objects import (
    CONFIG_MAP,
    MEMORY,
    NO_TOKEN,
    claim,
    config_map,
    from_claim,
    from_config_map,
    from_secret,
    persistent_volume,
    secret,
)
from volmgr.kube.resources import CLAIMS, CONFIG_MAPS, PODS, SECRETS, TRUST_BUNDLES, VOLUMES

DOCS = Path(__file__).parents[2] / "docs/kubernetes.md"
AGENT = "node-agent"
WRITTEN = {
    ("nodes", ""),
    ("nodes", "status"),
    ("csinodes", ""),
    ("events", ""),
    ("pods", "status"),
    ("serviceaccounts", "token"),
    ("podcertificaterequests", ""),
}
"""What may be written, and where."""
BUNDLE = {"name": "v", "projected": {"sources": [{"clusterTrustBundle": {"name": "lane", "path": "ca.crt"}}]}}
KINDS = ("map", "secret", "disk", "ca", "token")
WHOLE = {"csidrivers", "clustertrustbundles"}
"""Collections that may be read whole."""


def add_objects(cluster: Cluster, namespace: str, owner: str, disk: Path) -> None:
    """Let there be one object of each kind that Pods refer to, named after who is to use it."""
    cluster.admin.create(config_map(namespace, owner, a="1"))
    cluster.admin.create(secret(namespace, owner, a="1"))
    cluster.admin.create(persistent_volume(f"{namespace}-{owner}", namespace, owner, hostPath={"path": str(disk)}))
    cluster.admin.create(claim(namespace, owner))
    cluster.admin.until(CLAIMS.path(namespace, owner), lambda claim: claim["status"]["phase"] == "Bound")


def run_pods(node: NodeIdentity, namespace: str, owner: str) -> dict[str, Any]:
    """Let a Pod of a node refer to each of them; gives the one with the ConfigMap."""
    volumes = {"map": from_config_map(owner), "secret": from_secret(owner), "disk": from_claim(owner), "ca": BUNDLE}
    made = {kind: node.run_pod(namespace, f"{owner}-{kind}", volume, **NO_TOKEN) for kind, volume in volumes.items()}
    node.run_pod(namespace, f"{owner}-token", MEMORY)  # with the token and the ConfigMap that each Pod has
    return made["map"]


@pytest.fixture
def bundle(cluster: Cluster) -> Iterator[None]:
    kind = {"apiVersion": TRUST_BUNDLES.api_version, "kind": TRUST_BUNDLES.kind}
    spec = {"trustBundle": (cluster.state / "pki/ca.crt").read_text()}
    cluster.admin.create({**kind, "metadata": {"name": "lane"}, "spec": spec})
    yield
    cluster.admin.delete(TRUST_BUNDLES.path(name="lane"))


@pytest.fixture
def others(
    cluster: Cluster, make_node: Callable[[], NodeIdentity], namespace: str, tmp_path: Path
) -> Iterator[NodeIdentity]:
    """Another node, whose Pods use objects that are all called `theirs`."""
    other = make_node()
    add_objects(cluster, namespace, "theirs", tmp_path)
    run_pods(other, namespace, "theirs")
    yield other
    cluster.admin.delete(PODS.path(namespace, "theirs-disk"), gracePeriodSeconds=0)
    drop_claim(cluster, namespace, "theirs")


def drop_claim(cluster: Cluster, namespace: str, owner: str) -> None:
    cluster.admin.delete(CLAIMS.path(namespace, owner))
    cluster.admin.until_gone(CLAIMS.path(namespace, owner))
    cluster.admin.delete(VOLUMES.path(name=f"{namespace}-{owner}"))


def live_through(node: KubeNode, namespace: str) -> None:
    """Mount a Pod with each kind of object, see one change, and end all of them."""
    admin = node.identity.cluster.admin
    add_objects(node.identity.cluster, namespace, "mine", node.top)
    made = run_pods(node.identity, namespace, "mine")
    for kind in KINDS:
        node.wait(f"{namespace}/mine-{kind}")
    admin.patch(CONFIG_MAPS.path(namespace, "mine"), {"data": {"a": "2"}})
    file = node.volume_of(made, CONFIG_MAP) / "a"
    eventually(lambda: file.read_text() == "2", "the file has changed")
    for kind in KINDS:
        admin.delete(PODS.path(namespace, f"mine-{kind}"), gracePeriodSeconds=0)
        node.wait(f"{namespace}/mine-{kind}", "unmounted")
    drop_claim(node.identity.cluster, namespace, "mine")


def is_narrow(request: Request, node: str) -> bool:
    """Say whether a list, or a watch, is of nothing but what a node may see."""
    uri = unquote(request.uri)
    if request.resource == "pods":
        return f"fieldSelector=spec.nodeName={node}&" in f"{uri}&"
    if request.resource == "nodes":
        return f"fieldSelector=metadata.name={node}&" in f"{uri}&"
    return request.resource in WHOLE or request.name in {"mine", "kube-root-ca.crt"}


@pytest.mark.usefixtures("bundle", "others")
def test_a_daemon_asks_as_its_node_for_nothing_that_is_not_its_own(
    cluster: Cluster, kube_node: NodeIdentity, namespace: str, tmp_path: Path
) -> None:
    mark = cluster.audit.mark()
    with KubeNode(kube_node, tmp_path) as node:
        live_through(node, namespace)
    asked = cluster.requests(after=mark, user=kube_node.user)
    read = [each for each in asked if each.verb in {"list", "watch"}]
    assert {"pods", "nodes", "configmaps", "secrets", "clustertrustbundles"} <= {each.resource for each in read}
    assert {"persistentvolumeclaims", "persistentvolumes"} <= {each.resource for each in asked if each.verb == "get"}
    assert [each for each in read if not is_narrow(each, kube_node.name)] == []
    assert [each for each in asked if "theirs" in each.uri] == []
    allowed = {each.uri for each in asked if each.code == 200}
    assert [each for each in asked if each.code in {401, 403} and each.uri not in allowed] == []  # it lags, no more
    assert {each.name for each in asked if each.resource in {"nodes", "csinodes"} and each.name} == {kube_node.name}
    written = [each for each in asked if each.verb not in {"get", "list", "watch"}]
    assert {(each.resource, each.subresource) for each in written} <= WRITTEN


@pytest.mark.usefixtures("bundle")
def test_what_belongs_to_another_node_can_neither_be_read_nor_watched(
    kube_node: NodeIdentity, others: NodeIdentity, namespace: str
) -> None:
    for path in (CONFIG_MAPS.path(namespace, "theirs"), SECRETS.path(namespace, "theirs")):
        others.until_graphed(path)
        assert not kube_node.client.may_get(path)
        refuse_to_watch(kube_node.client, path)
    for path in (CLAIMS.path(namespace, "theirs"), VOLUMES.path(name=f"{namespace}-theirs")):
        others.until_graphed(path)
        assert not kube_node.client.may_get(path)
        refuse_to_watch(kube_node.client, path)
    refuse_to_watch(kube_node.client, PODS.path(namespace, "theirs-map"))
    with (
        pytest.raises(Refused, match="403 Forbidden"),
        kube_node.client.watch(PODS.path(), fieldSelector=f"spec.nodeName={others.name}"),
    ):
        pass


def refuse_to_watch(client: Client, path: str) -> None:
    collection, _, name = path.rpartition("/")
    for query in ({"fieldSelector": f"metadata.name={name}"}, {}):
        with pytest.raises(Refused, match="403 Forbidden"), client.watch(collection, **query):
            pass


@pytest.fixture
def agent(cluster: Cluster) -> Iterator[Path]:
    """The kubeconfig of an identity that is no node, with the ClusterRole that the documentation gives."""
    (text,) = re.findall(r"```yaml cluster\n(.*?)```", DOCS.read_text(), re.DOTALL)
    role = yaml.safe_load(text)
    cluster.admin.create(role)
    name = role["metadata"]["name"]
    group = {"apiGroup": "rbac.authorization.k8s.io"}
    binding = {
        "apiVersion": role["apiVersion"],
        "kind": "ClusterRoleBinding",
        "metadata": {"name": name},
        "roleRef": {**group, "kind": "ClusterRole", "name": name},
        "subjects": [{**group, "kind": "User", "name": AGENT}],
    }
    cluster.admin.create(binding)
    yield cluster.user(AGENT)
    cluster.admin.delete(cluster.admin.path(binding))
    cluster.admin.delete(cluster.admin.path(role))


@pytest.mark.usefixtures("bundle")
def test_the_cluster_role_of_the_documentation_is_enough(
    cluster: Cluster, make_node: Callable[..., NodeIdentity], agent: Path, namespace: str, tmp_path: Path
) -> None:
    unmarked = make_node(managed_attachment=False)
    identity = NodeIdentity(unmarked.name, cluster, agent, cluster.client(agent))
    eventually(lambda: identity.client.may_get(PODS.path()), "the role is known")
    mark = cluster.audit.mark()
    with KubeNode(identity, tmp_path) as node:
        live_through(node, namespace)
    asked = cluster.requests(after=mark, user=AGENT)
    assert {"list", "watch", "get", "patch"} <= {each.verb for each in asked}
    assert [each for each in asked if each.code in {401, 403}] == []
