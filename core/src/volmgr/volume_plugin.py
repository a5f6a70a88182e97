"""The class that every volume type derives from, and the check that makes a wrong one impossible."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

import pluggy

from volmgr.errors import NotReconstructible, PluginError
from volmgr.host.interface import Host
from volmgr.model.names import is_qualified, kubelet_plugin, pod_volume_name
from volmgr.model.pod import Pod
from volmgr.model.volume import Facets, Reference, VolumeSpec
from volmgr.requests import (
    Attach,
    Attached,
    Detach,
    Detached,
    DeviceMounted,
    DeviceUnmounted,
    Expand,
    Expanded,
    Found,
    FoundDevice,
    Measure,
    Measured,
    Mount,
    MountDevice,
    Mounted,
    Objects,
    Reconstructed,
    Requirement,
    Unmount,
    UnmountDevice,
    Unmounted,
    WaitForAttach,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

API_VERSION = 1
"""The version of this module's promise; a class says with `api_version` which one it was written for."""

hookimpl = pluggy.HookimplMarker("volmgr")

S = TypeVar("S")


class Where(StrEnum):
    """Where a field that names a volume type may stand."""

    POD = "pod"
    PV = "pv"
    BOTH = "both"


@dataclass(frozen=True, slots=True)
class Handles:
    """One field of a Pod volume or PersistentVolume that a class serves.

    With `driver`, only volumes whose `driver` has that value (fields `csi` and `flexVolume`): the class is that driver,
    and its volumes have the directories and names that kubelet gives to volumes of this field. `source` is the frozen
    dataclass that the field's value is read into; without one, of these two fields: `CsiSource` and `FlexVolumeSource`.
    """

    field: str
    driver: str | None = None
    where: Where = Where.BOTH
    source: type[Any] | None = None


class VolumePlugin(Generic[S]):
    """A volume type: derive from it (and from the mixins), and name the class in entry-point group `volmgr.plugins`.

    Objects hold no state about volumes: what `unmount` needs is on disk, since the daemon may have restarted.
    """

    name: str
    handles: tuple[Handles, ...]
    """Of the class; where each object is another driver, of the object."""
    supports_mount_options: ClassVar[bool] = False
    api_version: ClassVar[int] = API_VERSION
    settings: ClassVar[type[Any] | None] = None
    """A frozen dataclass, all of whose fields have defaults: what the configuration may say of this type below
    `plugins`. An operation reads it with `host.settings_of(cls)`."""

    mount_deadline: ClassVar[float] = 0.0
    """Seconds that a mount of this type may take, where that is more than the configuration's `operation_deadline`."""

    def __init_subclass__(cls, **kwargs: object) -> None:
        """Refuse a class whose public methods are no part of the plugin interface, or whose name is not qualified."""
        super().__init_subclass__(**kwargs)
        _check_class(cls)

    def volume_name(self, spec: VolumeSpec[S]) -> str:
        """Give the identity of the storage behind a volume (kubelet's GetVolumeName); pure."""
        return spec.name

    def unique_name(self, spec: VolumeSpec[S], pod_uid: str) -> str:
        """Give the unique name of a volume that is neither attachable nor device-mountable; pure."""
        return pod_volume_name(kubelet_plugin(self.name, spec.type, spec.driver), pod_uid, spec.name)

    def facets(self, spec: VolumeSpec[S], objects: Objects) -> Facets:
        """Say what this one volume needs; pure."""
        del spec, objects
        return Facets(
            attach=isinstance(self, Attachable),
            device=isinstance(self, DeviceMountable),
            block=isinstance(self, BlockMappable),
            expand=isinstance(self, Expandable),
        )

    def check(self, spec: VolumeSpec[S], pod: Pod | None) -> None:
        """Raise SpecError, naming the field, for what no mount could take, on whatever node; pure.

        Asked by `volmgr check`, for a PersistentVolume without a Pod, and before anything is done for a volume.
        """
        del spec, pod

    def references(self, spec: VolumeSpec[S], pod: Pod) -> tuple[Reference, ...]:
        """Name the objects that this volume needs; the core hands them over in each request; pure."""
        del spec, pod
        return ()

    def refresh_at(self, spec: VolumeSpec[S], mounted_at: float) -> float | None:
        """Say when a mounted volume is due again (seconds of Unix time), or None; pure."""
        del spec, mounted_at
        return None

    def endpoint(self, spec: VolumeSpec[S]) -> str:
        """Name whose failure is shared, as people read it (`server 10.0.0.1`); empty: nobody's; pure.

        Servers of NFS are called so, by the name that they were mounted by: the kernel's log tells of them.
        """
        del spec
        return ""

    def exclusive(self, spec: VolumeSpec[S]) -> tuple[str, ...]:
        """Name what no two operations may use at once (an IQN, a multipath map); pure."""
        del spec
        return ()

    def requirements(self, host: Host) -> tuple[Requirement, ...]:
        """Say what this node must have for volumes of this type, and whether it has it; changes nothing.

        Asked by `volmgr doctor`, in a process of its own; servers are not asked.
        """
        del host
        return ()

    def mount(self, request: Mount[S], host: Host) -> Mounted:
        """Make the volume ready for one Pod; called again it changes nothing."""
        raise NotImplementedError

    def unmount(self, request: Unmount, host: Host) -> Unmounted:
        """Take one Pod's volume away; called again it changes nothing."""
        raise NotImplementedError

    def reconstruct(self, found: Found, host: Host) -> Reconstructed[S]:
        """Rebuild a volume from what is on disk; raises NotReconstructible, or NotOurs for what must not be touched."""
        del host
        message = f"{self.name}: {found.path} does not say which volume it is"
        raise NotReconstructible(message)


