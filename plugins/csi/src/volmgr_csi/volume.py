"""csi as a volume type: what one volume needs, and which calls of its driver make and unmake it.

Behaviour: `behaviours.md` §4.11, which is `pkg/volume/csi` of kubelet 1.37.
"""

from __future__ import annotations

import time
from pathlib import Path

from volmgr.plugin import (
    CSI_FIELD,
    Attach,
    Attachable,
    Attached,
    BlockMappable,
    CsiSource,
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
    FoundDevice,
    Handles,
    Host,
    Measurable,
    Measure,
    Measured,
    Mount,
    MountDevice,
    Mounted,
    ObjectRef,
    Objects,
    Pod,
    Reconstructed,
    Reference,
    TransientError,
    Unmount,
    UnmountDevice,
    Unmounted,
    VolumeAttachment,
    VolumePlugin,
    VolumeSpec,
    WaitForAttach,
    attachment_name,
    csi_volume_name,
)
from volmgr_csi.controller import attaching
from volmgr_csi.driver.drivers import drivers_of
from volmgr_csi.node import expansion, layout, publishing, reconstruction, staging, stats, volume_spec
from volmgr_csi.settings import NAME, CsiSettings


class Csi(
    VolumePlugin[CsiSource],
    Attachable[CsiSource],
    DeviceMountable[CsiSource],
    BlockMappable,
    Expandable[CsiSource],
    Measurable,
):
    """Volumes of drivers that are processes of their own, each behind a socket."""

    name = NAME
    handles = (Handles(CSI_FIELD, source=CsiSource),)
    settings = CsiSettings
    supports_mount_options = True
    api_version = 1

    def volume_name(self, spec: VolumeSpec[CsiSource]) -> str:
        return csi_volume_name(spec.source.driver, spec.source.volume_handle)

    def facets(self, spec: VolumeSpec[CsiSource], objects: Objects) -> Facets:
        return volume_spec.facets(spec, objects)

    def check(self, spec: VolumeSpec[CsiSource], pod: Pod | None) -> None:
        del pod
        volume_spec.check(spec)

    def references(self, spec: VolumeSpec[CsiSource], pod: Pod) -> tuple[Reference, ...]:
        return tuple(volume_spec.references(spec, pod))

    def endpoint(self, spec: VolumeSpec[CsiSource]) -> str:
        return spec.source.driver

    def exclusive(self, spec: VolumeSpec[CsiSource]) -> tuple[str, ...]:
        """Let no two calls for one volume overlap, not even unmounts for two Pods; an inline one has one Pod."""
        return () if volume_spec.is_inline(spec) else (f"csi {self.volume_name(spec)}",)

    def attach(self, request: Attach[CsiSource], host: Host) -> Attached:
        return attaching.attach(request, host, drivers_of(host).making(request.spec.source.driver))

    def wait_for_attach(self, request: WaitForAttach[CsiSource], host: Host) -> Attached:
        """Give the name of the VolumeAttachment, as kubelet does; where attach() was ours it has done everything."""
        del host
        source = request.spec.source
        name = attachment_name(source.driver, source.volume_handle, request.node_name)
        found = request.objects.get(ObjectRef("VolumeAttachment", "", name))
        if not isinstance(found, VolumeAttachment):
            return Attached(device_path=request.device_path)
        if not found.attached:
            why = found.attach_error or "it is not attached yet"
            raise TransientError(f"volume {request.spec.name}: {why}", waits_for=f"VolumeAttachment {name}")
        return Attached(device_path=name)

    def detach(self, request: Detach, host: Host) -> Detached:
        return attaching.detach(request, host)

    def device_target(self, spec: VolumeSpec[CsiSource], host: Host) -> Path:
        source = spec.source
        return layout.device_target(host, source.driver, source.volume_handle, spec.name, spec.mode)

    def devices(self, host: Host) -> tuple[FoundDevice[CsiSource], ...]:
        return reconstruction.devices(host)

    def mount_device(self, request: MountDevice[CsiSource], host: Host) -> DeviceMounted:
        return staging.stage(request, host)

    def unmount_device(self, request: UnmountDevice, host: Host) -> DeviceUnmounted:
        return staging.unstage(request, host)

    def mount(self, request: Mount[CsiSource], host: Host) -> Mounted:
        return publishing.publish(request, host, time.time())

    def unmount(self, request: Unmount, host: Host) -> Unmounted:
        return publishing.unpublish(request, host)

    def expand(self, request: Expand[CsiSource], host: Host) -> Expanded:
        return expansion.expand(request, host)

    def measure(self, request: Measure, host: Host) -> Measured:
        return stats.measure(request, host)

    def reconstruct(self, found: Found, host: Host) -> Reconstructed[CsiSource]:
        return reconstruction.reconstruct(found, host)
