"""A real control plane on loopback: etcd, kube-apiserver, kube-controller-manager."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from urllib3 import PoolManager

from tests.kube import flags
from tests.kube.audit import AuditLog, Request, audit_policy
from tests.kube.certificates import Authority
from tests.kube.client import Client, Document
from tests.kube.flags import ServerFiles
from tests.kube.servers import Port, Server, StateDirectory

BINARIES = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "volmgr/kube"
"""Where `make e2e-kube` builds them."""
ADMIN, CONTROLLERS_USER = "lane-admin", "system:kube-controller-manager"
UNLOGGED = (ADMIN, CONTROLLERS_USER, "system:apiserver")
"""Whose requests no test asks for: they would be most of the audit log."""
MANAGED_ATTACHMENT = "volumes.kubernetes.io/controller-managed-attach-detach"


class Cluster:
    """One that runs inside its `with`; 4 to 6 s until it is ready, and less than 500 MB."""

    def __init__(
        self, *, controllers: bool = True, feature_gates: Mapping[str, bool] | None = None, runtime_config: str = ""
    ) -> None:
        """Take what differs from the release's own defaults, which include all that volumes need."""
        gates = ",".join(f"{name}={str(on).lower()}" for name, on in (feature_gates or {}).items())
        said = {"feature-gates": gates, "runtime-config": runtime_config}
        self._flags = {flag: value for flag, value in said.items() if value}
        self._has_controllers = controllers
        self._clients: list[Client] = []
        self._identities = 0

    def __enter__(self) -> Self:
        assert (BINARIES / "kube-apiserver").exists(), f"no servers in {BINARIES}: `make e2e-kube` builds them"
        self._state = StateDirectory()
        self._ports = [Port() for _ in range(4)]
        self._servers: list[Server] = []
        try:
            self._bring_up()
        except BaseException:
            self._take_down()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._take_down()

    @property
    def port(self) -> int:
        """Where the API server listens, also when it was restarted: the target of a Proxy."""
        return self._ports[0].number

    @property
    def url(self) -> str:
        """The API server's own address."""
        return f"https://127.0.0.1:{self.port}"

    @property
    def state(self) -> Path:
        """The directory that goes with the cluster: logs, certificates, kubeconfigs."""
        return self._state.path

    @property
    def pids(self) -> list[int]:
        """Its processes."""
        return [server.pid for server in self._servers]

    def node(self, name: str, server: str = "") -> Path:
        """Give the kubeconfig of a node's identity; `server` may be a proxy's `url`."""
        return self.user(f"system:node:{name}", "system:nodes", server=server)

    def user(self, name: str, *groups: str, server: str = "") -> Path:
        """Give the kubeconfig of a user with a certificate."""
        issued = self._authority.client(name, *groups)
        proof = {"client-certificate": str(issued.certificate), "client-key": str(issued.key)}
        return self._kubeconfig(name, proof, server)

    def service_account(self, namespace: str, name: str, server: str = "") -> Path:
        """Give the kubeconfig of a service account, with a token of an hour."""
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"
        request: Document = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        return self._kubeconfig(name, {"token": self.admin.post(path, request)["status"]["token"]}, server)

    def client(self, kubeconfig: Path) -> Client:
        """Speak as somebody, until the cluster ends."""
        self._clients.append(Client(kubeconfig))
        return self._clients[-1]

    def add_node(self, name: str, *, managed_attachment: bool = True) -> Document:
        """Create a Node as kubelet would, so that what a node identity may do can be tested."""
        annotations = {MANAGED_ATTACHMENT: "true"} if managed_attachment else {}
        metadata = {"name": name, "labels": {"kubernetes.io/hostname": name}, "annotations": annotations}
        return self.admin.create({"apiVersion": "v1", "kind": "Node", "metadata": metadata})

    def add_namespace(self, name: str) -> None:
        """Create a namespace with its service account."""
        self.admin.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        self._until_namespace(name)

    def stop_api_server(self) -> None:
        """Kill it: connections are refused until it is started again."""
        self._api_server.stop()

    def start_api_server(self) -> None:
        """Start it again, on the same port with the same data; returns when it is ready."""
        self._api_server.start()
        self._api_server.until("is ready", self.admin.is_ready)
        self.admin.until("/api/v1/namespaces/default", lambda _: True)

    def restart_api_server(self) -> None:
        """Kill it and start it again."""
        self.stop_api_server()
        self.start_api_server()

    def requests(self, *, after: int = 0, user: str = "", verb: str = "", resource: str = "") -> Sequence[Request]:
        """Give what the server was asked since a mark of `audit`, but for what the lane's own users did."""
        return self.audit.requests(after=after, user=user, verb=verb, resource=resource)

    def compact(self) -> None:
        """Let etcd forget all but the newest revision: older continue tokens, and watches from before, get a 410."""
        root = f"http://127.0.0.1:{self._ports[1].number}/v3/kv"
        with PoolManager(retries=False) as etcd:
            newest = etcd.request("POST", f"{root}/range", json={"key": "AA=="}).json()["header"]["revision"]
            answer = etcd.request("POST", f"{root}/compaction", json={"revision": newest, "physical": True})
        assert answer.status == 200, answer.data

    def back_up(self) -> None:
        """Keep the state of now."""
        self.stop_api_server()
        self._etcd.stop()
        shutil.copytree(self.state / "etcd", self.state / "backup")
        self._etcd.start()
        self.start_api_server()

    def restore(self) -> None:
        """Have the state that was kept, and its revision: nobody has bumped that."""
        self.stop_api_server()
        self._etcd.stop()
        shutil.rmtree(self.state / "etcd")
        shutil.copytree(self.state / "backup", self.state / "etcd")
        self._etcd.start()
        self.start_api_server()

    def _bring_up(self) -> None:
        self._authority = Authority(self.state / "pki")
        self.admin_kubeconfig = self.user(ADMIN, "system:masters")
        self.admin = self.client(self.admin_kubeconfig)
        self.audit = AuditLog(self.state / "audit.log")
        files = ServerFiles(
            self.state, self._authority.own, self._authority.server("api"), self._authority.key_pair("tokens")
        )
        files.audit_policy.write_text(json.dumps(audit_policy(UNLOGGED)))
        api, etcd, peers, manager = (port.number for port in self._ports)
        self._etcd = self._server("etcd", flags.etcd(files, etcd, peers))
        self._etcd.start()
        self._api_server = self._server("kube-apiserver", {**flags.api_server(files, api, etcd), **self._flags})
        self.start_api_server()
        if self._has_controllers:
            # The role alone lacks what the controllers need when they share one identity.
            user = self.user(CONTROLLERS_USER, "system:masters")
            self._server("kube-controller-manager", flags.controller_manager(files, manager, user)).start()
            self.admin.until("/api/v1/namespaces/default/configmaps/kube-root-ca.crt", lambda _: True)
        self._until_namespace("default")

    def _until_namespace(self, name: str) -> None:
        account = {"namespace": name, "name": "default"}
        if not self._has_controllers:
            self.admin.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": account})
        self.admin.until(f"/api/v1/namespaces/{name}/serviceaccounts/default", lambda _: True)

    def _take_down(self) -> None:
        for client in self._clients:
            client.close()
        for server in reversed(self._servers):
            server.stop()
        self._state.remove()
        for port in self._ports:
            port.close()

    def _server(self, name: str, options: Mapping[str, str]) -> Server:
        argv = [str(BINARIES / name), *(f"--{option}={value}" for option, value in options.items())]
        self._servers.append(Server(self.state / f"{name}.log", argv))
        return self._servers[-1]

    def _kubeconfig(self, name: str, user: Mapping[str, str], server: str) -> Path:
        self._identities += 1
        path = self.state / f"{self._identities}.kubeconfig"
        where = {"server": server or self.url, "certificate-authority": str(self._authority.own.certificate)}
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "lane",
            "clusters": [{"name": "lane", "cluster": where}],
            "users": [{"name": name, "user": user}],
            "contexts": [{"name": "lane", "context": {"cluster": "lane", "user": name}}],
        }
        path.touch(mode=0o600)
        path.write_text(json.dumps(content))
        return path
