# ruff: noqa: ARG002 - operations are called with everything, and a probe needs little of it
"""Volume types that say what was asked of them, and do as a test plans; and the manifests to use them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from volmgr import manifest
from volmgr.model.meta import ObjectRef
from volmgr.plugin import (
    Attach,
    Attachable,
    Attached,
    BlockMappable,
    Detach,
    Detached,
    DeviceMountable,
    DeviceMounted,
    DeviceUnmounted,
    Expand,
    Expandable,
    Expanded,
    Facets,
    Found,
    Handles,
    Host,
    Mount,
    MountDevice,
    Mounted,
    Notice,
    NotReconstructible,
    Objects,
    Pod,
    Reconstructed,
    Reference,
    Unmount,
    UnmountDevice,
    Unmounted,
    VolumePlugin,
    VolumeSpec,
    WaitForAttach,
    Where,
)
from volmgr.plugins import Plugins
from volmgr.testing.node import TestNode, plugins_of


@dataclass
class Script:
    """What a type was asked (`calls`, `requests`), and how its operations fail: errors by operation, used up in order.

    An error `None` in a plan is a success; after the plan everything succeeds.
    """

    plans: dict[str, list[BaseException | None]] = field(default_factory=dict[str, list[BaseException | None]])
    calls: list[str] = field(default_factory=list[str])
    requests: list[Any] = field(default_factory=list[Any])
    facets: Facets = field(default_factory=Facets)
    references: tuple[Reference, ...] = ()
    endpoint: str = ""
    notices: tuple[Notice, ...] = ()
    """What is odd each time that a device is mounted."""
    on_act: Callable[[], None] = lambda: None
    """Called by every operation that is noted, before it fails or not."""
    pure: Callable[[], None] = lambda: None
    """Called by every pure method: may raise."""

    def fail(self, operation: str, *errors: BaseException | None) -> None:
        """Plan errors of an operation."""
        self.plans.setdefault(operation, []).extend(errors)

    def act(self, operation: str, request: object) -> None:
        """Note an operation, and fail as planned."""
        self.calls.append(operation)
        self.requests.append(request)
        self.on_act()
        plan = self.plans.get(operation)
        error = plan.pop(0) if plan else None
        if error is not None:
            raise error

    def forget(self) -> None:
        """Forget what was asked so far."""
        self.calls.clear()
        self.requests.clear()

    def count(self, operation: str) -> int:
        """Count the calls of an operation."""
        return self.calls.count(operation)

    def last(self, operation: str) -> Any:  # noqa: ANN401 - the request's type is the operation's
        """Give the last request of an operation."""
        index = len(self.calls) - 1 - self.calls[::-1].index(operation)
        return self.requests[index]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeSource:
    """The source of both types."""

    disk: str
    read_only: bool = False


class Plain(VolumePlugin[ProbeSource]):
    """Neither attachable nor device-mountable; makes a directory. Field `plainProbe`."""

    name = "example.com/plain"
    handles: tuple[Handles, ...] = (Handles("plainProbe", source=ProbeSource),)

    def __init__(self, script: Script) -> None:
        self._script = script

    def facets(self, spec: VolumeSpec[ProbeSource], objects: Objects) -> Facets:
        self._script.pure()
        return self._script.facets

    def references(self, spec: VolumeSpec[ProbeSource], pod: Pod) -> tuple[Reference, ...]:
        return self._script.references

    def endpoint(self, spec: VolumeSpec[ProbeSource]) -> str:
        return self._script.endpoint

    def mount(self, request: Mount[ProbeSource], host: Host) -> Mounted:
        self._script.act("mount", request)
        host.files.ensure_directory(request.target, 0o750)
        return Mounted()

    def unmount(self, request: Unmount, host: Host) -> Unmounted:
        self._script.act("unmount", request)
        host.files.remove_directory(request.target)
        return Unmounted()

    def reconstruct(self, found: Found, host: Host) -> Reconstructed[ProbeSource]:
        self._script.act("reconstruct", found)
        spec = VolumeSpec(name=found.spec_name, type="plainProbe", source=ProbeSource(disk=""))
        return Reconstructed(spec=spec)


DISK_FACETS = Facets(attach=True, device=True, block=True, expand=True)


class Disk(
    VolumePlugin[ProbeSource],
    Attachable[ProbeSource],
    DeviceMountable[ProbeSource],
    BlockMappable,
    Expandable[ProbeSource],
):
    """Attachable, device-mountable, block-mappable and expandable, of PersistentVolumes. Field `diskProbe`."""

    name = "example.com/disk"
    handles: tuple[Handles, ...] = (Handles("diskProbe", where=Where.PV, source=ProbeSource),)

    def __init__(self, script: Script) -> None:
        self._script = script

    def volume_name(self, spec: VolumeSpec[ProbeSource]) -> str:
        return spec.source.disk

    def facets(self, spec: VolumeSpec[ProbeSource], objects: Objects) -> Facets:
        self._script.pure()
        return self._script.facets

    def references(self, spec: VolumeSpec[ProbeSource], pod: Pod) -> tuple[Reference, ...]:
        return self._script.references

    def attach(self, request: Attach[ProbeSource], host: Host) -> Attached:
        self._script.act("attach", request)
        return Attached(device_path="fake/device/path")

    def wait_for_attach(self, request: WaitForAttach[ProbeSource], host: Host) -> Attached:
        self._script.act("wait_for_attach", request)
        return Attached(device_path=request.device_path)

    def detach(self, request: Detach, host: Host) -> Detached:
        self._script.act("detach", request)
        return Detached()

    def device_target(self, spec: VolumeSpec[ProbeSource], host: Host) -> Path:
        return host.paths.plugin(self.name) / "mounts" / spec.source.disk

    def mount_device(self, request: MountDevice[ProbeSource], host: Host) -> DeviceMounted:
        self._script.act("mount_device", request)
        host.files.ensure_directory(request.target, 0o750)
        return DeviceMounted(notices=self._script.notices)

    def unmount_device(self, request: UnmountDevice, host: Host) -> DeviceUnmounted:
        self._script.act("unmount_device", request)
        host.files.remove_directory(request.target)
        return DeviceUnmounted()

    def mount(self, request: Mount[ProbeSource], host: Host) -> Mounted:
        self._script.act("mount", request)
        host.files.ensure_directory(request.target, 0o750)
        return Mounted()

    def unmount(self, request: Unmount, host: Host) -> Unmounted:
        self._script.act("unmount", request)
        host.files.remove_directory(request.target)
        return Unmounted()

    def expand(self, request: Expand[ProbeSource], host: Host) -> Expanded:
        self._script.act("expand", request)
        return Expanded(size=request.new_size)

    def reconstruct(self, found: Found, host: Host) -> Reconstructed[ProbeSource]:
        self._script.act("reconstruct", found)
        if found.spec_name.startswith("broken"):
            raise NotReconstructible("it says nothing")
        spec = VolumeSpec(name=found.spec_name, type="diskProbe", source=ProbeSource(disk="d1"))
        return Reconstructed(spec=spec, device_path="/dev/reconstructed")


def plain(name: str, disk: str = "", **more: object) -> dict[str, object]:
    """Give a Pod volume of type Plain."""
    return {"name": name, "plainProbe": {"disk": disk or name, **more}}


def claim_of(name: str, claim: str, *, read_only: bool = False) -> dict[str, object]:
    """Give a Pod volume that names a claim."""
    return {"name": name, "persistentVolumeClaim": {"claimName": claim, **({"readOnly": True} if read_only else {})}}


def storage(
    name: str,
    *,
    source: Mapping[str, object] | None = None,
    modes: tuple[str, ...] = ("ReadWriteOnce",),
    size: str = "1Gi",
    block: bool = False,
    **spec: object,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Give a PersistentVolume `pv-NAME` of type Disk (or of another source) and the claim NAME bound to it."""
    volume_mode = "Block" if block else "Filesystem"
    pv = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": f"pv-{name}"},
        "spec": {
            "capacity": {"storage": size},
            "accessModes": list(modes),
            "volumeMode": volume_mode,
            "claimRef": {"namespace": "default", "name": name},
            **(source or {"diskProbe": {"disk": name}}),
            **spec,
        },
    }
    return pv, claim(name, f"pv-{name}", volumeMode=volume_mode)


