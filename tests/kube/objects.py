"""Objects of the API server, and the volumes of Pods that name them, for tests of the daemon."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Document = dict[str, Any]

EMPTY_DIR, CONFIG_MAP, SECRET = "kubernetes.io/empty-dir", "kubernetes.io/configmap", "kubernetes.io/secret"
HOST_PATH, PROJECTED = "kubernetes.io/host-path", "kubernetes.io/projected"
NO_TOKEN: Mapping[str, Any] = {"automountServiceAccountToken": False}
MEMORY: Mapping[str, Any] = {"name": "v", "emptyDir": {"medium": "Memory"}}


def config_map(namespace: str, name: str, **data: str) -> Document:
    """Give a ConfigMap."""
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": _named(namespace, name), "data": data}


def secret(namespace: str, name: str, **data: str) -> Document:
    """Give a Secret."""
    return {"apiVersion": "v1", "kind": "Secret", "metadata": _named(namespace, name), "stringData": data}


def from_config_map(name: str, **options: object) -> Document:
    """Give a volume `v` with the files of a ConfigMap."""
    return {"name": "v", "configMap": {"name": name, **options}}


def from_secret(name: str, **options: object) -> Document:
    """Give a volume `v` with the files of a Secret."""
    return {"name": "v", "secret": {"secretName": name, **options}}


def from_claim(name: str) -> Document:
    """Give a volume `v` of a claim."""
    return {"name": "v", "persistentVolumeClaim": {"claimName": name}}


def claim(namespace: str, name: str, size: str = "16Mi", **spec: object) -> Document:
    """Give a claim that only a volume without a class satisfies."""
    wanted = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}, "storageClassName": ""}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": _named(namespace, name),
        "spec": wanted | spec,
    }


def persistent_volume(name: str, namespace: str, of: str, size: str = "16Mi", **source: object) -> Document:
    """Give a volume that is kept for one claim."""
    spec = {
        "capacity": {"storage": size},
        "accessModes": ["ReadWriteOnce"],
        "persistentVolumeReclaimPolicy": "Retain",
        "claimRef": {"namespace": namespace, "name": of},
    }
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": spec | source}


def container_status(name: str, state: str) -> Document:
    """Give what a status says of one container: `running` or `terminated`."""
    said = {"running": {"startedAt": "2026-01-01T00:00:00Z"}, "terminated": {"exitCode": 0}}[state]
    return {"name": name, "ready": False, "restartCount": 0, "image": "none", "imageID": "", "state": {state: said}}


def _named(namespace: str, name: str) -> Document:
    return {"namespace": namespace, "name": name}
