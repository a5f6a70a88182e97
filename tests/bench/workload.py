"""The Pods that are measured."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import cast

MEMORY: Mapping[str, object] = {"emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}}
DISK: Mapping[str, object] = {"emptyDir": {}}


def host_path(path: Path) -> Mapping[str, object]:
    """Give a hostPath source for a directory that exists."""
    return {"hostPath": {"path": str(path), "type": "Directory"}}


def local_volume(name: str, path: Path) -> tuple[dict[str, object], dict[str, object]]:
    """Give a PV of a directory and the claim that it is bound to, both of this name."""
    ref = {"name": name, "namespace": "default"}
    modes, size = ["ReadWriteOnce"], {"storage": "1Gi"}
    local: dict[str, object] = {"local": {"path": str(path)}, "accessModes": modes, "capacity": size, "claimRef": ref}
    wish: dict[str, object] = {"volumeName": name, "accessModes": modes, "resources": {"requests": size}}
    volume = {"kind": "PersistentVolume", "metadata": {"name": name}, "spec": {**local, "storageClassName": ""}}
    claim = {"kind": "PersistentVolumeClaim", "metadata": ref, "spec": {**wish, "storageClassName": ""}}
    return {"apiVersion": "v1", **volume}, {"apiVersion": "v1", **claim}


def claimed(name: str) -> Mapping[str, object]:
    """Give the source of a Pod's volume that is a claim's."""
    return {"persistentVolumeClaim": {"claimName": name}}


def uid(number: int, prefix: str = "b") -> str:
    """Give a Pod's UID."""
    return f"{prefix}0000000-0000-4000-8000-{number:012d}"


def pod(number: int, sources: Sequence[Mapping[str, object]], prefix: str = "b") -> dict[str, object]:
    """Give a Pod with these volumes, all used."""
    names = [f"v{index}" for index in range(len(sources))]
    mounts = [{"name": name, "mountPath": f"/{name}"} for name in names]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"{prefix}-{number}", "namespace": "default", "uid": uid(number, prefix)},
        "spec": {
            "containers": [{"name": "main", "image": "registry.example/main:1", "volumeMounts": mounts}],
            "volumes": [{"name": name, **source} for name, source in zip(names, sources, strict=True)],
        },
    }


def as_json(manifest: Mapping[str, object]) -> bytes:
    """Give a manifest as a node agent sends it."""
    return json.dumps(manifest).encode()


def as_yaml(*manifests: Mapping[str, object]) -> bytes:
    """Give manifests as people write them: block style."""
    return b"---\n".join("\n".join(_lines(manifest)).encode() + b"\n" for manifest in manifests)


def _lines(value: object) -> list[str]:
    if not _is_nested(value):
        return [_scalar(value)]
    if isinstance(value, dict):
        members = cast("dict[str, object]", value)
        return [line for key, inner in members.items() for line in _entry(key, inner)]
    items = cast("list[object]", value)
    return [("  " if number else "- ") + line for item in items for number, line in enumerate(_lines(item))]


def _entry(key: str, value: object) -> list[str]:
    if _is_nested(value):
        return [f"{key}:", *(f"  {line}" for line in _lines(value))]
    return [f"{key}: {_scalar(value)}"]


def _is_nested(value: object) -> bool:
    return isinstance(value, (dict, list)) and bool(cast("object", value))


def _scalar(value: object) -> str:
    """Leave text without quotes, as people do; ours is never anything else then."""
    return value if isinstance(value, str) and value else json.dumps(value)


def volume_path(root: Path, pod_uid: str, index: int = 0) -> Path:
    """Give where an emptyDir of a Pod is mounted."""
    return root / "pods" / pod_uid / "volumes" / "kubernetes.io~empty-dir" / f"v{index}"
