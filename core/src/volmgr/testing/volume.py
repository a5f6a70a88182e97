"""One volume of one Pod, with the requests that the core would make for it, and what the core does around them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self, cast

from volmgr import blockmap
from volmgr.errors import uncertain_if_it_fails
from volmgr.host.interface import Host
from volmgr.model.names import kubelet_plugin, shared_volume_name
from volmgr.model.objects import ref_of
from volmgr.plugin import (
    Attach,
    Attachable,
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
    Measurable,
    Measure,
    Measured,
    Mount,
    MountDevice,
    Mounted,
    Object,
    ObjectMeta,
    ObjectRef,
    Objects,
    Pod,
    PodSpec,
    Reconstructed,
    Unmount,
    UnmountDevice,
    Unmounted,
    VolumeMode,
    VolumePlugin,
    VolumeSpec,
    WaitForAttach,
)


def pod(name: str = "web", **spec: Any) -> Pod:  # noqa: ANN401 - fields of any type
    """Give a Pod whose UID is `uid-<name>`; `spec` are fields of its PodSpec."""
    return Pod(metadata=ObjectMeta(name=name, uid=f"uid-{name}"), spec=PodSpec(**spec))


def _leave_as_it_is(_host: Host) -> None:
    """Arrange nothing."""


@dataclass(frozen=True, kw_only=True)
class Sample:
    """One volume for the contract suite: its source, its Pod, and what both need.

    `objects` are those that the source refers to, `settings` what the configuration says (instances of the type's
    settings class), `spec` further fields of VolumeSpec; `arrange` prepares a fresh host (a device, a program).
    `of_backend` gives the source when only a running server knows it; `source` stands for it in names.
    """

    source: object
    pod: Pod = field(default_factory=pod)
    objects: tuple[Object, ...] = ()
    settings: tuple[object, ...] = ()
    spec: Mapping[str, Any] = field(default_factory=dict[str, Any])
    arrange: Callable[[Host], object] = _leave_as_it_is
    of_backend: Callable[[Any], object] | None = None

    def __str__(self) -> str:
        """Name it in reports."""
        fields = "".join(f", {name} {value}" for name, value in self.spec.items())
        return f"{self.source}{fields}"

    def served_by(self, backend: object) -> Self:
        """Give the sample as it is with what the fixture `volmgr_backend` has started."""
        return self if self.of_backend is None else replace(self, source=self.of_backend(backend))


@dataclass(frozen=True)
class Volume:
    """One volume: its type, its source, the Pod that uses it and the objects that the source refers to."""

    plugin: VolumePlugin[Any]
    source: object
    pod: Pod = field(default_factory=pod)
    name: str = "data"
    objects: Objects = field(default_factory=dict[ObjectRef, Object])
    spec_fields: Mapping[str, Any] = field(default_factory=dict[str, Any])
    device_path: str = ""
    """The device, as far as `attach` or `mount_device` has said which it is."""

    @classmethod
    def of(cls, plugin: VolumePlugin[Any], sample: Sample) -> Self:
        """Give the volume of a sample."""
        objects = {ref_of(item): item for item in sample.objects}
        return cls(plugin, sample.source, sample.pod, objects=objects, spec_fields=sample.spec)

    @property
    def spec(self) -> VolumeSpec[Any]:
        """What the manifest wants."""
        first = self.plugin.handles[0]
        spec: VolumeSpec[Any] = VolumeSpec(name=self.name, type=first.field, driver=first.driver, source=self.source)
        return replace(spec, **self.spec_fields)

    @property
    def facets(self) -> Facets:
        """What the type says of this volume."""
        return self.plugin.facets(self.spec, self.objects)

    @property
    def unique_name(self) -> str:
        """The name under which the core knows the volume."""
        return self.name_of(self.spec)

    def name_of(self, spec: VolumeSpec[Any]) -> str:
        """Give the unique name of a volume of this type and Pod."""
        facets = self.plugin.facets(spec, self.objects)
        if facets.attach or facets.device:
            return shared_volume_name(self.kubelet_plugin, self.plugin.volume_name(spec))
        return self.plugin.unique_name(spec, self.pod.uid)

    @property
    def kubelet_plugin(self) -> str:
        """The name that kubelet has for its plugin: that of its directories."""
        return kubelet_plugin(self.plugin.name, self.spec.type, self.spec.driver)

    @property
    def is_block(self) -> bool:
        """Whether the Pod gets a device instead of a directory."""
        return self.spec.mode is VolumeMode.BLOCK

    @property
    def has_device(self) -> bool:
        """Whether the volume is mounted, or set up, once for the node first."""
        return isinstance(self.plugin, DeviceMountable) and (self.facets.device or self.is_block)

    def target(self, host: Host) -> Path:
        """Give the directory that the volume has below its Pod's; of a block volume, the link to its device."""
        paths = host.paths
        return (paths.block_volume if self.is_block else paths.volume)(self.pod.uid, self.kubelet_plugin, self.name)

    def device_target(self, host: Host) -> Path | None:
        """Give the directory of the node's mount, or of the block map."""
        return cast("DeviceMountable[Any]", self.plugin).device_target(self.spec, host) if self.has_device else None

    def attach(self, host: Host) -> Self:
        """Attach the volume if it is one that is attached; gives it with its device."""
        if not isinstance(self.plugin, Attachable) or not self.facets.attach:
            return self
        plugin = cast("Attachable[Any]", self.plugin)
        attach: Attach[Any] = Attach(spec=self.spec, volume=self.unique_name, objects=self.objects)
        path = plugin.attach(attach, host).device_path
        wait: WaitForAttach[Any] = WaitForAttach(
            spec=self.spec, volume=self.unique_name, device_path=path, objects=self.objects
        )
        return replace(self, device_path=plugin.wait_for_attach(wait, host).device_path)

    def detach(self, host: Host) -> Detached:
        """Detach the volume if it is one that is attached."""
        if not isinstance(self.plugin, Attachable) or not self.facets.attach:
            return Detached()
        return self.plugin.detach(Detach(volume=self.unique_name, device_path=self.device_path), host)

    def mount_device(self, host: Host, **changes: Any) -> DeviceMounted:  # noqa: ANN401 - fields of any type
        """Mount the volume once for the node, or set its device up; the directory of a block map is the core's."""
        target = self.device_target(host)
        if target is None:
            return DeviceMounted(device_path=self.device_path)
        request: MountDevice[Any] = MountDevice(
            spec=self.spec,
            volume=self.unique_name,
            device_path=self.device_path,
            target=target,
            mode=self.spec.mode,
            options=self.spec.mount_options,
            objects=self.objects,
        )
        answer = cast("DeviceMountable[Any]", self.plugin).mount_device(replace(request, **changes), host)
        if self.is_block:
            with uncertain_if_it_fails():  # what the type made is there
                host.files.ensure_directory(target, 0o750)
        return answer

    def unmount_device_request(self, host: Host) -> UnmountDevice | None:
        """Say what the core would ask for, which is no more than names; None when there is nothing to ask."""
        target = self.device_target(host)
        if target is None:
            return None
        return UnmountDevice(volume=self.unique_name, device_path=self.device_path, target=target, mode=self.spec.mode)

    def unmount_device(self, host: Host) -> DeviceUnmounted:
        """Take the node's mount away."""
        request = self.unmount_device_request(host)
        if request is None:
            return DeviceUnmounted()
        if self.is_block:
            blockmap.check_unused(host, request.target)
        answer = cast("DeviceMountable[Any]", self.plugin).unmount_device(request, host)
        if self.is_block:
            host.files.remove_directory(request.target)
        return answer

    def set_up(self, host: Host) -> Self:
        """Do what comes before the first Pod's mount; gives the volume with its device."""
        attached = self.attach(host)
        return replace(attached, device_path=attached.mount_device(host).device_path or attached.device_path)

    def mount_request(self, host: Host, **changes: Any) -> Mount[Any]:  # noqa: ANN401 - fields of any type
        """Say what the core would ask for; `changes` are fields of Mount."""
        request: Mount[Any] = Mount(
            spec=self.spec,
            volume=self.unique_name,
            pod=self.pod,
            target=self.target(host),
            mode=self.spec.mode,
            device_path=self.device_path,
            device_target=self.device_target(host),
            options=self.spec.mount_options,
            read_only=self.spec.read_only,
            objects=self.objects,
        )
        return replace(request, **changes)

    def mount(self, host: Host, **changes: Any) -> Mounted:  # noqa: ANN401 - fields of any type
        """Mount the volume for its Pod, or hand its device over."""
        request = self.mount_request(host, **changes)
        mounted = self.plugin.mount(request, host)
        if self.is_block and request.device_target is not None:
            path = mounted.device_path or request.device_path
            blockmap.map_device(host, path, request.device_target, self.pod.uid, request.target)
        return mounted

    def unmount_request(self, host: Host) -> Unmount:
        """Say what the core would ask for, which is no more than names."""
        return Unmount(
            volume=self.unique_name,
            pod_uid=self.pod.uid,
            spec_name=self.name,
            target=self.target(host),
            mode=self.spec.mode,
            device_path=self.device_path,
        )

    def unmount(self, host: Host) -> Unmounted:
        """Unmount the volume, or take its device back."""
        request, directory = self.unmount_request(host), self.device_target(host)
        if self.is_block and directory is not None:
            blockmap.unmap_device(host, directory, self.pod.uid, request.target)
        return self.plugin.unmount(request, host)

    def expand(self, host: Host, **changes: Any) -> Expanded:  # noqa: ANN401 - fields of any type
        """Let the mounted volume use its new size; raises TypeError when the type cannot."""
        if not isinstance(self.plugin, Expandable):
            message = f"{self.plugin.name} is not Expandable"
            raise TypeError(message)
        request: Expand[Any] = Expand(
            spec=self.spec,
            volume=self.unique_name,
            device_path=self.device_path,
            device_target=self.device_target(host),
            target=self.target(host),
            mode=self.spec.mode,
            old_size=0,
            new_size=0,
            objects=self.objects,
        )
        return cast("Expandable[Any]", self.plugin).expand(replace(request, **changes), host)

    def reconstruct(self, host: Host) -> Reconstructed[Any]:
        """Rebuild it from its directory."""
        found = Found(
            pod_uid=self.pod.uid,
            plugin=self.kubelet_plugin,
            spec_name=self.name,
            path=self.target(host),
            mode=self.spec.mode,
        )
        return self.plugin.reconstruct(found, host)

    def measure(self, host: Host, **changes: Any) -> Measured:  # noqa: ANN401 - fields of any type
        """Measure what the Pod's volume uses."""
        if not isinstance(self.plugin, Measurable):
            message = f"{self.plugin.name} is not Measurable"
            raise TypeError(message)
        request = Measure(volume=self.unique_name, pod_uid=self.pod.uid, path=self.target(host))
        return self.plugin.measure(replace(request, **changes), host)
