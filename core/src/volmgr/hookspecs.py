"""Every hook of volmgr, typed; each says when it is called and by whom it is answered.

Group 1 is called on one manager with every package (one to many). Group 2 is called on the manager of exactly one
volume type, wrapped by every installed wrapper package (one to one).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pluggy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from volmgr.host.interface import Host
    from volmgr.plugin import (
        Attach,
        Attached,
        Detach,
        Detached,
        DeviceMounted,
        DeviceUnmounted,
        Drivers,
        Expand,
        Expanded,
        Found,
        Measure,
        Measured,
        Mount,
        MountDevice,
        Mounted,
        Offers,
        Provisioner,
        Reconstructed,
        Service,
        Unmount,
        UnmountDevice,
        Unmounted,
        VolumePlugin,
        WaitForAttach,
    )

hookspec = pluggy.HookspecMarker("volmgr")


class Registration:
    """Group 1: registration and observation, one to many."""

    @hookspec
    def volmgr_volume_plugins(self) -> Iterable[type[VolumePlugin[Any]]]:  # type: ignore[empty-body]
        """Give the volume types of a package that names a module as its entry point; once, at start."""

    @hookspec
    def volmgr_driver_watchers(self, drivers: Drivers, host: Host) -> Iterable[Service]:  # type: ignore[empty-body]
        """Give what watches for drivers that come and go (flex, CSI); once, at start. One that fails is broken."""

    @hookspec
    def volmgr_settings(self) -> Mapping[str, type[Any]]:  # type: ignore[empty-body]
        """Give what the configuration may say of a module: dataclasses, by name below `plugins`; once, at start."""

    @hookspec
    def volmgr_sources(self, offers: Callable[[str], Offers], host: Host) -> Service | None:
        """Give a further source of manifests, once, at start; `offers(name)` is where it speaks under its name."""

    @hookspec
    def volmgr_provisioners(self, host: Host) -> Iterable[Provisioner]:  # type: ignore[empty-body]
        """Give who makes volumes for claims by their class's provisioner; once, at start; idle in a cluster."""

    @hookspec
    def volmgr_holds(self, pod_uid: str) -> str | None:
        """Say who still runs containers of this Pod (any text), or None; before a teardown begins."""

    @hookspec
    def volmgr_hold_watchers(self, recheck: Callable[[str], None], host: Host) -> Iterable[Service]:  # type: ignore[empty-body]
        """Give what notices that a Pod's containers ended; once, at start. `recheck(pod_uid)` asks for holders again.

        It may be called on any thread. What the service itself implements of this group is called, too.
        """

    @hookspec
    def volmgr_operation_finished(
        self, volume: str, operation: str, pod_uid: str, outcome: str, seconds: float
    ) -> None:
        """Hear of each operation that ended; on a worker thread, must not block."""

    @hookspec
    def volmgr_attach_limit_reached(self, driver: str, host: Host) -> None:
        """Hear that a controller found no room on this node for one more volume of a driver of `csi`; on a worker."""


class Operations:
    """Group 2: operations, one to one. A wrapper must pass on what `yield` gives."""

    @hookspec(firstresult=True)
    def volmgr_attach(self, request: Attach[Any], host: Host) -> Attached | None:
        """Make the storage reachable from this node; before anything of the volume is mounted."""

    @hookspec(firstresult=True)
    def volmgr_wait_for_attach(self, request: WaitForAttach[Any], host: Host) -> Attached | None:
        """Wait until the device of an attached volume is there; after attach, and again after a restart."""

    @hookspec(firstresult=True)
    def volmgr_detach(self, request: Detach, host: Host) -> Detached | None:
        """Give the storage back; when no Pod and no device mount is left."""

    @hookspec(firstresult=True)
    def volmgr_mount_device(self, request: MountDevice[Any], host: Host) -> DeviceMounted | None:
        """Mount once per node, or set a block device up; before the first Pod's mount."""

    @hookspec(firstresult=True)
    def volmgr_unmount_device(self, request: UnmountDevice, host: Host) -> DeviceUnmounted | None:
        """Undo mount_device; when no Pod's mount is left and no desired Pod wants it."""

    @hookspec(firstresult=True)
    def volmgr_mount(self, request: Mount[Any], host: Host) -> Mounted | None:
        """Make a volume ready for one Pod; again after a change of what it refers to, and after a restart."""

    @hookspec(firstresult=True)
    def volmgr_unmount(self, request: Unmount, host: Host) -> Unmounted | None:
        """Take one Pod's volume away; when the Pod has left and nothing holds it."""

    @hookspec(firstresult=True)
    def volmgr_expand(self, request: Expand[Any], host: Host) -> Expanded | None:
        """Let a mounted volume grow; when its PersistentVolume is larger than what is mounted."""

    @hookspec(firstresult=True)
    def volmgr_reconstruct(self, found: Found, host: Host) -> Reconstructed[Any] | None:
        """Rebuild a volume from what is on disk; at start, once per directory found."""

    @hookspec(firstresult=True)
    def volmgr_measure(self, request: Measure, host: Host) -> Measured | None:
        """Say how much one Pod's volume uses; never on the way of a mount, and by nothing in the core yet."""