class Attachable(Generic[S]):
    """A type whose volumes are attached to the node first."""

    def attach(self, request: Attach[S], host: Host) -> Attached:
        """Make the storage reachable from this node."""
        raise NotImplementedError

    def wait_for_attach(self, request: WaitForAttach[S], host: Host) -> Attached:
        """Wait for the device and give its path."""
        raise NotImplementedError

    def detach(self, request: Detach, host: Host) -> Detached:
        """Give the storage back."""
        raise NotImplementedError


class DeviceMountable(Generic[S]):
    """A type that mounts once per node, and then for each Pod."""

    def device_target(self, spec: VolumeSpec[S], host: Host) -> Path:
        """Give the directory of the node's mount (kubelet's GetDeviceMountPath); pure."""
        raise NotImplementedError

    def devices(self, host: Host) -> tuple[FoundDevice[S], ...]:
        """Find the node's mounts of this type on disk; changes nothing.

        Asked at start: what no Pod has, and no record is of, is unmounted when nobody wants it.
        """
        del host
        return ()

    def mount_device(self, request: MountDevice[S], host: Host) -> DeviceMounted:
        """Mount the volume once for the node, or set its device up (BLOCK)."""
        raise NotImplementedError

    def unmount_device(self, request: UnmountDevice, host: Host) -> DeviceUnmounted:
        """Take the node's mount away."""
        raise NotImplementedError


class BlockMappable:
    """A type whose volumes may be handed over as devices (`volumeMode: Block`)."""


class Expandable(Generic[S]):
    """A type whose mounted volumes can grow."""

    def expand(self, request: Expand[S], host: Host) -> Expanded:
        """Let the volume use its new size."""
        raise NotImplementedError


class Measurable:
    """A type that can say how much a volume uses."""

    def measure(self, request: Measure, host: Host) -> Measured:
        """Measure one Pod's volume."""
        raise NotImplementedError


OPERATIONS = (
    "attach",
    "wait_for_attach",
    "detach",
    "mount_device",
    "unmount_device",
    "mount",
    "unmount",
    "expand",
    "reconstruct",
    "measure",
)
"""Names of the operations: method `mount` is the implementation of the hook `volmgr_mount`."""

_INTERFACE: tuple[type, ...] = (VolumePlugin, Attachable, DeviceMountable, BlockMappable, Expandable, Measurable)
_METHODS = {
    name: member
    for part in _INTERFACE
    for name, member in vars(part).items()
    if inspect.isfunction(member) and not name.startswith("_")
}


def _check_class(cls: type[VolumePlugin[Any]]) -> None:
    name = cls.__dict__.get("name")
    if name is not None and not is_qualified(name):
        message = f"{cls.__qualname__}.name {name!r} is not a qualified name; write one such as example.com/disk"
        raise PluginError(message)
    for method, function in _public_functions(cls):
        base = _METHODS.get(method)
        if base is None:
            near = difflib.get_close_matches(method, _METHODS, n=1)
            hint = f"did you mean {near[0]}()?" if near else "give it a leading underscore"
            message = f"{cls.__qualname__}.{method}() is no part of the plugin interface; {hint}"
            raise PluginError(message)
        expected, given = _parameters(base), _parameters(function)
        if given != expected:
            message = (
                f"{cls.__qualname__}.{method}({', '.join(given)}) must have the parameters ({', '.join(expected)})"
            )
            raise PluginError(message)
        _check_ability(cls, method)


def _parameters(function: Callable[..., object]) -> list[str]:
    """Give the parameters as they are written, without annotations: a default would hide one from pluggy."""
    found = inspect.signature(function).parameters.values()
    return [str(parameter.replace(annotation=inspect.Parameter.empty)) for parameter in found]


def _public_functions(cls: type) -> Iterable[tuple[str, Callable[..., object]]]:
    for part in cls.__mro__:  # what other classes give it, too, unless they were looked at when they were defined
        if part is cls or not (part in _INTERFACE or issubclass(part, VolumePlugin) or part in {object, Generic}):
            yield from _public_functions_of(part)


def _public_functions_of(cls: type) -> Iterable[tuple[str, Callable[..., object]]]:
    for name, member in vars(cls).items():
        if name.startswith("_"):
            continue
        if isinstance(member, (staticmethod, classmethod, property)):
            message = f"{cls.__qualname__}.{name} must be a plain method"
            raise PluginError(message)
        if inspect.isfunction(member):
            yield name, member


def _check_ability(cls: type, method: str) -> None:
    owner = next(part for part in _INTERFACE if method in vars(part))
    if not issubclass(cls, owner):
        message = f"{cls.__qualname__}.{method}() belongs to {owner.__name__}; derive the class from it too"
        raise PluginError(message)