def claim(name: str, volume: str, metadata: Mapping[str, object] | None = None, **spec: object) -> dict[str, Any]:
    """Give a claim bound to a PersistentVolume."""
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, **(metadata or {})},
        "spec": {"accessModes": ["ReadWriteOnce"], "volumeName": volume, **spec},
    }


def config_map(name: str, **data: str) -> dict[str, Any]:
    """Give a ConfigMap."""
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def needs(name: str, *, optional: bool = False) -> tuple[Reference, ...]:
    """Give the references of a volume that needs a ConfigMap."""
    return (Reference(ObjectRef("ConfigMap", "default", name), optional),)


class EmptyDir(Plain):
    """As Plain, of field `emptyDir`: the core knows its size limits."""

    name = "example.com/empty"
    handles = (Handles("emptyDir"),)


def empty_dirs(script: Script, *, plain_too: bool = False) -> Plugins:
    """Give plugins that serve `emptyDir` (and `plainProbe`) by a script."""
    return plugins_of(EmptyDir(script), *([Plain(script)] if plain_too else []))


def node_item(node: TestNode, document: Mapping[str, Any]) -> manifest.Item:
    """Give a manifest as the API server hands it to the registry."""
    (item,) = manifest.parse(json.dumps(document).encode(), "", node.plugins).items
    return item
