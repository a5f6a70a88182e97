"""Behind an HTTP proxy there are no watches: what Pods there are, and what they refer to, is asked for again."""

from __future__ import annotations

import json
from pathlib import Path

from tests.eventually import eventually
from tests.kube.cluster import Cluster
from tests.kube.http_proxy import HttpProxy
from tests.kube.kube_node import KubeNode, NodeIdentity
from tests.kube.objects import CONFIG_MAP, config_map, from_config_map
from volmgr.kube.resources import CONFIG_MAPS, PODS


def test_a_node_behind_a_proxy_follows_the_server_without_watches(
    cluster: Cluster, kube_node: NodeIdentity, namespace: str, tmp_path: Path
) -> None:
    content = json.loads(kube_node.kubeconfig.read_text())
    config, kubeconfig = tmp_path / "config.json", tmp_path / "kubeconfig"
    config.write_text(json.dumps({"kubernetes": {"object_lifetime": "300ms"}}))
    with HttpProxy() as proxy:
        content["clusters"][0]["cluster"]["proxy-url"] = proxy.url
        kubeconfig.write_text(json.dumps(content))
        far = NodeIdentity(kube_node.name, cluster, kubeconfig, kube_node.client)
        mark = cluster.audit.mark()
        with KubeNode(far, tmp_path, "--config", str(config)) as node:
            cluster.admin.create(config_map(namespace, "settings", a="1"))
            made = far.run_pod(namespace, "web", from_config_map("settings"))
            node.wait(f"{namespace}/web")
            file = node.volume_of(made, CONFIG_MAP) / "a"
            assert file.read_text() == "1"
            cluster.admin.patch(CONFIG_MAPS.path(namespace, "settings"), {"data": {"a": "2"}})
            eventually(lambda: file.read_text() == "2", "the file has changed")
            assert node.status()["reading"]["watches"] == 0
            cluster.admin.delete(PODS.path(namespace, "web"), gracePeriodSeconds=0)
            node.wait(f"{namespace}/web", "unmounted")
    assert set(proxy.targets) == {f"127.0.0.1:{cluster.port}"}
    asked = cluster.requests(after=mark, user=kube_node.user)
    assert asked
    assert [each for each in asked if each.verb == "watch"] == []
