"""A node of the cluster: its identity, its Pods, and a real daemon for it."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

from tests.eventually import PATIENCE, eventually
from tests.kube.client import Client
from tests.kube.cluster import Cluster
from tests.live_node import LiveNode
from volmgr.cli.client import Client as DaemonClient
from volmgr.cli.client import Refused, quote
from volmgr.testing.node import pod


@dataclass(frozen=True)
class NodeIdentity:
    """One Node object, and `system:node:NAME`."""

    name: str
    cluster: Cluster
    kubeconfig: Path
    client: Client

    @classmethod
    def added_to(cls, cluster: Cluster, name: str, *, managed_attachment: bool = True) -> Self:
        """Create the Node."""
        cluster.add_node(name, managed_attachment=managed_attachment)
        kubeconfig = cluster.node(name)
        return cls(name, cluster, kubeconfig, cluster.client(kubeconfig))

    @property
    def user(self) -> str:
        """What the server calls it."""
        return f"system:node:{self.name}"

    def behind(self, url: str) -> Self:
        """Give the same identity by way of a proxy."""
        kubeconfig = self.cluster.node(self.name, url)
        return replace(self, kubeconfig=kubeconfig, client=self.cluster.client(kubeconfig))

    def run_pod(self, namespace: str, name: str, *volumes: Mapping[str, Any], **spec: Any) -> dict[str, Any]:  # noqa: ANN401 - of the Pod
        """Create a Pod that is bound to the node: there is no scheduler."""
        document = pod(name, *volumes, metadata={"namespace": namespace}, nodeName=self.name, **spec)
        for container in document["spec"]["containers"]:
            container["image"] = "none"  # the server insists; nobody pulls
        return self.cluster.admin.create(document)

    def until_graphed(self, path: str) -> None:
        """Return when the node may read an object: the authorizer hears of Pods by a watch of its own."""
        eventually(lambda: self.client.may_get(path), f"{self.user} may read {path}")


class KubeNode(LiveNode):
    """A real daemon in Kubernetes mode; its Pods come from the API server."""

    def __init__(self, identity: NodeIdentity, top: Path, *options: str, python: str | Path = sys.executable) -> None:
        """Start it, by itself with this environment's Python."""
        mode = ("--kubeconfig", str(identity.kubeconfig), "--node-name", identity.name)
        self.identity = identity
        super().__init__(Path(python), top, *mode, *options)

    def sources(self) -> tuple[str, ...]:
        return ()

    def wait(self, key: str, condition: str = "mounted") -> None:
        """Return when the volumes of a Pod (`namespace/name`) are mounted, or gone (`unmounted`)."""
        with self._client() as client:
            client.wait(key, condition, PATIENCE)

    def why(self, key: str) -> str:
        """Give what `volmgr why` says of a Pod, also of one that is not known."""
        with self._client() as client:
            try:
                pods = json.loads(client.get(f"/v1/pods/{quote(key)}/why"))["pods"]
            except Refused as unknown:
                return str(unknown)
        return "\n".join(pod["text"] for pod in pods)

    def until_why(self, key: str, *words: str) -> str:
        """Return what `volmgr why` says of a Pod when it says all this."""
        eventually(lambda: all(each in self.why(key) for each in words), f"why {key}: {words}")
        return self.why(key)

    def status(self) -> dict[str, Any]:
        """Give what `volmgr status -o json` says."""
        with self._client() as client:
            return dict(json.loads(client.get("/v1/pods")))

    def _client(self) -> AbstractContextManager[DaemonClient]:
        return closing(DaemonClient(str(self.socket)))

    def volume_of(self, document: Mapping[str, Any], plugin: str, volume: str = "v") -> Path:
        """Give the directory of a volume of a Pod that the server knows."""
        return self.root / "pods" / str(document["metadata"]["uid"]) / "volumes" / plugin.replace("/", "~") / volume
