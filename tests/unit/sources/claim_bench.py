"""A registry with claims and volumes on a host in memory, restarted and killed as a test likes; and their manifests."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from volmgr import records
from volmgr.host.interface import Host
from volmgr.manifest import parse
from volmgr.model.meta import ObjectRef
from volmgr.model.objects import PersistentVolumeClaim, ref_of
from volmgr.model.volume import PersistentVolume
from volmgr.sources.changes import Change, ObjectChanged, ObjectLeft
from volmgr.sources.registry import Registry
from volmgr.testing.fake_host import FakeHost

Document = dict[str, Any]
GIB = 1 << 30


class ClaimBench:
    """What the reconciler would know of claims and volumes; whatever is told as bound has a record by then."""

    def __init__(self, host: Host | None = None, *, node_name: str = "", read: bool = True) -> None:
        self.host = host or FakeHost()
        self.known: dict[ObjectRef, ObjectChanged] = {}
        self.files: dict[str, tuple[Document, ...]] = {}
        self.registry = Registry(self.host.files, self.host.paths, self.hear, node_name=node_name)
        self.registry.expect("dir")
        self.registry.start()
        if read:
            self.read()

    def read(self) -> None:
        """Say that the directory was read whole."""
        self.registry.state("dir", ready=True)

    def hear(self, change: Change) -> None:
        match change:
            case ObjectChanged():
                self.known[ref_of(change.item)] = change
                if isinstance(change.item, PersistentVolumeClaim) and change.item.phase == "Bound":
                    assert self.record(change.item.volume_name)["name"] == change.item.metadata.name
            case ObjectLeft():
                del self.known[change.ref]
            case _:
                pass

    def record(self, volume: str) -> Mapping[str, object]:
        path = self.host.paths.state / "claims" / records.file_name(f"pv.{volume}")
        return records.read(self.host.files, path, "binding") or {}

    def offer(self, file: str, *documents: Document) -> bool:
        self.files[file] = documents
        data = "\n---\n".join(map(json.dumps, documents)).encode()
        return self.registry.offer("dir", file, str(hash(data)), parse(data, file))

    def remove(self, file: str) -> None:
        self.files.pop(file, None)
        self.registry.withdraw("dir", file)

    def restart(self) -> ClaimBench:
        """Give what a new daemon knows when it has read the same files."""
        again = ClaimBench(self.host, read=False)
        for file, documents in self.files.items():
            again.offer(file, *documents)
        again.read()
        return again

    def claim(self, name: str) -> PersistentVolumeClaim:
        item = self.known[ObjectRef("PersistentVolumeClaim", "default", name)].item
        assert isinstance(item, PersistentVolumeClaim)
        return item

    def volume(self, name: str) -> PersistentVolume:
        item = self.known[ObjectRef("PersistentVolume", "", name)].item
        assert isinstance(item, PersistentVolume)
        return item

    def state(self, name: str) -> tuple[str, str]:
        """Give phase and volume of a claim."""
        claim = self.claim(name)
        return claim.phase, claim.volume_name

    def owner(self, name: str) -> tuple[str, str]:
        """Give phase of a volume, and the claim that it belongs to."""
        pv = self.volume(name)
        return pv.phase, pv.claim_ref.name if pv.claim_ref else ""

    def post(self, document: Document) -> None:
        """Send a Pod by the API."""
        (item,) = parse(json.dumps(document).encode(), "").items
        self.registry.apply(item)

    def end(self, uid: str) -> None:
        """Let a Pod go, and the last of its volumes."""
        self.registry.delete(uid)
        self.registry.forget(uid)


def pv(name: str, size: str = "1Gi", *modes: str, metadata: Document | None = None, **spec: object) -> Document:
    """Give a PersistentVolume."""
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name, **(metadata or {})},
        "spec": {
            "capacity": {"storage": size},
            "accessModes": list(modes or ("ReadWriteOnce",)),
            "hostPath": {"path": f"/srv/{name}"},
            **spec,
        },
    }


def pvc(name: str, size: str = "1Gi", *modes: str, metadata: Document | None = None, **spec: object) -> Document:
    """Give a claim."""
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, **(metadata or {})},
        "spec": {
            "resources": {"requests": {"storage": size}},
            "accessModes": list(modes or ("ReadWriteOnce",)),
            **spec,
        },
    }


def storage_class(name: str, *, default: bool = False, late: bool = False, provisioner: str = "") -> Document:
    """Give a StorageClass; `late` ones bind when a Pod uses the claim."""
    annotations = {"storageclass.kubernetes.io/is-default-class": "true"} if default else {}
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name, "annotations": annotations},
        "provisioner": provisioner or "kubernetes.io/no-provisioner",
        "volumeBindingMode": "WaitForFirstConsumer" if late else "Immediate",
    }


def user(name: str, *claims: str, ephemeral: Document | None = None, uid: str = "") -> Document:
    """Give a Pod that uses claims and, if a claim's spec is given, has an ephemeral volume `scratch`."""
    volumes: list[Document] = [{"name": f"v-{each}", "persistentVolumeClaim": {"claimName": each}} for each in claims]
    if ephemeral is not None:
        volumes.append({"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": ephemeral}}})
    mounts = [{"name": each["name"], "mountPath": f"/{each['name']}"} for each in volumes]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "uid": uid or f"uid-{name}"},
        "spec": {"containers": [{"name": "main", "volumeMounts": mounts}], "volumes": volumes},
    }


def asking(size: str = "1Gi") -> Document:
    """Give the spec of a claim."""
    return {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}}
