"""The command lines of the control plane. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.kube.certificates import Credentials

ISSUER = "https://kubernetes.default.svc"
CONTROLLERS = (
    "certificatesigningrequest-approving-controller",
    "certificatesigningrequest-signing-controller",
    "ephemeral-volume-controller",
    "garbage-collector-controller",
    "namespace-controller",
    "persistentvolume-attach-detach-controller",
    "persistentvolume-binder-controller",
    "persistentvolume-expander-controller",
    "persistentvolume-protection-controller",
    "persistentvolumeclaim-protection-controller",
    "root-ca-certificate-publisher-controller",
    "serviceaccount-controller",
)
"""Those that volumes need. Not the ones that take Pods from nodes without a kubelet."""

Flags = Mapping[str, str]


@dataclass(frozen=True)
class ServerFiles:
    """What the servers find in the cluster's directory."""

    state: Path
    authority: Credentials
    api_server: Credentials
    token_key: Credentials

    @property
    def audit_policy(self) -> Path:
        """What is logged."""
        return self.state / "audit-policy.json"


def etcd(files: ServerFiles, port: int, peer_port: int) -> Flags:
    """Give etcd's."""
    clients, peers = f"http://127.0.0.1:{port}", f"http://127.0.0.1:{peer_port}"
    return {
        "name": "lane",
        "data-dir": str(files.state / "etcd"),
        "unsafe-no-fsync": "true",
        "log-level": "warn",
        "socket-reuse-port": "true",
        "listen-client-urls": clients,
        "advertise-client-urls": clients,
        "listen-peer-urls": peers,
        "initial-advertise-peer-urls": peers,
        "initial-cluster": f"lane={peers}",
    }


def api_server(files: ServerFiles, port: int, etcd_port: int) -> Flags:
    """Give kube-apiserver's: the authorization and admission that a node meets in production."""
    return {
        "etcd-servers": f"http://127.0.0.1:{etcd_port}",
        "bind-address": "127.0.0.1",
        "advertise-address": "127.0.0.1",
        "secure-port": str(port),
        "permit-port-sharing": "true",
        "endpoint-reconciler-type": "none",
        "tls-cert-file": str(files.api_server.certificate),
        "tls-private-key-file": str(files.api_server.key),
        "client-ca-file": str(files.authority.certificate),
        "authorization-mode": "Node,RBAC",
        "enable-admission-plugins": "NodeRestriction",
        "service-account-issuer": ISSUER,
        "api-audiences": ISSUER,
        "service-account-key-file": str(files.token_key.certificate),
        "service-account-signing-key-file": str(files.token_key.key),
        "service-cluster-ip-range": "10.0.0.0/24",
        "allow-privileged": "true",
        "profiling": "false",
        "anonymous-auth": "false",
        "audit-policy-file": str(files.audit_policy),
        "audit-log-path": str(files.state / "audit.log"),
        "audit-log-mode": "blocking",  # a request is logged before anybody sees its effect
        "audit-log-maxsize": "0",  # never rotated: tests read it from a mark on
    }


def controller_manager(files: ServerFiles, port: int, kubeconfig: Path) -> Flags:
    """Give kube-controller-manager's."""
    return {
        "kubeconfig": str(kubeconfig),
        "bind-address": "127.0.0.1",
        "secure-port": str(port),
        "permit-port-sharing": "true",
        "leader-elect": "false",
        "use-service-account-credentials": "false",
        "profiling": "false",
        "controllers": ",".join(CONTROLLERS),
        "service-account-private-key-file": str(files.token_key.key),
        "root-ca-file": str(files.authority.certificate),
        "cluster-signing-cert-file": str(files.authority.certificate),
        "cluster-signing-key-file": str(files.authority.key),
        # By default a minute and 15 s: how long a test would wait for what no event announces.
        "attach-detach-reconcile-sync-period": "5s",
        "pvclaimbinder-sync-period": "2s",
    }
