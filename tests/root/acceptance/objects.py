"""Objects that manifests hold beside Pods, and the volumes of Pods that name them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

Document = dict[str, Any]
CLAIMED: Document = {"name": "v", "persistentVolumeClaim": {"claimName": "orders"}}


def named(kind: str, name: str, **fields: object) -> Document:
    """Give an object of the core API."""
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": name}, **fields}


def config(name: str, **data: str) -> Document:
    """Give a ConfigMap."""
    return named("ConfigMap", name, data=data)


def secret(name: str, **data: str) -> Document:
    """Give a Secret."""
    return named("Secret", name, stringData=data)


def shows_config(name: str, volume: str = "c", **more: object) -> Document:
    """Give a volume of a ConfigMap."""
    return {"name": volume, "configMap": {"name": name, **more}}


def shows_secret(name: str, volume: str = "s", **more: object) -> Document:
    """Give a volume of a Secret."""
    return {"name": volume, "secret": {"secretName": name, **more}}


def projected(*sources: Document, volume: str = "p", **more: object) -> Document:
    """Give a projected volume."""
    return {"name": volume, "projected": {"sources": list(sources), **more}}


def persistent(name: str, source: Document, size: str = "1Gi", **spec: object) -> Document:
    """Give a PersistentVolume."""
    common = {"capacity": {"storage": size}, "accessModes": ["ReadWriteOnce"]}
    return named("PersistentVolume", name, spec={**common, **source, **spec})


def directory(name: str, path: Path, size: str = "1Gi", **spec: object) -> Document:
    """Give a PersistentVolume of a directory that is made if it is missing."""
    return persistent(name, {"hostPath": {"path": str(path), "type": "DirectoryOrCreate"}}, size, **spec)


def local(name: str, path: Path | str, size: str = "1Mi", **spec: object) -> Document:
    """Give a PersistentVolume of a directory or device of the node, without a nodeAffinity."""
    return persistent(name, {"local": {"path": str(path)}}, size, **spec)


def claim(name: str = "orders", size: str = "1Mi", **spec: object) -> Document:
    """Give a claim."""
    common = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}}
    return named("PersistentVolumeClaim", name, spec={**common, **spec})
