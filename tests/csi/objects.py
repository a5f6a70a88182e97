"""Objects of manifests, and of the API server, that name a CSI driver."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.root.acceptance.outside import pod

Document = dict[str, Any]
STORAGE = "storage.k8s.io/v1"


def persistent(driver: str, handle: str, *, size: str = "16Mi", name: str = "", **more: Any) -> Document:  # noqa: ANN401 - YAML
    """Give a PersistentVolume of a driver; `csi` are further fields of its source, the rest are fields of its spec."""
    csi = {"driver": driver, "volumeHandle": handle, **more.pop("csi", {})}
    spec = {"capacity": {"storage": size}, "accessModes": ["ReadWriteOnce"], "persistentVolumeReclaimPolicy": "Retain"}
    return _named("v1", "PersistentVolume", name or f"pv-{handle}", spec={**spec, "csi": csi, **more})


def claim(name: str, *, size: str = "16Mi", **more: Any) -> Document:  # noqa: ANN401 - YAML
    """Give a claim; without a class unless it says one."""
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}, "storageClassName": ""}
    return _named("v1", "PersistentVolumeClaim", name, spec={**spec, **more})


def bound(driver: str, handle: str, *, size: str = "16Mi", csi: Document | None = None, **both: Any) -> list[Document]:  # noqa: ANN401 - YAML
    """Give a PersistentVolume and the claim `handle` that names it; `both` are fields of the specs of both."""
    return [
        persistent(driver, handle, size=size, csi=csi or {}, **both),
        claim(handle, size=size, volumeName=f"pv-{handle}", **both),
    ]


def claimed(handle: str, name: str = "v", *, read_only: bool = False) -> Document:
    """Give the volume of a Pod that uses a claim."""
    return {"name": name, "persistentVolumeClaim": {"claimName": handle, **({"readOnly": True} if read_only else {})}}


def inline(driver: str, name: str = "v", **more: Any) -> Document:  # noqa: ANN401 - YAML
    """Give an ephemeral volume of a driver; `more` are fields of its source."""
    return {"name": name, "csi": {"driver": driver, **more}}


def device_pod(name: str, *volumes: Document, **spec: Any) -> Document:  # noqa: ANN401 - YAML
    """Give a Pod whose one container has every volume as a device."""
    made = pod(name, *volumes, **spec)
    (container,) = made["spec"]["containers"]
    del container["volumeMounts"]
    container["volumeDevices"] = [{"name": each["name"], "devicePath": f"/dev/{each['name']}"} for each in volumes]
    return made


def storage_class(name: str, driver: str, **more: Any) -> Document:  # noqa: ANN401 - YAML
    """Give a StorageClass; `more` are its fields."""
    return _named(STORAGE, "StorageClass", name, provisioner=driver, **more)


def driver_object(name: str, *, modes: Sequence[str] = ("Persistent", "Ephemeral"), **spec: Any) -> Document:  # noqa: ANN401 - YAML
    """Give a CSIDriver, of one whose volumes nobody attaches unless it says so."""
    return _named(
        STORAGE, "CSIDriver", name, spec={"attachRequired": False, "volumeLifecycleModes": list(modes), **spec}
    )


def _named(version: str, kind: str, name: str, **fields: Any) -> Document:  # noqa: ANN401 - YAML
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}, **fields}
