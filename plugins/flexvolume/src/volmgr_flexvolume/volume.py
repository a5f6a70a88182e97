"""A driver as a volume type: what it is asked for each operation, and what is done where it answers `Not supported`.

Behaviour: `behaviours.md` §4.12, which is `pkg/volume/flexvolume` of kubelet 1.37.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path

from volmgr.plugin import (
    DEFAULT_TYPE,
    FLEX_FIELD,
    Applies,
    Attach,
    Attachable,
    Attached,
    Detach,
    Detached,
    DeviceMount,
    DeviceMountable,
    DeviceMounted,
    DeviceUnmounted,
    Expand,
    Expandable,
    Expanded,
    Facets,
    FlexVolumeSource,
    Found,
    Handles,
    Host,
    Measurable,
    Measure,
    Measured,
    Mount,
    MountDevice,
    Mounted,
    Notice,
    ObjectRef,
    Objects,
    OperationError,
    Pod,
    Reconstructed,
    Reference,
    Secret,
    Unmount,
    UnmountDevice,
    Unmounted,
    VolumePlugin,
    VolumeSpec,
    WaitForAttach,
    device_behind,
    remove_mount_point,
    taken_back,
)
from volmgr_flexvolume.driver import Driver
from volmgr_flexvolume.protocol import Capabilities, encoded, mount_options_of, options_json
from volmgr_flexvolume.source import NAME

_MODE = 0o750


class FlexVolume(VolumePlugin[FlexVolumeSource], Expandable[FlexVolumeSource]):
    """A driver whose volumes are mounted for each Pod, and nothing before that."""

    api_version = 1

    def __init__(self, driver: Driver, capabilities: Capabilities) -> None:
        self.name = driver.name
        self.handles = (Handles(FLEX_FIELD, driver=driver.name, source=FlexVolumeSource),)
        self._driver = driver
        self._capabilities = capabilities

    def facets(self, spec: VolumeSpec[FlexVolumeSource], objects: Objects) -> Facets:
        del spec, objects
        return Facets(
            expand=True,
            fs_group=Applies.CORE if self._capabilities.fs_group else Applies.NOBODY,
            relabel=self._capabilities.selinux_relabel,
        )

    def references(self, spec: VolumeSpec[FlexVolumeSource], pod: Pod) -> tuple[Reference, ...]:
        ref = secret_of(spec, pod)
        return (Reference(ref),) if ref is not None else ()

    def endpoint(self, spec: VolumeSpec[FlexVolumeSource]) -> str:
        del spec
        return self.name

    def mount(self, request: Mount[FlexVolumeSource], host: Host) -> Mounted:
        if host.mounts.is_mount_point(request.target):
            return Mounted()
        secrets = self._secrets(request)
        host.files.ensure_directory(request.target, _MODE)
        with _removed_if_it_fails(request.target, host):
            reply = self._driver.ask(
                host,
                "mount",
                str(request.target),
                options_json(request.spec, mount_options_of(request, secrets)),
                deadline=request.deadline - host.clock(),
                cancelled=request.cancelled,
                secrets=secrets,
            )
            if reply is None:
                self._bind(request, host)
            return Mounted(notices=_notices(self.name, request.target, host))

    def _secrets(self, request: Mount[FlexVolumeSource]) -> dict[str, str]:
        ref = secret_of(request.spec, request.pod)
        secret = request.objects.get(ref) if ref is not None else None
        return encoded(secret, self.name) if isinstance(secret, Secret) else {}

    def _bind(self, request: Mount[FlexVolumeSource], host: Host) -> None:
        origin = request.device_target
        if origin is None or not host.mounts.is_mount_point(origin):
            raise OperationError(
                f"driver {self.name} does not support mount, and nothing is mounted on the node that could be bound:"
                " it must support mount, or mountdevice, or give a device when it attaches"
            )
        host.mounts.ensure_bound(origin, request.target, options=("ro",) if request.read_only else ())

    def unmount(self, request: Unmount, host: Host) -> Unmounted:
        self._unmount("unmount", request.target, request.deadline, host)
        return Unmounted()

    def _unmount(self, command: str, target: Path, deadline: float, host: Host) -> None:
        """Let the driver take a mount away, and the directory go; gone is success."""
        if not host.mounts.is_mount_point(target) and host.files.info(target) is None:
            return
        for entry in host.mounts.below(target):
            if entry.target != target:  # of others, deepest first
                host.mounts.unmount(entry.target)
        reply = self._driver.ask(host, command, str(target), deadline=deadline - host.clock())
        if reply is None:
            host.mounts.unmount(target)
        elif host.mounts.is_mount_point(target):
            raise OperationError(f"driver {self.name} said that {command} was done, and {target} is still mounted")
        remove_mount_point(target, host)

    def expand(self, request: Expand[FlexVolumeSource], host: Host) -> Expanded:
        options, device = options_json(request.spec), request.device_path
        sizes, until = (str(request.new_size), str(request.old_size)), request.deadline
        reply = self._driver.ask(host, "expandvolume", options, device, *sizes, deadline=until - host.clock())
        size = reply.new_size if reply is not None and reply.new_size > 0 else request.new_size
        if not self._capabilities.requires_fs_resize:
            return Expanded(size=size)
        mounted = request.device_target or request.target
        arguments = (options, device, str(mounted or ""), *sizes)
        if self._driver.ask(host, "expandfs", *arguments, deadline=until - host.clock()) is None and device and mounted:
            size = host.filesystems.grow(Path(device), mounted, deadline=until - host.clock())
        return Expanded(size=size)

    def reconstruct(self, found: Found, host: Host) -> Reconstructed[FlexVolumeSource]:
        del host
        source = FlexVolumeSource(driver=self.name)
        return Reconstructed(spec=VolumeSpec(name=found.spec_name, type=FLEX_FIELD, driver=self.name, source=source))


class AttachableFlexVolume(FlexVolume, Attachable[FlexVolumeSource], DeviceMountable[FlexVolumeSource]):
    """A driver whose volumes are attached and mounted once for the node first."""

    def facets(self, spec: VolumeSpec[FlexVolumeSource], objects: Objects) -> Facets:
        del spec, objects
        return Facets(
            attach=True,
            device=True,
            expand=True,
            fs_group=Applies.CORE if self._capabilities.fs_group else Applies.NOBODY,
            relabel=self._capabilities.selinux_relabel,
        )

    def attach(self, request: Attach[FlexVolumeSource], host: Host) -> Attached:
        options, until = options_json(request.spec), request.deadline
        self._driver.ask(host, "getvolumename", options, deadline=until - host.clock())  # its answer has no effect
        reply = self._driver.ask(
            host,
            "attach",
            options,
            request.node_name,
            deadline=until - host.clock(),
            cancelled=request.cancelled,
        )
        return Attached(device_path=reply.device if reply is not None else "")

    def wait_for_attach(self, request: WaitForAttach[FlexVolumeSource], host: Host) -> Attached:
        device, options = request.device_path, options_json(request.spec)
        left = request.deadline - host.clock()
        reply = self._driver.ask(host, "waitforattach", device, options, deadline=left, cancelled=request.cancelled)
        if reply is not None:
            return Attached(device_path=reply.device or device)
        if not device or host.files.info(Path(device), follow=True) is None:
            raise OperationError(
                f"the device {device or '(none)'} of volume {request.spec.name} is not there;"
                f" {self._opinion(request, options, host)}"
            )
        return Attached(device_path=device)

    def _opinion(self, request: WaitForAttach[FlexVolumeSource], options: str, host: Host) -> str:
        """Say what the driver thinks of a missing device."""
        deadline = request.deadline - host.clock()
        reply = self._driver.ask(host, "isattached", options, request.node_name, deadline=deadline)
        if reply is None:
            return f"driver {self.name} cannot say whether it is attached"
        return f"driver {self.name} says that it is {'' if reply.attached else 'not '}attached"

    def detach(self, request: Detach, host: Host) -> Detached:
        volume = request.volume.removeprefix(f"{self.name}/")
        self._driver.ask(host, "detach", volume, request.node_name, deadline=request.deadline - host.clock())
        return Detached()

    def device_target(self, spec: VolumeSpec[FlexVolumeSource], host: Host) -> Path:
        return host.paths.plugin(NAME) / self.name / "mounts" / spec.name

    def mount_device(self, request: MountDevice[FlexVolumeSource], host: Host) -> DeviceMounted:
        if not host.mounts.is_mount_point(request.target):
            host.files.ensure_directory(request.target, _MODE)
            with _removed_if_it_fails(request.target, host):
                reply = self._driver.ask(
                    host,
                    "mountdevice",
                    str(request.target),
                    request.device_path,
                    options_json(request.spec),
                    deadline=request.deadline - host.clock(),
                    cancelled=request.cancelled,
                )
                if reply is None and request.device_path:
                    _mount_file_system(request, host)
        return DeviceMounted(device_path=request.device_path)

    def unmount_device(self, request: UnmountDevice, host: Host) -> DeviceUnmounted:
        self._unmount("unmountdevice", request.target, request.deadline, host)
        return DeviceUnmounted()

    def reconstruct(self, found: Found, host: Host) -> Reconstructed[FlexVolumeSource]:
        source = FlexVolumeSource(driver=self.name)
        spec = VolumeSpec(name=found.spec_name, type=FLEX_FIELD, driver=self.name, source=source)
        return Reconstructed(spec=spec, device_path=device_behind(found.path, self.device_target(spec, host), host))


class _Measured(Measurable):
    """A driver that says `supportsMetrics`: its mounts can be asked by statfs."""

    def measure(self, request: Measure, host: Host) -> Measured:
        return Measured.of(host.filesystems.measure(request.path))


class MeasuredFlexVolume(FlexVolume, _Measured):
    """A driver without attachments, whose volumes can be measured."""


class MeasuredAttachableFlexVolume(AttachableFlexVolume, _Measured):
    """A driver with attachments, whose volumes can be measured."""


def volume_type(driver: Driver, capabilities: Capabilities) -> FlexVolume:
    """Give the volume type of a driver that can do this."""
    if capabilities.attach:
        cls = MeasuredAttachableFlexVolume if capabilities.supports_metrics else AttachableFlexVolume
        return cls(driver, capabilities)
    return (MeasuredFlexVolume if capabilities.supports_metrics else FlexVolume)(driver, capabilities)


def secret_of(spec: VolumeSpec[FlexVolumeSource], pod: Pod) -> ObjectRef | None:
    """Name the Secret of a volume; in the Pod's namespace unless a PersistentVolume says another."""
    ref = spec.source.secret_ref
    if ref is None or not ref.name:
        return None
    namespace = ref.namespace if spec.pv is not None and ref.namespace else pod.metadata.namespace
    return ObjectRef("Secret", namespace, ref.name)


def _mount_file_system(request: MountDevice[FlexVolumeSource], host: Host) -> None:
    host.filesystems.ensure_mounted(
        DeviceMount(
            device=Path(request.device_path),
            target=request.target,
            owner=f"volume {request.spec.name}",
            fstype=request.spec.source.fs_type or DEFAULT_TYPE,
            options=request.options,
            read_only=request.spec.read_only,
            deadline=request.deadline - host.clock(),
            progress=request.progress,
        )
    )


def _notices(driver: str, target: Path, host: Host) -> tuple[Notice, ...]:
    if host.mounts.is_mount_point(target):
        return ()
    message = f"driver {driver} says that {target} is mounted, and nothing is: what the pod writes stays on the node"
    return (Notice("NothingMounted", message),)


def _removed_if_it_fails(target: Path, host: Host) -> AbstractContextManager[None]:
    """Remove the directory of a mount that fails; what the driver mounted all the same, only the driver unmounts."""

    def undo() -> None:
        if host.mounts.is_mount_point(target) or not host.files.remove_directory(target):
            raise OperationError(f"{target} is mounted or has something in it, although mounting failed")

    return taken_back(undo, f"mounting {target}")
