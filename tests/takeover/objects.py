"""What is mounted in these tests: one Pod with every type that kubelet and volmgr both have, and one that shares."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

NODE = "bench-node"
"""The node's name in `tests/bench/kubelet/env.go`, as its allocatable memory below."""
SHOP, GUEST = "uid-shop", "uid-guest"
GROUP = 2000
SUBPATHS = ("mem", "host")
"""The volumes of which a container has a part, too."""

Object = Mapping[str, Any]


def node() -> Object:
    metadata = {"name": NODE, "labels": {"kubernetes.io/hostname": NODE}}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": {"allocatable": {"memory": "1Gi"}}}


def config_map(**data: str) -> Object:
    return _object("ConfigMap", "settings", data=data)


def secret(**data: str) -> Object:
    return _object(
        "Secret", "login", data={key: base64.b64encode(text.encode()).decode() for key, text in data.items()}
    )


def bound(volume: Object, claim: Object) -> tuple[Object, Object]:
    """Give a PersistentVolume and the claim that names it, bound as controllers leave them."""
    name = claim["metadata"]["name"]
    whose = {"namespace": "default", "name": name, "uid": f"claim-{name}"}
    reference = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", **whose}
    has = {"accessModes": claim["spec"]["accessModes"], "capacity": claim["spec"]["resources"]["requests"]}
    return (
        {
            **volume,
            "metadata": {**volume["metadata"], "uid": f"pv-{name}"},
            "spec": {**volume["spec"], "claimRef": reference},
            "status": {"phase": "Bound"},
        },
        {**claim, "metadata": {**claim["metadata"], **whose}, "status": {"phase": "Bound", **has}},
    )


def local(name: str, path: Path, mode: str = "Filesystem") -> tuple[Object, Object]:
    """Give a PersistentVolume and the claim that has it, bound as controllers leave them."""
    common = {"accessModes": ["ReadWriteOnce"], "volumeMode": mode, "storageClassName": "local"}
    claim = {"namespace": "default", "name": name, "uid": f"claim-{name}"}
    here = {"key": "kubernetes.io/hostname", "operator": "In", "values": [NODE]}
    volume = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": f"pv-{name}", "uid": f"pv-{name}"},
        "spec": {
            **common,
            "capacity": {"storage": "32Mi"},
            "local": {"path": str(path)},
            "claimRef": {"apiVersion": "v1", "kind": "PersistentVolumeClaim", **claim},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [here]}]}},
            "persistentVolumeReclaimPolicy": "Retain",
        },
        "status": {"phase": "Bound"},
    }
    status = {"phase": "Bound", "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "32Mi"}}
    spec = {**common, "volumeName": f"pv-{name}", "resources": {"requests": {"storage": "32Mi"}}}
    return volume, _object("PersistentVolumeClaim", name, uid=claim["uid"], spec=spec, status=status)


def shop(host_path: Path, subpaths: Sequence[str] = SUBPATHS) -> Object:
    """Give a Pod with all types."""
    items = [{"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}]
    parts = [{"secret": {"name": "login"}}, {"configMap": {"name": "settings"}}, {"downwardAPI": {"items": items}}]
    volumes: dict[str, Object] = {
        "disk": {"emptyDir": {}},
        "mem": {"emptyDir": {"medium": "Memory", "sizeLimit": "16Mi"}},
        "host": {"hostPath": {"path": str(host_path), "type": "DirectoryOrCreate"}},
        "login": {"secret": {"secretName": "login"}},
        "settings": {"configMap": {"name": "settings"}},
        "me": {"downwardAPI": {"items": items}},
        "all": {"projected": {"sources": parts}},
        "dir": _claimed("dir"),
        "data": _claimed("data"),
        "raw": _claimed("raw"),
    }
    return pod("shop", SHOP, volumes, subpaths=subpaths, devices=("raw",))


def guest() -> Object:
    """Give a Pod that shares what several Pods may have."""
    volumes = {"dir": _claimed("dir"), "data": _claimed("data"), "raw": _claimed("raw")}
    return pod("guest", GUEST, volumes, devices=("raw",))


def pod(
    name: str, uid: str, volumes: Mapping[str, Object], *, subpaths: Sequence[str] = (), devices: Sequence[str] = ()
) -> Object:
    """Give a Pod with one container that uses every volume."""
    mounts = [{"name": each, "mountPath": f"/{each}"} for each in volumes if each not in devices]
    mounts += [{"name": each, "mountPath": f"/part/{each}", "subPath": "part"} for each in subpaths]
    container = {
        "name": "main",
        "image": "main",
        "volumeMounts": mounts,
        "volumeDevices": [{"name": each, "devicePath": f"/dev/{each}"} for each in devices],
    }
    spec = {
        "nodeName": NODE,
        "securityContext": {"fsGroup": GROUP},
        "containers": [container],
        "volumes": [{"name": each, **source} for each, source in volumes.items()],
    }
    return _object("Pod", name, uid=uid, labels={"app": name}, spec=spec)


def _claimed(name: str) -> Object:
    return {"persistentVolumeClaim": {"claimName": name}}


def _object(kind: str, name: str, *, uid: str = "", labels: Mapping[str, str] | None = None, **more: Any) -> Object:  # noqa: ANN401 - YAML
    metadata = {"namespace": "default", "name": name, "uid": uid or f"uid-{name}", "labels": dict(labels or {})}
    return {"apiVersion": "v1", "kind": kind, "metadata": metadata, **more}
